"""Signals and limits while files are read and written: a clear end, and no temporary file."""

import json
import os
import resource
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from program import KITH, files_of


@pytest.fixture
def large(folder):
    """A file that takes a while to convert to text."""
    np.save("large.npy", np.random.default_rng(8).standard_normal((1_500_000, 3)))
    return folder


def start(*arguments, **more):
    return subprocess.Popen([KITH, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def temporaries(folder):
    return [name for name in files_of(folder) if name.endswith(".tmp")]


@pytest.fixture(autouse=True)
def not_under_nohup():
    """A process that is started with SIGHUP ignored keeps to that: the tests may be run by nohup themselves."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number, code", [(signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_while_writing(large, number, code):
    before = files_of(large)
    process = start("convert", "large.npy", "out.xyz")
    wait_for(lambda: temporaries(large))
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert err == b"kith convert: error: interrupted; no output was written\n"
    assert files_of(large) == before


@pytest.mark.parametrize("number, code", [(signal.SIGHUP, 129), (signal.SIGTERM, 143)])
def test_a_second_signal_leaves_nothing_either(large, number, code):
    before = files_of(large)
    process = start("convert", "large.npy", "out.xyz")
    wait_for(lambda: temporaries(large))
    process.send_signal(signal.SIGSTOP)  # so that both arrive together
    process.send_signal(number)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=30)
    assert process.returncode in (code, 130)
    assert files_of(large) == before


TOO_LATE = {
    "o.tiles": ["build", "points.npy", "--index", "point_tiles", "-o", "o.tiles", "--tile-points", "4000"],
    "o.indices.npy": ["all-knn", "points.npy", "-k", "3", "-o", "o", "--tile-points", "4000"],
    "o.xyz": ["convert", "points.npy", "o.xyz"],
    "o.ply": ["normals", "points.npy", "-k", "5", "-o", "o.ply", "--tile-points", "4000"],
}


@pytest.mark.parametrize("output", TOO_LATE)
def test_a_signal_after_the_output_is_in_place(folder, output):
    """The command has succeeded: nobody is told that there is no output."""
    np.save("points.npy", np.random.default_rng(3).random((60_000, 3)))
    before = files_of(folder)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) * 2:
        process = start(*TOO_LATE[output])
        while not os.path.exists(output) and process.poll() is None:
            pass
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert b"no output" not in err and b"interrupted" not in err and b"wrote o" in err
        left = [name for name in files_of(folder) if name not in before]
        assert all(name.startswith("o.") and "kith" not in name for name in left)
        for name in left:
            shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)


def test_hangup_during_a_search(folder):
    np.save("base.npy", np.random.default_rng(6).integers(0, 255, (60_000, 96)).astype(np.float64))
    process = start("knn", "base.npy", "base.npy", "-k", "50", "--filter", "none", "-o", "r", "--threads", "1")
    time.sleep(1.5)
    process.send_signal(signal.SIGHUP)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 129 and b"interrupted" in err and out == b""
    assert files_of(folder) == ["base.npy"]


def test_nohup_goes_on(large):
    process = start("convert", "large.npy", "out.xyz", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    wait_for(lambda: temporaries(large))
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=120)
    assert process.returncode == 0 and "out.xyz" in files_of(large)


@pytest.mark.parametrize("output", ["out.xyz", "out.fvecs", "out.h5"])
def test_a_limit_on_the_size_of_files(large, output):
    before = files_of(large)
    process = start(
        "convert", "large.npy", output, *(["--dtype", "f32", "--round"] if output == "out.fvecs" else []),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )  # fmt: skip
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert output in err.decode()
    assert "File too large" in err.decode() and len(err.splitlines()) == 1
    if output != "out.h5":
        assert "ulimit -f" in err.decode()
    assert files_of(large) == before


def test_a_reader_that_leaves(large):
    """The program ends as by SIGPIPE, without a word."""
    process = start("convert", "large.npy", "-", "--format", "xyz")
    assert process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(timeout=30) in (-signal.SIGPIPE, 141)
    done = subprocess.run(
        ["bash", "-c", f"{KITH} convert large.npy - --format xyz | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
    )
    assert done.stdout.splitlines()[-1] == b"141" and done.stderr == b""
    assert files_of(large) == ["large.npy"]


def test_a_reader_that_leaves_a_pair(large):
    """One file of two goes into a pipe: the temporary of the other goes as well."""
    np.save("queries.npy", np.load("large.npy")[:200_000].astype(np.float32))
    np.save("base.npy", np.load("large.npy")[:50].astype(np.float32))
    os.mkfifo("r.fvecs")
    process = start("knn", "base.npy", "queries.npy", "-k", "20", "-o", "r.ivecs", "--index", "kd_tree")
    with open("r.fvecs", "rb") as reader:
        assert reader.read(10)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGPIPE
    assert temporaries(large) == [] and "r.ivecs" not in files_of(large)


def test_stopped_while_nobody_reads(large):
    """A pipe without a reader, and one whose reader takes nothing."""
    os.mkfifo("pipe")
    process = start("convert", "large.npy", "pipe", "--format", "npy")
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 143
    process = start("convert", "large.npy", "pipe", "--format", "npy")
    reader = os.open("pipe", os.O_RDONLY)
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=10)
    os.close(reader)
    assert process.returncode == 143 and b"incomplete" in err


CUT = [
    ["convert", "large.npy", "out.xyz"],
    ["knn", "large.npy", "large.npy", "-k", "50", "--index", "brute_force", "--filter", "none", "-o", "r"],
    ["build", "large.npy", "-o", "x.kith"],
    ["info", "large.npy", "--stats"],
    ["all-knn", "large.npy", "-k", "5", "-o", "r"],
]


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("arguments", CUT, ids=" ".join)
def test_a_file_cut_while_it_is_mapped(large, arguments, as_json):
    """Its first page stays, so that the command meets the gap wherever it reads on."""
    process = start(*arguments, *(["--json"] if as_json else []), "-q")
    maps = f"/proc/{process.pid}/maps"

    def mapped():
        try:
            return "large.npy" in open(maps).read()
        except OSError:
            return True

    wait_for(mapped)
    os.truncate("large.npy", 4096)
    out, err = process.communicate(timeout=120)
    text = err.decode()
    assert process.returncode == 2, (process.returncode, text)
    if as_json:
        error = json.loads(text)["error"]
        assert error["kind"] == "io" and error["exit_code"] == 2
        text = error["message"]
    else:
        assert len(text.splitlines()) == 1 and text.startswith(f"kith {arguments[0]}: error: ")
    assert "large.npy" in text and ("shortened" in text or "truncated" in text)
    assert out == b"" and files_of(large) == ["large.npy"]


def test_a_cut_within_the_last_page(folder):
    """What is missing of it reads as zeros, without a signal: the answer is refused all the same."""
    rows = np.random.default_rng(6).integers(0, 255, (60_000, 96)).astype(np.float64)
    np.save("base.npy", rows)
    size = os.path.getsize("base.npy")
    assert size % 4096 > 100
    process = start(
        "knn",
        "base.npy",
        "base.npy",
        "--max-queries",
        "200",
        "-k",
        "5",
        "--filter",
        "none",
        "--threads",
        "1",
        "-o",
        "r",
    )
    wait_for(lambda: "base.npy" in open(f"/proc/{process.pid}/maps").read())
    os.truncate("base.npy", size - 64)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and b"'base.npy'" in err and (b"shortened" in err or b"truncated" in err)
    assert files_of(folder) == ["base.npy"]


def test_an_index_cut_while_it_is_searched(folder):
    rows = np.random.default_rng(6).integers(0, 255, (60_000, 96)).astype(np.float64)
    np.save("base.npy", rows)
    subprocess.run([KITH, "build", "base.npy", "-o", "base.kith", "--filter", "none", "-q"], check=True)
    process = start("search", "base.kith", "base.npy", "-k", "50", "-o", "r", "--threads", "1")
    time.sleep(1)
    os.truncate("base.kith", 8192)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and b"base.kith" in err
    assert files_of(folder) == ["base.kith", "base.npy"]


def test_another_bus_error_is_not_hidden(folder):
    """SIGBUS that no mapped input explains ends the program as ever."""
    np.save("base.npy", np.random.default_rng(6).standard_normal((60_000, 96)))
    process = start("knn", "base.npy", "base.npy", "-k", "50", "--filter", "none", "--threads", "1")
    time.sleep(1)
    process.send_signal(signal.SIGBUS)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGBUS
