"""Data, the program, and the wheels in environments of their own."""

import json
import os
import subprocess
from pathlib import Path

import environments
import numpy as np
import pytest

KITH = Path(os.environ.get("KITH", environments.ROOT / "build" / "bin" / "kith")).resolve()
ROWS, QUERIES, DIM, K = 20_000, 1_000, 64, 10
LISTS = (10, 16, 32, 64, 128)


@pytest.fixture(scope="session")
def kith():
    def run(*arguments):
        process = subprocess.run([KITH, *map(str, arguments)], capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
        return json.loads(process.stdout) if "--json" in arguments else process.stdout

    return run


@pytest.fixture(scope="session")
def data(tmp_path_factory, kith):
    """Files base.npy, queries.npy, and truth of each metric."""
    folder = tmp_path_factory.mktemp("data")
    generate = ("generate", "low_intrinsic_dimension", "-d", DIM, "--seed", 7)
    kith(*generate, "-n", ROWS, "-o", folder / "base.npy")
    kith(*generate, "-n", QUERIES, "--first-row", ROWS, "-o", folder / "queries.npy")
    for metric in ("sqeuclidean", "inner_product", "cosine"):
        kith("knn", folder / "base.npy", folder / "queries.npy", "-k", K, "--metric", metric, "-o", folder / metric)
    return folder


@pytest.fixture(scope="session")
def wheel():
    def script(name):
        python, reason = environments.python_of(name)
        if python is None:
            pytest.skip(reason)

        def run(*arguments, timeout=1800):
            script = Path(__file__).parent / "wheels" / f"{name}.py"
            command = [python, script, *map(str, arguments)]
            process = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
            assert process.returncode == 0, process.stdout + process.stderr

        return run

    return script


@pytest.fixture
def recall(data):
    def share(found, metric):
        truth = np.load(data / f"{metric}.indices.npy")
        return np.mean([len(set(a) & set(b)) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]) / K

    return share


@pytest.fixture(scope="session")
def table():
    """Rows (what, metric, list, wheel, Kith), printed at the end."""
    rows = []
    yield rows
    print()
    for row in rows:
        print("{:<28} {:<14} {:>4}  wheel {:.4f}  Kith {:.4f}".format(*row))
