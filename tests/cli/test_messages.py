"""What the program says is true and can be followed."""

import os
import struct

import numpy as np
import pytest
from program import files_of

h5py = pytest.importorskip("h5py")

POINTS = np.random.default_rng(3).random((60, 3))


def las(points=POINTS, minor=2, record_format=0, count=None, by_return=None, bounds=None, after=b"", narrow=None):
    """A LAS file of a few points; what its header claims can be changed."""
    stored = np.round((points - 0.5) / 0.001).astype(np.int32)
    inside = stored * 0.001 + 0.5
    low, high = bounds or (inside.min(0), inside.max(0))
    head = bytearray(375 if minor == 4 else 227)
    head[:4] = b"LASF"
    head[24:26] = bytes([1, minor])
    struct.pack_into("<HIIBHI", head, 94, len(head), len(head), 0, record_format, 20, count or len(points))
    if narrow is not None:
        struct.pack_into("<I", head, 107, narrow)
    struct.pack_into("<5I", head, 111, *(by_return or (0, 0, 0, 0, 0)))
    struct.pack_into("<6d", head, 131, *[0.001] * 3, *[0.5] * 3)
    for axis in range(3):
        struct.pack_into("<2d", head, 179 + 16 * axis, high[axis], low[axis])
    if minor == 4:
        struct.pack_into("<Q", head, 247, count or len(points))
    return bytes(head) + b"".join(xyz.tobytes() + bytes(8) for xyz in stored) + after


def test_the_reason_of_a_folder_that_cannot_be_written(kith, folder):
    np.save("a.npy", POINTS)
    os.mkdir("closed")
    os.chmod("closed", 0o555)
    # root may write everywhere but to file systems that are read-only
    closed = next(
        (
            path
            for path in ("closed", "/sys", "/proc/sys", "/proc/bus")
            if os.path.isdir(path) and not os.access(path, os.W_OK)
        ),
        None,
    )
    if closed is None:
        pytest.skip("this user may write everywhere")
    for output in ("b.npy", "b"):
        error = kith("knn", "a.npy", "a.npy", "-o", f"{closed}/{output}", code=2).err
        assert f"cannot write into '{closed}': " in error
        assert "Permission denied" in error or "Read-only file system" in error


def test_a_tree_does_not_pay_off_for_one_query(kith, folder):
    np.save("a.npy", np.random.default_rng(1).random((20000, 3)))
    np.save("q.npy", POINTS[:1])
    assert (
        "a tree over 20000 rows does not pay off for 1 query " in kith("knn", "a.npy", "q.npy", "--index", "auto").err
    )
    np.save("q.npy", POINTS[:2])
    assert "does not pay off for 2 queries " in kith("knn", "a.npy", "q.npy", "--index", "auto").err


def test_one_dimension(kith, folder):
    np.save("a.npy", POINTS[:, 0].copy())
    assert "holds an array of 1 dimension;" in kith("knn", "a.npy", "a.npy", code=2).err
    with h5py.File("a.h5", "w") as file:
        file["train"] = POINTS[:, 0]
    assert "of 1 dimension;" in kith("convert", "a.h5", "b.npy", code=2).err


def test_a_format_that_cannot_be_told_is_asked_for_by_its_option(kith, folder):
    open("a.unknown", "wb").write(b"\1\2\3\4" * 9)
    for command in (["info", "a.unknown"], ["evaluate", "a.unknown", "a.unknown"]):
        error = kith(*command, code=2).err
        assert "name the format (--input-format), or rename it with one of the extensions" in error


@pytest.mark.parametrize(
    "queries, wanted", [(POINTS[:2].astype("f4") + 300, "outside"), (POINTS[:2].astype("f4"), "exactly")]
)
def test_a_search_asks_for_no_rounding(kith, folder, queries, wanted):
    np.save("a.npy", np.arange(60, dtype=np.uint8).reshape(20, 3))
    np.save("q.npy", queries)
    kith("build", "a.npy", "-o", "a.kith")
    error = kith("search", "a.kith", "q.npy", code=1).err
    assert wanted in error and "build the index from rows of f32, or round the queries first" in error
    assert "ask for rounding" not in error
    if wanted == "exactly":  # the remedy works
        kith("convert", "q.npy", "r.npy", "--dtype", "u8", "--round")
        kith("search", "a.kith", "r.npy", "-k", "1")


def test_outliers_say_which_are_far_and_which_have_nobody(kith, folder):
    points = np.repeat(POINTS[:20], 2, axis=0)
    points[7] = np.nan
    np.save("a.npy", points)
    told = kith("outliers", "a.npy", "-o", "b.npy", "-k", "1", "--ratio", "1000").err
    assert "removed 1 of 40 points: 1 without neighbours or with a NaN" in told and "farther" not in told
    far = np.vstack([POINTS, [[50, 50, 50], [np.nan, 0, 0]]])
    np.save("a.npy", far)
    told = kith("outliers", "a.npy", "-o", "b.npy").err
    assert "removed 2 of 62 points: 1 whose neighbours are farther than" in told
    assert "1 without neighbours or with a NaN" in told
    np.save("a.npy", POINTS)
    assert "removed 0 of 60 points\n" in kith("outliers", "a.npy", "-o", "b.npy", "--ratio", "1000").err


