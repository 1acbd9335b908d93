"""Kith in VIBE: the graph over a range of list sizes, and exact search."""

import kith
import numpy as np

from ..base.module import BaseANN

METRICS = {"euclidean": "sqeuclidean", "cosine": "cosine", "normalized": "inner_product", "ip": "inner_product"}


class _Kith(BaseANN):
    """A query alone is searched by one thread, as the benchmark asks; a batch by all."""

    def query(self, v, n):
        return self._found(v, n, threads=1)[0]

    def batch_query(self, X, n):
        self.res = self._found(X, n, threads=0)


class KithVamana(_Kith):
    def __init__(self, metric, max_degree, build_list_size):
        self._metric = METRICS[metric]
        self._parameters = {"max_degree": max_degree, "build_list_size": build_list_size}

    def fit(self, X):
        self._rows = np.ascontiguousarray(X)  # float32, or the int8 and uint8 of quantized sets as they are
        self._index = kith.Vamana(self._rows, metric=self._metric, **self._parameters)

    def set_query_arguments(self, list_size):
        self._list_size = list_size

    def _found(self, Q, n, threads):
        return self._index.search(Q, n, list_size=max(self._list_size, n), threads=threads).indices

    def __str__(self):
        shape = ", ".join(f"{name}={value}" for name, value in self._parameters.items())
        return f"Kith({shape}, list_size={self._list_size})"


class KithExact(_Kith):
    def __init__(self, metric):
        self._metric = METRICS[metric]

    def fit(self, X):
        self._rows = np.ascontiguousarray(X)
        self._index = kith.BruteForce(self._rows, metric=self._metric)

    def set_query_arguments(self, threads):
        """Of one query; VIBE stores no results of an algorithm without such an argument."""
        self._threads = threads

    def query(self, v, n):
        return self._found(v, n, self._threads)[0]

    def _found(self, Q, n, threads):
        return self._index.search(Q, n, threads=threads).indices

    def __str__(self):
        return f"KithExact(threads={self._threads})"
