"""Rows and queries as a file of ann-benchmarks and VIBE, its ground truth by the exact engine.

python -m benchmarks.adapters.hdf5 BASE QUERIES OUT.hdf5 --metric euclidean -k 100
"""

import argparse
import os

import numpy as np

#: The benchmarks' names of a metric, and Kith's.
METRICS = {"euclidean": "euclidean", "angular": "cosine", "cosine": "cosine"}


def write(base, queries, path, metric="euclidean", k=100):
    """Members train, test, neighbors and distances, and the attributes that both benchmarks read."""
    import h5py
    import kith

    truth = kith.knn(base, queries, k, METRICS[metric])
    temporary = f"{path}.tmp"
    with h5py.File(temporary, "w") as file:
        file["train"], file["test"] = np.asarray(base, np.float32), np.asarray(queries, np.float32)
        file["neighbors"], file["distances"] = truth.indices.astype(np.int32), truth.distances.astype(np.float32)
        file.attrs.update({"distance": metric, "dimension": base.shape[1], "point_type": "float", "type": "dense"})
    os.replace(temporary, path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters.hdf5", description=__doc__)
    for name in ("base", "queries", "out"):
        parser.add_argument(name)
    parser.add_argument("--metric", choices=METRICS, default="euclidean")
    parser.add_argument("-k", type=int, default=100, help="neighbours a query in the ground truth")
    options = parser.parse_args()
    import kith

    write(kith.read(options.base), kith.read(options.queries), options.out, options.metric, options.k)