def test_a_missing_gpu_is_told_in_the_words_of_every_interface(kith, folder):
    np.save("a.npy", POINTS)
    outcome = kith("knn", "a.npy", "a.npy", "--device", "cuda:99", code=4)
    assert "use the device cpu" in outcome.err


def test_members_of_any_name_are_read(kith, folder):
    with h5py.File("v.h5", "w") as file:
        file["vectors"] = POINTS.astype("f4")
    kith("convert", "v.h5", "v.npy", "--member", "vectors")
    assert np.array_equal(np.load("v.npy"), POINTS.astype("f4"))
    told = kith("info", "v.h5").out
    assert "60 x 3 f32" in told and "vectors" in told
    with h5py.File("g.h5", "w") as file:
        file["group/points"] = POINTS
    kith("convert", "g.h5", "g.npy", "--member", "group/points", "--rows", "3:5")
    assert np.array_equal(np.load("g.npy"), POINTS[3:8])
    error = kith("convert", "v.h5", "w.npy", code=2).err
    assert "has no member 'train'; it has vectors: name the one to read" in error


def test_las_that_keeps_its_word_is_read_without_a_note(kith, folder):
    for minor, record_format in ((2, 0), (4, 0)):
        open("a.las", "wb").write(las(minor=minor, record_format=record_format, by_return=None))
        assert "contradict" not in kith("convert", "a.las", "a.npy").err
    np.save("a.npy", POINTS)
    kith("convert", "a.npy", "b.las")
    assert "contradict" not in kith("convert", "b.las", "c.npy").err


@pytest.mark.parametrize(
    "claims, told",
    [
        ({"bounds": (np.zeros(3), np.full(3, 0.5))}, "its bounds on "),
        ({"by_return": (50, 40, 0, 0, 0)}, "its counts by return exceed its 60 points"),
        ({"minor": 4, "narrow": 7}, "its two counts are 7 and 60 points; the second is followed"),
        ({"after": b"12345"}, "5 bytes after its points"),
    ],
    ids=["bounds", "returns", "counts", "trailing"],
)
def test_las_that_contradicts_itself_is_read_and_noted(kith, folder, claims, told):
    open("a.las", "wb").write(las(**claims))
    outcome = kith("convert", "a.las", "a.npy")
    assert f"'a.las' contradicts itself: {told}" in outcome.err
    assert len(np.load("a.npy")) == 60
    assert "contradicts" not in kith("convert", "a.las", "a.npy", "-q").err
    assert told in kith("info", "a.las").out


@pytest.mark.parametrize("name", ["a.ply", "a.pcd"])
def test_bytes_after_a_cloud_are_noted(kith, folder, name):
    np.save("a.npy", POINTS)
    kith("convert", "a.npy", name)
    assert "contradict" not in kith("normals", name, "-o", "b.npy").err
    open(name, "ab").write(b"x")
    assert f"'{name}' contradicts itself: 1 byte after its last point" in kith("normals", name, "-o", "b.npy").err
    open("cloud.npy", "wb").write(open(name, "rb").read())
    told = kith("normals", "cloud.npy", "--input-format", name[2:], "-o", "b.npy").err
    assert "'cloud.npy' contradicts itself: 1 byte after its last point" in told


def test_an_index_is_refused_when_a_byte_that_no_checksum_covers_has_changed(kith, folder):
    np.save("a.npy", POINTS)
    for kind in ("brute_force", "kd_tree"):
        kith("build", "a.npy", "-o", "a.kith", "--index", kind)
        whole = open("a.kith", "rb").read()
        kith("search", "a.kith", "a.npy", "-k", "1")
        open("a.kith", "wb").write(whole + b"\0")
        assert "is corrupt: 1 byte after its last section" in kith("search", "a.kith", "a.npy", code=2).err
        length = struct.unpack_from("<Q", whole, 16)[0]
        for at in (13, 32 + length, 4095):
            open("a.kith", "wb").write(whole[:at] + b"\1" + whole[at + 1 :])
            assert f"its unused byte {at} is not 0" in kith("search", "a.kith", "a.npy", code=2).err


def test_formats_are_listed_where_one_is_unknown(kith, folder):
    np.save("a.npy", POINTS)
    error = kith("convert", "a.npy", "b", "--format", "nump", code=1).err
    assert "npy" in error and "fvecs" in error


@pytest.mark.parametrize("command", ["normals", "outliers"])
def test_a_radius_without_end(kith, folder, command):
    radius = ["--radius", "inf"]
    np.save("p.npy", np.random.default_rng(1).random((50, 3)))
    assert "--radius inf" in kith(command, "p.npy", *radius, "-o", "o.npy", code=1).err
    kith(command, "p.npy", "-k", 4, *radius, "-o", "a.npy")
    kith(command, "p.npy", "-k", 4, "-o", "b.npy")
    assert open("a.npy", "rb").read() == open("b.npy", "rb").read()


