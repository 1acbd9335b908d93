"""Fixtures: the source tree on the path, the kith program, small datasets."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]


@pytest.fixture(scope="session")
def kith():
    """The program under test: $KITH, or build/bin/kith."""
    program = Path(os.environ.get("KITH", ROOT / "build/bin/kith")).resolve()
    assert program.is_file(), f"{program} is missing; build it, or name another with KITH"
    return program


@pytest.fixture
def files(tmp_path):
    """A base of 300 rows and 20 queries of dimension 6, as npy."""
    random = np.random.default_rng(1)
    base, queries = tmp_path / "base.npy", tmp_path / "queries.npy"
    np.save(base, random.standard_normal((300, 6)).astype(np.float32))
    np.save(queries, random.standard_normal((20, 6)).astype(np.float32))
    return base, queries
