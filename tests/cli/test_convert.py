"""kith convert: formats, element types, parts of the rows."""

import h5py
import numpy as np
import pytest
from program import files_of


@pytest.fixture
def rows(folder):
    values = np.random.default_rng(4).standard_normal((30, 5)).astype(np.float32)
    np.save("in.npy", values)
    return values


def read_fvecs(path, dtype=np.float32):
    raw = np.fromfile(path, dtype=np.uint8)
    dim = int(raw[:4].view(np.int32)[0])
    size = np.dtype(dtype).itemsize
    return raw.reshape(-1, 4 + dim * size)[:, 4:].copy().view(dtype)


@pytest.mark.covers("convert", "IN", "OUT")
@pytest.mark.parametrize("suffix", ["fvecs", "fbin", "h5", "npy"])
def test_there_and_back(kith, rows, suffix):
    kith("convert", "in.npy", f"there.{suffix}")
    kith("convert", f"there.{suffix}", "back.npy")
    np.testing.assert_array_equal(np.load("back.npy"), rows)
    if suffix == "fvecs":
        np.testing.assert_array_equal(read_fvecs("there.fvecs"), rows)


@pytest.mark.covers("convert", "--rows")
@pytest.mark.parametrize(
    "text, part", [("3:4", slice(3, 7)), (":6", slice(0, 6)), ("25:", slice(25, 30)), ("28:99", slice(28, 30))]
)
def test_rows(kith, rows, text, part):
    kith("convert", "in.npy", "out.npy", "--rows", text)
    np.testing.assert_array_equal(np.load("out.npy"), rows[part])


@pytest.mark.parametrize("text", ["5", "a:b", "-1:3", "1:2:3", "1:-5"])
def test_bad_rows(kith, rows, text):
    assert "first:count" in kith("convert", "in.npy", "out.npy", "--rows", text, code=1).err
    assert files_of(__import__("pathlib").Path(".")) == ["in.npy"]


@pytest.mark.covers("convert", "--dtype", "--round")
def test_rounding_is_asked_for(kith, rows):
    np.save("wide.npy", rows.astype(np.float64) / 3)
    error = kith("convert", "wide.npy", "out.npy", "--dtype", "f32", code=1).err
    assert "row 0 column 0" in error and "--round" in error
    kith("convert", "wide.npy", "out.npy", "--dtype", "f32", "--round")
    np.testing.assert_array_equal(np.load("out.npy"), (rows.astype(np.float64) / 3).astype(np.float32))
    kith("convert", "in.npy", "half.npy", "--dtype", "f16", "--round")
    np.testing.assert_array_equal(np.load("half.npy"), rows.astype(np.float16))
    assert "--dtype" in kith("convert", "in.npy", "out.npy", "--round", code=1).err


def test_half_precision_rounds_once(kith, folder):
    # Just above the middle of two float16 values, by less than float32 can see.
    value = 1 + 2**-11 + 2**-40
    np.save("in.npy", np.array([[value, -value, 65519.99999999, 1e-8]]))
    kith("convert", "in.npy", "out.npy", "--dtype", "f16", "--round")
    np.testing.assert_array_equal(np.load("out.npy"), [[1 + 2**-10, -1 - 2**-10, 65504, 0]])


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64", "u8", "i8", "bf16"])
def test_exact_conversions_need_no_flag(kith, folder, dtype):
    values = np.arange(0, 100, dtype=np.uint8).reshape(20, 5)
    np.save("in.npy", values)
    kith("convert", "in.npy", "out.npy", "--dtype", dtype)
    kith("convert", "out.npy", "back.npy", "--dtype", "u8")
    np.testing.assert_array_equal(np.load("back.npy"), values)
    assert kith("info", "out.npy", "--json").json["files"][0]["dtype"] == dtype


