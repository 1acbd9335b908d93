"""Parquet and Arrow files: vectors in and out, answers with the user's ids."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys

import kith
import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.feather")

X = np.random.default_rng(5).standard_normal((1000, 6)).astype(np.float32)
TYPES = ["float32", "float64", "float16", "int8", "uint8"]


def fixed(rows):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).ravel()), rows.shape[1])


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
@pytest.mark.parametrize("dtype", TYPES)
def test_there_and_back(tmp_path, name, dtype):
    rows = (X * 20 + 100).astype(dtype)
    kith.write(tmp_path / name, rows)
    found = kith.read(tmp_path / name)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(kith.read(f"{tmp_path / name}:vector", first_row=990, max_rows=50), rows[990:])
    np.testing.assert_array_equal(kith.read(tmp_path / name, member="vector", first_row=3, max_rows=4), rows[3:7])
    assert kith.read(tmp_path / name, first_row=1000).shape[0] == 0
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("type_", [pa.list_(pa.float32()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 6)])
@pytest.mark.parametrize("batch", [64, 8 << 20])
def test_row_groups_are_read_batch_by_batch(tmp_path, monkeypatch, type_, batch):
    from kith import _arrow

    monkeypatch.setattr(_arrow, "_BATCH_BYTES", batch)
    table = pa.table({"text": ["long " * 50] * 1000, "e": fixed(X).cast(type_), "id": range(1000)})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=170)
    sizes = []
    plain = _arrow._File.blocks

    def counted(self, first, count):
        for block in plain(self, first, count):
            sizes.append(len(block))
            yield block

    monkeypatch.setattr(_arrow._File, "blocks", counted)
    for first, count in [(0, None), (0, 1), (169, 2), (500, 200), (171, None)]:
        sizes.clear()
        found = kith.read(tmp_path / "a.parquet", first_row=first, max_rows=count)
        np.testing.assert_array_equal(found, X[first : None if count is None else first + count])
        assert max(sizes) <= (2 if batch == 64 else 170) and sum(sizes) == len(found)


def test_an_arrow_file_is_mapped(tmp_path):
    kith.write(tmp_path / "a.arrow", X, ids=range(1000))
    before = pa.total_allocated_bytes()
    found = kith.read(tmp_path / "a.arrow")
    assert pa.total_allocated_bytes() == before and not found.flags.owndata and not found.flags.writeable
    with (
        pa.OSFile(str(tmp_path / "s.arrow"), "wb") as file,
        pa.ipc.new_stream(file, pa.schema({"v": fixed(X).type})) as out,
    ):
        for part in (X[:300], X[300:]):
            out.write_batch(pa.record_batch({"v": fixed(part)}))
    np.testing.assert_array_equal(kith.read(tmp_path / "s.arrow"), X)


def test_columns_by_name(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(1000), "a": fixed(X), "b": fixed(-X)}), path)
    np.testing.assert_array_equal(kith.read(path, member="b"), -X)
    np.testing.assert_array_equal(kith.read(f"{path}:a"), X)
    with pytest.raises(kith.InvalidArgument, match="2 columns of vectors, 'a', 'b'; name one"):
        kith.read(path)
    with pytest.raises(kith.InvalidArgument, match="no column 'c'; there are 'id', 'a', 'b'"):
        kith.read(path, member="c")
    with pytest.raises(kith.InvalidArgument, match="name one"):
        kith.read(f"{path}:a", member="b")
    with pytest.raises(TypeError, match="column 'id' is of type int64"):
        kith.read(path, member="id")
    kith.write(f"{tmp_path}/b.parquet:my vectors", X, ids=[f"row {i}" for i in range(1000)])
    table = pq.read_table(tmp_path / "b.parquet")
    assert table.column_names == ["id", "my vectors"] and table["id"][7].as_py() == "row 7"
    os.rename(tmp_path / "b.parquet", tmp_path / "b.parquet:x.parquet")  # a file that is called so
    np.testing.assert_array_equal(kith.read(tmp_path / "b.parquet:x.parquet"), X)


def test_other_columns_stay_where_they_are(tmp_path):
    big = pa.array(["x" * 100_000] * 1000)
    pa.feather.write_feather(pa.table({"text": big, "v": fixed(X)}), tmp_path / "a.feather", compression="lz4")
    program = (
        "import kith, pyarrow as pa\n"
        "found = kith.read('a.feather'); print(len(found), pa.default_memory_pool().max_memory() < 2**24)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert told.stdout == "1000 True\n"
    np.testing.assert_array_equal(kith.read(tmp_path / "a.feather"), X)
    # A name with a dot, beside a field of another column that reads alike.
    pq.write_table(pa.table({"a": pa.array([{"b": 1}] * 1000), "a.b": fixed(X)}), tmp_path / "a.parquet")
    np.testing.assert_array_equal(kith.read(f"{tmp_path}/a.parquet:a.b"), X)
    twice = pa.Table.from_arrays([fixed(X), pa.array(range(1000))], names=["v", "v"])
    with pa.ipc.new_file(tmp_path / "b.arrow", twice.schema) as file:
        file.write_table(twice)
    with pytest.raises(kith.InvalidArgument, match="2 columns are called 'v'"):
        kith.read(tmp_path / "b.arrow")


def test_big_endian_arrays_are_turned(tmp_path):
    kith.write(tmp_path / "a.parquet", X.astype(">f4")[::2])
    np.testing.assert_array_equal(kith.read(tmp_path / "a.parquet"), X[::2])


def test_bad_files_and_rows(tmp_path):
    with pytest.raises(kith.IoError, match=r"missing\.parquet.*No such file"):
        kith.read(tmp_path / "missing.parquet")
    for name in ("a.parquet", "a.arrow"):
        kith.write(tmp_path / name, X)
        whole = (tmp_path / name).read_bytes()
        for content in (b"", b"PAR1", whole[: len(whole) // 2], b"hello" * 100):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(kith.IoError, match=name):
                kith.read(tmp_path / name)
    middle = bytearray(b"")
    pq.write_table(pa.table({"e": fixed(X)}), tmp_path / "b.parquet", compression="zstd")
    middle += (tmp_path / "b.parquet").read_bytes()
    middle[4:2000] = b"\xff" * 1996
    (tmp_path / "b.parquet").write_bytes(middle)
    with pytest.raises(kith.IoError, match=r"b\.parquet.*damaged"):
        kith.read(tmp_path / "b.parquet")
    for last, message in [
        (None, "row 900 is null"),
        ([1.0], "row 900 has 1 elements"),
        ([None, 1.0], "row 900 has a null"),
    ]:
        column = pa.array([[1.0, 2.0]] * 900 + [last], pa.list_(pa.float32()))
        pq.write_table(pa.table({"e": column}), tmp_path / "c.parquet", row_group_size=100)
        with pytest.raises(kith.InvalidArgument, match=message):
            kith.read(tmp_path / "c.parquet")
    with pytest.raises(kith.InvalidArgument, match="901 rows; first_row is 902"):
        kith.read(tmp_path / "c.parquet", first_row=902)


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(kith.InvalidArgument, match="int64"):
        kith.write(tmp_path / "a.parquet", np.zeros((2, 2), np.int64))
    with pytest.raises(kith.InvalidArgument, match="ids has 3 entries, 2 are needed"):
        kith.write(tmp_path / "a.parquet", X[:2], ids=[1, 2, 3])
    with pytest.raises(kith.InvalidArgument, match=r"ids: .*a\.npy.* has no place for them"):
        kith.write(tmp_path / "a.npy", X[:2], ids=[1, 2])
    with pytest.raises(kith.IoError, match="no folder"):
        kith.write(tmp_path / "none" / "a.parquet", X)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["r.parquet", "r.arrow"])
def test_answers_with_ids(tmp_path, name, monkeypatch):
    from kith import _arrow_answers

    monkeypatch.setattr(_arrow_answers, "_BLOCK_ELEMENTS", 40)  # several blocks
    answer = kith.knn(X[:4], X[:30], k=5)  # the fifth is missing
    ids = ["a", "b", "c", "d"]
    days = [datetime.date(2020, 1, 1 + i) for i in range(30)]
    assert kith.write_neighbors(tmp_path / name, answer, ids=ids, query_ids=days) == [str(tmp_path / name)]
    table = pq.read_table(tmp_path / name) if name == "r.parquet" else pa.ipc.open_file(tmp_path / name).read_all()
    assert table.column_names == ["query", "indices", "ids", "distances"]
    assert table["query"].to_pylist() == days
    assert table["ids"].to_pylist() == [[ids[i] if i >= 0 else None for i in row] for row in answer.indices.tolist()]
    again = kith.read_neighbors(tmp_path / name)
    np.testing.assert_array_equal(again.indices, answer.indices)
    np.testing.assert_array_equal(again.distances, answer.distances)
    kith.write_neighbors(tmp_path / name, answer.indices)  # without either
    again = kith.read_neighbors(tmp_path / name)
    np.testing.assert_array_equal(again.indices, answer.indices)
    assert np.isnan(again.distances).all()
    with pytest.raises(kith.InvalidArgument, match="ids has 3 entries, the answer names row 3"):
        kith.write_neighbors(tmp_path / name, answer, ids=ids[:3])
    with pytest.raises(kith.InvalidArgument, match="query_ids has 29 entries, 30 are needed"):
        kith.write_neighbors(tmp_path / name, answer, query_ids=days[1:])
    with pytest.raises(kith.InvalidArgument, match="names a column"):
        kith.write_neighbors(tmp_path / f"{name}:x", answer)
    with pytest.raises(kith.InvalidArgument, match="query_ids: .* has no place"):
        kith.write_neighbors(tmp_path / "r.ivecs", answer, query_ids=days)


def test_answers_as_tables():
    answer = kith.knn(X, X[:9], k=3)
    table = answer.to_arrow(ids=pa.chunked_array([range(5000, 5600), range(5600, 6000)]))
    values = table["indices"].chunk(0).values
    assert values.buffers()[1].address == answer.indices.ctypes.data  # no copy
    np.testing.assert_array_equal(np.array(table["ids"].to_pylist()), answer.indices + 5000)
    assert table["query"].to_pylist() == list(range(9))
    pd = pytest.importorskip("pandas")
    again = answer.to_arrow(
        ids=pd.Series(range(1000), dtype="float32"), query_ids=pd.Index([f"q{i}" for i in range(9)])
    )
    assert again["query"][8].as_py() == "q8" and str(again["ids"].type).startswith("fixed_size_list<item: float>")
    with pytest.raises(TypeError, match="ids"):
        answer.to_arrow(ids=7)


def test_without_pyarrow(tmp_path):
    program = (
        "import sys; sys.modules['pyarrow'] = None\nimport kith, numpy as np\n"
        "try: kith.write('a.parquet', np.eye(2))\nexcept ImportError as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "pip install pyarrow" in told.stdout and os.listdir(tmp_path) == []


def test_clouds_of_tiles_from_tables(tmp_path):
    kith.write(tmp_path / "a.parquet", X[:600])
    kith.write(tmp_path / "b.npy", X[600:])
    tiles = kith.PointTiles.build(tmp_path / "t", [f"{tmp_path}/a.parquet:vector", tmp_path / "b.npy"])
    np.testing.assert_array_equal(tiles.search(X[:20], 3).indices, kith.KdTree(X).search(X[:20], 3).indices)
    assert sorted(os.listdir(tmp_path)) == ["a.parquet", "b.npy", "t"]
