"""Normals and outliers back into LAS and PLY with all that the points have: in memory, through tiles, of tiles, the same bytes."""

import json
import resource
import struct
import subprocess

import numpy as np
import pytest
from program import KITH, files_of

COUNT = 1200


def scan(seed=3, count=COUNT):
    """Integer coordinates of a wavy sheet with some points far above it."""
    random = np.random.default_rng(seed)
    points = random.random((count, 3)) * [30, 30, 0.2]
    points[:, 2] += np.sin(points[:, 0])
    points[::97, 2] += 40
    return (points * 1000).astype("<i4")


def las(integers, scale=0.001, offset=(500000.0, 5400000.0, 0.0)):
    """LAS 1.2 of point format 1 with two extra bytes that a record describes, and a record that nobody knows."""
    described = struct.pack("<2xBB32s156x", 3, 0, b"amplitude")
    records = struct.pack("<2x16sHH32s", b"LASF_Spec", 4, 192, b"") + described
    records += struct.pack("<2x16sHH32s", b"somebody", 7, 5, b"") + b"hello"
    header = bytearray(227)
    header[:4] = b"LASF"
    header[24:26] = bytes([1, 2])
    struct.pack_into("<HII", header, 94, 227, 227 + len(records), 2)
    struct.pack_into("<BHII", header, 104, 1, 30, len(integers), len(integers))
    values = integers * scale + offset
    bounds = np.stack([values.max(axis=0), values.min(axis=0)], axis=1).ravel()
    struct.pack_into("<12d", header, 131, *[scale] * 3, *offset, *bounds)
    return (
        bytes(header)
        + records
        + b"".join(
            struct.pack("<3iHBBBBHdH", *row, i % 60000, 9, 2, 0, 0, 5, i / 7, i % 1000)
            for i, row in enumerate(integers.tolist())
        )
    )


def parts(path):
    """Records before the points, and the points as [count, bytes]."""
    data = path.read_bytes()
    (offset,) = struct.unpack_from("<I", data, 96)
    size, count = struct.unpack_from("<HI", data, 105)
    assert len(data) == offset + size * count
    return data[227:offset], np.frombuffer(data, np.uint8, offset=offset).reshape(count, size)


@pytest.fixture
def cloud(folder):
    (folder / "scan.las").write_bytes(las(scan()))
    return "scan.las"


@pytest.mark.covers("normals", "--output", "POINTS", "--neighbors", "--viewpoint", "--tile-points", "--inside")
def test_normals_become_extra_bytes_of_las(kith, cloud, folder):
    near = ["-k", 12, "--viewpoint", "500000,5400000,99"]
    kith("normals", cloud, *near, "-o", "n.npy")
    outcome = kith("normals", cloud, *near, "-o", "n.las")
    assert "wrote n.las: normals and curvature of" in outcome.err
    old, points = parts(folder / cloud)
    records, made = parts(folder / "n.las")
    assert np.array_equal(made[:, :30], points)
    wanted = np.load("n.npy").astype("<f4")
    assert made[:, 30:].tobytes() == wanted.tobytes()
    names = [b"amplitude", b"NormalX", b"NormalY", b"NormalZ", b"Curvature"]
    described = b"".join(struct.pack("<2xBB32s156x", 9 if i else 3, 0, name) for i, name in enumerate(names))
    assert records == old[:20] + struct.pack("<H", 192 * 5) + old[22:54] + described + old[54 + 192 :]
    kith("normals", cloud, *near, "-o", "t.las", "--tile-points", 100, "--inside", "octree")
    kith("build", cloud, "--index", "point_tiles", "--tile-points", 200, "-o", "tiles")
    told = kith("normals", "tiles", *near, "-o", "u.las", "--json").json
    assert told["files"] == ["u.las"] and told["rows"] == COUNT
    for name in ["t.las", "u.las"]:
        assert (folder / name).read_bytes() == (folder / "n.las").read_bytes()
    kith("convert", "n.las", "back.npy")
    kith("convert", cloud, "from.npy")
    assert np.array_equal(np.load("back.npy"), np.load("from.npy"))
    left = ["back.npy", "from.npy", "n.las", "n.npy", cloud, "t.las", "tiles", "u.las"]
    assert files_of(folder) == sorted(left)


