"""Rows that any machine of a cluster can read: files that nobody changes meanwhile."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _arrow, _kith, _unpack
from .._errors import InvalidArgument, IoError
from .._io import read
from .._tables import as_array
from .._tile_files import gather
from ._units import lasting
from ._work import Work

__all__ = ["Rows", "rows_of"]

_BATCH = 1 << 16  # rows of a Ray Dataset at a time


@dataclass(frozen=True)
class Rows:
    """Files that are one dataset, whose row numbers run through them."""

    files: tuple[str, ...]
    ends: tuple[int, ...]  #: of each file the number of rows up to its end
    states: tuple[tuple[int, int], ...]  #: bytes and time of the last change, by which a change is noticed
    dim: int
    dtype: str
    content: str | None = None  #: digest of the rows, where the file is a copy of rows in memory

    @property
    def rows(self) -> int:
        return self.ends[-1]

    def named(self) -> Any:
        """What a manifest has of them."""
        if self.content is not None:
            return [self.rows, self.dim, self.dtype, self.content]
        return [[file, *state] for file, state in zip(self.files, self.states, strict=True)]

    def read(self, first: int, last: int) -> NDArray[Any]:
        """Rows ``first`` to ``last - 1``: of one file as they lie there, else in one piece.

        Raises:
            IoError: a file is missing here, or was changed since the call began.
        """
        parts: list[NDArray[Any]] = []
        begin = 0
        for file, end, state in zip(self.files, self.ends, self.states, strict=True):
            low, high = max(first, begin), min(last, end)
            if low < high or (first == last == low and not parts):
                if _state(file) != state:
                    raise IoError(f"'{file}' was changed while it was searched; begin again")
                parts.append(read(file, first_row=low - begin, max_rows=high - low))
            begin = end
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _state(file: str) -> tuple[int, int]:
    try:
        found = os.stat(_arrow.split_name(file)[0])
    except OSError as error:
        raise IoError(
            f"cannot read '{file}': {error.strerror}; every machine of the cluster needs it at this path"
        ) from None
    return found.st_size, found.st_mtime_ns


def _is_dataset(data: Any) -> bool:
    return type(data).__module__.startswith("ray.data") and hasattr(data, "iter_batches")


def rows_of(data: Any, what: str, work: Work) -> Rows:
    """The rows of a file, a list of files, a Ray Dataset or an array; the last two are copied into the work folder.

    Raises:
        IoError: a file is missing or damaged. InvalidArgument: files of different dimension or element type.
    """
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    if isinstance(data, Sequence) and len(data) > 0 and all(isinstance(file, (str, os.PathLike)) for file in data):
        return _files(
            [_readable(os.path.abspath(os.fspath(file)), what, number, work) for number, file in enumerate(data)]
        )
    path = work.file(f"{what}.npy")
    if _is_dataset(data):
        return _copy(_batches(data), path, what)
    array = as_array(data, what)
    if hasattr(array, "__cuda_array_interface__"):
        raise InvalidArgument(
            f"{what}: an array on a GPU; other machines read rows from files: save it, and name the file"
        )
    rows = np.asarray(array)
    if rows.ndim != 2:
        raise InvalidArgument(f"{what}: an array of shape {rows.shape}; use [n, d]")
    step = max(1, (64 << 20) // max(1, rows.shape[1] * rows.itemsize))
    return _copy((rows[at : at + step] for at in range(0, max(1, len(rows)), step)), path, what)


def _readable(file: str, what: str, number: int, work: Work) -> str:
    """The file, or where it can only be unpacked as a whole (LAZ, E57) an npy of it in the work folder."""
    if not _unpack.is_packed(file):
        return file
    name = hashlib.blake2b(repr((file, _state(file))).encode(), digest_size=8).hexdigest()
    path = work.file(f"{what}-{number}-{name}.npy")
    if not os.path.exists(path):
        with lasting(path) as temporary:
            try:
                _unpack.unpack(file, temporary)
            except (_unpack.CannotUnpack, OSError) as error:
                raise IoError(str(error)) from None
    return path


def _files(files: list[str]) -> Rows:
    ends: list[int] = []
    kinds, states = [], []
    for file in files:
        states.append(_state(file))
        if _arrow.is_table(file):
            plain, name = _arrow.split_name(file)
            try:
                rows = int(_arrow.count_rows(plain, name))
            except _arrow.CannotRead as error:
                raise IoError(str(error)) from None
            except _arrow.BadTable as error:
                raise InvalidArgument(str(error)) from None
        else:
            rows = int(_kith.count_rows(file))
        one = read(file, max_rows=1)
        if rows or len(files) == 1:
            kinds.append((file, one.shape[1], one.dtype.name))
        ends.append((ends[-1] if ends else 0) + rows)
    for file, dim, dtype in kinds[1:]:
        if (dim, dtype) != kinds[0][1:]:
            raise InvalidArgument(
                f"'{file}' has rows of {dim} {dtype}, '{kinds[0][0]}' of {kinds[0][1]} {kinds[0][2]}; one dataset has one kind"
            )
    if not kinds:
        raise InvalidArgument(f"{len(files)} files without a row; name others")
    return Rows(tuple(files), tuple(ends), tuple(states), kinds[0][1], kinds[0][2])


def _batches(dataset: Any) -> Iterator[NDArray[Any]]:
    """The rows of a Ray Dataset in its order, in bounded memory."""
    options = dataset.context.execution_options
    before = options.preserve_order
    options.preserve_order = True  # else blocks come as they are done, and rows have other numbers in each run
    try:
        for batch in dataset.iter_batches(batch_size=_BATCH, batch_format="pyarrow"):
            yield as_array(batch, "dataset")
    finally:
        options.preserve_order = before


def _copy(blocks: Iterator[NDArray[Any]], path: str, what: str) -> Rows:
    """The rows in an npy, known by a digest of their bytes: another run finds out whether they are the same."""
    digest = hashlib.blake2b(digest_size=16)

    def hashed() -> Iterator[NDArray[Any]]:
        for block in blocks:
            plain = np.ascontiguousarray(block)
            digest.update(plain.reshape(-1).view(np.uint8).data)
            yield plain

    with lasting(path) as temporary:
        gather(hashed(), temporary)
    found = _files([path])
    return Rows(found.files, found.ends, found.states, found.dim, found.dtype, digest.hexdigest())
