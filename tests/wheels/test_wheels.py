"""The wheels that tools/wheels.sh made, each installed where nothing else of Kith is: tools/wheels.sh runs these.

KITH_WHEELS: their folder, with the interpreters that try them. What they find is the same, bit for bit, from each. Those of
kith-cuda13 are tried beside kith's, and on a GPU as well where there is one; those for ARM under qemu.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
WORK = Path(os.environ["KITH_WHEELS"]).resolve()
WHEELS = sorted(WORK.glob("*.whl"))
LARGEST = {"kith": 15 << 20, "kith_cuda13": 60 << 20}
# All else goes along. The loader itself is among what is needed for thread-local storage.
SYSTEM = re.compile(r"lib(c|m|dl|rt|pthread|gcc_s)\.so\.\d+|ld-linux-(x86-64|aarch64)\.so\.\d")


def environment(folder):
    return {**os.environ, "PYTHONPATH": str(folder), "PYTHONNOUSERSITE": "1"}


def package(wheel):
    return wheel.name.split("-")[0]


def machine(wheel):
    return wheel.stem.partition("_2_31_")[2]


def version(wheel):
    return "3.13" if "abi3" in wheel.name else "3.11"


def beside(wheel):
    """The wheel of kith for the same Python: no other kith than this one."""
    return [] if package(wheel) == "kith" else [WORK / wheel.name.replace(package(wheel), "kith", 1)]


def interpreter(wheel):
    """One of its own folder; that for ARM runs under qemu."""
    own = WORK / machine(wheel) / f"python-{version(wheel)}" / "python"
    return str(own) if own.exists() else sys.executable


def install(folder, wheel, *more):
    """Unpacks a wheel, NumPy for its Python, and more."""
    line = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", folder,
            "--python-version", version(wheel), "--only-binary", ":all:"]  # fmt: skip
    for policy in ("_2_31", "_2_28", "2014"):
        line += ["--platform", f"manylinux{policy}_{machine(wheel)}"]
    subprocess.run([*line, wheel, *more], check=True)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each wheel's first use says, by name."""
    said = {}
    for wheel in WHEELS:
        folder = tmp_path_factory.mktemp("site")
        install(folder, wheel, *beside(wheel))
        done = subprocess.run([interpreter(wheel), HERE / "first_use.py"], env=environment(folder), cwd=folder, text=True,
                              stdout=subprocess.PIPE)  # fmt: skip
        assert done.returncode == 0, wheel.name
        said[wheel.name] = json.loads(done.stdout)
        print(f"\n{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MiB", said[wheel.name])
        assert said[wheel.name]["file"].startswith(str(folder / "kith"))
        assert said[wheel.name]["module"].startswith(str(folder / package(wheel)))
    return said


def test_there_are_wheels():
    assert WHEELS


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_what_is_in_a_wheel(wheel, tmp_path):
    assert wheel.stat().st_size < LARGEST[package(wheel)]
    assert re.search(r"-(cp311-cp311|cp312-abi3)-manylinux[\w.]*_2_31_(x86_64|aarch64)\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        (module,) = [name for name in names if name.endswith(".so")]
        own = {"kith/_kith.pyi", "kith/py.typed"} if package(wheel) == "kith" else set()
        assert {f"{package(wheel)}/__init__.py", f"{package(wheel)}/_version.py", *own} <= set(names)
        notices = files.read(f"{package(wheel)}/THIRD_PARTY.txt").decode()
        assert all(f"===== {name}\n" in notices for name in ("onetbb", "hdf5", "liburing", "nanobind"))
        assert {name.split("/")[0].split("-")[0] for name in names} == {package(wheel)}
        files.extract(module, tmp_path)
    dynamic = subprocess.run(["readelf", "-dVW", tmp_path / module], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    assert needed and all(SYSTEM.fullmatch(name) for name in needed)
    # What no library it names has: nothing but Python's own functions, which the interpreter brings.
    wanted = subprocess.run(
        ["nm", "-D", "--undefined-only", tmp_path / module], capture_output=True, text=True, check=True
    )
    symbols = [line.split()[-1] for line in wanted.stdout.splitlines() if line.split()[0] == "U"]
    assert symbols and [name for name in symbols if "@" not in name and not re.match(r"_?Py", name)] == []
    versions = {tuple(map(int, number.split("."))) for number in re.findall(r"GLIBC_(\d+\.\d+)", dynamic)}
    assert versions and max(versions) <= (2, 31)
    assert not re.search(r"GLIBCXX_|CXXABI_", dynamic)


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_a_wheel_works_alone(wheel, found):
    said = found[wheel.name]
    assert said["exact"] and said["same_after_load"] and said["same_from_hdf5"] and said["same_on_gpu"] in (None, True)


def test_all_find_the_same_bits(found):
    assert len({(said["graph_hash"], *said["bits"]) for said in found.values()}) == 1


def test_the_docs_run_with_it(tmp_path):
    """docs/python.md and docstrings, by the wheel for the interpreter that runs this."""
    (wheel,) = WORK.glob("kith-*-cp311-cp311-*_x86_64.whl")
    install(tmp_path / "site", wheel, "scikit-learn", "pyarrow", "pytest")
    tests = ["tests/python/test_docs.py", "tests/python/test_knn.py", "tests/python/test_index.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=environment(tmp_path / "site"),
    )
    assert done.returncode == 0
