"""What a wheel is tried with, by an interpreter that has it: prints a JSON object of what that took and found."""

import json
import sys
import tempfile
import time
from pathlib import Path

started = time.perf_counter()
import kith  # noqa: E402

import_seconds = time.perf_counter() - started
import numpy as np  # noqa: E402

random = np.random.default_rng(5)
# Sums of products of few digits: the same on every machine, whatever NumPy multiplies by.
X = (random.integers(-64, 64, (2000, 6)) @ random.integers(-64, 64, (6, 48))).astype(np.float32)
Q = X[:50] + np.float32(9.5)
with tempfile.TemporaryDirectory() as folder:
    kith.write(Path(folder) / "rows.hdf5", X)
    same_from_hdf5 = bool((kith.read(Path(folder) / "rows.hdf5") == X).all())
exact = kith.knn(X, Q, 10)
every = np.sort(((Q[:, None].astype(np.float64) - X) ** 2).sum(axis=2), axis=1)[:, :10]
graph = kith.Vamana(X, threads=2)
found = graph.search(Q, 10, list_size=40)
with tempfile.TemporaryDirectory() as folder:
    graph.save(Path(folder) / "rows.kith")
    again = kith.load(Path(folder) / "rows.kith").search(Q, 10, list_size=40)
tree = kith.KdTree(X[:, :3]).search(Q[:, :3], 10)
on_gpu = None
if any(device.usable and device.name.startswith("cuda") for device in kith.devices()):
    pairs = (
        (exact, kith.knn(X, Q, 10, device="cuda")),
        (found, kith.Vamana(X, device="cuda").search(Q, 10, list_size=40)),
        (tree, kith.KdTree(X[:, :3], device="cuda").search(Q[:, :3], 10)),
    )
    on_gpu = all((one.indices == two.indices).all() and (one.distances == two.distances).all() for one, two in pairs)
print(
    json.dumps({
        "python": sys.version.split()[0],
        "version": kith.__version__,
        "file": kith.__file__,
        "module": kith._kith.__file__,
        "import_seconds": round(import_seconds, 3),
        "instruction_sets": kith.devices()[0].instruction_sets,
        "exact": bool((exact.distances == every.astype(np.float32)).all()),
        "same_from_hdf5": same_from_hdf5,
        "same_on_gpu": on_gpu,
        "same_after_load": bool((again.indices == found.indices).all()),
        "bits": [part.tobytes().hex()[-64:] for answer in (exact, found, tree) for part in answer[:2]],
        "graph_hash": f"{graph.graph_hash:016x}",
    })
)  # fmt: skip
