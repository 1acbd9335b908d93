"""The dataset cache and the recipes, on small data."""

import json
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from benchmarks.datasets import cache, coast, generated, registry, sift_photos

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def counting(monkeypatch):
    """A dataset 'tiny' in the list; counts how often it is made."""
    calls = []

    def make(log):
        calls.append(1)
        return {"points": np.arange(6, dtype=np.float32).reshape(3, 2), "note.txt": b"hello"}

    monkeypatch.setitem(registry.DATASETS, "tiny", registry.Dataset("three points", make))
    return calls


def ensure(name, folder):
    return registry.ensure(name, folder, log=lambda text: None)


def test_a_dataset_is_made_once_and_found_again(counting, tmp_path):
    files = ensure("tiny", tmp_path)
    assert files == {"points": tmp_path / "tiny.npy", "note.txt": tmp_path / "tiny.note.txt"}
    assert np.load(files["points"]).tolist() == [[0, 1], [2, 3], [4, 5]]
    assert files["note.txt"].read_bytes() == b"hello"
    assert ensure("tiny", tmp_path) == files
    assert len(counting) == 1


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "manifest", "version"])
def test_a_damaged_dataset_is_made_anew(counting, tmp_path, damage, monkeypatch):
    path = ensure("tiny", tmp_path)["points"]
    good = path.read_bytes()
    if damage == "flip":
        path.write_bytes(good[:-1] + b"\x01")
    elif damage == "truncate":
        path.write_bytes(good[:-4])
    elif damage == "remove":
        path.unlink()
    elif damage == "manifest":
        (tmp_path / "tiny.json").write_text("{")
    else:
        old = registry.DATASETS["tiny"]
        monkeypatch.setitem(registry.DATASETS, "tiny", registry.Dataset(old.summary, old.make, version=2))
    assert ensure("tiny", tmp_path)["points"].read_bytes() == good
    assert len(counting) == 2


def test_a_failed_recipe_leaves_nothing(tmp_path):
    def write(stream):
        stream.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cache.write_atomically(tmp_path / "x.npy", write)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_checksum_is_an_error(tmp_path, monkeypatch):
    entry = registry.Dataset("x", lambda log: {"points": np.zeros(3)}, sha256={"points": "00"})
    monkeypatch.setitem(registry.DATASETS, "wrong", entry)
    with pytest.raises(ValueError, match="SHA-256 .* expected 00"):
        ensure("wrong", tmp_path)


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("KITH_CACHE", str(tmp_path / "a"))
    assert cache.cache_folder() == tmp_path / "a"
    assert cache.cache_folder(tmp_path / "b") == tmp_path / "b"
    monkeypatch.delenv("KITH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "c"))
    assert cache.cache_folder() == tmp_path / "c" / "kith" / "datasets"


def test_the_command(tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "benchmarks.datasets", *arguments], cwd=ROOT, capture_output=True, text=True
        )

    unknown = run("nope", "--out", str(tmp_path))
    assert unknown.returncode == 1 and "no dataset 'nope'" in unknown.stderr
    assert "coast" in run("--help").stdout


def test_coast_points_are_decoded(tmp_path):
    """Two bins, three segments, made by hand after the layout in coast.py."""
    bins = np.zeros(64800, np.int16)
    bins[0], bins[89 * 360 + 181] = 1, 2  # the north-west bin; the bin of 181..182 E, 0..1 N
    with h5py.File(tmp_path / "x.nc", "w") as file:
        file["Bin_size_in_minutes"] = [60]
        file["N_bins_in_360_longitude_range"] = [360]
        file["N_segments_in_a_bin"] = bins
        word = [(2 << 9) | (1 << 6) | 5, (1 << 9) | (2 << 6), (1 << 9) | (6 << 6)]
        file["Embedded_npts_levels_exit_entry_for_a_segment"] = np.array(word, np.int32)
        file["Id_of_first_point_in_a_segment"] = np.array([0, 2, 3], np.int32)
        file["Relative_longitude_from_SW_corner_of_bin"] = np.array([0, 65535, 13107, 0], np.uint16).view(np.int16)
        file["Relative_latitude_from_SW_corner_of_bin"] = np.array([65535, 0, 26214, 0], np.uint16).view(np.int16)
    lonlat, level = coast.read_points(tmp_path / "x.nc")
    assert np.allclose(lonlat, [[0, 90], [1, 89], [-178.8, 0.4], [-179, 0]])
    assert level.tolist() == [1, 1, 2, 6]
    assert np.allclose(coast.unit_sphere(lonlat[[0, 3]]), [[0, 0, 1], [-0.99984770, -0.01745241, 0]])


def test_coast_refuses_another_layout(tmp_path):
    with h5py.File(tmp_path / "x.nc", "w") as file:
        file["Bin_size_in_minutes"] = [60]
        file["N_bins_in_360_longitude_range"] = [360]
        file["N_segments_in_a_bin"] = np.ones(2, np.int16)
        file["Embedded_npts_levels_exit_entry_for_a_segment"] = np.array([2 << 9, 1 << 9], np.int32)
        file["Id_of_first_point_in_a_segment"] = np.array([0, 1], np.int32)
        for axis in ("longitude", "latitude"):
            file[f"Relative_{axis}_from_SW_corner_of_bin"] = np.zeros(3, np.int16)
    with pytest.raises(ValueError, match="do not adjoin"):
        coast.read_points(tmp_path / "x.nc")


def test_the_largest_size_of_a_picture_is_taken(tmp_path):
    images = tmp_path / "wallpapers" / "Hill" / "contents" / "images"
    images.mkdir(parents=True)
    for name in ("640x480.png", "1080x1920.jpg", "2560x1600.jpg", "9999x9999.txt"):
        (images / name).touch()
    gnome = tmp_path / "gnome"
    gnome.mkdir()
    for name in ("b.webp", "a.jpg", "drawing.svg", "pixels-l.webp"):
        (gnome / name).touch()
    found = sift_photos.pictures(tmp_path / "wallpapers", gnome)
    assert [p.name for p in found] == ["2560x1600.jpg", "a.jpg", "b.webp"]


def test_queries_are_taken_out_of_the_base():
    rows = np.arange(12_000, dtype=np.int64)[:, None]
    base, queries = sift_photos.split(rows)
    assert len(queries) == sift_photos.QUERIES
    assert sorted([*base[:, 0], *queries[:, 0]]) == rows[:, 0].tolist()
    assert (np.diff(base[:, 0]) > 0).all()


def test_clustered_vectors_are_seeded_unit_vectors_in_clusters():
    rows = generated.clustered_unit_vectors(400, 32, 5, seed=3)
    assert rows.dtype == np.float32 and np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert np.array_equal(rows, generated.clustered_unit_vectors(400, 32, 5, seed=3))
    assert not np.array_equal(rows, generated.clustered_unit_vectors(400, 32, 5, seed=4))
    nearest = np.sort(rows @ rows.T, axis=1)[:, -2]
    assert np.median(nearest) > 0.7


def test_rootsift():
    rows = generated.rootsift(np.array([[1, 3], [0, 0]], np.uint8))
    assert rows.dtype == np.float32 and np.allclose(rows, [[0.5, 0.75**0.5], [0, 0]])


def test_a_manifest_names_every_file(counting, tmp_path):
    ensure("tiny", tmp_path)
    manifest = json.loads((tmp_path / "tiny.json").read_text())
    assert manifest["files"]["points"]["shape"] == [3, 2]
    assert manifest["files"]["points"]["sha256"] == cache.sha256(tmp_path / "tiny.npy")
