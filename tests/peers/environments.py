"""A virtual environment for each wheel, since they want different NumPys: made once, in $KITH_PEERS or build/peers."""

import glob
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(os.environ.get("KITH_PEERS", ROOT / "build" / "peers"))

#: What pip is asked for, and Pythons that there are wheels for; hnswlib is compiled.
WHEELS = {
    "diskann": (["numpy==1.25.*", "diskannpy==0.7.0"], ["3.11", "3.10"]),
    "faiss": (["faiss-cpu==1.15.1", "numpy>=2"], ["3.12", "3.11", "3.13", "3.10"]),
    "hnswlib": (["hnswlib==0.8.0", "numpy", "setuptools"], ["3.11", "3.12", "3.10", "3.13"]),
}


def _pythons(version):
    """Interpreters of a version: on the path, this one, those of pyenv."""
    found = [shutil.which(f"python{version}")]
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        found.append(sys.executable)
    found += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")))
    return [path for path in found if path]


def _make(folder, python, packages):
    temporary = folder.with_suffix(".new")
    shutil.rmtree(temporary, ignore_errors=True)
    subprocess.run([python, "-m", "venv", temporary], check=True, capture_output=True, text=True)
    pip = [temporary / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages], check=True, capture_output=True, text=True, timeout=1800)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def python_of(wheel):
    """(interpreter, reason): one of them is None."""
    packages, versions = WHEELS[wheel]
    folder = FOLDER / wheel
    python = folder / "bin" / "python"
    if python.exists():
        return python, None
    FOLDER.mkdir(parents=True, exist_ok=True)
    reason = f"no Python {' or '.join(versions)} is installed"
    for version in versions:
        for interpreter in _pythons(version):
            try:
                _make(folder, interpreter, packages)
                return python, None
            except subprocess.CalledProcessError as error:
                lines = (error.stderr or "").strip().splitlines() or [str(error)]
                reason = f"{' '.join(packages)} with Python {version}: {lines[-1]}"
            except (OSError, subprocess.TimeoutExpired) as error:
                reason = f"{' '.join(packages)} with Python {version}: {error}"
    return None, reason
