"""The package is typed: mypy reads it, and the generated stub is the module's."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap

import kith
import kith._kith
import pytest

PACKAGE = pathlib.Path(kith.__file__).parent
PROJECT = pathlib.Path(__file__).parents[2]


def mypy(tmp_path, *arguments):
    pytest.importorskip("mypy")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", PROJECT / "pyproject.toml",
         "--cache-dir", tmp_path / "cache", *arguments],
        capture_output=True, text=True, cwd=tmp_path, env={"MYPYPATH": str(PACKAGE.parent), "PATH": ""},
    )  # fmt: skip


def test_mypy_reads_package_and_sample(tmp_path):
    sample = tmp_path / "sample.py"
    sample.write_text(
        textwrap.dedent(
            """\
            import numpy as np
            import kith
            index = kith.BruteForce(np.eye(3), metric="cosine", threads=2)
            distances, indices = index.search(np.eye(3), 2, progress=lambda done, total: None)
            reveal_type(index.filter)
            reveal_type(kith.knn(np.eye(3), np.eye(3)).indices)
            reveal_type(kith.load("x"))
            reveal_type(kith.BruteForce.load("x"))
            tree = kith.KdTree(np.eye(3), leaf_size=8)
            reveal_type(tree.radius_search(np.eye(3), 0.5)[0][1])
            reveal_type(kith.Octree.load("x").normals(k=8).curvature)
            kith.knn(np.eye(3), np.eye(3), k="5")
            index.serach(np.eye(3))
            """
        )
    )
    result = mypy(tmp_path, "-p", "kith")
    assert result.returncode == 0, result.stdout + result.stderr
    result = mypy(tmp_path, sample)
    lines = [line for line in result.stdout.splitlines() if line.startswith("sample.py")]
    assert [line.split(":")[1] for line in lines] == ["5", "6", "7", "8", "10", "11", "12", "13"], (
        result.stdout + result.stderr
    )
    for line, words in zip(
        lines,
        [
            'str"',
            "signedinteger",
            '"kith._index.Index"',
            '"kith._index.BruteForce"',
            "signedinteger",
            "ndarray",
            '"k"',
            "serach",
        ],
        strict=True,
    ):
        assert words in line


def test_the_stub_is_the_modules():
    stubgen = pytest.importorskip("nanobind.stubgen")
    generator = stubgen.StubGen(kith._kith)
    generator.put(kith._kith)
    assert (PACKAGE / "_kith.pyi").read_text() == generator.get().replace("kith._kith.", "")
    assert (PACKAGE / "py.typed").exists()


def test_everything_public_is_documented():
    names = [getattr(kith, name) for name in kith.__all__ if name != "__version__"]
    for thing in names:
        assert thing.__doc__, thing
        if isinstance(thing, type):
            for name, member in vars(thing).items():
                if not name.startswith("_") and (callable(member) or isinstance(member, (property, classmethod))):
                    assert member.__doc__, f"{thing.__name__}.{name}"
    for name, member in vars(kith._kith).items():
        if not name.startswith("__"):
            assert member.__doc__, name
