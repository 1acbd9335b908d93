"""Kith in the streaming track of big-ann-benchmarks (NeurIPS 2023): a graph in which rows come and go.

Rows that came since the last search are inserted together before the next. Rows that went stay in the graph and are left out of
its answers, as rows that are not allowed, until half of it has gone: then the rest becomes a graph of its own, as it does where new rows
do not fit the codes of the old ones.
"""

import kith
import numpy as np
from neurips23.streaming.base import BaseStreamingANN

METRICS = {"euclidean": "sqeuclidean", "ip": "inner_product"}


class KithStreaming(BaseStreamingANN):
    def __init__(self, metric, index_params):
        self._metric, self._parameters = METRICS[metric], dict(index_params)
        self._options = {}

    def setup(self, dtype, max_pts, ndims):
        self._index = None
        self._rows = np.empty((0, ndims), dtype)  # of the graph
        self._tags = np.empty(0, np.int64)  # of each of its rows
        self._there = np.empty(0, np.bool_)
        self._row_of = np.full(max_pts, -1, np.int64)  # of each tag; -1: none, or one that is new
        self._new = {}  # rows that are not in the graph yet

    def insert(self, X, ids):
        self.delete(ids)
        self._new.update(zip(np.asarray(ids).tolist(), np.array(X), strict=True))

    def delete(self, ids):
        ids = np.asarray(ids, np.int64)
        for tag in ids.tolist():
            self._new.pop(tag, None)
        known = ids[ids < len(self._row_of)]
        rows = self._row_of[known]
        self._there[rows[rows >= 0]] = False
        self._row_of[known] = -1

    def replace(self, X, ids):
        self.insert(X, ids)

    def set_query_arguments(self, query_args):
        """``list_size`` (and ``beam_width``, ``rerank``, ``threads``), as kith.Vamana.search takes them."""
        self._options = dict(query_args)

    def _take_in(self):
        """Makes the graph what it is to be by now."""
        tags = np.fromiter(self._new, np.int64, len(self._new))
        rows = np.stack(list(self._new.values())) if self._new else self._rows[:0]
        self._new = {}
        stay = np.flatnonzero(self._there)
        if len(rows) and self._index is not None and 2 * len(stay) >= len(self._rows):
            try:
                self._index = self._index.insert(rows)
                stay = np.arange(len(self._rows))
            except kith.InvalidArgument:  # they do not fit its codes
                self._index = None
        elif 2 * len(stay) < len(self._rows):
            self._index = None
        there = np.concatenate([self._there[stay], np.ones(len(rows), np.bool_)])
        self._tags = np.concatenate([self._tags[stay], tags])
        self._rows = np.concatenate([self._rows[stay], rows])
        self._there = there
        needed = int(self._tags.max(initial=-1)) + 1
        if needed > len(self._row_of):
            self._row_of = np.concatenate([self._row_of, np.full(needed - len(self._row_of), -1, np.int64)])
        self._row_of[self._tags[there]] = np.flatnonzero(there)
        if self._index is None and len(self._rows):
            self._index = kith.Vamana(self._rows, metric=self._metric, **self._parameters)

    def query(self, X, k):
        if self._new or 2 * np.count_nonzero(self._there) < len(self._there):
            self._take_in()
        if self._index is None:
            self.res = np.full((len(X), k), -1, np.int64)
            return
        options = {**self._options, "list_size": max(self._options.get("list_size", 100), k)}
        allowed = None if self._there.all() else self._there
        found = self._index.search(np.ascontiguousarray(X), k, allowed=allowed, **options).indices
        self.res = np.where(found >= 0, self._tags[found], -1)

    def __str__(self):
        return f"Kith({self._parameters}, {self._options})"
