"""LAZ and E57 as clouds of point tiles; what needs laspy or pye57 is skipped where they are missing."""

import os
import subprocess
import sys

import kith
import numpy as np
import pytest


def tiles_of(tmp_path, clouds, name="tiles"):
    return kith.PointTiles.build(tmp_path / name, clouds, tile_points=5000)


def segment(tiles):
    return (tiles.folder / "segment-0.bin").read_bytes()


def write_laz(laspy, path, count, point_format, version, seed=1):
    pytest.importorskip("lazrs")
    header = laspy.LasHeader(point_format=point_format, version=version)
    header.scales, header.offsets = [0.001, 0.01, 0.0001], [500000, 5400000, 100]
    las = laspy.LasData(header)
    random = np.random.default_rng(seed)
    las.X, las.Y, las.Z = (random.integers(-(2**30), 2**30, count).astype(np.int32) for _ in range(3))
    las.intensity = random.integers(0, 60000, count).astype(np.uint16)
    las.write(path)
    return np.stack([las.X * 0.001 + 500000.0, las.Y * 0.01 + 5400000.0, las.Z * 0.0001 + 100.0], axis=1)


@pytest.mark.parametrize(("point_format", "version"), [(1, "1.2"), (3, "1.2"), (6, "1.4"), (7, "1.4")])
def test_laz_gives_the_bits_of_its_integers(tmp_path, point_format, version):
    laspy = pytest.importorskip("laspy")
    rows = write_laz(laspy, tmp_path / "a.laz", 20_000, point_format, version)
    tiles = tiles_of(tmp_path, tmp_path / "a.laz")
    assert (tiles.rows, tiles.dim, tiles.dtype) == (20_000, 3, "float64")
    np.save(tmp_path / "a.npy", rows)
    assert segment(tiles) == segment(tiles_of(tmp_path, tmp_path / "a.npy", "plain"))
    assert sorted(os.listdir(tmp_path)) == ["a.laz", "a.npy", "plain", "tiles"]


def test_shares_of_workers_meet(tmp_path, monkeypatch):
    laspy = pytest.importorskip("laspy")
    from kith import _unpack

    monkeypatch.setattr(_unpack, "_LEAST_SHARE", 1000)
    rows = write_laz(laspy, tmp_path / "a.laz", 180_001, 6, "1.4")
    assert len(_unpack._shares(str(tmp_path / "a.laz"), 3)) == 3
    assert _unpack.unpack(str(tmp_path / "a.laz"), str(tmp_path / "a.npy"), 3) == 180_001
    assert np.array_equal(np.load(tmp_path / "a.npy"), rows)


def test_laz_among_other_files(tmp_path):
    laspy = pytest.importorskip("laspy")
    rows = write_laz(laspy, tmp_path / "a.laz", 300, 1, "1.2")
    np.save(tmp_path / "b.npy", rows + 1)
    tiles = tiles_of(tmp_path, [tmp_path / "b.npy", tmp_path / "a.laz"])
    distances, indices = tiles.search(rows, 1)
    assert tiles.rows == 600
    assert np.array_equal(indices[:, 0], np.arange(300, 600)) and not distances.any()


def test_damaged_laz_is_refused(tmp_path):
    laspy = pytest.importorskip("laspy")
    write_laz(laspy, tmp_path / "a.laz", 20_000, 6, "1.4")
    whole = (tmp_path / "a.laz").read_bytes()
    for name, content in [("cut.laz", whole[: len(whole) // 2]), ("none.laz", b""), ("text.laz", b"hello" * 100)]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(kith.IoError, match=name):
            tiles_of(tmp_path, tmp_path / name)
        assert not (tmp_path / "tiles").exists()
    with pytest.raises(kith.IoError, match="missing.laz"):
        tiles_of(tmp_path, tmp_path / "missing.laz")


def test_e57_scans_in_one_frame(tmp_path):
    pye57 = pytest.importorskip("pye57")
    random = np.random.default_rng(4)
    scans = [random.random((700, 3)) * 10, random.random((500, 3)) * 10]
    turned = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    with pye57.E57(str(tmp_path / "a.e57"), mode="w") as file:
        for scan, rotation, translation in [
            (scans[0], np.array([1.0, 0, 0, 0]), np.zeros(3)),
            (scans[1], np.array([np.sqrt(0.5), 0, 0, np.sqrt(0.5)]), np.array([100.0, 0, 0])),
        ]:
            fields = {f"cartesian{axis}": scan[:, i].copy() for i, axis in enumerate("XYZ")}
            file.write_scan_raw(fields, rotation=rotation, translation=translation)
    tiles = tiles_of(tmp_path, tmp_path / "a.e57")
    wanted = np.concatenate([scans[0], scans[1] @ turned.T + [100, 0, 0]])
    assert tiles.rows == 1200
    distances, indices = tiles.search(wanted, 1, metric="euclidean")
    assert np.array_equal(indices[:, 0], np.arange(1200)) and distances.max() < 2e-6  # pye57 writes float32
    (tmp_path / "b.e57").write_bytes(b"nothing" * 100)
    with pytest.raises(kith.IoError, match="b.e57"):
        tiles_of(tmp_path, tmp_path / "b.e57", "other")


@pytest.mark.parametrize("name", ["a.laz", "a.copc.laz", "A.E57"])
def test_without_the_packages_the_message_says_what_to_install(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    program = (
        "import sys; sys.modules['laspy'] = sys.modules['pye57'] = None\n"
        "import kith\n"
        f"try: kith.PointTiles.build({str(tmp_path / 't')!r}, {str(tmp_path / name)!r})\n"
        "except kith.IoError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "laspy lazrs pye57" in told and name in told and ("pye57" if name == "A.E57" else "lazrs") in told
    assert os.listdir(tmp_path) == [name]
