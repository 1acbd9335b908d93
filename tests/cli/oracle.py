"""Nearest neighbours by float64 brute force: slow, short and obviously right."""

import numpy as np


def distances(base, queries, metric):
    base = np.asarray(base, dtype=np.float64)
    queries = np.asarray(queries, dtype=np.float64)
    if metric in ("sqeuclidean", "euclidean"):
        square = ((queries[:, None, :] - base[None, :, :]) ** 2).sum(axis=2)
        return np.sqrt(square) if metric == "euclidean" else square
    if metric == "manhattan":
        return np.abs(queries[:, None, :] - base[None, :, :]).sum(axis=2)
    product = queries @ base.T
    if metric == "inner_product":
        return -product
    lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(base, axis=1)[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(lengths > 0, 1 - product / lengths, 1.0)


def knn(base, queries, k, metric="sqeuclidean"):
    """(indices, distances), ties to the lower index."""
    every = distances(base, queries, metric)
    order = np.argsort(every, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(every, order, axis=1)


def check(indices, found, base, queries, metric="sqeuclidean"):
    """The distances are the true k smallest, and every row has the distance it is said to have."""
    indices = np.asarray(indices)
    found = np.asarray(found, dtype=np.float64)
    every = distances(base, queries, metric)
    k = indices.shape[1]
    scale = max(1.0, float(np.abs(every).max()))
    np.testing.assert_allclose(found, np.sort(every, axis=1)[:, :k], rtol=1e-6, atol=1e-6 * scale)
    np.testing.assert_allclose(np.take_along_axis(every, indices, axis=1), found, rtol=1e-6, atol=1e-6 * scale)
    assert all(len(set(row)) == k for row in indices.tolist()), "a row is named twice"
