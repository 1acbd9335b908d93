"""kith build --index point_tiles of LAZ and E57: by a Python that has their readers, or a message that names them."""

import os
import sys

import numpy as np
import pytest


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
    segments = [(folder / f"{name}.tiles" / "segment-0.bin").read_bytes() for name in ["a.laz", "a.las"]]
    assert segments[0] == segments[1]
    assert sorted(os.listdir(folder)) == ["a.las", "a.las.tiles", "a.laz", "a.laz.tiles"]
    (folder / "cut.laz").write_bytes((folder / "a.laz").read_bytes()[:5000])
    assert "cut.laz" in kith("build", "cut.laz", "--index", "point_tiles", "-o", "tiles", code=2).err
    assert sorted(os.listdir(folder)) == ["a.las", "a.las.tiles", "a.laz", "a.laz.tiles", "cut.laz"]
