"""Kith in the filter track of big-ann-benchmarks (NeurIPS 2023): rows that have all words of a query.

Queries with the same words share one set of allowed rows and are asked together. Where few rows have the words, the exact engine
looks at those alone; else the graph is walked, among allowed rows.
"""

import os

import kith
import numpy as np
from benchmark.datasets import DATASETS
from neurips23.filter.base import BaseFilterANN

METRICS = {"euclidean": "sqeuclidean", "ip": "inner_product"}


class KithFilter(BaseFilterANN):
    def __init__(self, metric, index_params):
        self._metric, self._parameters = METRICS[metric], dict(index_params)
        self._options, self._few = {}, 0

    def _path(self, dataset):
        told = "_".join(f"{name}{value}" for name, value in sorted(self._parameters.items()))
        return os.path.join("data", "indices", "filter", f"kith_{DATASETS[dataset]().short_name()}_{told}.kith")

    def _read(self, dataset):
        """The rows, and of each word the rows that have it."""
        ds = DATASETS[dataset]()
        self._rows = np.ascontiguousarray(ds.get_dataset())
        self._of_word = ds.get_dataset_metadata().tocsc() if ds.search_type() == "knn_filtered" else None

    def fit(self, dataset):
        self._read(dataset)
        self._index = kith.Vamana(self._rows, metric=self._metric, **self._parameters)
        os.makedirs(os.path.dirname(self._path(dataset)), exist_ok=True)
        self._index.save(self._path(dataset))

    def load_index(self, dataset):
        if not os.path.exists(self._path(dataset)):
            return False
        self._read(dataset)
        self._index = kith.Vamana.load(self._path(dataset))
        return True

    def set_query_arguments(self, query_args):
        """``list_size`` as kith.Vamana.search takes it; ``few``: up to so many allowed rows are searched exactly."""
        self._options = dict(query_args)
        self._few = self._options.pop("few", 0)

    def _search(self, X, k, **more):
        options = {**self._options, "list_size": max(self._options.get("list_size", 100), k)}
        return self._index.search(X, k, **options, **more).indices

    def query(self, X, k):
        self.res = self._search(X, k)

    def filtered_query(self, X, filter, k):
        self.res = np.full((len(X), k), -1, np.int64)
        groups = {}
        for number in range(len(X)):
            words = filter.indices[filter.indptr[number] : filter.indptr[number + 1]]
            groups.setdefault(tuple(sorted(words.tolist())), []).append(number)
        for words, numbers in groups.items():
            rows = self._rows_with(words)
            asked = np.ascontiguousarray(X[numbers])
            if len(rows) <= self._few:
                found = kith.knn(self._rows[rows], asked, k, self._metric).indices
                self.res[numbers] = np.where(found >= 0, rows[found], -1) if len(rows) else -1
            else:
                allowed = np.zeros(len(self._rows), np.bool_)
                allowed[rows] = True
                self.res[numbers] = self._search(asked, k, allowed=allowed)

    def _rows_with(self, words):
        """Numbers of the rows that have all of them; the rarest first keeps what is intersected short."""
        lists = [self._of_word.indices[self._of_word.indptr[w] : self._of_word.indptr[w + 1]] for w in words]
        rows, *others = sorted(lists, key=len) if lists else [np.arange(len(self._rows))]
        for other in others:
            rows = np.intersect1d(rows, other, assume_unique=True)
        return np.sort(rows)

    def __str__(self):
        return f"Kith({self._parameters}, {self._options}, few={self._few})"
