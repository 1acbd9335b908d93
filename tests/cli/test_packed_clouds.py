"""LAZ and E57 on the command line: by a Python that has their readers, or a message that names them."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from program import KITH, files_of


@pytest.mark.parametrize(
    ("name", "package"), [("a.laz", "laspy lazrs"), ("a.copc.laz", "laspy lazrs"), ("A.E57", "pye57")]
)
def test_without_a_reader_the_message_says_what_to_install(kith, folder, monkeypatch, name, package):
    (folder / name).write_bytes(b"")
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')  # without installed packages
    os.chmod(folder / "python", 0o755)
    monkeypatch.setenv("KITH_PYTHON", str(folder / "python"))
    outcome = kith("build", name, "--index", "point_tiles", "-o", "tiles", code=2)
    assert f"pip install {package}" in outcome.err and name in outcome.err and "KITH_PYTHON" in outcome.err
    assert sorted(os.listdir(folder)) == sorted([name, "python"])


@pytest.mark.covers("build", "--index")
def test_laz_gives_the_tiles_of_its_las(kith, folder, monkeypatch):
    laspy = pytest.importorskip("laspy")
    pytest.importorskip("lazrs")
    monkeypatch.setenv("KITH_PYTHON", sys.executable)
    las = laspy.LasData(laspy.LasHeader(point_format=6, version="1.4"))
    random = np.random.default_rng(1)
    las.X, las.Y, las.Z = (random.integers(-(2**30), 2**30, 5000).astype(np.int32) for _ in range(3))
    las.write("a.laz")
    las.write("a.las")
    for name in ["a.laz", "a.las"]:
        kith("build", name, "--index", "point_tiles", "--tile-points", 500, "-o", name + ".tiles")
        kith("all-knn", name + ".tiles", "-k", 4, "-o", name[2:])
    for part in ["indices", "distances"]:
        assert same(f"laz.{part}.npy", f"las.{part}.npy")
        for name in ["laz", "las"]:
            os.remove(f"{name}.{part}.npy")
    assert sorted(os.listdir(folder)) == ["a.las", "a.las.tiles", "a.laz", "a.laz.tiles"]
    (folder / "cut.laz").write_bytes((folder / "a.laz").read_bytes()[:5000])
    assert "cut.laz" in kith("build", "cut.laz", "--index", "point_tiles", "-o", "tiles", code=2).err
    assert sorted(os.listdir(folder)) == ["a.las", "a.las.tiles", "a.laz", "a.laz.tiles", "cut.laz"]


@pytest.fixture
def scans(folder, monkeypatch):
    """a.las and a.laz, the same points; b.laz, others."""
    laspy = pytest.importorskip("laspy")
    pytest.importorskip("lazrs")
    monkeypatch.setenv("KITH_PYTHON", sys.executable)
    random = np.random.default_rng(2)
    for name, count in [("a", 3000), ("b", 400)]:
        header = laspy.LasHeader(point_format=6, version="1.4")
        header.scales = [0.001] * 3
        las = laspy.LasData(header)
        las.X, las.Y, las.Z = (random.integers(0, 2**15, count).astype(np.int32) for _ in range(3))
        las.intensity = random.integers(0, 60000, count).astype(np.uint16)
        las.return_number = np.ones(count, np.uint8)
        las.write(f"{name}.laz")
        las.write(f"{name}.las")
    return laspy


def same(*names):
    contents = set()
    for name in names:
        with open(name, "rb") as file:
            contents.add(file.read())
    return len(contents) == 1


def test_every_command_reads_laz(kith, scans, folder):
    kith("build", "a.las", "--index", "kd_tree", "--metric", "euclidean", "-o", "las.kith")
    kith("build", "a.laz", "--index", "kd_tree", "--metric", "euclidean", "-o", "laz.kith")
    assert same("las.kith", "laz.kith")
    for x in ["las", "laz"]:
        kith("convert", f"a.{x}", f"{x}_rows.npy")
        kith("all-knn", f"a.{x}", "-k", 5, "-o", f"{x}_all")
        kith("all-knn", f"a.{x}", f"b.{x}", "-k", 5, "-o", f"{x}_two", "--tile-points", 300)
        kith("knn", f"a.{x}", f"b.{x}", "-k", 3, "-o", f"{x}_knn")
        kith("knn", f"b.{x}", f"b.{x}", "-k", 3, "-o", f"{x}_own")
        kith("search", "las.kith", f"b.{x}", "-k", 3, "-o", f"{x}_search")
        kith("radius", f"a.{x}", f"b.{x}", "-r", 2, "-o", f"{x}_radius")
        kith("normals", f"a.{x}", "-k", 9, "-o", f"{x}_normals.npy")
        kith("normals", f"a.{x}", "-k", 9, "-o", f"{x}_normals.ply")
        kith("outliers", f"a.{x}", "-k", 9, "--mark", "-o", f"{x}_marks.npy")
    for name in files_of(folder):
        if name.startswith("las_"):
            assert same(name, "laz_" + name[4:]), name
    shown = [
        kith("knn", "b.laz", "b.laz", "-k", 2, "--json").json,
        kith("knn", "b.las", "b.las", "-k", 2, "--json").json,
    ]
    assert shown[0]["indices"] == shown[1]["indices"]
    assert not [name for name in files_of(folder) if "unpacked" in name]


def test_normals_and_outliers_of_laz_stay_in_laz(kith, scans, folder):
    before = scans.read("a.laz")
    kith("normals", "a.las", "-k", 9, "-o", "n.npy")
    marks = np.array(kith("outliers", "a.las", "-k", 9, "--mark", "--json").json["outlier"])
    for more in [[], ["--tile-points", 400]]:
        for source, target in [("a.laz", "n.laz"), ("a.las", "n.laz"), ("a.laz", "n.las")]:
            kith("normals", source, "-k", 9, "-o", target, *more)
            after = scans.read(target)
            assert after.header.are_points_compressed == (target == "n.laz")
            assert np.array_equal(before.points.array, after.points.array[list(before.points.array.dtype.names)])
            for i, name in enumerate(["NormalX", "NormalY", "NormalZ", "Curvature"]):
                assert np.array_equal(after[name], np.load("n.npy")[:, i].astype(np.float32))
        kith("outliers", "a.laz", "-k", 9, "-o", "o.laz", *more)
        assert np.array_equal(scans.read("o.laz").points.array, before.points.array[~marks])
    kith("normals", "a.laz", "b.laz", "-k", 9, "-o", "both/")
    assert (
        len(scans.read("both/a.laz")) == 3000 and "Curvature" in scans.read("both/b.laz").point_format.dimension_names
    )
    assert files_of(folder) == sorted(["a.las", "a.laz", "b.las", "b.laz", "both", "n.las", "n.laz", "n.npy", "o.laz"])
    kith("normals", "a.laz", "-o", "-", "--format", "las", code=1)


def test_what_a_killed_run_unpacked_is_taken_up(kith, scans, folder):
    kith("all-knn", "a.las", "-k", 3, "-o", "expected")
    # A whole file of a killed run, and of another one what was under way.
    run = subprocess.Popen(
        [str(KITH), "all-knn", "a.laz", "-k", "2900", "-o", "r", "--threads", "1"], stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not list(folder.glob("r.*.unpacked.npy")) and time.monotonic() < deadline:
        time.sleep(0.005)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    assert len(list(folder.glob("r.*.unpacked.npy"))) == 1
    (folder / "r.0123456789abcdef.unpacked.npy.tmp").write_bytes(b"older")
    outcome = kith("all-knn", "a.laz", "-k", 3, "-o", "r")
    assert "'a.laz' had been unpacked by a run that was interrupted" in outcome.err
    assert same("r.indices.npy", "expected.indices.npy") and same("r.distances.npy", "expected.distances.npy")
    assert not [name for name in files_of(folder) if "unpacked" in name]


def test_tiles_of_laz_lead_back_to_it(kith, scans, folder):
    """A folder made of LAZ knows the LAZ, not what was unpacked of it: attributes stay."""
    kith("normals", "a.laz", "b.laz", "-k", 9, "-o", "expected/")
    kith("outliers", "a.laz", "-k", 9, "-o", "expected.laz")
    kith("normals", "a.laz", "-k", 9, "-o", "expected.ply")
    kith("build", "a.laz", "b.laz", "--index", "point_tiles", "--tile-points", 400, "-o", "both.tiles")
    kith("build", "a.laz", "--index", "point_tiles", "--tile-points", 400, "-o", "a.tiles")
    kith("normals", "both.tiles", "-k", 9, "-o", "made/")
    for name in ["a.laz", "b.laz"]:
        assert same(f"expected/{name}", f"made/{name}")
    kith("outliers", "a.tiles", "-k", 9, "-o", "o.laz")
    assert same("expected.laz", "o.laz")
    told = kith("outliers", "a.tiles", "-k", 9, "-o", "o.ply").err
    assert "of the attributes of a.laz only x, y and z are written to o.ply" in told
    kith("normals", "a.tiles", "-k", 9, "-o", "n.ply")
    assert same("expected.ply", "n.ply")
    kith("normals", "a.tiles", "-k", 9, "-o", "n.las")
    assert len(scans.read("n.las")) == 3000
    assert not [name for name in files_of(folder) if "unpacked" in name]
    os.rename("b.laz", "a.laz")
    outcome = kith("normals", "a.tiles", "-k", 9, "-o", "again.laz", code=2)
    assert "'a.laz', is not there as it was" in outcome.err and "name the files instead" in outcome.err


def test_laz_that_is_called_las(kith, scans, folder):
    kith("normals", "a.laz", "-k", 9, "-o", "expected.laz")
    for name in ["a.laz", "a.dat"]:
        if name != "a.laz":
            os.link("a.laz", name)
        for more in [[], ["--tile-points", 400]]:
            kith("normals", name, "--input-format", "las", "-k", 9, "-o", "n.laz", *more)
            assert same("expected.laz", "n.laz")
    kith("build", "a.dat", "--input-format", "las", "--index", "point_tiles", "-o", "tiles")
    kith("normals", "tiles", "-k", 9, "-o", "n.laz")
    assert same("expected.laz", "n.laz")


def test_tiles_of_laz_remember_it(kith, scans, folder):
    kith("build", "a.laz", "--index", "point_tiles", "--tile-points", 400, "-o", "expected")
    manifest = (folder / "expected" / "manifest.json").read_text()
    assert '"name":"a.laz"' in manifest and "unpacked" not in manifest


def test_tiles_of_e57_lead_back_to_it(kith, folder, monkeypatch):
    """Coordinates alone: it is unpacked once more."""
    pye57 = pytest.importorskip("pye57")
    monkeypatch.setenv("KITH_PYTHON", sys.executable)
    random = np.random.default_rng(4)
    file = pye57.E57("a.e57", mode="w")
    file.write_scan_raw(
        {f"cartesian{axis}": random.random(2000) for axis in "XYZ"} | {"intensity": random.random(2000)}
    )
    file.close()
    kith("normals", "a.e57", "-k", 9, "-o", "expected.ply")
    kith("build", "a.e57", "--index", "point_tiles", "--tile-points", 400, "-o", "tiles")
    told = kith("normals", "tiles", "-k", 9, "-o", "n.ply").err
    assert "of the attributes of a.e57 only x, y and z are written to n.ply; convert it to LAS" in told
    assert same("expected.ply", "n.ply")
    kith("outliers", "a.e57", "-k", 9, "-o", "expected.pcd")
    kith("outliers", "tiles", "-k", 9, "-o", "o.pcd")
    assert same("expected.pcd", "o.pcd")
    assert "'a.e57' is e57; write .ply, .pcd or .npy" in kith("normals", "tiles", "-k", 9, "-o", "n.laz", code=1).err
    assert files_of(folder) == ["a.e57", "expected.pcd", "expected.ply", "n.ply", "o.pcd", "tiles"]
