"""The oracle: squared distances of bytes in whole numbers, all rows looked at, in plain NumPy."""

import numpy as np


def nearest(rows, query, k):
    """(indices [k], squared distances [k]) of the rows of uint8 nearest to `query`, ties to the lower row."""
    squares = ((rows.astype(np.int32) - query.astype(np.int32)) ** 2).sum(axis=1)
    order = np.argsort(squares, kind="stable")[:k]
    return order, squares[order]


def check(rows, queries, exact, found, distances, sample):
    """Compares exact answers [q, k] of the queries numbered in `sample` with the oracle, index by index, and the distances of
    what the graph `found` with those of their rows.

    @raises AssertionError naming the first query that differs
    """
    for number in sample:
        expected, _ = nearest(rows, queries[number], exact.shape[1])
        if not np.array_equal(expected, exact[number]):
            raise AssertionError(f"query {number}: kith found rows {exact[number]}, the oracle {expected}")
        near = rows[found[number]].astype(np.int64) - queries[number].astype(np.int64)
        if not np.array_equal((near**2).sum(axis=1), distances[number].astype(np.int64)):
            raise AssertionError(
                f"query {number}: the distances {distances[number]} are not those of rows {found[number]}"
            )
