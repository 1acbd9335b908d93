"""kith.copy_points: LAS, LAZ and PLY with further columns, or fewer points; what needs laspy is skipped where it is missing."""

import os
import struct

import kith
import numpy as np
import pytest

PLY = b"ply\nformat ascii 1.0\nelement vertex 3\nproperty uchar red\nproperty float x\nproperty float y\nproperty float z\nend_header\n"


@pytest.fixture
def ply(tmp_path):
    (tmp_path / "a.ply").write_bytes(PLY + b"7 1 2 3\n8 4 5 6\n9 7 8 9\n")
    return tmp_path / "a.ply"


def las(count):
    header = bytearray(227)
    header[:4], header[24:26] = b"LASF", bytes([1, 2])
    struct.pack_into("<HI", header, 94, 227, 227)
    struct.pack_into("<BHI", header, 104, 0, 20, count)
    struct.pack_into("<6d", header, 131, 0.5, 0.5, 0.5, 0, 0, 0)
    return bytes(header) + b"".join(struct.pack("<3iHBBbBH", i, -i, 2 * i, i, 9, 2, 0, 0, i) for i in range(count))


def test_ply_gets_columns_and_loses_points(ply, tmp_path):
    curved = np.array([0.5, 0.25, 1], np.float32)
    kith.copy_points(tmp_path / "b.ply", ply, columns={"curvature": curved, "b": curved * 2})
    text = (tmp_path / "b.ply").read_text()
    assert (
        "property float z\nproperty float curvature\nproperty float b\nend_header\n7 1 2 3 0.5 1\n8 4 5 6 0.25 0.5\n"
        in text
    )
    kith.copy_points(tmp_path / "b.ply", tmp_path / "b.ply", keep=np.array([True, False, True]))
    assert "element vertex 2\n" in (tmp_path / "b.ply").read_text()
    assert np.array_equal(kith.read(tmp_path / "b.ply"), [[1, 2, 3], [7, 8, 9]])
    kith.copy_points(str(tmp_path / "c.ply"), str(ply), columns=(["d"], np.array([[1], [2], [3]])))
    assert "property double d\n" in (tmp_path / "c.ply").read_text()


def test_las_gets_normals_of_tiles(tmp_path):
    (tmp_path / "a.las").write_bytes(las(400))
    tiles = kith.PointTiles.build(tmp_path / "tiles", tmp_path / "a.las", tile_points=50)
    normals = tiles.normals(tmp_path / "n", k=5)
    names = ["NormalX", "NormalY", "NormalZ", "Curvature"]
    kith.copy_points(
        tmp_path / "b.las", tmp_path / "a.las", columns=(names, np.load(tmp_path / "n.npy", mmap_mode="r"))
    )
    data = (tmp_path / "b.las").read_bytes()
    points = np.frombuffer(data[227 + 54 + 4 * 192 :], np.uint8).reshape(400, 52)
    assert points[:, :20].tobytes() == las(400)[227:]
    assert np.array_equal(points[:, 20:].copy().view("<f8")[:, :3], normals.normals, equal_nan=True)
    assert np.array_equal(kith.read(tmp_path / "b.las"), kith.read(tmp_path / "a.las"))


def test_what_cannot_be_is_refused(ply, tmp_path):
    two, three = np.zeros(2), np.zeros(3)
    for columns, keep, error, part in [
        ({"a": two}, None, kith.InvalidArgument, "3 points"),
        ({"a": three, "b": two}, None, kith.InvalidArgument, "'b' has shape"),
        ((["a"], np.zeros((3, 2))), None, kith.InvalidArgument, "1 names"),
        ({"x": three}, None, kith.InvalidArgument, "'x'"),
        (None, [True], kith.InvalidArgument, "shape"),
        (None, [0, 2], TypeError, "bool"),
    ]:
        with pytest.raises(error, match=part):
            kith.copy_points(tmp_path / "b.ply", ply, columns=columns, keep=keep)
    with pytest.raises(kith.InvalidArgument, match="format"):
        kith.copy_points(tmp_path / "b.las", ply)
    with pytest.raises(kith.InvalidArgument, match="LAS and LAZ"):
        kith.copy_points(tmp_path / "b.laz", ply)
    with pytest.raises(kith.IoError, match="gone"):
        kith.copy_points(tmp_path / "b.ply", tmp_path / "gone.ply")
    assert os.listdir(tmp_path) == ["a.ply"]


@pytest.fixture
def laspy():
    module = pytest.importorskip("laspy")
    pytest.importorskip("lazrs")
    return module


