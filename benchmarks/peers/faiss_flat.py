"""faiss-cpu's flat indexes: every pair by a float32 matrix product (Douze et al., 2024)."""

import faiss
import numpy as np

from .base import BasePeer


class Peer(BasePeer):
    name = "faiss"
    version = faiss.__version__
    metrics = ("sqeuclidean", "euclidean", "inner_product", "cosine", "manhattan")
    note = "IndexFlat, float32, |q|^2 + |x|^2 - 2 q.x"

    def build(self, base, metric, threads):
        self.metric = metric
        faiss.omp_set_num_threads(threads)
        kind = {
            "sqeuclidean": faiss.IndexFlatL2,
            "euclidean": faiss.IndexFlatL2,
            "inner_product": faiss.IndexFlatIP,
            "cosine": faiss.IndexFlatIP,
            "manhattan": lambda dim: faiss.IndexFlat(dim, faiss.METRIC_L1),
        }[metric]
        rows = self.prepare(base)
        self.index = kind(rows.shape[1])
        self.index.add(rows)

    def prepare(self, queries):
        rows = np.ascontiguousarray(queries, dtype=np.float32)
        if self.metric == "cosine":
            rows = rows.copy()
            faiss.normalize_L2(rows)
        return rows

    def search(self, queries, k):
        distances, indices = self.index.search(queries, k)
        if self.metric == "euclidean":
            distances = np.sqrt(np.maximum(distances, 0))
        elif self.metric == "inner_product":
            distances = -distances
        elif self.metric == "cosine":
            distances = 1 - distances
        return indices, distances
