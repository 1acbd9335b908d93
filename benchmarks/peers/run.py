"""One peer, one task, driven by `kith bench` over standard input and output: a JSON object a line.

    -> {"peer": "faiss", "base": "b.npy", "queries": "q.npy", "max_queries": -1, "batch": 0, "k": 10,
        "metric": "sqeuclidean", "threads": 2}
    <- {"name": "faiss", "version": "1.9.0", "note": "...", "build_seconds": 0.2}
    -> {"do": "search"}                  any number of times: all queries, `batch` a call (0: in one call)
    <- {"seconds": [0.81]}               of each call
    -> {"do": "finish", "stem": "/tmp/x/faiss"}
    <- {"peak_rss_bytes": 1234, "negative_distances": 0}      after writing the last answer to
                                         STEM.indices.npy and STEM.distances.npy

An answer {"error": "..."} says what is wrong. Whatever a library prints goes to standard error.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def serve(requests, reply):
    """Answers every request; `requests` yields objects, `reply` sends one."""
    import numpy as np

    from benchmarks.peers import open_peer

    task = next(requests)
    peer = open_peer(task["peer"])
    peer.check_metric(task["metric"])
    base, queries = np.load(task["base"], mmap_mode="r"), np.load(task["queries"], mmap_mode="r")
    if task["k"] > len(base):
        raise ValueError(f"k is {task['k']} and the data has {len(base)} rows; peers are asked for at most that")
    if task["max_queries"] >= 0:
        queries = queries[: task["max_queries"]]
    started = time.perf_counter()
    peer.build(base, task["metric"], task["threads"])
    build_seconds = time.perf_counter() - started
    del base
    queries = peer.prepare(queries)
    batch = task["batch"] or max(1, len(queries))
    reply({"name": peer.name, "version": peer.version, "note": peer.note, "build_seconds": build_seconds})

    answers = []
    for request in requests:
        if request["do"] == "search":
            answers, seconds = [], []
            for first in range(0, len(queries), batch):
                block = queries[first : first + batch]
                started = time.perf_counter()
                answers.append(peer.search(block, task["k"]))
                seconds.append(time.perf_counter() - started)
            reply({"seconds": seconds})
        elif request["do"] == "finish":
            indices = np.concatenate([a[0] for a in answers])
            distances = np.concatenate([a[1] for a in answers])
            np.save(request["stem"] + ".indices.npy", indices.astype(np.int64))
            np.save(request["stem"] + ".distances.npy", distances)
            # A distance that is not inner_product cannot be below zero; rounding can make it so.
            negative = 0 if task["metric"] == "inner_product" else int((distances < 0).sum())
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            reply({"peak_rss_bytes": peak, "negative_distances": negative})
            return


def main():
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # from here on print() and libraries write to standard error

    def reply(value):
        channel.write(json.dumps(value) + "\n")
        channel.flush()

    requests = (json.loads(line) for line in sys.stdin)
    try:
        serve(requests, reply)
    except (ImportError, OSError, ValueError, MemoryError) as error:
        reply({"error": str(error) or type(error).__name__})
        sys.exit(1)


if __name__ == "__main__":
    main()
