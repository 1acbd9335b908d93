"""Files through the Python functions; the formats themselves are tested in C++."""

from __future__ import annotations

import builtins
import gc

import h5py
import kith
import numpy as np
import pytest

from .oracle import DTYPES, random_rows


def test_npy_both_ways(dtype, tmp_path):
    X = random_rows(dtype, 30, 5, 1)
    path = tmp_path / "x.npy"
    kith.write(path, X[::2])
    again = kith.read(path)
    assert again.dtype == X.dtype and again.shape == (15, 5)
    np.testing.assert_array_equal(again, X[::2])
    if dtype != "bfloat16":
        np.testing.assert_array_equal(np.load(path), X[::2])


def test_a_mapped_array_is_read_only_and_outlives_the_file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, random_rows("float32", 30, 5, 1))
    X = kith.read(str(path))
    path.unlink()
    gc.collect()
    assert not X.flags.writeable and not X.flags.owndata
    assert kith.knn(X, X[7], 1).indices.tolist() == [[7]]
    with pytest.raises(ValueError, match="read-only"):
        X[0, 0] = 1


def test_parts_of_a_file(tmp_path):
    X = random_rows("float32", 30, 5, 1)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(kith.read(tmp_path / "x.npy", first_row=4, max_rows=6), X[4:10])
    np.testing.assert_array_equal(kith.read(tmp_path / "x.npy", first_row=25), X[25:])


def test_format_instead_of_the_extension(tmp_path):
    X = random_rows("float32", 12, 5, 1)
    kith.write(tmp_path / "x.dat", X, format="fvecs")
    assert (tmp_path / "x.dat").stat().st_size == 12 * (4 + 5 * 4)
    np.testing.assert_array_equal(kith.read(tmp_path / "x.dat", format="fvecs"), X)
    with pytest.raises(kith.InvalidArgument, match="format 'csv2'.*fvecs"):
        kith.write(tmp_path / "x.dat", X, format="csv2")
    with pytest.raises(kith.InvalidArgument, match="format 'csv2'"):
        kith.read(tmp_path / "x.dat", format="csv2")


def test_member_of_an_hdf5_file(tmp_path):
    X = random_rows("float32", 12, 5, 1)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["train"], file["test"] = X, X[:3] + 1
    np.testing.assert_array_equal(kith.read(tmp_path / "x.h5"), X)
    np.testing.assert_array_equal(kith.read(tmp_path / "x.h5", member="test"), X[:3] + 1)


def test_wrong_files_and_types(tmp_path):
    with pytest.raises(kith.IoError, match=r"missing\.npy"):
        kith.read(tmp_path / "missing.npy")
    with pytest.raises(kith.InvalidArgument, match="fvecs"):
        kith.write(tmp_path / "x.fvecs", np.eye(3))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(TypeError, match="array: element type int64"):
        kith.write(tmp_path / "x.npy", np.eye(3, dtype=np.int64))


def test_bfloat16_needs_ml_dtypes(tmp_path, monkeypatch):
    kith.write(tmp_path / "x.npy", random_rows("bfloat16", 4, 3, 1))
    assert kith.read(tmp_path / "x.npy").dtype == DTYPES["bfloat16"]
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == "ml_dtypes":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install ml_dtypes"):
        kith.read(tmp_path / "x.npy")


@pytest.mark.parametrize("name", ["r", "r.ivecs", "r.ibin", "r.h5", "r.json"])
def test_results_both_ways(name, tmp_path):
    X = random_rows("float32", 40, 5, 1)
    answer = kith.knn(X, X[:6], 4)
    written = kith.write_neighbors(tmp_path / name, answer)
    assert written and sorted(written) == sorted(str(p) for p in tmp_path.iterdir())
    again = kith.read_neighbors(tmp_path / name)
    np.testing.assert_array_equal(again.indices, answer.indices)
    np.testing.assert_array_equal(again.distances, answer.distances)
    assert kith.evaluate(again, answer).recall == 1.0


def test_indices_alone(tmp_path):
    np.save(tmp_path / "truth.npy", np.arange(12, dtype=np.int32).reshape(4, 3))
    truth = kith.read_neighbors(tmp_path / "truth.npy")
    assert truth.indices.tolist() == np.arange(12).reshape(4, 3).tolist()
    assert np.isnan(truth.distances).all()
    files = kith.write_neighbors(tmp_path / "copy.txt", truth.indices, format="ivecs")
    assert str(tmp_path / "copy.txt") in files