def test_laspy_reads_what_was_written(kith, cloud, folder):
    laspy = pytest.importorskip("laspy")
    kith("normals", cloud, "-k", 12, "-o", "n.las")
    kith("normals", cloud, "-k", 12, "-o", "n.npy")
    before, after = laspy.read(cloud), laspy.read("n.las")
    assert [record.user_id for record in after.vlrs] == [record.user_id for record in before.vlrs]
    for name in before.point_format.dimension_names:
        assert np.array_equal(before[name], after[name]), name
    for i, name in enumerate(["NormalX", "NormalY", "NormalZ", "Curvature"]):
        assert np.array_equal(after[name], np.load("n.npy")[:, i].astype(np.float32), equal_nan=True)


@pytest.mark.covers("outliers", "--output", "--ratio", "--tile-points")
def test_outliers_of_las_through_tiles(kith, cloud, folder):
    kith("outliers", cloud, "-k", 8, "--ratio", 1.5, "-o", "o.las")
    outcome = kith("outliers", cloud, "-k", 8, "--ratio", 1.5, "-o", "t.las", "--tile-points", 100)
    assert "removed" in outcome.err and "wrote t.las" in outcome.err
    marks = kith("outliers", cloud, "-k", 8, "--ratio", 1.5, "--mark", "--json").json["outlier"]
    old, points = parts(folder / cloud)
    records, kept = parts(folder / "o.las")
    assert records == old and np.array_equal(kept, points[~np.array(marks)]) and any(marks)
    kith("build", cloud, "--index", "point_tiles", "--tile-points", 200, "-o", "tiles")
    kith("outliers", "tiles", "-k", 8, "--ratio", 1.5, "-o", "u.las")
    for name in ["t.las", "u.las"]:
        assert (folder / name).read_bytes() == (folder / "o.las").read_bytes()
    assert files_of(folder) == ["o.las", cloud, "t.las", "tiles", "u.las"]


def ply(points, encoding):
    """Vertices with a colour before x, y, z and an old normal, and a face."""
    order = ">" if "big" in encoding else "<"
    head = (
        f"ply\nformat {encoding} 1.0\ncomment kept\nelement vertex {len(points)}\nproperty uchar red\nproperty float x\n"
        "property float y\nproperty float z\nproperty float nx\nelement face 1\nproperty list uchar int vertex_indices\n"
        "end_header\n"
    )
    rows = [(i % 256, *point, 9.0) for i, point in enumerate(points.tolist())]
    if encoding == "ascii":
        return (head + "".join(" ".join(map(repr, row)) + "\n" for row in rows) + "3 0 1 2\n").encode()
    body = b"".join(struct.pack(f"{order}B4f", *row) for row in rows)
    return head.encode() + body + struct.pack(f"{order}B3i", 3, 0, 1, 2)


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
def test_ply_keeps_its_properties_and_elements(kith, folder, encoding):
    points = (scan() / 1000).astype("f4")
    (folder / "a.ply").write_bytes(ply(points, encoding))
    np.save("a.npy", points)
    kith("normals", "a.ply", "-k", 9, "-o", "n.ply")
    kith("normals", "a.ply", "-k", 9, "-o", "t.ply", "--tile-points", 100)
    kith("normals", "a.npy", "-k", 9, "-o", "n.npy")
    wanted = np.load("n.npy").astype("f4")
    data = (folder / "n.ply").read_bytes()
    assert data == (folder / "t.ply").read_bytes()
    head, _, body = data.partition(b"end_header\n")
    assert b"comment kept\n" in head and head.count(b"nx") == 1
    assert (
        b"property float z\nproperty float nx\nproperty float ny\nproperty float nz\nproperty float curvature\n" in head
    )
    if encoding == "ascii":
        lines = body.decode().splitlines()
        assert lines[-1] == "3 0 1 2" and len(lines) == COUNT + 1
        table = np.array([line.split() for line in lines[:-1]], dtype=np.float64)
        assert np.array_equal(table[:, 0], np.arange(COUNT) % 256)
        made = table[:, 1:].astype("f4")
    else:
        order = ">" if "big" in encoding else "<"
        vertex = np.dtype([("red", "u1"), ("rest", f"{order}f4", 7)])
        table = np.frombuffer(body, vertex, COUNT)
        assert np.array_equal(table["red"], np.arange(COUNT) % 256)
        assert body[COUNT * vertex.itemsize :] == struct.pack(f"{order}B3i", 3, 0, 1, 2)
        made = table["rest"].astype("f4")
    assert np.array_equal(made, np.hstack([points, wanted]))
    outcome = kith("outliers", "a.ply", "-k", 9, "-o", "o.ply")
    assert "has face beside its points, which refer to them by number and are left out" in outcome.err
    kith("outliers", "a.ply", "-k", 9, "-o", "p.ply", "--tile-points", 100)
    kept = (folder / "o.ply").read_bytes()
    assert kept == (folder / "p.ply").read_bytes() and b"face" not in kept and b"property uchar red" in kept
    marks = np.array(kith("outliers", "a.ply", "-k", 9, "--mark", "--json").json["outlier"])
    kith("convert", "o.ply", "o.npy")
    assert np.array_equal(np.load("o.npy"), points[~marks])


