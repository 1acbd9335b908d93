"""python -m benchmarks.on_ray [--cloud N] [--rows N] [--queries Q] [--all-rows] [--kills]: a cluster of four nodes on this machine.

All-kNN of a cloud of three dimensions by tiles, and brute force over rows of 128, on a cluster and without one: the answers must be
the same bytes (SHA-256 of the arrays), or nothing is written. With --all-rows the rows' all-kNN, too: half an hour or more on two cores.
With --kills five nodes are killed during each all-kNN, then the driver, which is started again. Then, with nodes of one CPU, what a task
costs beside its work: blocks of one query, by actors of the cluster and by the same object in this process. Four nodes on one
machine share its cores: seconds say what the cluster costs, not what it gains. Results go to benchmarks/results/on_ray.json. Needs
the package and Ray (PYTHONPATH=build/python, make test-ray's environment).
"""

import argparse
import datetime
import hashlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The loopback alone, and no report to anybody; before Ray is imported.
os.environ.update(
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0", RAY_USAGE_STATS_ENABLED="0", RAY_worker_register_timeout_seconds="180"
)

import kith
import kith.ray
import numpy as np
from kith.ray import _rows, _tasks, _work

from benchmarks.run import commit
from benchmarks.sharded.__main__ import cpu_name, seconds

ROOT = Path(__file__).resolve().parents[2]
NODES, K = 4, 8

#: Runs a call and kills itself after some tasks: where, file, output, calls of progress, how.
DRIVER = """
import json, os, signal, sys, kith.ray, ray
ray.init(address=sys.argv[1], log_to_driver=False)
calls = []
def progress(done, total):
    calls.append(done)
    if len(calls) == int(sys.argv[4]):
        os.kill(os.getpid(), signal.SIGKILL)
kith.ray.all_knn(sys.argv[2], 8, output=sys.argv[3], progress=progress, **json.loads(sys.argv[5]))
"""


def digest(answer):
    """Of both arrays, as they lie on the disk."""
    sums = hashlib.sha256()
    for array in (answer.indices, answer.distances):
        for first in range(0, len(array), 1 << 20):
            sums.update(np.ascontiguousarray(array[first : first + (1 << 20)]).data)
    return sums.hexdigest()


def write_rows(path, rows, dim, seed):
    """Uniform rows, some at a time."""
    made = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dim))
    random = np.random.default_rng(seed)
    for first in range(0, rows, 1 << 20):
        made[first : first + (1 << 20)] = random.random((min(1 << 20, rows - first), dim), np.float32)
    made.flush()


def run(name, alone, on_cluster):
    """A call without and with the cluster; the same bytes, or no result."""
    took_alone, expected = seconds(alone)
    print(f"{name}: {took_alone:.1f} s without the cluster", flush=True)
    took, answer = seconds(on_cluster)
    its, right = digest(answer), digest(expected)
    assert its == right, f"{name}: other bytes than on one machine"
    result = {
        "what": name,
        "seconds_alone": round(took_alone, 1),
        "seconds_on_cluster": round(took, 1),
        "tasks": answer.statistics.tasks,
        "sha256": its,
    }
    print(result, flush=True)
    return result


#: Of a call's work.
MOMENTS = (0.05, 0.25, 0.45, 0.65, 0.85)


class Nodes:
    """A cluster of equal nodes."""

    def __init__(self, cluster_type, cpus):
        self._its = {"num_cpus": cpus, "object_store_memory": 80 << 20}
        self.cluster = cluster_type(initialize_head=True, head_node_args=self._its)
        for _ in range(NODES - 1):
            self.add()

    def add(self):
        return self.cluster.add_node(**self._its)


def killed(nodes, file, output, expected, driver_dies_at, **how):
    """A fifth node dies at five moments, replaced each time but the last; then the driver. Nothing finished is done again."""
    victims = [nodes.add()]
    dead = []

    def progress(done, total):
        if len(dead) < len(MOMENTS) and done >= MOMENTS[len(dead)] * total:
            dead.append(round(done / total, 3))
            nodes.cluster.remove_node(victims.pop(), allow_graceful=False)
            if len(dead) < len(MOMENTS):
                victims.append(nodes.add())

    took, answer = seconds(lambda: kith.ray.all_knn(file, K, output=output, progress=progress, **how))
    assert len(dead) == len(MOMENTS) and digest(answer) == expected, "nodes died: other bytes"
    whole = answer.statistics.tasks
    command = [
        sys.executable,
        "-c",
        DRIVER,
        nodes.cluster.address,
        file,
        output + "-2",
        str(driver_dies_at),
        json.dumps(how),
    ]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == -signal.SIGKILL, process.stderr
    again, answer = seconds(lambda: kith.ray.all_knn(file, K, output=output + "-2", **how))
    assert digest(answer) == expected, "the driver died: other bytes"
    its = answer.statistics
    assert its.resumed and its.resumed + its.tasks == whole, "what the dead driver finished was done again"
    result = {
        "what": f"killed: all-kNN of {Path(file).stem}",
        "nodes_killed_at": dead,
        "seconds_with_nodes_dying": round(took, 1),
        "tasks": whole,
        "resumed_tasks": its.resumed,
        "tasks_after": its.tasks,
        "seconds_after": round(again, 1),
    }
    print(result, flush=True)
    return result