@pytest.mark.parametrize(
    "value, dtype",
    [
        (256, "u8"),
        (-1, "u8"),
        (-129, "i8"),
        (128, "i8"),
        (np.nan, "i8"),
        (np.inf, "u8"),
        (1e300, "f32"),
        (70000, "f16"),
    ],
)
def test_out_of_range_is_refused_even_with_rounding(kith, folder, value, dtype):
    rows = np.zeros((4, 3))
    rows[2, 1] = value
    np.save("in.npy", rows)
    error = kith("convert", "in.npy", "out.npy", "--dtype", dtype, "--round", code=1).err
    assert "row 2 column 1" in error and dtype in error
    assert files_of(__import__("pathlib").Path(".")) == ["in.npy"]


def test_rounding_to_integers_is_to_even(kith, folder):
    np.save("in.npy", np.array([[0.5, 1.5, 2.5, -0.5, 254.5, 255.49]]))
    kith("convert", "in.npy", "out.npy", "--dtype", "u8", "--round")
    assert np.load("out.npy").tolist() == [[0, 2, 2, 0, 254, 255]]


def test_nan_and_infinity_survive_between_floats(kith, folder):
    np.save("in.npy", np.array([[np.nan, np.inf, -np.inf]]))
    kith("convert", "in.npy", "out.npy", "--dtype", "f16")
    out = np.load("out.npy")
    assert np.isnan(out[0, 0]) and out[0, 1] == np.inf and out[0, 2] == -np.inf


def test_a_format_that_cannot_hold_the_type_is_refused(kith, folder):
    np.save("in.npy", np.zeros((3, 3)))
    assert "f64" in kith("convert", "in.npy", "out.fvecs", code=1).err
    assert files_of(__import__("pathlib").Path(".")) == ["in.npy"]


@pytest.mark.covers("convert", "--member")
def test_member(kith, folder):
    with h5py.File("in.h5", "w") as file:
        file["train"], file["test"] = np.ones((3, 2), np.float32), np.full((2, 2), 7, np.float32)
    kith("convert", "in.h5", "out.npy")
    assert np.load("out.npy").shape == (3, 2)
    kith("convert", "in.h5", "out.npy", "--member", "test")
    assert (np.load("out.npy") == 7).all()
    kith("convert", "in.h5", "out.npy", "--member", "gone", code=2)


@pytest.mark.covers("convert", "--format", "--input-format")
def test_formats_by_name(kith, rows):
    kith("convert", "in.npy", "out.dat", "--format", "fvecs")
    np.testing.assert_array_equal(read_fvecs("out.dat"), rows)
    kith("convert", "out.dat", "back.npy", "--input-format", "fvecs")
    np.testing.assert_array_equal(np.load("back.npy"), rows)
    kith("convert", "out.dat", "back.npy", code=2)


@pytest.mark.covers("convert", "--memory-limit", "--json", "--quiet")
def test_shared_options(kith, rows):
    assert "--memory-limit" in kith("convert", "in.npy", "out.npy", "--memory-limit", 100, code=3).err
    told = kith("convert", "in.npy", "out.npy", "--json", "--dtype", "f64").json
    assert told == {"file": "out.npy", "rows": 30, "dim": 5, "dtype": "f64"}
    assert "was f32" in kith("convert", "in.npy", "out.npy", "--dtype", "f64").err
    assert kith("convert", "in.npy", "out.npy", "-q").err == ""


def test_results_are_converted_too(kith, rows):
    kith("knn", "in.npy", "in.npy", "-k", 3, "-o", "r")
    kith("convert", "r.indices.npy", "r.ivecs")
    kith("convert", "r.ivecs", "again")
    np.testing.assert_array_equal(np.load("again.indices.npy"), np.load("r.indices.npy"))
    np.testing.assert_array_equal(np.load("again.distances.npy"), np.load("r.distances.npy"))
    assert "--rows" in kith("convert", "r.ivecs", "x.txt", "--rows", ":2", code=1).err