def write_laz(laspy, path, count, point_format=6):
    header = laspy.LasHeader(point_format=point_format, version="1.4" if point_format > 5 else "1.2")
    header.scales = [0.001] * 3
    header.add_extra_dims([laspy.ExtraBytesParams(name="amplitude", type="uint16")])
    header.vlrs.append(laspy.VLR("somebody", 7, "", b"hello"))
    cloud = laspy.LasData(header)
    random = np.random.default_rng(5)
    cloud.X, cloud.Y, cloud.Z = (random.integers(-(2**20), 2**20, count).astype(np.int32) for _ in range(3))
    cloud.intensity = random.integers(0, 60000, count).astype(np.uint16)
    cloud.gps_time, cloud.amplitude = random.random(count), random.integers(0, 9, count).astype(np.uint16)
    cloud.return_number = np.ones(count, np.uint8)
    if point_format > 5:
        cloud.evlrs = laspy.vlrs.vlrlist.VLRList([laspy.VLR("somebody", 8, "", b"more")])
    cloud.write(path)
    return cloud


@pytest.mark.parametrize("point_format", [1, 3, 6, 7])
@pytest.mark.parametrize("target", ["b.laz", "b.las"])
def test_laz(laspy, tmp_path, monkeypatch, point_format, target):
    from kith import _repack

    monkeypatch.setattr(_repack, "_BLOCK", 300)
    before = write_laz(laspy, tmp_path / "a.laz", 1000, point_format)
    normals = np.random.default_rng(6).random((1000, 2)).astype(np.float32)
    keep = np.arange(1000) % 3 > 0
    kith.copy_points(tmp_path / target, tmp_path / "a.laz", columns=(["NormalX", "Curvature"], normals), keep=keep)
    after = laspy.read(tmp_path / target)
    assert after.header.are_points_compressed == (target == "b.laz")
    assert after.header.point_count == keep.sum() == after.header.number_of_points_by_return[0]
    for name in before.point_format.dimension_names:
        assert np.array_equal(before[name][keep], after[name]), name
    assert np.array_equal(after["NormalX"], normals[keep, 0]) and np.array_equal(after["Curvature"], normals[keep, 1])
    assert any(record.user_id == "somebody" for record in after.vlrs)
    if point_format > 5:
        assert after.evlrs[0].record_data_bytes() == b"more"
    # Once more: what is called the same gives way.
    kith.copy_points(tmp_path / target, tmp_path / target, columns={"Curvature": np.zeros(keep.sum())})
    again = laspy.read(tmp_path / target)
    assert list(again.point_format.extra_dimension_names) == ["amplitude", "NormalX", "Curvature"]
    assert again["Curvature"].dtype == np.float64 and not again["Curvature"].any()
    assert sorted(os.listdir(tmp_path)) == ["a.laz", target]


def test_laz_that_is_damaged_or_does_not_fit(laspy, tmp_path):
    write_laz(laspy, tmp_path / "a.laz", 1000)
    (tmp_path / "cut.laz").write_bytes((tmp_path / "a.laz").read_bytes()[:3000])
    with pytest.raises(kith.IoError, match="cut.laz"):
        kith.copy_points(tmp_path / "b.laz", tmp_path / "cut.laz", columns={"a": np.zeros(1000)})
    with pytest.raises(kith.InvalidArgument, match="columns have 3"):
        kith.copy_points(tmp_path / "b.laz", tmp_path / "a.laz", columns={"a": np.zeros(3)})
    with pytest.raises(kith.InvalidArgument, match="'intensity'"):
        kith.copy_points(tmp_path / "b.laz", tmp_path / "a.laz", columns={"intensity": np.zeros(1000)})
    assert sorted(os.listdir(tmp_path)) == ["a.laz", "cut.laz"]


def test_read_of_laz(laspy, tmp_path):
    cloud = write_laz(laspy, tmp_path / "a.laz", 1000)
    rows = np.stack([cloud.X * 0.001 + 0.0, cloud.Y * 0.001 + 0.0, cloud.Z * 0.001 + 0.0], axis=1)
    assert np.array_equal(kith.read(tmp_path / "a.laz"), rows)
    assert np.array_equal(kith.read(tmp_path / "a.laz", first_row=10, max_rows=5), rows[10:15])
    cloud.write(tmp_path / "plain.las")
    os.rename(tmp_path / "plain.las", tmp_path / "plain.laz")  # a name, no compression
    assert np.array_equal(kith.read(tmp_path / "plain.laz"), rows)