def a_task(folder, blocks=300):
    """What the cluster adds to a task that does next to nothing, and what Ray adds to an empty one: milliseconds."""
    import ray

    rows = np.random.default_rng(1).random((1000, 8), np.float32)
    queries = rows[:blocks].copy()
    with _work.Work(folder / "held") as work:
        base, asked = _rows.rows_of(rows, "base", work), _rows.rows_of(queries, "queries", work)
        holder = _tasks.Holder(_tasks.Part(0, 1000, rows=base), _tasks.Machine())
        question = _tasks.Question(asked, 5, "sqeuclidean")
        here = []
        for block in range(blocks):
            took, _ = seconds(
                lambda block=block: holder.answer(question, block, block + 1, work.file(f"{block}.unit"), True)
            )
            here.append(took)
    both = []
    for size in (1, 10):
        start = time.perf_counter()
        kith.ray.knn(rows, queries, 5, output=folder / "r", shards=1, block=size)
        both.append(time.perf_counter() - start)
    empty = ray.remote(lambda: 0).options(num_cpus=1)
    ray.get([empty.remote() for _ in range(20)])
    start = time.perf_counter()
    ray.get([empty.remote() for _ in range(blocks)])
    result = {
        "what": "a task",
        # Start and end of a call cancel out between two numbers of blocks.
        "ms_on_cluster": round((both[0] - both[1]) / (blocks * 0.9) * 1e3, 2),
        "ms_in_process": round(statistics.median(here) * 1e3, 2),
        "ms_empty_task_of_ray": round((time.perf_counter() - start) / blocks * 1e3, 2),
        "s_call_of_10_queries_a_block": round(both[1], 2),
    }
    print(result, flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cloud", type=int, default=40_000_000)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--all-rows", action="store_true", help="all-kNN of the rows, too")
    parser.add_argument("--kills", action="store_true")
    parser.add_argument("--node-cpus", type=int, default=1, help="CPUs of each node, as Ray counts them")
    parser.add_argument(
        "--alone-on", default="cpu", help="which device searches the rows without the cluster, cpu or cuda"
    )
    parser.add_argument("--commit", help="the commit measured, if this is no checkout")
    parser.add_argument("--folder", type=Path, help="where to work; some 20 GB for 40 million points")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "benchmarks" / "results" / "on_ray.json")
    options = parser.parse_args()
    import ray
    from ray.cluster_utils import Cluster

    folder = Path(tempfile.mkdtemp(prefix="kith-on-ray-", dir=options.folder))
    nodes = Nodes(Cluster, options.node_cpus)
    ray.init(address=nodes.cluster.address, log_to_driver=False)
    results = []
    try:
        if options.rows:
            base, asked = str(folder / "rows.npy"), str(folder / "queries.npy")
            write_rows(base, options.rows, 128, 1)
            write_rows(asked, options.queries, 128, 2)
            device, parts = options.alone_on, NODES * options.node_cpus
            results.append(
                run(
                    f"brute force, {options.rows:,} x 128, {options.queries:,} queries, k = {K}",
                    lambda: kith.knn(kith.read(base), kith.read(asked), K, device=device),
                    lambda: kith.ray.knn(base, asked, K, output=folder / "r", shards=parts, block=500, device="cpu"),
                )
            )
            if options.all_rows:
                how = {"shards": parts, "device": "cpu"}
                found = run(
                    f"all-kNN, {options.rows:,} x 128, k = {K}",
                    lambda: kith.all_knn(kith.read(base), K, device=device),
                    lambda: kith.ray.all_knn(base, K, output=folder / "all-rows", **how),
                )
                results.append(found)
                if options.kills:
                    tasks = found["tasks"]
                    results.append(killed(nodes, base, str(folder / "killed-rows"), found["sha256"], tasks // 3, **how))
            os.remove(base)
        if options.cloud:
            cloud = str(folder / "cloud.npy")
            write_rows(cloud, options.cloud, 3, 3)

            def alone():
                tiles = kith.PointTiles.build(folder / "tiles", cloud)
                return tiles.all_knn(folder / "alone", K, metric="euclidean")

            how = {"shards": 16, "device": "cpu"}
            found = run(
                f"all-kNN, {options.cloud:,} x 3, k = {K}",
                alone,
                lambda: kith.ray.all_knn(cloud, K, output=folder / "all", **how),
            )
            results.append(found)
            shutil.rmtree(folder / "tiles")
            if options.kills:
                results.append(killed(nodes, cloud, str(folder / "killed"), found["sha256"], 5, **how))
        if options.node_cpus == 1:
            results.append(a_task(folder))
    finally:
        ray.shutdown()
        nodes.cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    measured = {
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "node_cpus": options.node_cpus,
        "rows_alone_on": options.alone_on,
        "load": [round(load, 1) for load in os.getloadavg()],
        "nodes": NODES,
        "ray": ray.__version__,
        "commit": options.commit or commit(),
        "date": datetime.date.today().isoformat(),
        "command": " ".join(["python -m benchmarks.on_ray", *sys.argv[1:]]),
        "results": results,
    }
    options.output.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
