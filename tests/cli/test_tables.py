"""Columns of Parquet and Arrow files on the command line: by a Python that has pyarrow, or a message that names it."""

import os
import sys

import numpy as np
import pytest
from program import files_of


@pytest.fixture
def rows(folder, monkeypatch):
    """base.npy and queries.npy, and the same as columns of tables."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setenv("KITH_PYTHON", sys.executable)
    random = np.random.default_rng(3)
    for name, count in [("base", 900), ("queries", 40)]:
        array = random.standard_normal((count, 8)).astype(np.float32)
        np.save(f"{name}.npy", array)
        column = pa.FixedSizeListArray.from_arrays(pa.array(array.ravel()), 8)
        other = pa.FixedSizeListArray.from_arrays(pa.array(-array.ravel()), 8)
        table = pa.table({"id": range(count), "embedding": column.cast(pa.list_(pa.float32())), "other": other})
        pq.write_table(table, f"{name}.parquet", row_group_size=250)
        with pa.ipc.new_file(f"{name}.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=170)
    return folder


def same(first, second):
    with open(first, "rb") as one, open(second, "rb") as other:
        return one.read() == other.read()


def test_arrow_files(kith, rows):
    kith("convert", "base.arrow:embedding", "a.npy")
    assert same("a.npy", "base.npy")
    kith("knn", "base.arrow:embedding", "queries.parquet:embedding", "-k", 3, "-o", "a")
    kith("knn", "base.npy", "queries.npy", "-k", 3, "-o", "b")
    assert same("a.indices.npy", "b.indices.npy") and same("a.distances.npy", "b.distances.npy")


def test_every_command_reads_columns(kith, rows):
    kith("build", "base.npy", "--index", "vamana", "-o", "graph.kith")
    tuned = []
    for kind, base, queries in [
        ("npy", "base.npy", "queries.npy"),
        ("table", "base.parquet:embedding", "./queries.parquet:embedding"),
    ]:
        kith("build", base, "--index", "vamana", "-o", f"{kind}_graph.kith")
        kith("convert", base, f"{kind}_rows.fvecs")
        kith("knn", base, queries, "-k", 3, "-o", f"{kind}_knn")
        kith("knn", queries, queries, "-k", 3, "-o", f"{kind}_own")
        kith("all-knn", base, "-k", 3, "-o", f"{kind}_all")
        kith("all-knn", base, queries, "-k", 3, "-o", f"{kind}_two")
        kith("search", "graph.kith", queries, "-k", 3, "-o", f"{kind}_search")
        kith("radius", base, queries, "-r", 4, "-o", f"{kind}_radius")
        kith("insert", "graph.kith", queries, "-o", f"{kind}_more.kith")
        tuned.append(kith("tune", "graph.kith", queries, "--json").json["distribution"])
        kith("codes", base, "--queries", queries, "-o", f"{kind}_codes.kith")
    names = [name for name in files_of(rows) if name.startswith("npy_")]
    assert len(names) > 11 and tuned[0] == tuned[1]
    for name in names:
        assert same(name, "table_" + name[4:]), name
    assert not [name for name in files_of(rows) if "unpacked" in name]


def test_points_in_a_column(kith, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    points = np.random.default_rng(1).random((500, 3))
    np.save("points.npy", points)
    pq.write_table(pa.table({"xyz": list(points)}), "points.parquet")
    for kind, name in [("npy", "points.npy"), ("table", "points.parquet:xyz")]:
        kith("normals", name, "-k", 9, "-o", f"{kind}_normals.npy")
        kith("normals", name, "-k", 9, "-o", f"{kind}_normals.ply")
        kith("outliers", name, "-k", 9, "-o", f"{kind}_kept.ply")
        kith("all-knn", name, "-k", 4, "--tile-points", 100, "-o", f"{kind}_tiles")
    for name in files_of(rows):
        if name.startswith("npy_"):
            assert same(name, "table_" + name[4:]), name
    assert "is a table" in kith("normals", "points.parquet:xyz", "-k", 9, "-o", "n.las", code=1).err


def test_import_and_bench_read_columns(kith, rows):
    kith("build", "base.npy", "--index", "vamana", "-o", "graph.kith")
    kith("export", "graph.kith", "--format", "hnswlib", "-o", "graph.hnsw")
    kith("import", "graph.hnsw", "--vectors", "base.parquet:embedding", "-o", "a.kith")
    kith("import", "graph.hnsw", "--vectors", "base.npy", "-o", "b.kith")
    assert same("a.kith", "b.kith")
    told = kith("bench", "base.parquet:embedding", "queries.npy", "-k", 3, "--repeats", 1, "-o", "bench.json")
    with open("bench.json") as file:
        assert "unpacked" not in file.read() + told.err
    assert not [name for name in files_of(rows) if "unpacked" in name]


def test_the_only_column_needs_no_name(kith, rows):
    import pyarrow.parquet as pq

    pq.write_table(pq.read_table("base.parquet").drop_columns("other"), "one.parquet")
    kith("convert", "one.parquet", "a.npy")
    assert same("a.npy", "base.npy")
    kith("convert", "base.parquet:other", "b.npy")
    np.testing.assert_array_equal(np.load("b.npy"), -np.load("base.npy"))
    told = kith("convert", "base.parquet", "c.npy", code=2).err
    assert "'embedding', 'other'" in told and "base.parquet" in told
    os.rename("one.parquet", "one.parquet:x.parquet")  # a file that is called so
    kith("convert", "one.parquet:x.parquet", "d.npy")
    assert same("d.npy", "base.npy")


def test_what_is_no_matrix_is_refused(kith, rows):
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, last, words in [
        ("null", None, "row 300 is null"),
        ("short", [1.0], "row 300 has 1 elements, row 0 has 2"),
        ("hole", [1.0, None], "row 300 has a null"),
    ]:
        column = pa.array([[1.0, 2.0]] * 300 + [last], pa.list_(pa.float32()))
        pq.write_table(pa.table({"e": column}), f"{name}.parquet", row_group_size=100)
        assert words in kith("convert", f"{name}.parquet:e", "out.npy", code=2).err
    pq.write_table(pa.table({"e": [[1, 2]]}), "long.parquet")
    assert "int64" in kith("convert", "long.parquet:e", "out.npy", code=2).err
    assert "no column 'f'" in kith("convert", "long.parquet:f", "out.npy", code=2).err
    assert "type int64" in kith("convert", "base.parquet:id", "out.npy", code=2).err
    assert "missing.parquet" in kith("convert", "missing.parquet:e", "out.npy", code=2).err
    with open("base.parquet", "rb") as file:
        whole = file.read()
    with open("cut.parquet", "wb") as file:
        file.write(whole[: len(whole) // 2])
    assert "cut.parquet" in kith("convert", "cut.parquet:embedding", "out.npy", code=2).err
    assert not [name for name in files_of(rows) if name.startswith("out")]


def test_the_table_is_not_written_over(kith, rows):
    kith("convert", "base.parquet:embedding", "base.parquet", "--format", "npy", code=1)
    import pyarrow.parquet as pq

    assert pq.read_table("base.parquet").num_rows == 900


def test_without_pyarrow_the_message_says_what_to_install(kith, folder, monkeypatch):
    (folder / "a.parquet").write_bytes(b"PAR1")
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')  # without installed packages
    os.chmod(folder / "python", 0o755)
    monkeypatch.setenv("KITH_PYTHON", str(folder / "python"))
    told = kith("knn", "a.parquet:e", "a.parquet:e", code=2).err
    assert "pip install pyarrow" in told and "a.parquet:e" in told and "KITH_PYTHON" in told


def table_of(name):
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_table(name) if name.endswith(("parquet", "pq")) else pa.ipc.open_file(name).read_all()


@pytest.fixture
def named(rows):
    """Ids for the rows of the fixture."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"name": [f"row {i}" for i in range(900)], "other": range(900)}), "names.parquet")
    with pa.ipc.new_file("asked.arrow", pa.schema([("day", pa.date32())])) as file:
        file.write_table(pa.table({"day": pa.array(range(40), pa.int32()).cast(pa.date32())}))
    return rows


