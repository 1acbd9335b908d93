"""The wheel that `pip install .` makes. Compiles everything once more: only with KITH_TEST_WHEEL=1."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import venv
import zipfile

import pytest

PROJECT = pathlib.Path(__file__).parents[2]


@pytest.mark.skipif(os.environ.get("KITH_TEST_WHEEL") != "1", reason="takes minutes; set KITH_TEST_WHEEL=1")
def test_wheel_installs_and_works_in_a_fresh_environment(tmp_path):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", tmp_path, PROJECT], check=True, env=clean)
    (wheel,) = tmp_path.glob("kith-*.whl")
    assert wheel.stat().st_size < 5 * 2**20
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    kept = {name for name in names if ".dist-info/" not in name}
    package = PROJECT / "python"
    sources = {str(path.relative_to(package)) for kind in ("py", "css") for path in package.rglob(f"kith/**/*.{kind}")}
    assert kept >= sources | {"kith/py.typed", "kith/_kith.pyi"}
    assert [name for name in kept - sources if name.endswith(".so")] == list(
        kept - sources - {"kith/py.typed", "kith/_kith.pyi"}
    )
    fresh = tmp_path / "fresh"
    venv.create(fresh, with_pip=True)
    subprocess.run([fresh / "bin/python", "-m", "pip", "install", "-q", wheel], check=True, env=clean)
    code = "import kith, numpy as n; print(kith.__version__, kith.knn(n.eye(3), n.eye(3), 1).indices.ravel())"
    out = subprocess.run(
        [fresh / "bin/python", "-c", code], check=True, capture_output=True, text=True, cwd=tmp_path, env=clean
    ).stdout
    assert out.split(maxsplit=1) == [wheel.name.split("-")[1], "[0 1 2]\n"]
