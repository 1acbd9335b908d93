"""How calls run: the GIL, Ctrl-C, progress, many threads at once."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
import sys
import textwrap
import threading
import time

import kith
import numpy as np
import pytest

from .oracle import random_rows


def test_concurrent_searches_of_one_index():
    X = random_rows("float32", 4000, 16, 1)
    index = kith.BruteForce(X)
    batches = [random_rows("float32", 40, 16, seed) for seed in range(12)]
    expected = [index.search(Q, 8) for Q in batches]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for answer, want in zip(
            pool.map(lambda Q: index.search(Q, 8, threads=2), batches * 3), expected * 3, strict=True
        ):
            np.testing.assert_array_equal(answer.indices, want.indices)
            np.testing.assert_array_equal(answer.distances, want.distances)


@pytest.mark.parametrize("progress", [False, lambda done, total: None], ids=["silent", "reporting"])
def test_other_python_threads_run_during_a_search(progress):
    X = random_rows("float32", 20000, 128, 1)
    Q = random_rows("float32", 150, 128, 2)
    ticks = []
    over = threading.Event()

    def search():
        while len(ticks) < 5 and not over.is_set():
            kith.knn(X, Q, 10, filter="none", progress=progress, threads=1)
        over.set()

    worker = threading.Thread(target=search)
    start = time.monotonic()
    # One call is one stretch in which a kept GIL would let nobody else run.
    begin = time.monotonic()
    kith.knn(X, Q, 10, filter="none", threads=1)
    one_call = time.monotonic() - begin
    worker.start()
    longest = 0.0
    previous = time.monotonic()
    while len(ticks) < 5 and time.monotonic() - start < 60:
        time.sleep(one_call / 20)
        now = time.monotonic()
        longest = max(longest, now - previous)
        previous = now
        if now - begin > 4 * one_call:
            ticks.append(now)
    over.set()
    worker.join()
    assert len(ticks) >= 5
    assert longest < max(0.75 * one_call, 0.05)


def test_a_small_search_in_a_thread_of_python():
    # Small calls run in the caller's thread, whichever it is.
    X = np.eye(5)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert pool.submit(kith.knn, X, X, 1).result().indices.ravel().tolist() == [0, 1, 2, 3, 4]


def run_python(code, *, interrupt_after=None):
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background inherits an ignored SIGINT; Python would then install no handler.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        if interrupt_after is not None:
            assert process.stdout.readline().strip() == "ready"
            time.sleep(interrupt_after)
            process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, out, err


LONG = """
    import time
    import numpy as np
    import kith
    X = np.random.default_rng(1).standard_normal((60_000, 256)).astype(np.float32)
    Q = np.random.default_rng(2).standard_normal((60_000, 256)).astype(np.float32)
    index = kith.BruteForce(X, filter="none")
    print("ready")
    start = time.monotonic()
    try:
        {call}
    except KeyboardInterrupt:
        print("interrupted after", round(time.monotonic() - start, 1))
"""


@pytest.mark.parametrize(
    "call",
    [
        "index.search(Q, 10)",
        "kith.knn(X, Q, 10, filter='none')",
        "index.search(Q, 10, progress=lambda done, total: None)",
    ],
)
def test_ctrl_c_ends_a_search_soon(call):
    code, out, err = run_python(LONG.replace("{call}", call), interrupt_after=0.5)
    assert code == 0, err
    assert out.startswith("interrupted after"), (out, err)
    assert float(out.split()[-1]) < 10  # seconds; the whole search takes minutes


def test_a_signal_handler_that_returns_lets_the_search_go_on():
    code, out, err = run_python(
        """
        import signal, numpy as np, kith
        seen = []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        X = np.random.default_rng(1).standard_normal((20_000, 64)).astype(np.float32)
        answer = kith.knn(X, X[:200], 3, filter="none", threads=1)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(bool(seen), (answer.indices[:, 0] == range(200)).all())
        """
    )
    assert code == 0, err
    assert out.split() == ["True", "True"]


@pytest.mark.parametrize("threads", [1, 6])
@pytest.mark.parametrize("queries, progress", [(1, "False"), (2000, "False"), (2000, "lambda done, total: None")])
def test_the_interpreter_may_end_while_daemon_threads_search(queries, progress, threads):
    # Several threads make it likely that one of them waits for the GIL just when the interpreter ends.
    code, out, err = run_python(
        f"""
        import threading, time, numpy as np, kith
        index = kith.BruteForce(np.random.default_rng(1).standard_normal((30_000, 64)).astype(np.float32), filter="none")
        Q = np.zeros(({queries}, 64), np.float32)
        def forever():
            while True:
                index.search(Q, 3, threads=1, progress={progress})
        for _ in range({threads}):
            threading.Thread(target=forever, daemon=True).start()
        time.sleep(0.3)
        print("leaving")
        """
    )
    assert (code, out.strip(), err) == (0, "leaving", "")


def collect(call):
    seen = []
    result = call(lambda done, total: seen.append((done, total, threading.get_ident())))
    return seen, result


def test_progress_calls_a_function_in_the_callers_thread():
    X, Q = random_rows("float32", 20000, 96, 1), random_rows("float32", 600, 96, 2)
    index = kith.BruteForce(X)
    for call in (
        lambda f: kith.knn(X, Q, 5, progress=f),
        lambda f: index.search(Q, 5, progress=f),
    ):
        seen, answer = collect(call)
        assert answer.indices.shape == (600, 5)
        assert seen and seen[-1][0] == seen[-1][1] > 0
        assert all(0 <= done <= total for done, total, _ in seen)
        assert {thread for *_, thread in seen} == {threading.get_ident()}


def test_what_a_progress_function_raises_ends_the_search():
    X, Q = random_rows("float32", 20000, 96, 1), random_rows("float32", 600, 96, 2)

    def fail(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        kith.knn(X, Q, 5, filter="none", progress=fail)
    assert kith.knn(X, Q[:2], 5).indices.shape == (2, 5)


@pytest.mark.parametrize("tqdm", [True, False])
def test_progress_bar_on_stderr(tqdm, tmp_path):
    if tqdm:
        pytest.importorskip("tqdm")
    code, out, err = run_python(
        f"""
        import sys, numpy as np
        if not {tqdm}:
            sys.modules["tqdm"] = sys.modules["tqdm.auto"] = None
        import kith
        X = np.random.default_rng(1).standard_normal((20_000, 64)).astype(np.float32)
        index = kith.BruteForce(X, progress=True)
        index.search(X[:600], 3, progress=True)
        index.save({str(tmp_path / "i.kith")!r}, progress=True)
        kith.BruteForce.load({str(tmp_path / "i.kith")!r}, progress=True)
        """
    )
    assert code == 0, err
    assert out == ""
    assert "kith search" in err and "100%" in err


def test_no_progress_is_silent(capfd):
    X = random_rows("float32", 5000, 32, 1)
    kith.BruteForce(X).search(X, 3)
    kith.knn(X, X, 3, progress=None)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progress", ["yes", 1, 0.5])
def test_other_values_of_progress_are_refused(progress):
    with pytest.raises(TypeError, match="progress: .*True for a bar"):
        kith.knn(np.eye(2), np.eye(2), 1, progress=progress)
