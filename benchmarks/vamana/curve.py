"""Recall against exact answers, and queries a second at a recall."""

import math

import numpy as np

BLOCK = 1 << 24  # values at a time


def true_distances(base, queries, found):
    """Squared distances in float64 of the rows found, [q, k]; infinite for numbers that are none, or named before."""
    out = np.full(found.shape, np.inf)
    step = max(1, BLOCK // max(1, found.shape[1] * base.shape[1]))
    for first in range(0, len(found), step):
        part = slice(first, first + step)
        rows = base[np.clip(found[part], 0, len(base) - 1)].astype(np.float64)
        out[part] = ((rows - queries[part, None].astype(np.float64)) ** 2).sum(axis=2)
    out[(found < 0) | (found >= len(base))] = np.inf
    order = np.argsort(found, axis=1, kind="stable")
    numbers = np.take_along_axis(found, order, axis=1)
    again = np.zeros(found.shape, bool)
    np.put_along_axis(again, order[:, 1:], numbers[:, 1:] == numbers[:, :-1], axis=1)
    out[again] = np.inf
    return out


def recall_of(found, base, queries, limits):
    """Share of the k nearest that was found. `limits` are the distances of the k-th: a tie with it counts as found."""
    found = np.asarray(found).astype(np.int64)
    return float((true_distances(base, queries, found) <= limits[:, None]).mean())


def at_recall(points, target):
    """Queries a second where the curve crosses a recall, between two measured settings (logarithms of the rates are
    interpolated); None where it never does. Where the first setting reaches it, its own rate."""
    points = sorted(points, key=lambda point: point["setting"])
    for before, after in zip([None, *points], points, strict=False):
        if after["recall"] < target:
            continue
        if before is None:
            return after["queries_per_second"]
        share = (target - before["recall"]) / max(after["recall"] - before["recall"], 1e-12)
        low, high = math.log(before["queries_per_second"]), math.log(after["queries_per_second"])
        return math.exp(low * (1 - share) + high * share)
    return None
