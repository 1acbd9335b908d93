"""SciPy's cdist: every distance in float64 by its definition, one thread, then argpartition."""

import numpy as np
import scipy
from scipy.spatial.distance import cdist

from .base import BasePeer

BLOCK_VALUES = 1 << 25  # distances held at once: 256 MiB of float64


class Peer(BasePeer):
    name = "scipy"
    version = scipy.__version__
    metrics = ("sqeuclidean", "euclidean", "cosine", "manhattan")
    note = "cdist, float64, one thread whatever is asked"

    def build(self, base, metric, threads):
        self.metric = "cityblock" if metric == "manhattan" else metric
        self.rows = self.prepare(base)

    def prepare(self, queries):
        return np.ascontiguousarray(queries, dtype=np.float64)

    def search(self, queries, k):
        indices = np.empty((len(queries), k), np.int64)
        distances = np.empty((len(queries), k))
        step = max(1, BLOCK_VALUES // len(self.rows))
        for first in range(0, len(queries), step):
            values = cdist(queries[first : first + step], self.rows, self.metric)
            nearest = np.argpartition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else np.argsort(values)
            own = np.take_along_axis(values, nearest, 1)
            order = np.lexsort((nearest, own), axis=1)
            indices[first : first + step] = np.take_along_axis(nearest, order, 1)
            distances[first : first + step] = np.take_along_axis(own, order, 1)
        return indices, distances