def test_several_files_go_into_a_folder(kith, folder):
    integers = scan()
    for name, some in [("a.las", integers[:500]), ("b.las", integers[500:])]:
        (folder / name).write_bytes(las(some))
    (folder / "all.las").write_bytes(las(integers))
    kith("normals", "all.las", "-k", 9, "-o", "n.las")
    outcome = kith("normals", "a.las", "b.las", "-k", 9, "-o", "made/", "--tile-points", 100)
    assert "made/a.las, made/b.las" in outcome.err
    _, wanted = parts(folder / "n.las")
    found = [parts(folder / "made" / name)[1] for name in ["a.las", "b.las"]]
    # The bytes that number points begin anew in the second file.
    assert np.array_equal(np.vstack(found)[:, [*range(12), *range(30, 46)]], wanted[:, [*range(12), *range(30, 46)]])
    kith("outliers", "a.las", "-k", 9, "-o", "other/")
    kith("outliers", "a.las", "-k", 9, "-o", "single.las")
    assert (folder / "other" / "a.las").read_bytes() == (folder / "single.las").read_bytes()


def test_refusals(kith, cloud, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / cloud).write_bytes(las(scan(4)))
    np.save("a.npy", np.random.default_rng(1).random((50, 3)))
    before = files_of(folder)
    for arguments, part in [
        (["normals", cloud, f"sub/{cloud}", "-o", "n.las"], "name a folder (-o n/)"),
        (["normals", cloud, f"sub/{cloud}", "-o", "out/"], "would both be 'out/scan.las'"),
        (["normals", "a.npy", "-o", "n.las"], "LAS and LAZ points, 'a.npy' is npy; write .ply"),
        (["normals", "a.npy", "-o", "out/"], "'a.npy' is no LAS, LAZ or PLY file"),
        (["normals", cloud, "-o", "out/", "--format", "ply"], "--format ply"),
        (["normals", cloud, "-o", "."], "the same file as the input 'scan.las'"),
        (["normals", cloud, "-o", "n.las", "--order", "tiles"], "--order"),
        (["outliers", cloud, "-o", "o.fvecs", "--tile-points", 50], "npy, ply, pcd, las or xyz"),
        (["outliers", "a.npy", "-o", "o.laz"], "'a.npy' is npy"),
    ]:
        outcome = kith(*arguments, code=1)
        assert part in outcome.err, (arguments, outcome.err)
        assert files_of(folder) == before
    kith("build", cloud, "--index", "point_tiles", "-o", "tiles")
    (folder / cloud).write_bytes(las(scan(5)))
    assert "name the files instead" in kith("normals", "tiles", "-o", "n.las", code=2).err
    kith("normals", "tiles", "-o", "n.npy")


def test_coordinates_alone_go_through_tiles_too(kith, cloud, folder):
    for name in ["n.ply", "n.pcd"]:
        kith("normals", cloud, "-k", 9, "-o", name)
        kith("normals", cloud, "-k", 9, "-o", f"t{name}", "--tile-points", 100)
        assert (folder / name).read_bytes() == (folder / f"t{name}").read_bytes()
        kith("outliers", cloud, "-k", 9, "-o", f"o{name}")
        kith("outliers", cloud, "-k", 9, "-o", f"p{name}", "--tile-points", 100)
        assert (folder / f"o{name}").read_bytes() == (folder / f"p{name}").read_bytes()


def test_no_space_for_the_output(kith, folder):
    """As on a full disk: one line, and the same command goes on from the normals that are there."""
    count = 30_000
    (folder / "scan.las").write_bytes(las(scan(6, count)))
    command = ["normals", "scan.las", "-k", 4, "--tile-points", 15_000]
    kith(*command, "-o", "expected.las")
    limit = count * 44

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    call = [str(KITH), *map(str, command), "-o", "n.las", "-q"]
    process = subprocess.run(call, preexec_fn=small_files, capture_output=True, text=True)
    assert process.returncode == 2 and len(process.stderr.splitlines()) == 1, process.stderr
    assert "File too large" in process.stderr and "what was found stays in 'n.las.kith-normals.npy'" in process.stderr
    assert not (folder / "n.las").exists()
    outcome = kith(*command, "-o", "n.las", "-v")
    assert "had been done by a run that was interrupted" in outcome.err
    assert (folder / "n.las").read_bytes() == (folder / "expected.las").read_bytes()
    assert files_of(folder) == ["expected.las", "n.las", "scan.las"]


