"""What a task leaves: a file of arrays that appears whole or not at all, and whose bytes are checked when they are read.

``KITHUNIT``, the length of the header as 4 bytes, the header as JSON (element type and shape of each array, the CRC-32
of all that follows, notes), the arrays one after the other. Nothing in it is code, nor a path.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import IoError

__all__ = ["lasting", "read_unit", "unit_notes", "write_unit"]

_MAGIC = b"KITHUNIT"
_DTYPES = ("<f4", "<f8", "<i8")
_MOST_HEADER = 1 << 16


@contextmanager
def lasting(path: str) -> Iterator[str]:
    """Another name beside ``path``, of this attempt alone, to write to; at the end it is on the disk and called ``path``.

    Several attempts at one task may be under way, on machines that know nothing of each other: each has a file of its
    own, of the same bytes, and whichever is renamed last stays.
    """
    temporary = f"{path}.{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(os.path.dirname(os.path.abspath(path)))
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)


def sync_folder(folder: str) -> None:
    """Makes a rename outlast the machine."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_unit(path: str, arrays: list[NDArray[Any]], notes: dict[str, Any]) -> None:
    """Writes arrays of float32, float64 and int64."""
    plain = [np.ascontiguousarray(array, array.dtype.newbyteorder("<")) for array in arrays]
    crc = 0
    for array in plain:
        crc = zlib.crc32(array.reshape(-1).view(np.uint8).data, crc)
    kinds = [[array.dtype.str, list(array.shape)] for array in plain]
    header = json.dumps({"arrays": kinds, "crc": crc, "notes": notes}).encode()
    with lasting(path) as temporary, open(temporary, "wb") as file:
        file.write(_MAGIC + len(header).to_bytes(4, "little") + header)
        for array in plain:
            file.write(array.reshape(-1).view(np.uint8).data)


def _header(path: str) -> tuple[dict[str, Any], int]:
    """The header, checked against the file's length, and where the arrays begin."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(_MAGIC) + 4)
            length = int.from_bytes(start[len(_MAGIC) :], "little")
            if start[: len(_MAGIC)] != _MAGIC or len(start) < len(_MAGIC) + 4 or length > _MOST_HEADER:
                raise ValueError("it does not begin as one")
            header = json.loads(file.read(length))
            at = len(start) + length
            size = at
            for dtype, shape in header["arrays"]:
                if dtype not in _DTYPES or not all(type(n) is int and n >= 0 for n in shape):
                    raise ValueError("its header names other arrays")
                size += int(np.prod(shape, dtype=object)) * int(dtype[2:])
            if os.fstat(file.fileno()).st_size != size:
                raise ValueError(f"it has {os.fstat(file.fileno()).st_size} bytes, its header says {size}")
            if type(header["crc"]) is not int or type(header["notes"]) is not dict:
                raise ValueError("its header is another")
            return header, at
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IoError(
            f"'{path}' is no finished task, or damaged: {error}; remove it, and the task is done again"
        ) from None
    except OSError as error:
        raise IoError(f"cannot read '{path}': {error.strerror}") from None


def unit_notes(path: str) -> dict[str, Any] | None:
    """The notes of a finished task; None where there is no such file."""
    return _header(path)[0]["notes"] if os.path.exists(path) else None


def read_unit(path: str) -> tuple[list[NDArray[Any]], dict[str, Any]]:
    """The arrays, memory-mapped, and the notes.

    Raises:
        IoError: it is missing, truncated, corrupt or foreign.
    """
    header, at = _header(path)
    size = os.path.getsize(path)
    bytes_: NDArray[Any] = np.memmap(path, np.uint8, "r", at) if size > at else np.empty(0, np.uint8)
    if zlib.crc32(bytes_.data) != header["crc"]:
        raise IoError(f"'{path}' is corrupt: it does not match its checksum; remove it, and the task is done again")
    arrays, first = [], 0
    for dtype, shape in header["arrays"]:
        last = first + int(np.prod(shape, dtype=object)) * int(dtype[2:])
        # Headers are of any length, so the arrays need not lie aligned: NumPy reads them all the same.
        arrays.append(np.ndarray(shape, dtype, bytes_, first) if last > first else np.empty(shape, dtype))
        first = last
    return arrays, header["notes"]
