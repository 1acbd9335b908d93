"""diskannpy: build BASE FOLDER METRIC, or search FOLDER QUERIES K LIST OUT METRIC [disk]."""

import os
import sys

import diskannpy
import numpy as np

METRIC = {"sqeuclidean": "l2", "inner_product": "mips"}


def build(base, folder, metric):
    rows = np.load(base)
    for kind in ("memory", "disk"):
        os.makedirs(f"{folder}/{kind}")
    diskannpy.build_memory_index(
        rows, METRIC[metric], f"{folder}/memory", complexity=100, graph_degree=32, num_threads=1, alpha=1.2,
        use_pq_build=False, num_pq_bytes=0, use_opq=False,
    )  # fmt: skip
    if metric == "sqeuclidean":
        diskannpy.build_disk_index(
            rows, METRIC[metric], f"{folder}/disk", complexity=100, graph_degree=32, num_threads=1, pq_disk_bytes=0,
            search_memory_maximum=rows.shape[0] * 16 / 2**30, build_memory_maximum=2,
        )  # fmt: skip


def search(folder, queries, k, size, out, metric, kind="memory"):
    rows = np.load(queries)
    if kind == "memory":
        index = diskannpy.StaticMemoryIndex(
            folder, num_threads=1, initial_search_complexity=int(size), distance_metric=METRIC[metric],
            vector_dtype=np.float32, dimensions=rows.shape[1],
        )  # fmt: skip
    else:
        index = diskannpy.StaticDiskIndex(
            folder, num_threads=1, num_nodes_to_cache=1, distance_metric=METRIC[metric], vector_dtype=np.float32,
            dimensions=rows.shape[1],
        )  # fmt: skip
    np.save(out, index.batch_search(rows, int(k), int(size), 1)[0].astype(np.int64))


globals()[sys.argv[1]](*sys.argv[2:])
