"""Tables as arguments: Arrow, pandas, polars, datasets; what is not installed is skipped."""

from __future__ import annotations

import subprocess
import sys

import kith
import numpy as np
import pytest
from kith._tables import as_array

X = np.random.default_rng(3).standard_normal((50, 4)).astype(np.float32)
TYPES = ["float32", "float64", "float16", "int8", "uint8"]


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow")


def lists(pa, rows, kind="fixed"):
    flat = pa.array(np.ascontiguousarray(rows).ravel())
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
    offsets = np.arange(len(rows) + 1) * rows.shape[1]
    if kind == "list":
        return pa.ListArray.from_arrays(offsets.astype(np.int32), flat)
    if kind == "large_list":
        return pa.LargeListArray.from_arrays(offsets, flat)
    return pa.LargeListViewArray.from_arrays(offsets[:-1], np.full(len(rows), rows.shape[1]), flat)


KINDS = ["fixed", "list", "large_list", "view"]


def same(found, wanted):
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.distances, wanted.distances)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_one_piece_is_used_where_it_lies(pa, kind, dtype):
    rows = (X * 20 + 100).astype(dtype)
    column = lists(pa, rows, kind)
    address = column.values.buffers()[1].address
    size = rows.itemsize * rows.shape[1]
    for part, at in [(column, 0), (column[7:31], 7), (column[7:31][2:], 9), (pa.chunked_array([column[5:]]), 5)]:
        array = as_array(part, "X")
        assert array.dtype == dtype and array.ctypes.data == address + at * size
        np.testing.assert_array_equal(array, rows[at : at + len(part)])
    same(kith.knn(column[7:31], column[3:9], 3), kith.knn(rows[7:31], rows[3:9], 3))


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_become_one_array(pa, kind):
    column = pa.chunked_array([lists(pa, X[:9], kind)[4:], lists(pa, X[:0], kind), lists(pa, X[9:], kind)])
    np.testing.assert_array_equal(as_array(column, "X"), X[4:])
    same(kith.BruteForce(column).search(column, 2), kith.BruteForce(X[4:]).search(X[4:], 2))


def test_views_that_mix_rows(pa):
    starts = np.array([8, 0, 4, 0])
    column = pa.LargeListViewArray.from_arrays(starts, np.full(4, 4), pa.array(X[:3].ravel()))
    np.testing.assert_array_equal(as_array(column, "X"), X[[2, 0, 1, 0]])
    np.testing.assert_array_equal(as_array(column[2:], "X"), X[[1, 0]])


def test_the_column_of_vectors_of_a_table(pa):
    table = pa.table({"id": np.arange(50), "name": ["x"] * 50, "embedding": lists(pa, X)})
    wanted = kith.knn(X, X[:5], 3)
    same(kith.knn(table, table.slice(0, 5), 3), wanted)
    same(kith.knn(table.to_batches()[0], table.to_reader(), 3), kith.knn(X, X, 3))
    same(kith.knn(table, table["embedding"][:5], 3), wanted)
    with pytest.raises(kith.InvalidArgument, match="dataset: 2 columns of vectors, 'embedding', 'other'; name one"):
        kith.knn(table.append_column("other", lists(pa, X)), X)
    points = pa.table({"x": X[:, 0], "y": X[:, 1]})
    same(kith.knn(points, points, 3), kith.knn(X[:, :2], X[:, :2], 3))


def test_arrow_goes_everywhere(pa, tmp_path):
    column = pa.chunked_array([lists(pa, X[:20]), lists(pa, X[20:])])
    same(kith.KdTree(column).search(column, 2), kith.KdTree(X).search(X, 2))
    same(kith.all_knn(column, 2), kith.all_knn(X, 2))
    same(kith.Vamana(column).search(column, 2, recall=1), kith.BruteForce(X).search(X, 2))
    assert (kith.Quantizer(column).encode(column) == kith.Quantizer(X).encode(X)).all()
    kith.write(tmp_path / "x.npy", column)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), X)
    tiles = kith.PointTiles.build(tmp_path / "tiles", pa.table({"v": column}).to_reader())
    assert tiles.rows == 50
    same(tiles.search(column, 2), kith.KdTree(X).search(X, 2))


def test_one_query_of_plain_numbers(pa):
    same(kith.knn(X, pa.array(X[3]), 2), kith.knn(X, X[3], 2))
    assert as_array(pa.array(X[3])[1:], "x").tolist() == X[3, 1:].tolist()


def test_tensors_of_fixed_shape(pa):
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(X)
    np.testing.assert_array_equal(as_array(tensors[2:], "X"), X[2:])
    assert as_array(tensors, "X").ctypes.data == tensors.storage.values.buffers()[1].address


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [3.0, 4.0], None], "dataset: row {} is null"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0, None]], "dataset: row {} has a null, its element 1"),
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], "dataset: row {} has 1 elements, row 0 has 2"),
        ([[1.0, 2.0], [3.0, 4.0], []], "dataset: row {} has 0 elements, row 0 has 2"),
    ],
)
def test_rows_that_are_none_are_refused_by_number(pa, values, message, chunks):
    column = pa.chunked_array([pa.array([[9.0, 9.0], *values], pa.list_(pa.float32()))[1:]] * chunks)
    with pytest.raises(kith.InvalidArgument) as refused:
        kith.knn(column, X)
    assert message.format(2) in str(refused.value)
    good = pa.array(values[:2], pa.list_(pa.float32()))
    with pytest.raises(kith.InvalidArgument) as refused:
        kith.knn(pa.chunked_array([good, column.chunks[0]]), X)
    assert message.format(4) in str(refused.value)


