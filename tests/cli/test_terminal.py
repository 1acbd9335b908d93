"""The progress bar on a terminal, and Ctrl-C."""

import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from fcntl import ioctl

import numpy as np
import pytest
from program import KITH, files_of


@pytest.fixture
def long_search(folder):
    """A call that would run for minutes."""
    np.save("base.npy", np.random.default_rng(6).integers(0, 255, (60_000, 96)).astype(np.float64))
    return [str(KITH), "knn", "base.npy", "base.npy", "-k", "50", "--filter", "none", "-o", "r", "--threads", "1"]


def on_a_terminal(command, columns=80, seconds=60, stop_when=None):
    """Runs with stderr on a terminal; returns (exit status, what the terminal got)."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    seen = b""
    end = time.monotonic() + seconds
    sent = False
    while time.monotonic() < end:
        if select.select([master], [], [], 0.1)[0]:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            seen += part
        if stop_when is not None and not sent and stop_when(seen):
            process.send_signal(signal.SIGINT)
            sent = True
    else:
        process.kill()
    os.close(master)
    return process.wait(timeout=10), seen.decode()


def test_bar_on_a_terminal_and_erased(folder, long_search):
    code, seen = on_a_terminal(long_search, columns=80, stop_when=lambda text: text.count(b"\r\x1b[K") > 5)
    assert code == 130
    frames = seen.split("\r\x1b[K")
    bars = [frame for frame in frames if "%" in frame]
    assert bars, seen
    for frame in bars:
        assert re.match(r"\w+ +\d+% \[#* *\] \S+/\S+ \S+/s( ETA \d+:\d\d(:\d\d)?)?$", frame), frame
        assert len(frame) < 80
    assert frames[-1].startswith("kith knn: error: interrupted"), "the bar must be erased before the message"
    done = [int(re.search(r"(\d+)%", frame)[1]) for frame in bars]
    assert done == sorted(done)


def test_narrow_terminals(folder, long_search):
    _, seen = on_a_terminal(long_search, columns=30, stop_when=lambda text: text.count(b"\r\x1b[K") > 3)
    bars = [frame for frame in seen.split("\r\x1b[K") if "%" in frame]
    assert bars and all(len(frame) < 30 for frame in bars)


def test_no_bar_with_quiet_or_in_a_pipe(folder, long_search):
    start = time.monotonic()
    _, seen = on_a_terminal([*long_search, "--quiet"], seconds=20, stop_when=lambda text: time.monotonic() - start > 2)
    assert "%" not in seen
    process = subprocess.Popen(long_search, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert out == b"" and b"%" not in err and b"\r" not in err


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("delay", [0.3, 1.5])
def test_a_signal_stops_a_search_cleanly(folder, long_search, number, code, delay):
    before = files_of(folder)
    process = subprocess.Popen(long_search, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(delay)
    process.send_signal(number)
    start = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - start < 5
    assert process.returncode == code
    assert out == b"" and b"interrupted" in err and err.count(b"\n") == 1
    assert files_of(folder) == before


def test_a_signal_during_build_and_generate(folder):
    command = [str(KITH), "generate", "gaussian", "-n", "20000000", "-d", "16", "--dtype", "u8", "-o", "big.npy"]
    for wait in (1, 0.5, 0.25, 0.12):  # a machine may be done before
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        if process.returncode != 0:
            break
        os.remove("big.npy")
    assert process.returncode == 130
    assert files_of(folder) == []


def test_interruption_as_json(folder, long_search):
    import json

    process = subprocess.Popen([*long_search, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    error = json.loads(err)["error"]
    assert out == b"" and error["kind"] == "interrupted" and error["exit_code"] == 130