def test_input_format_goes_through_tiles(kith, cloud, folder):
    """A file whose name says nothing, or something else: attributes stay, in memory, through tiles and of tiles."""
    kith("normals", cloud, "-k", 12, "-o", "n.las")
    kith("outliers", cloud, "-k", 8, "-o", "o.las")
    for name in ["scan.dat", "scan.xyz"]:
        (folder / name).write_bytes((folder / cloud).read_bytes())
        read = [name, "--input-format", "las"]
        for number, more in enumerate([[], ["--tile-points", 100]]):
            kith("normals", *read, "-k", 12, "-o", f"{number}.las", *more)
            assert (folder / f"{number}.las").read_bytes() == (folder / "n.las").read_bytes()
            kith("outliers", *read, "-k", 8, "-o", f"{number}.las", *more)
            assert (folder / f"{number}.las").read_bytes() == (folder / "o.las").read_bytes()
            kith("normals", *read, "-k", 12, "-o", f"{number}.ply", *more)
        assert (folder / "0.ply").read_bytes() == (folder / "1.ply").read_bytes()
        kith("build", *read, "--index", "point_tiles", "--tile-points", 200, "-o", "tiles")
        kith("normals", "tiles", "-k", 12, "-o", "t.las")
        assert (folder / "t.las").read_bytes() == (folder / "n.las").read_bytes()
        kith("normals", "tiles", "-k", 12, "-o", "t.ply")
        assert (folder / "t.ply").read_bytes() == (folder / "0.ply").read_bytes()
    # Two files, of which one name tells its format.
    (folder / "a.las").write_bytes((folder / cloud).read_bytes())
    (folder / "b.dat").write_bytes((folder / cloud).read_bytes())
    kith("all-knn", "a.las", "b.dat", "-k", 3, "-o", "r", "--input-format", "las")
    assert np.load("r.indices.npy").shape == (2 * COUNT, 3)
    kith("build", "scan.xyz", "--index", "point_tiles", "-o", "tiles", "--input-format", "ply", code=2)


def test_what_is_lost_is_told(kith, cloud, folder):
    for more in [[], ["--tile-points", 100]]:
        for command in ["outliers", "normals"]:
            told = kith(command, cloud, "-k", 8, "-o", "o.ply", *more).err
            assert f"of the attributes of {cloud} only x, y and z are written to o.ply; write .las or .laz" in told


@pytest.mark.parametrize("what", ["normals", "outliers"])
def test_what_lies_between_is_checked(kith, folder, what):
    """A byte of what was found is changed on the disk, or its note: found anew, to the same bytes."""
    count = 30_000
    (folder / "scan.las").write_bytes(las(scan(6, count)))
    command = [what, "scan.las", "-k", 4, "--tile-points", 15_000]
    kith(*command, "-o", "expected.las")
    between = folder / f"n.las.kith-{what}.npy"
    note = folder / f"{between.name}.json"
    limit = count * {"normals": 34, "outliers": 25}[what]  # what is found fits, the points do not

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    def change_data():
        data = bytearray(between.read_bytes())
        data[-1] ^= 1
        between.write_bytes(data)

    def change_note(**values):
        note.write_text(json.dumps({**json.loads(note.read_text()), **values}))

    for change in [
        change_data,
        lambda: change_note(result=7),
        lambda: change_note(result={"outliers": -1}),
        lambda: change_note(xxh3="no"),
        lambda: note.write_text("[" * 1_000_000),
        between.unlink,
    ]:
        call = [str(KITH), *map(str, command), "-o", "n.las", "-q"]
        process = subprocess.run(call, preexec_fn=small_files, capture_output=True, text=True)
        assert process.returncode == 2 and between.exists() and note.exists(), process.stderr
        change()
        kith(*command, "-o", "n.las")
        assert (folder / "n.las").read_bytes() == (folder / "expected.las").read_bytes()
        (folder / "n.las").unlink()
        assert files_of(folder) == ["expected.las", "scan.las"]
