"""The program under test, and the mark that says which option a test would catch being ignored."""

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KITH = Path(os.environ.get("KITH", ROOT / "build" / "bin" / "kith")).resolve()


def pytest_configure(config):
    config.addinivalue_line("markers", "covers(command, *options): the test fails if an option were ignored")


class Outcome:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()

    @property
    def json(self):
        return json.loads(self.out)


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


def files_of(folder):
    """Names of all files in the folder, temporary ones too."""
    return sorted(path.name for path in folder.iterdir())
