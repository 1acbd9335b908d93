"""Kith in ann-benchmarks: the graph over a range of list sizes, and exact search."""

import kith
import numpy

from ..base.module import BaseANN

METRICS = {"euclidean": "sqeuclidean", "angular": "cosine"}  # of squared distances no root is taken


class _Kith(BaseANN):
    """A query alone is searched by one thread, as the benchmark asks; a batch by all."""

    def query(self, v, n):
        return self._found(v, n, threads=1)[0]

    def batch_query(self, X, n):
        self._batch = self._found(X, n, threads=0)

    def get_batch_results(self):
        return [row[row >= 0] for row in self._batch]

    def done(self):
        self._index = None


class KithVamana(_Kith):
    def __init__(self, metric, method_param):
        self._metric, self._parameters = METRICS[metric], method_param

    def fit(self, X):
        # The index keeps the array; without the array's owner the rows would go with it.
        self._rows = numpy.ascontiguousarray(X, numpy.float32)
        self._index = kith.Vamana(self._rows, metric=self._metric, **self._parameters)

    def set_query_arguments(self, list_size):
        self._list_size = list_size

    def _found(self, Q, n, threads):
        # A list shorter than k has no room for the answer.
        return self._index.search(Q, n, list_size=max(self._list_size, n), threads=threads).indices

    def __str__(self):
        return f"kith ({self._parameters}, list_size: {self._list_size})"


class KithExact(_Kith):
    def __init__(self, metric):
        self._metric = METRICS[metric]

    def fit(self, X):
        self._rows = numpy.ascontiguousarray(X, numpy.float32)
        self._index = kith.BruteForce(self._rows, metric=self._metric)

    def _found(self, Q, n, threads):
        return self._index.search(Q, n, threads=threads).indices

    def __str__(self):
        return "kith (exact)"
