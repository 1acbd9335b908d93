"""The oracle: the nearest point of all points, by plain NumPy in float64.

Kith's contract (docs/exact-contract.md) says to the last bit what the answer is: distances in float64,
summed in a fixed order, rounded once to float32, ties to the lower index. In three dimensions the order
is (dx^2 + dz^2) + dy^2 and every product is rounded alone, so NumPy can follow it exactly.
"""

import numpy as np

BLOCK = 1 << 16  # rows at a time: their float64 copies stay in the cache


def nearest(points, query):
    """(index, distance) of the row of `points` [n, 3] nearest to `query` [3]; distance is float32."""
    query = query.astype(np.float64)
    squares = np.empty(len(points))
    for first in range(0, len(points), BLOCK):
        squared = (query - points[first : first + BLOCK]) ** 2
        squares[first : first + BLOCK] = (squared[:, 0] + squared[:, 2]) + squared[:, 1]
    # Rows whose distances could round to the same float32: the lowest index among the smallest wins.
    close = np.flatnonzero(squares <= squares.min() * (1 + 1e-6))
    distances = np.sqrt(squares[close]).astype(np.float32)
    winner = int(np.argmin(distances))
    return int(close[winner]), distances[winner]


def check(points, queries, indices, distances, sample):
    """Compares the answers of the queries numbered in `sample` with the oracle, bit for bit.

    @raises AssertionError naming the first query that differs
    """
    for number in sample:
        index, distance = nearest(points, queries[number])
        if index != indices[number] or distance.tobytes() != distances[number].tobytes():
            raise AssertionError(
                f"query {number}: kith found row {indices[number]} at {distances[number]!r}, "
                f"the oracle row {index} at {distance!r}"
            )
