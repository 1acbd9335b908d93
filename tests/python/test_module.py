"""Which compiled module `import kith` takes: its own, or that of a package kith_cuda13 beside it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import kith
import pytest

USE = """
import kith, sys
print(kith._kith.__file__)
print(sys.modules["kith._kith"] is kith._kith, kith._kith.__name__, type(kith.devices()[0]).__module__)
print(kith.knn([[0.0], [2.0]], [[1.5]], 1).indices.tolist())
"""


@pytest.fixture
def beside(tmp_path):
    """Makes a package kith_cuda13 of a version and runs a program with it: (version, module, *more) -> its result."""

    def run(version, module, *arguments):
        package = tmp_path / "kith_cuda13"
        package.mkdir()
        source = Path(__file__).parents[2] / "python" / "cuda13" / "kith_cuda13" / "__init__.py"
        shutil.copy(source, package)
        (package / "_version.py").write_text(f'__version__ = "{version}"\n')
        if module is not None:
            (package / Path(kith._kith.__file__).name).write_bytes(module)
        path = os.pathsep.join([str(tmp_path), *sys.path])
        line = [sys.executable, *arguments, "-c", USE]
        return subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})

    return run


def test_its_module_is_used(beside, tmp_path):
    done = beside(kith.__version__, Path(kith._kith.__file__).read_bytes())
    assert done.returncode == 0, done.stderr
    file, *rest = done.stdout.splitlines()
    assert Path(file).parent == tmp_path / "kith_cuda13"
    assert rest == ["True kith._kith kith._devices", "[[1]]"]
    assert not done.stderr


def test_another_version_is_left_alone(beside):
    done = beside("99.0.0", b"not a module")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == kith._kith.__file__
    assert "RuntimeWarning: kith-cuda13 99.0.0 does not belong to kith" in done.stderr
    assert f"the one of version {kith.__version__}" in done.stderr


def test_a_folder_of_that_name_is_left_alone(tmp_path):
    (tmp_path / "kith_cuda13").mkdir()
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", USE], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0 and done.stdout.splitlines()[0] == kith._kith.__file__, done.stderr
    assert "RuntimeWarning: there is a kith_cuda13 without a version" in done.stderr


@pytest.mark.parametrize("module, words", [(b"not a module", "too short"), (None, "no module _kith in it")])
def test_a_damaged_one_is_named(beside, module, words):
    done = beside(kith.__version__, module)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: kith-cuda13 {kith.__version__} cannot be loaded (")
    assert words in done.stderr and "uninstall it to use CPUs alone" in done.stderr