def test_options_of_recall_need_queries(kith, folder):
    np.save("p.npy", np.random.default_rng(1).random((50, 8), dtype=np.float32))
    assert "-k without --queries" in kith("codes", "p.npy", "-k", 3, code=1).err
    kith("codes", "p.npy", "-k", 3, "--queries", "p.npy")


@pytest.mark.parametrize(
    "arguments",
    [
        ["knn", "foreign", "foreign"],
        ["all-knn", "foreign"],
        ["all-knn", "foreign", "--tile-points", 1000, "-o", "r"],
        ["normals", "foreign", "-o", "n.ply"],
        ["outliers", "foreign", "--tile-points", 1000, "-o", "n.ply"],
        ["radius", "foreign", "foreign", "-r", 1],
        ["build", "foreign", "-o", "b"],
        ["build", "foreign", "--index", "point_tiles", "-o", "b"],
        ["shard", "foreign", "-n", 2, "-o", "b"],
        ["codes", "foreign"],
        ["evaluate", "foreign", "foreign"],
        ["convert", "foreign", "o.npy"],
        ["info", "foreign"],
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
@pytest.mark.parametrize("name", ["foreign", "foreign.npz"])
def test_the_status_of_a_foreign_file(kith, folder, arguments, name):
    (folder / name).write_text("root:x:0:0:root:/root:/bin/bash\n")
    said = kith(*(name if a == "foreign" else a for a in arguments), code=2).err
    assert f"cannot tell the format of '{name}'" in said


@pytest.mark.parametrize(
    "arguments, remedy",
    [
        (["convert", "v.npy", "o.fvecs", "--dtype", "f32"], "(--rows)"),
        (["generate", "clusters", "-n", 100_000, "-o", "o.npy"], "fewer rows (-n)"),
        (["build", "v.npy", "-o", "o.kith"], "(kith shard)"),
        (["codes", "v.npy"], "encode fewer rows"),
        (["codes", "v.npy", "--queries", "v.npy"], "(--max-queries)"),
        (["knn", "v.npy", "v.npy", "--metric", "cosine"], "(--max-queries)"),
    ],
)
def test_remedies_are_those_of_the_command(kith, folder, arguments, remedy):
    np.save("v.npy", np.zeros((100_000, 8)))
    said = kith(*arguments, "--memory-limit", "2MiB", code=3).err
    assert remedy in said
    assert ("--max-queries" in said) == ("--max-queries" in remedy)


@pytest.mark.parametrize(
    "line",
    ["1.5, 2, 3", "1.5 , 2 , 3", "1.5,2,3", "1.5 2 3", "1.5,2, 3", "1.5,2,3 255 0", "1.5, 2, 3, a,b", "1.5 2 3 a,b"],
)
def test_separators_of_text(kith, folder, line):
    (folder / "p.xyz").write_text(f"{line}\n")
    kith("convert", "p.xyz", "p.npy")
    assert np.load("p.npy").tolist() == [[1.5, 2, 3]]


@pytest.mark.parametrize(
    "line", ["500000,12 5400000,55 100,1", "1,5 2 3", "1 2,5 3", "1 2 3,5", "1,5\t2,5\t3,5", "1,2 3"]
)
def test_decimal_commas_of_text_are_refused(kith, folder, line):
    (folder / "p.xyz").write_text(f"# x y z\n0 0 0\n{line}\n")
    said = kith("convert", "p.xyz", "p.npy", code=2).err
    assert "'p.xyz' has commas as well as blanks between the numbers of line 3" in said and "point" in said
    assert files_of(folder) == ["p.xyz"]


def test_line_ends_and_byte_order_marks_of_text(kith, folder):
    for text in ("1 2 3\r4 5 6\r", "1 2 3\r4 5 6\r7 8 9", "# a comment\r1 2 3\r\n1 2 3\n"):
        (folder / "p.xyz").write_bytes(text.encode())
        assert "carriage returns within line 1" in kith("convert", "p.xyz", "p.npy", code=2).err
    for text in ("1 2 3\r\n4 5 6\r\n", "\ufeff1 2 3\n4 5 6\n", "\ufeffx,y,z\n1,2,3\n4,5,6\n", "\ufeff2\n1 2 3\n4 5 6"):
        (folder / "p.xyz").write_bytes(text.encode())
        kith("convert", "p.xyz", "p.npy")
        assert np.load("p.npy").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_the_example_of_a_scan(kith, folder):
    kith("generate", "terrain_scan", "-n", 300, "-o", "scan.las")
    line = next(line for line in kith("knn", "--help").out.splitlines() if "kith knn scan.las scan.las" in line)
    kith(*line.split()[1:])


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "uniform", "-n", "10", "-d", "2", "-o", "out.npy"),
        ("build", "a.npy", "--index", "vamana", "-o", "out.kith"),
        ("codes", "a.npy", "--kind", "rabitq", "-o", "out.codes"),
    ],
)
def test_a_seed_is_not_negative(kith, folder, arguments):
    np.save("a.npy", POINTS)
    assert "--seed: -1; use 0 or more" in kith(*arguments, "--seed", "-1", code=1).err
    assert os.listdir(".") == ["a.npy"]
