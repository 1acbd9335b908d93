"""Fixtures that run the program, and the mark that says which option a test would catch being ignored."""

import os
import subprocess

import pytest
from program import KITH, Outcome

# Choices as built in, whatever this machine has been measured to do.
os.environ["KITH_CALIBRATION"] = "off"


def pytest_configure(config):
    config.addinivalue_line("markers", "covers(command, *options): the test fails if an option were ignored")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder, the current one during the test."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def kith(folder):
    """kith("knn", "a.npy", ..., code=0) runs the program in the empty folder and checks its exit status."""

    def run(*arguments, code=0, env=None, stdout=subprocess.PIPE, timeout=120):
        process = subprocess.run(
            [str(KITH), *map(str, arguments)],
            cwd=folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=timeout,
        )
        if stdout is not subprocess.PIPE:
            process.stdout = b""
        outcome = Outcome(process)
        assert outcome.code == code, f"exit status {outcome.code}, not {code}\n{outcome.out}\n{outcome.err}"
        return outcome

    return run