@pytest.mark.covers("knn", "--ids", "--query-ids")
@pytest.mark.parametrize("name", ["a.parquet", "a.pq", "a.arrow"])
def test_answers_in_tables(kith, named, name):
    told = kith(
        "knn",
        "base.npy",
        "queries.npy",
        "-k",
        3,
        "--ids",
        "names.parquet:name",
        "--query-ids",
        "asked.arrow",
        "-o",
        name,
    )
    assert name in told.err and "40 queries" in told.err
    kith("knn", "base.npy", "queries.npy", "-k", 3, "-o", "b")
    indices, found = np.load("b.indices.npy"), table_of(name)
    assert found.column_names == ["query", "indices", "ids", "distances"]
    assert found["indices"].to_pylist() == indices.tolist()
    assert found["distances"].to_pylist() == np.load("b.distances.npy").tolist()
    assert found["ids"].to_pylist() == [[f"row {i}" for i in row] for row in indices]
    assert str(found["query"][1].as_py()) == "1970-01-02"
    assert files_of(named) == sorted([*BEFORE, name, "b.indices.npy", "b.distances.npy"])


BEFORE = [f"{name}.{kind}" for name in ("base", "queries") for kind in ("npy", "parquet", "arrow")]
BEFORE += ["names.parquet", "asked.arrow"]


