"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from ._errors import InputError


def check_writable(path: Path) -> None:
    """What can be known before the work: the folder is there, and the name is not a folder's."""
    if path.is_dir():
        raise InputError(f"cannot write '{path}': it is a folder; name a file")
    if not path.parent.is_dir():
        raise InputError(f"cannot write '{path}': there is no folder '{path.parent}'")


def _descriptor(path: Path) -> int | None:
    """The descriptor that a path names: opened by its name, a file behind it would be written from its start."""
    name = {"/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}.get(str(path), str(path))
    found = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", name)
    return int(found[1]) if found else None


def _is_stream(path: Path) -> bool:
    return _descriptor(path) is not None or (path.exists() and not path.is_file())


def _write_stream(path: Path, data: bytes) -> None:
    descriptor = _descriptor(path)
    with open(path, "wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(data)


def write_whole(files: dict[Path, bytes]) -> None:
    """Writes all under temporary names, syncs them, then renames; streams as they are. @raises InputError"""
    temporary: dict[Path, str] = {}
    path = next(iter(files), Path())
    streams = {path: data for path, data in files.items() if _is_stream(path)}
    files = {path: data for path, data in files.items() if path not in streams}
    try:
        for path, data in files.items():
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
            temporary[path] = name
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, _mode(path))
        for path, data in streams.items():
            _write_stream(path, data)
        for path in files:
            os.replace(temporary[path], path)
            del temporary[path]
        for folder in {path.parent for path in files}:
            _sync_folder(folder)
    except OSError as error:
        raise InputError(f"cannot write '{path}': {error.strerror or error}") from None
    finally:
        for name in temporary.values():
            with contextlib.suppress(OSError):
                os.unlink(name)


def _mode(path: Path) -> int:
    """Of the file that is replaced, or what a new file would have: mkstemp's are for the owner only."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # not every file system syncs folders
    finally:
        os.close(handle)
