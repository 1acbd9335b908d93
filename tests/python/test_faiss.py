"""kith.compat.faiss: conventions by themselves, and beside faiss where that is installed."""

from __future__ import annotations

import pickle

import kith
import numpy as np
import pytest
from kith.compat import faiss as ours

rng = np.random.default_rng(11)
X = rng.standard_normal((700, 24)).astype(np.float32)
Q = rng.standard_normal((40, 24)).astype(np.float32)
METRICS = ["L2", "IP"]


def index_of(library, metric, rows=X):
    index = getattr(library, f"IndexFlat{metric}")(rows.shape[1])
    if len(rows):
        index.add(rows)
    return index


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


@pytest.mark.parametrize("metric", METRICS)
def test_answers_are_those_of_the_exact_engine(metric):
    index = index_of(ours, metric)
    D, I = index.search(Q, 9)
    truth = kith.knn(X, Q, 9, "inner_product" if metric == "IP" else "sqeuclidean")
    np.testing.assert_array_equal(I, truth.indices)
    np.testing.assert_array_equal(D, -truth.distances if metric == "IP" else truth.distances)
    assert (D.dtype, I.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(index.assign(Q), I[:, 0])
    np.testing.assert_array_equal(index.assign(Q, 2), I[:, :2])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 10, 900])
@pytest.mark.parametrize("rows", [0, 5, 700])
def test_search_is_that_of_faiss(faiss, metric, k, rows):
    here, there = index_of(ours, metric, X[:rows]), index_of(faiss, metric, X[:rows])
    for name in ("d", "ntotal", "is_trained", "metric_type"):
        assert getattr(here, name) == getattr(there, name)
    (D, I), (E, J) = here.search(Q, k), there.search(Q, k)
    assert (D.dtype, I.dtype, D.shape, I.shape) == (E.dtype, J.dtype, E.shape, J.shape)
    np.testing.assert_array_equal(I, J)
    np.testing.assert_allclose(D, E, rtol=2e-5, atol=2e-5)  # faiss adds in float32
    assert (D[I < 0] == E[J < 0]).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("rows", [0, 700])
def test_range_search_is_that_of_faiss(faiss, metric, rows, monkeypatch):
    monkeypatch.setattr(ours, "_BLOCK", 1000)  # several blocks
    here, there = index_of(ours, metric, X[:rows]), index_of(faiss, metric, X[:rows])
    for threshold in (-1e9, 0.0, 10.0, 24.0, 40.0, 1e9):
        found, wanted = here.range_search(Q, threshold), there.range_search(Q, threshold)
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[2], wanted[2])
        np.testing.assert_allclose(found[1], wanted[1], rtol=2e-5, atol=2e-5)


def test_a_radius_is_not_reached_by_what_lies_on_it():
    index = index_of(ours, "L2", np.array([[0.0], [1.0], [2.0]], np.float32))
    lims, D, I = index.range_search(np.zeros((1, 1)), 1.0)
    assert (lims.tolist(), D.tolist(), I.tolist()) == ([0, 1], [0.0], [0])
    index = index_of(ours, "IP", np.array([[0.0], [1.0], [2.0]], np.float32))
    assert index.range_search(np.ones((1, 1)), 1.0)[2].tolist() == [2]


@pytest.mark.parametrize("metric", METRICS)
def test_selectors(faiss, metric):
    here, there = index_of(ours, metric), index_of(faiss, metric)
    ids = [3, 77, 5, 699]
    made = [
        lambda lib: lib.IDSelectorRange(100, 300),
        lambda lib: lib.IDSelectorBatch(ids),
        lambda lib: lib.IDSelectorArray(np.array(ids)),
        lambda lib: lib.IDSelectorNot(lib.IDSelectorRange(10, 700)),
        lambda lib: lib.IDSelectorAnd(lib.IDSelectorRange(0, 400), lib.IDSelectorRange(390, 700)),
        lambda lib: lib.IDSelectorOr(lib.IDSelectorRange(0, 4), lib.IDSelectorRange(690, 700)),
    ]
    for make in made:
        selector, theirs = make(ours), make(faiss)
        assert [selector.is_member(i) for i in range(700)] == [theirs.is_member(i) for i in range(700)]
        params = ours.SearchParameters(sel=selector), faiss.SearchParameters(sel=theirs)
        found, wanted = here.search(Q, 12, params=params[0]), there.search(Q, 12, params=params[1])
        np.testing.assert_array_equal(found[1], wanted[1])
        found, wanted = here.range_search(Q, 30.0, params=params[0]), there.range_search(Q, 30.0, params=params[1])
        np.testing.assert_array_equal(found[0], wanted[0])
        np.testing.assert_array_equal(found[2], wanted[2])
    with pytest.raises(TypeError, match="IDSelector"):
        ours.SearchParameters(sel=[1, 2])
    with pytest.raises(TypeError, match="params"):
        here.search(Q, 1, params=ours.IDSelectorRange(0, 1))