@pytest.mark.covers("search", "--ids", "--query-ids")
def test_every_search_answers_in_tables(kith, named):
    kith("build", "base.npy", "-o", "base.kith")
    kith("shard", "base.npy", "-n", 3, "-o", "base.shards")
    kith("build", "base.npy", "--index", "point_tiles", "-o", "base.tiles")
    ids = ["--ids", "names.parquet:other", "--query-ids", "asked.arrow:day"]
    for index in ("base.kith", "base.shards", "base.tiles"):
        kith("search", index, "queries.npy", "-k", 3, *ids, "-o", "a.parquet")
        found = table_of("a.parquet")
        assert found["ids"].to_pylist() == found["indices"].to_pylist()
        assert str(found["query"][2].as_py()) == "1970-01-03"
        for few in (["--ids", "asked.arrow"], ["--query-ids", "names.parquet:name"]):
            told = kith("search", index, "queries.npy", "-k", 3, *few, "-o", "c.parquet", code=1).err
            assert few[0] in told and few[1] in told and "one for each" in told
    told = kith("knn", "base.npy", "queries.npy", "--ids", "asked.arrow", "-o", "c.parquet", code=1).err
    assert "has 40 entries, there are 900 rows" in told
    assert "c.parquet" not in files_of(named)


@pytest.mark.covers("all-knn", "--ids")
def test_rows_and_their_neighbours_by_id(kith, named):
    kith("all-knn", "base.npy", "-k", 2, "--ids", "names.parquet:name", "-o", "a.parquet")
    found = table_of("a.parquet")
    assert found["query"].to_pylist() == [f"row {i}" for i in range(900)]
    assert found["ids"].to_pylist() == [[f"row {i}" for i in row] for row in found["indices"].to_pylist()]
    told = kith("all-knn", "base.npy", "--tile-points", 100, "-o", "b.parquet", code=1).err
    assert "npy" in told and "b.parquet" in told


def test_a_missing_neighbour_has_no_id(kith, named):
    np.save("few.npy", np.load("base.npy")[:2])
    kith("knn", "few.npy", "queries.npy", "-k", 3, "-o", "plain.parquet")
    assert table_of("plain.parquet").column_names == ["query", "indices", "distances"]
    assert table_of("plain.parquet")["query"].to_pylist() == list(range(40))
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": ["x", "y"]}), "two.parquet")
    kith("knn", "few.npy", "queries.npy", "-k", 3, "--ids", "two.parquet", "-o", "a.parquet")
    assert all(sorted(row[:2]) == ["x", "y"] and row[2] is None for row in table_of("a.parquet")["ids"].to_pylist())


def test_ids_that_cannot_be_read(kith, named):
    for ids, words in [
        ("names.parquet", "'name', 'other'"),
        ("names.parquet:no", "no column 'no'"),
        ("base.parquet:embedding", "no column 'embedding' of ids"),
        ("gone.parquet:a", "No such file"),
        ("base.npy", "column of a Parquet or Arrow file"),
    ]:
        told = kith("knn", "base.npy", "queries.npy", "--ids", ids, "-o", "a.parquet", code=2).err
        assert words in told and ids.split(":")[0] in told
    told = kith("knn", "base.npy", "queries.npy", "--ids", "names.parquet:name", "-o", "a.npy", code=1).err
    assert "--ids" in told and "answer.parquet" in told
    kith("knn", "base.npy", "queries.npy", "--ids", "names.parquet:name", "-o", "names.parquet", code=1)
    assert files_of(named) == sorted(BEFORE)


def test_a_table_that_cannot_be_written_leaves_nothing(kith, named, monkeypatch):
    (named / "python").write_text(
        f'#!/bin/sh\ncase "$*" in *write*) echo "no space left"; exit 1;; esac\nexec {sys.executable} "$@"\n'
    )
    os.chmod(named / "python", 0o755)
    monkeypatch.setenv("KITH_PYTHON", str(named / "python"))
    (named / "a.parquet").write_text("older")
    assert "no space left" in kith("knn", "base.npy", "queries.npy", "-o", "a.parquet", code=2).err
    assert (named / "a.parquet").read_text() == "older"
    assert files_of(named) == sorted([*BEFORE, "python", "a.parquet"])


def test_without_pyarrow_no_table_is_searched_for(kith, folder, monkeypatch):
    np.save("a.npy", np.eye(3, dtype=np.float32))
    (folder / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')  # without installed packages
    os.chmod(folder / "python", 0o755)
    monkeypatch.setenv("KITH_PYTHON", str(folder / "python"))
    told = kith("knn", "a.npy", "a.npy", "-o", "b.parquet", code=2).err
    assert "pip install pyarrow" in told and "b.parquet" in told and "written" in told
