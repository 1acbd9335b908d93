"""kith.Quantizer: codes, estimates and their bounds, files, refusals."""

from __future__ import annotations

import copy
import pickle

import kith
import numpy as np
import pytest

from .oracle import DTYPES

KINDS = [
    {"kind": "scalar"},
    {"kind": "scalar", "bits": 4},
    {"kind": "rabitq", "bits": 1},
    {"kind": "rabitq"},
    {"kind": "pq", "subspaces": 8},
    {"kind": "pq", "rotate": True},
]


def rows(count, seed, dim=32):
    random = np.random.default_rng(seed)
    turn = np.random.default_rng(1).standard_normal((10, dim))
    return (random.standard_normal((count, 10)) @ turn + random.standard_normal((count, dim)) / 3).astype(np.float32)


@pytest.mark.parametrize("metric", ["sqeuclidean", "inner_product"])
@pytest.mark.parametrize("given", KINDS, ids=str)
def test_codes_and_estimates(given, metric):
    X, Q = rows(2000, 2), rows(40, 3)
    quantizer = kith.Quantizer(X, metric=metric, **given)
    codes = quantizer.encode(X)
    assert codes.dtype == np.uint8 and codes.shape == (2000, quantizer.code_bytes)
    decoded = quantizer.decode(codes)
    assert decoded.dtype == np.float32 and decoded.shape == X.shape
    lost = ((X.astype(float) - decoded) ** 2).sum() / ((X - X.astype(float).mean(axis=0)) ** 2).sum()
    assert quantizer.reconstruction_error(X, codes) == pytest.approx(lost, rel=1e-3)
    assert 0 < lost < 0.5
    estimates = quantizer.estimate(Q, codes)
    assert estimates.distances.shape == (40, 2000) and estimates.distances.dtype == np.float32
    if metric == "sqeuclidean":
        true = ((Q[:, None].astype(float) - X[None]) ** 2).sum(axis=2)
    else:
        true = -(Q.astype(float) @ X.T.astype(float))
    assert np.corrcoef(estimates.distances.ravel(), true.ravel())[0, 1] > 0.9
    if given["kind"] == "rabitq":
        for confidence in (0.6, 0.95):
            bounds = quantizer.estimate(Q, codes, confidence=confidence).bounds
            assert (np.abs(estimates.distances - true) <= bounds).mean() >= confidence
        assert (quantizer.estimate(Q, codes, confidence=0.6).bounds < estimates.bounds).all()
    else:
        assert estimates.bounds is None
    found = quantizer.search(Q, codes, 7)
    order = np.lexsort((np.broadcast_to(np.arange(2000), true.shape), estimates.distances))[:, :7]
    np.testing.assert_array_equal(found.indices, order)
    assert not found.statistics.certified and found.statistics.index == given["kind"]
    assert kith.evaluate(found, kith.knn(X, Q, 7, metric=metric)).recall > 0.1


@pytest.mark.parametrize("dtype", DTYPES)
def test_element_types(dtype):
    X = (rows(300, 4) * 9).astype(DTYPES[dtype])
    quantizer = kith.Quantizer(X, bits=8)
    assert (quantizer.dtype, quantizer.dim) == (dtype, 32)
    decoded = quantizer.decode(quantizer.encode(X))
    assert decoded.dtype == (np.float64 if dtype == "float64" else np.float32)
    assert quantizer.reconstruction_error(X, quantizer.encode(X)) < 1e-3


def test_threads_change_nothing():
    X = rows(3000, 5)
    for given in KINDS:
        one, three = (kith.Quantizer(X, threads=threads, **given) for threads in (1, 3))
        codes = one.encode(X, threads=1)
        np.testing.assert_array_equal(codes, three.encode(X, threads=3))
        a, b = one.estimate(X[:9], codes, threads=1), three.estimate(X[:9], codes, threads=3)
        assert a.distances.tobytes() == b.distances.tobytes()


