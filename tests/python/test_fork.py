"""Forked processes, multiprocessing's default on Linux up to Python 3.13: they search and build as their parent does."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import kith
import numpy as np
import pytest

from .oracle import random_rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

X = random_rows("float32", 30000, 3, 1)
Q = X[:400]


def answers(inherited):
    """What this process finds: built here, and with an index of the parent's."""
    own = [kith.KdTree(X, threads=4), kith.Octree(X, threads=4), kith.BruteForce(X, threads=4)]
    found = [index.search(Q, 5, threads=4) for index in [*own, *inherited]]
    found.append(kith.knn(X, Q, 5, index="brute_force", threads=4))
    near = own[0].radius_search(Q, 0.05, threads=4)
    return [(n.distances.tobytes(), n.indices.tobytes()) for n in [*found, near]]


INHERITED = []  # indexes made before the fork


def in_worker(_):
    return answers(INHERITED)


@pytest.fixture(scope="module", autouse=True)
def inherited():
    INHERITED[:] = [kith.KdTree(X, threads=4), kith.BruteForce(X, threads=4)]
    yield
    INHERITED.clear()


@pytest.fixture(autouse=True)
def quiet_forks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads
        yield


def wait_for(children, seconds=120):
    """Statuses of processes; one that hangs is ended."""
    end = time.monotonic() + seconds
    statuses = []
    for child in children:
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                statuses.append(os.waitstatus_to_exitcode(status))
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
            time.sleep(0.005)
    return statuses


def fork_and(check, end=os._exit):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if check() else 1
        finally:
            end(status)
    return child


def test_the_default_start_method_works_after_threads_have_searched():
    if sys.version_info < (3, 14):
        assert multiprocessing.get_start_method() == "fork"
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(in_worker, range(4)))
    expected = answers(INHERITED)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert all(found == expected for found in pool.map_async(in_worker, range(8)).get(timeout=240))


def test_children_work_that_are_forked_while_threads_search():
    expected = answers(INHERITED)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            answers(INHERITED)

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        statuses = []
        for _ in range(8):
            statuses += wait_for([fork_and(lambda: answers(INHERITED) == expected) for _ in range(2)])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 16


def test_a_child_ends_as_a_process_does():
    """Through the exit functions, which wait for nobody that only the parent has."""
    code = (
        "import os, threading, kith, numpy as np\n"
        "X = np.random.default_rng(1).random((20000, 3), dtype=np.float32)\n"
        "tree = kith.KdTree(X, threads=3)\n"
        "stop = threading.Event()\n"
        "def busy():\n"
        "    while not stop.is_set(): tree.search(X[:200], 3, threads=3, progress=lambda d, t: None)\n"
        "thread = threading.Thread(target=busy); thread.start()\n"
        "expected = tree.search(X[:100], 3, threads=1)\n"
        "children = []\n"
        "for i in range(10):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        good = (tree.search(X[:100], 3, threads=3).indices == expected.indices).all()\n"
        "        raise SystemExit(0 if good else 1)\n"
        "    children.append(child)\n"
        "stop.set(); thread.join()\n"
        "print([os.waitpid(child, 0)[1] for child in children])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == str([0] * 10), done.stderr


def test_spawned_children_work_as_ever():
    expected = answers([])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply_async(answers, ([],)).get(timeout=240)
    assert found == expected


def test_hdf5_is_read_in_children(tmp_path):
    path = tmp_path / "x.h5"
    kith.write(path, X)
    assert wait_for([fork_and(lambda: np.array_equal(kith.read(path), X))]) == [0]