def test_nulls_of_fixed_lists_and_chunks_of_other_widths(pa):
    values = pa.array([[1, 2], None, [3, 4], [5, None]], pa.list_(pa.float32(), 2))
    with pytest.raises(kith.InvalidArgument, match="row 1 is null"):
        kith.knn(values, X)
    with pytest.raises(kith.InvalidArgument, match="row 1 has a null, its element 1"):
        kith.knn(values[2:], X)
    assert as_array(values[2:3], "X").tolist() == [[3, 4]]
    with pytest.raises(kith.InvalidArgument, match="row 1 has 3 elements, row 0 has 2"):
        kith.knn(pa.chunked_array([[[1.0, 2.0]], [[1.0, 2.0, 3.0]]]), X)
    with pytest.raises(kith.InvalidArgument, match="column 'y': row 1 is null"):
        kith.knn(pa.table({"x": [1.0, 2.0], "y": [1.0, None]}), X)


def test_types_that_are_no_numbers(pa):
    for values in [["a"], [["a", "b"]], [[True, False]], [[[1.0]]], [[None]]]:
        with pytest.raises(TypeError, match="dataset: elements of Arrow type"):
            kith.knn(pa.array(values), X)
    with pytest.raises(TypeError, match=r"element type int64.*astype"):
        kith.knn(pa.array([[1, 2]]), X)


def test_without_pyarrow_the_message_says_what_to_install():
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import kith, numpy\n"
        "class Table:\n    def __arrow_c_stream__(self, schema=None): pass\n"
        "for call in [lambda: kith.knn(Table(), [[1.0]]), lambda: kith.read('x.parquet'),\n"
        "             lambda: kith.knn([[1.0]], [[1.0]], 1).to_arrow()]:\n"
        "    try: call()\n"
        "    except ImportError as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.count("pip install pyarrow") == 3


def test_importing_kith_imports_none_of_them():
    program = "import sys, kith; print({'pyarrow', 'pandas', 'polars', 'datasets', 'faiss'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told == "set()\n"


def test_pandas(pa):
    pd = pytest.importorskip("pandas")
    wanted = kith.knn(X, X[:5], 2)
    objects = pd.DataFrame({"id": range(50), "e": list(X)})
    arrow = pd.DataFrame({"id": range(50), "e": pd.Series(lists(pa, X), dtype=pd.ArrowDtype(lists(pa, X).type))})
    for frame in (objects, arrow):
        same(kith.knn(frame, frame["e"][:5], 2), wanted)
        same(kith.knn(frame["e"], frame[:5], 2), wanted)
    assert as_array(arrow["e"], "X").base is not None  # a view
    numbers = pd.DataFrame(X, columns=list("abcd"))
    same(kith.knn(numbers, numbers[:5], 2), wanted)
    same(kith.knn(pd.DataFrame({"e": X.tolist()}), X[:5].astype(float), 2), kith.knn(X.astype(float), X[:5], 2))
    same(kith.knn(X, pd.Series(X[0]), 2), kith.knn(X, X[0], 2))
    same(kith.BruteForce(X).search(pd.Series(X[:5].tolist()), 2), wanted)  # lists take the type of the dataset
    for value, message in [
        (None, "row 1 is missing"),
        (X[0, :3], "row 1 has 3 elements, row 0 has 4"),
        (X[:2], "row 1 has the shape"),
    ]:
        broken = pd.Series([X[0], value, X[1]], dtype=object)
        with pytest.raises(kith.InvalidArgument, match=message):
            kith.knn(broken, X)
    with pytest.raises(TypeError, match="row 1 is of float64, row 0 of float32"):
        kith.knn(pd.Series([X[0], X[1].astype(float)]), X)
    with pytest.raises(kith.InvalidArgument, match="2 columns of vectors, 'a', 'b'"):
        kith.knn(pd.DataFrame({"a": list(X), "b": list(X)}), X)


def test_polars(pa):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"id": range(50), "e": X})
    wanted = kith.knn(X, X[:5], 2)
    same(kith.knn(frame, frame[:5], 2), wanted)
    same(kith.knn(frame["e"], frame["e"].cast(pl.List(pl.Float32))[:5], 2), wanted)
    same(kith.knn(frame.filter(pl.col("id") >= 7), X[:5], 2), kith.knn(X[7:], X[:5], 2))
    with pytest.raises(kith.InvalidArgument, match="row 1 is null"):
        kith.knn(pl.Series([[1.0], None]), X)


def test_datasets(pa):
    datasets = pytest.importorskip("datasets", minversion="4")  # before, a column was a list
    data = datasets.Dataset.from_dict(
        {"id": range(50), "e": X},
        features=datasets.Features(
            {"id": datasets.Value("int32"), "e": datasets.Sequence(datasets.Value("float32"), length=4)}
        ),
    )
    wanted = kith.knn(X, X[:5], 2)
    some = data.select([0, 1, 2, 3, 4])
    same(kith.knn(data, some, 2), wanted)
    same(kith.knn(data["e"], some["e"], 2), wanted)
    same(kith.knn(data.with_format("numpy")["e"], some.with_format("pandas"), 2), wanted)
    chosen = np.array([9, 3, 44, 3])
    same(kith.knn(data.select(chosen), X, 2), kith.knn(X[chosen], X, 2))
    same(kith.knn(data.select(chosen)["e"], X, 2), kith.knn(X[chosen], X, 2))
    assert as_array(data["e"], "X").ctypes.data == data.data.column("e").chunk(0).values.buffers()[1].address
    with pytest.raises(TypeError, match="one split of it"):
        kith.knn(datasets.DatasetDict({"train": data}), X)
