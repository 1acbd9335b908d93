"""What one writes oneself in NumPy: a float32 matrix product in blocks, then argpartition."""

import numpy as np

from .base import BasePeer

BLOCK_VALUES = 1 << 26  # distances held at once: 256 MiB of float32


class Peer(BasePeer):
    name = "numpy"
    version = np.__version__
    metrics = ("sqeuclidean", "euclidean", "inner_product", "cosine")
    note = "sgemm in blocks of queries, then argpartition"

    def build(self, base, metric, threads):
        # BLAS takes its number of threads from the environment, which run.py's parent has set.
        self.metric = metric
        self.rows = self.prepare(base)
        self.squares = np.einsum("ij,ij->i", self.rows, self.rows)

    def prepare(self, queries):
        rows = np.ascontiguousarray(queries, dtype=np.float32)
        if self.metric == "cosine":
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return rows

    def search(self, queries, k):
        indices = np.empty((len(queries), k), np.int64)
        distances = np.empty((len(queries), k), np.float32)
        step = max(1, BLOCK_VALUES // len(self.rows))
        for first in range(0, len(queries), step):
            block = queries[first : first + step]
            values = block @ self.rows.T
            if self.metric in ("sqeuclidean", "euclidean"):
                values *= -2
                values += self.squares
            else:
                np.negative(values, out=values)
            nearest = np.argpartition(values, k - 1, axis=1)[:, :k] if k < values.shape[1] else np.argsort(values)
            own = np.take_along_axis(values, nearest, 1)
            order = np.argsort(own, axis=1, kind="stable")
            indices[first : first + step] = np.take_along_axis(nearest, order, 1)
            distances[first : first + step] = np.take_along_axis(own, order, 1)
        if self.metric in ("sqeuclidean", "euclidean"):
            distances += np.einsum("ij,ij->i", queries, queries)[:, None]
        if self.metric == "euclidean":
            distances = np.sqrt(np.maximum(distances, 0))
        if self.metric == "cosine":
            distances += 1
        return indices, distances