def test_rows_come_and_go(faiss):
    here, there = ours.IndexFlatL2(24), faiss.IndexFlatL2(24)
    for part in (X[:1], X[1:100], X[100:101], X[101:101], X[101:]):
        for index in (here, there):
            index.add(part)
        assert here.ntotal == there.ntotal
        np.testing.assert_array_equal(here.search(Q, 3)[1], there.search(Q, 3)[1])
    held = here.search(Q, 1)
    np.testing.assert_array_equal(here.reconstruct(7), X[7])
    np.testing.assert_array_equal(here.reconstruct_n(690, 5), X[690:695])
    np.testing.assert_array_equal(here.reconstruct_n(), there.reconstruct_n())
    np.testing.assert_array_equal(here.reconstruct_batch([3, 1]), there.reconstruct_batch([3, 1]))
    here.reconstruct(7)[:] = 0  # a copy
    again = pickle.loads(pickle.dumps(here))
    for index in (here, again):
        np.testing.assert_array_equal(index.search(Q, 1)[1], held[1])
    for index, lib in ((here, ours), (there, faiss)):
        assert index.remove_ids(np.array([5, 6, 9999])) == 2
        assert index.remove_ids(lib.IDSelectorRange(100, 200)) == 100
    assert here.ntotal == there.ntotal == 598
    np.testing.assert_array_equal(here.search(Q, 3)[1], there.search(Q, 3)[1])
    assert again.ntotal == 700
    here.reset()
    assert here.ntotal == 0 and here.search(Q, 2)[1].tolist() == [[-1, -1]] * 40
    with pytest.raises(kith.InvalidArgument, match="the index has 0"):
        here.reconstruct(0)


def test_arrays_in_and_out(faiss):
    here = index_of(ours, "L2", X.astype(np.float64))  # made float32, as faiss does
    np.testing.assert_array_equal(here.reconstruct_n(), X)
    D, I = np.empty((40, 3), np.float32), np.empty((40, 3), np.int64)
    given = here.search(Q.astype(np.float64), 3, D=D, I=I)
    assert given[0] is D and given[1] is I
    np.testing.assert_array_equal(I, here.search(np.asfortranarray(Q), 3)[1])
    pa = pytest.importorskip("pyarrow")
    column = pa.FixedSizeListArray.from_arrays(pa.array(Q.ravel()), 24)
    np.testing.assert_array_equal(here.search(column, 3)[1], I)
    mine, theirs = X * 3, X * 3
    mine[4] = theirs[4] = 0
    ours.normalize_L2(mine)
    faiss.normalize_L2(theirs)
    np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_refusals():
    index = index_of(ours, "L2")
    for call, words in [
        (lambda: index.add(X[:, :3]), r"\[n, 24\] are needed"),
        (lambda: index.search(Q[0], 3), r"\[n, 24\] are needed"),
        (lambda: index.search(Q, 0), "k is 0"),
        (lambda: index.search(Q, 3, D=np.empty((40, 3))), "D: an array of float32"),
        (lambda: index.reconstruct(700), "the index has 700"),
        (lambda: index.reconstruct(-1), "the index has 700"),
        (lambda: ours.IndexFlatL2(0), "d is 0"),
        (lambda: ours.IndexFlat(3, 7), "metric 7"),
        (lambda: ours.normalize_L2(X.astype(np.float64)), "float32"),
        (lambda: ours.IDSelectorArray([0.5]), "integers"),
        (lambda: index.train(X[:, :3]), "are needed"),
    ]:
        with pytest.raises(kith.InvalidArgument, match=words):
            call()
    with pytest.raises(TypeError, match=r"read_index|Vamana"):
        ours.IndexHNSWFlat(24, 32)
    with pytest.raises(TypeError, match="index: a BruteForce"):
        ours.write_index(kith.BruteForce(X), "x")


