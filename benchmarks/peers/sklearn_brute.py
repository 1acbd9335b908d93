"""scikit-learn's brute-force NearestNeighbors (Pedregosa et al., 2011)."""

import numpy as np
import sklearn
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from .base import BasePeer


class Peer(BasePeer):
    name = "sklearn"
    version = sklearn.__version__
    metrics = ("sqeuclidean", "euclidean", "cosine", "manhattan")
    note = "NearestNeighbors(algorithm='brute'), float32 (float64 where the data is)"

    def build(self, base, metric, threads):
        threadpool_limits(threads)  # both OpenMP and BLAS, for the life of the process
        self.model = NearestNeighbors(algorithm="brute", metric=metric, n_jobs=threads)
        self.model.fit(self.prepare(base))

    def prepare(self, queries):
        dtype = np.float64 if queries.dtype == np.float64 else np.float32
        return np.ascontiguousarray(queries, dtype=dtype)

    def search(self, queries, k):
        distances, indices = self.model.kneighbors(queries, k)
        return indices, distances
