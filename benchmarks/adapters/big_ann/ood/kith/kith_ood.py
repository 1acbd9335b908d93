"""Kith in the out-of-distribution track of big-ann-benchmarks (NeurIPS 2023): a graph, its recall measured on the track's queries."""

import os

import kith
import numpy as np
from benchmark.datasets import DATASETS
from neurips23.ood.base import BaseOODANN

METRICS = {"euclidean": "sqeuclidean", "ip": "inner_product"}


class KithOOD(BaseOODANN):
    def __init__(self, metric, index_params):
        self._metric, self._parameters = METRICS[metric], dict(index_params)
        self._options = {}

    def _path(self, dataset):
        told = "_".join(f"{name}{value}" for name, value in sorted(self._parameters.items()))
        return os.path.join("data", "indices", "ood", f"kith_{DATASETS[dataset]().short_name()}_{told}.kith")

    def fit(self, dataset):
        rows = np.ascontiguousarray(DATASETS[dataset]().get_dataset())
        self._index = kith.Vamana(rows, metric=self._metric, **self._parameters)
        os.makedirs(os.path.dirname(self._path(dataset)), exist_ok=True)
        self._index.save(self._path(dataset))

    def load_index(self, dataset):
        if not os.path.exists(self._path(dataset)):
            return False
        self._index = kith.Vamana.load(self._path(dataset))
        return True

    def set_query_arguments(self, query_args):
        """``list_size`` (and ``beam_width``, ``rerank``, ``threads``), as kith.Vamana.search takes them."""
        self._options = dict(query_args)

    def query(self, X, k):
        options = {**self._options, "list_size": max(self._options.get("list_size", 100), k)}
        self.res = self._index.search(X, k, **options).indices

    def __str__(self):
        return f"Kith({self._parameters}, {self._options})"
