"""hnswlib: build BASE FILE METRIC [labels], or search FILE QUERIES K LIST OUT METRIC."""

import sys

import numpy as np

sys.path.pop(0)  # this file has the module's name
import hnswlib

SPACE = {"sqeuclidean": "l2", "inner_product": "ip", "cosine": "cosine"}


def build(base, file, metric, labels=None):
    rows = np.load(base)
    index = hnswlib.Index(SPACE[metric], rows.shape[1])
    index.init_index(len(rows), M=16, ef_construction=100, random_seed=1)
    index.add_items(rows, None if labels is None else np.load(labels), num_threads=1)
    index.save_index(file)


def search(file, queries, k, size, out, metric):
    rows = np.load(queries)
    index = hnswlib.Index(SPACE[metric], rows.shape[1])
    index.load_index(file)
    index.set_ef(int(size))
    np.save(out, index.knn_query(rows, int(k), num_threads=1)[0].astype(np.int64))


globals()[sys.argv[1]](*sys.argv[2:])