@pytest.mark.parametrize("metric", METRICS)
def test_files_of_flat_indexes(faiss, tmp_path, metric):
    here, there = index_of(ours, metric), index_of(faiss, metric)
    ours.write_index(here, tmp_path / "ours")
    faiss.write_index(there, str(tmp_path / "theirs"))
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    again = ours.read_index(tmp_path / "theirs")
    assert type(again).__name__ == f"IndexFlat{metric}" and again.ntotal == 700
    np.testing.assert_array_equal(again.search(Q, 5)[1], there.search(Q, 5)[1])
    np.testing.assert_array_equal(faiss.read_index(str(tmp_path / "ours")).search(Q, 5)[1], there.search(Q, 5)[1])
    again.add(Q)
    assert again.ntotal == 740
    whole = (tmp_path / "theirs").read_bytes()
    for size in (0, 3, 20, 44, 100, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(kith.IoError, match="cut"):
            ours.read_index(tmp_path / "cut")
    with pytest.raises(kith.IoError, match="missing"):
        ours.read_index(tmp_path / "missing")
    faiss.write_index(faiss.IndexFlat(24, faiss.METRIC_L1), str(tmp_path / "other"))
    with pytest.raises(kith.InvalidArgument, match="metric 2"):
        ours.read_index(tmp_path / "other")
    faiss.write_index(faiss.index_factory(24, "SQ8"), str(tmp_path / "other"))
    with pytest.raises(kith.InvalidArgument, match="IndexHNSWFlat are read"):
        ours.read_index(tmp_path / "other")


@pytest.mark.parametrize("metric", METRICS)
def test_hnsw_files(faiss, tmp_path, metric):
    there = faiss.IndexHNSWFlat(24, 16, faiss.METRIC_INNER_PRODUCT if metric == "IP" else faiss.METRIC_L2)
    there.hnsw.efSearch = 48
    there.add(X)
    faiss.write_index(there, str(tmp_path / "graph"))
    here = ours.read_index(tmp_path / "graph")
    assert isinstance(here, ours.IndexHNSWFlat)
    for name in ("d", "ntotal", "is_trained", "metric_type"):
        assert getattr(here, name) == getattr(there, name)
    assert here.hnsw.efSearch == 48
    truth = index_of(ours, metric).search(Q, 10)
    D, I = here.search(Q, 10, params=ours.SearchParametersHNSW(efSearch=700))
    np.testing.assert_array_equal(I, truth[1])
    np.testing.assert_array_equal(D, truth[0])
    shares = []
    for size in (10, 300):
        here.hnsw.efSearch = size
        shares.append(np.mean([len(set(a) & set(b)) for a, b in zip(here.search(Q, 10)[1], truth[1], strict=True)]))
    assert shares[0] < shares[1] and shares[1] > 9.5
    odd = ours.SearchParametersHNSW(sel=ours.IDSelectorRange(100, 300), efSearch=700)
    np.testing.assert_array_equal(
        here.search(Q, 5, params=odd)[1],
        index_of(ours, metric).search(Q, 5, params=ours.SearchParameters(sel=ours.IDSelectorRange(100, 300)))[1],
    )
    np.testing.assert_array_equal(here.reconstruct(699), X[699])
    np.testing.assert_array_equal(here.reconstruct_n(5, 20), X[5:25])
    assert here.search(Q, 800)[1][:, 700:].max() == -1
    ours.write_index(here, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "graph").read_bytes()


def test_a_graph_of_kith_as_faiss_reads_it(tmp_path):
    graph = kith.Vamana(X)
    kith.export_graph(graph, tmp_path / "graph", "faiss")
    index = ours.read_index(tmp_path / "graph")
    np.testing.assert_array_equal(index.reconstruct_n(), X)
    D, I = index.search(Q, 10, params=ours.SearchParametersHNSW(efSearch=700))
    np.testing.assert_array_equal(I, kith.knn(X, Q, 10).indices)


def test_what_are_not_numbers():
    index = index_of(ours, "L2")
    for rows in ("rows", [["1"] * 24], [[None] * 24]):
        with pytest.raises(TypeError, match=r"x is not an array of numbers; vectors \[n, 24\] are needed"):
            index.add(rows)
    with pytest.raises(kith.InvalidArgument, match="x: lists of different lengths"):
        index.add([[1.0, 2.0], [3.0]])
    with pytest.raises(TypeError, match="thresh: '0.5' is not a number"):
        index.range_search(Q, "0.5")
