"""What the Python tests share: the float64 oracle and data of every element type."""

from __future__ import annotations

import ml_dtypes
import numpy as np

DTYPES = {
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
}
METRICS = ["sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan"]
FILTERS = ["auto", "int8", "fp16", "fp32", "none"]


def random_rows(dtype, rows, dim, seed):
    """Random rows of an element type; integers over their whole range."""
    rng = np.random.default_rng(seed)
    if dtype in ("int8", "uint8"):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max + 1, (rows, dim)).astype(dtype)
    return rng.standard_normal((rows, dim)).astype(DTYPES[dtype])


def oracle_distances(X, Q, metric):
    """All distances [q, n] in float64, from the definition."""
    X, Q = np.asarray(X).astype(np.float64), np.asarray(Q).astype(np.float64)
    out = np.empty((len(Q), len(X)))
    for i, q in enumerate(Q):
        if metric in ("sqeuclidean", "euclidean"):
            out[i] = ((q - X) ** 2).sum(axis=1)
            if metric == "euclidean":
                out[i] = np.sqrt(out[i])
        elif metric == "manhattan":
            out[i] = np.abs(q - X).sum(axis=1)
        elif metric == "inner_product":
            out[i] = -(X @ q)
        else:
            norms = np.sqrt((X * X).sum(axis=1)) * np.sqrt((q * q).sum())
            with np.errstate(invalid="ignore", divide="ignore"):
                out[i] = np.clip(np.where(norms == 0, 1.0, 1 - (X @ q) / norms), 0, 2)
    return out


def assert_exact(neighbors, X, Q, k, metric):
    """The answer is that of the oracle up to the last bits in which two orders of summation differ."""
    distances, indices = neighbors
    expected_dtype = np.float64 if np.result_type(X, Q) == np.float64 else np.float32
    assert distances.dtype == expected_dtype and indices.dtype == np.int64
    assert distances.shape == indices.shape == (len(Q), k)
    every = oracle_distances(X, Q, metric)
    found = min(k, len(X))
    assert (indices[:, found:] == -1).all() and np.isposinf(distances[:, found:]).all()
    indices, distances = indices[:, :found], distances[:, :found]
    relative = 1e-12 if expected_dtype == np.float64 else 1.3e-7
    # A cancelling sum is as inexact as its terms are large.
    scale = np.abs(every).max(initial=1)
    absolute = scale * (1e-13 if expected_dtype == np.float64 else 1e-13)
    np.testing.assert_allclose(distances, np.take_along_axis(every, indices, 1), rtol=relative, atol=absolute)
    np.testing.assert_allclose(distances, np.sort(every, axis=1)[:, :found], rtol=relative, atol=absolute)
    for row, order in zip(distances, indices, strict=True):
        assert len(set(order)) == len(order)
        assert list(zip(row, order, strict=True)) == sorted(zip(row, order, strict=True))
