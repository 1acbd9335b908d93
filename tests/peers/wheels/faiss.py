"""faiss: build BASE FILE METRIC, or search FILE QUERIES K LIST OUT METRIC."""

import sys

import numpy as np

sys.path.pop(0)  # this file has the package's name
import faiss

faiss.omp_set_num_threads(1)


def build(base, file, metric):
    rows = np.load(base)
    kind = faiss.METRIC_L2 if metric == "sqeuclidean" else faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexHNSWFlat(rows.shape[1], 16, kind)
    index.hnsw.efConstruction = 100
    index.add(rows)
    faiss.write_index(index, file)


def search(file, queries, k, size, out, metric):
    index = faiss.read_index(file)
    assert (index.metric_type == faiss.METRIC_L2) == (metric == "sqeuclidean")
    index.hnsw.efSearch = int(size)
    np.save(out, index.search(np.load(queries), int(k))[1])


globals()[sys.argv[1]](*sys.argv[2:])