def test_parameters_and_properties():
    X = rows(800, 6)
    assert kith.Quantizer(X).parameters == {"bits": 4, "seed": 0}
    assert kith.Quantizer(X, "scalar").parameters == {"bits": 8}
    pq = kith.Quantizer(X, "pq")
    assert pq.parameters == {
        "subspaces": 8,
        "rotate": False,
        "iterations": 20,
        "training_rows": 65536,
        "seed": 0,
    }
    assert (pq.kind, pq.metric, pq.code_bytes) == ("pq", "sqeuclidean", 8)
    assert pq.memory_bytes > 256 * 32 * 4
    assert repr(kith.Quantizer(X)) == "Quantizer(rabitq, bits=4, seed=0; 32 float32 in 28 bytes, sqeuclidean)"
    codes = {pq.encode(X).tobytes()}
    for given in ({"rotate": True}, {"iterations": 1}, {"training_rows": 300}, {"seed": 1}):
        codes.add(kith.Quantizer(X, "pq", **given).encode(X).tobytes())
    assert len(codes) == 5
    calls = []
    kith.Quantizer(X, "pq", progress=lambda done, total: calls.append((done, total)))
    assert calls and calls[-1][0] == calls[-1][1]


def test_one_row_and_lists():
    X = rows(100, 7)
    quantizer = kith.Quantizer(X)
    codes = quantizer.encode(X)
    np.testing.assert_array_equal(quantizer.encode(X[3]), codes[3:4])
    np.testing.assert_array_equal(quantizer.encode(X[3].tolist()), codes[3:4])
    assert quantizer.estimate(X[0], codes).distances.shape == (1, 100)
    assert quantizer.decode(codes[0]).shape == (1, 32)


def test_saved_loaded_and_pickled(tmp_path):
    X = rows(500, 8)
    for given in KINDS:
        quantizer = kith.Quantizer(X, **given)
        quantizer.save(tmp_path / "q.kith")
        for again in (
            kith.Quantizer.load(tmp_path / "q.kith"),
            pickle.loads(pickle.dumps(quantizer)),
            copy.deepcopy(quantizer),
        ):
            assert again.parameters == quantizer.parameters and again.kind == quantizer.kind
            np.testing.assert_array_equal(again.encode(X), quantizer.encode(X))
    with pytest.raises(kith.IoError, match="holds a quantizer"):
        kith.load(tmp_path / "q.kith")
    kith.BruteForce(X).save(tmp_path / "b.kith")
    with pytest.raises(kith.IoError, match="not a quantizer"):
        kith.Quantizer.load(tmp_path / "b.kith")


@pytest.mark.parametrize(
    "given, words",
    [
        ({"kind": "opq"}, "'opq' is no kind of codes"),
        ({"metric": "cosine"}, "divide rows and queries by their norms"),
        ({"metric": "euclidean"}, "use sqeuclidean"),
        ({"bits": 9}, "rabitq codes of 9 bits"),
        ({"kind": "pq", "bits": 4}, "bits is for scalar and rabitq codes, not for pq"),
        ({"kind": "scalar", "seed": 1}, "seed is for rabitq and pq codes"),
        ({"subspaces": 2}, "subspaces is for pq codes"),
        ({"rotate": True}, "rotate is for pq codes"),
        ({"iterations": 2}, "iterations is for pq codes"),
        ({"training_rows": 2}, "training_rows is for pq codes"),
        ({"kind": "pq", "subspaces": 33}, "33 subspaces"),
    ],
)
def test_refused_parameters(given, words):
    with pytest.raises(kith.InvalidArgument, match=words):
        kith.Quantizer(rows(50, 9), **given)


def test_refusals():
    X = rows(50, 9)
    quantizer = kith.Quantizer(X)
    codes = quantizer.encode(X)
    bad = X.copy()
    bad[4, 2] = np.inf
    with pytest.raises(kith.InvalidArgument, match="row 4 of the rows"):
        quantizer.encode(bad)
    with pytest.raises(kith.InvalidArgument, match="row 4 of the queries"):
        quantizer.search(bad, codes, 3)
    with pytest.raises(kith.InvalidArgument, match="a confidence of 1"):
        quantizer.estimate(X, codes, confidence=1)
    with pytest.raises(kith.InvalidArgument, match="the codes are u8 of 27"):
        quantizer.decode(codes[:, :-1])
    with pytest.raises(kith.InvalidArgument, match="k"):
        quantizer.search(X, codes, 0)
    with pytest.raises(kith.OutOfMemory):
        quantizer.encode(X, memory_limit=10)
    with pytest.raises(TypeError, match="rotate"):
        kith.Quantizer(X, "pq", rotate=3)
    with pytest.raises(TypeError, match="kind"):
        kith.Quantizer(X, kind=1)
    with pytest.raises(TypeError, match="float64"):
        quantizer.encode(X.astype(np.float64))
