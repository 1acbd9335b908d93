"""The cache of datasets: a folder outside the repository, files that appear whole or not at all.

Beside the files of a dataset stands NAME.json, its manifest: the version of the recipe and, for every
file, size, shape, dtype and SHA-256. A cached dataset is used again only if every file still matches.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from pathlib import Path

import numpy as np


def cache_folder(out=None):
    """The folder asked for, else $KITH_CACHE, else ~/.cache/kith/datasets (the XDG place); made if absent."""
    if out is None:
        out = os.environ.get("KITH_CACHE")
    if not out:
        out = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kith" / "datasets"
    folder = Path(out).expanduser().resolve()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def sha256(path):
    """SHA-256 of a file, hex."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextlib.contextmanager
def locked(folder, name):
    """Only one process makes a dataset; the others wait and then find it made."""
    with open(folder / f".{name}.lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def write_atomically(path, write):
    """Calls write(stream) on a temporary neighbour of `path`, syncs it and renames it into place."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def store(folder, name, version, contents):
    """Writes `contents` ({role: array or bytes}) and the manifest; returns {role: path}.

    An array becomes NAME.ROLE.npy, or NAME.npy for the role "points"; bytes become NAME.ROLE (the role
    is then a file name).
    """
    manifest = {"dataset": name, "version": version, "files": {}}
    for role, content in contents.items():
        entry = {}
        if isinstance(content, bytes):
            path = folder / f"{name}.{role}"
            write_atomically(path, lambda stream, content=content: stream.write(content))
        else:
            array = np.ascontiguousarray(content)
            path = folder / (f"{name}.npy" if role == "points" else f"{name}.{role}.npy")
            write_atomically(path, lambda stream, array=array: np.save(stream, array))
            entry = {"shape": list(array.shape), "dtype": str(array.dtype)}
        entry |= {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)}
        manifest["files"][role] = entry
    text = json.dumps(manifest, indent=1) + "\n"
    write_atomically(folder / f"{name}.json", lambda stream: stream.write(text.encode()))
    return manifest


def load_manifest(folder, name, version):
    """(manifest, None) when the dataset is whole and of this version, else (None, why not)."""
    path = folder / f"{name}.json"
    try:
        manifest = json.loads(path.read_text())
        if manifest["version"] != version:
            return None, f"made by recipe {manifest['version']}, the recipe is now {version}"
        for entry in manifest["files"].values():
            file = folder / entry["file"]
            if not file.is_file():
                return None, f"{file.name} is gone"
            if file.stat().st_size != entry["bytes"]:
                return None, f"{file.name} has {file.stat().st_size} bytes, not {entry['bytes']}"
            if sha256(file) != entry["sha256"]:
                return None, f"the checksum of {file.name} differs"
        return manifest, None
    except FileNotFoundError:
        return None, "not made yet"
    except (ValueError, KeyError, TypeError) as error:
        return None, f"its manifest {path.name} is unreadable ({error})"
