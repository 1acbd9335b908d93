"""Columns of vectors in Arrow's memory and in Parquet and Arrow files, as matrices, and files of them as npy.

Needs numpy and pyarrow; imports nothing of Kith, so that the command line runs it with any Python:
``python _arrow.py unpack FILE[:COLUMN] OUT THREADS`` writes the column into the npy OUT.
"""

from __future__ import annotations

import os
import signal
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "BadTable",
    "CannotRead",
    "column_of",
    "count_rows",
    "has_column",
    "is_table",
    "is_vector",
    "matrix",
    "read",
    "require",
    "split_name",
    "SEARCHED",
]

_SUFFIXES = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_HEADER_BYTES = 128
_BATCH_BYTES = 8 << 20  # of a Parquet file's rows, decoded at a time
#: What Arrow has of the element types that Kith searches.
SEARCHED = ("float16", "float32", "float64", "int8", "uint8")

#: Rows, elements a row, element type: memory for them.
Allocate = Callable[[int, int, np.dtype[Any]], NDArray[Any]]


class BadTable(ValueError):
    """Rows that are no matrix: a null, rows of different lengths, no such column."""


class CannotRead(Exception):
    """A file that is missing, damaged or foreign, or no pyarrow to read it with. Why, in one line."""


def require() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            f"tables of Arrow and Parquet need pyarrow, which '{sys.executable}' does not have; run: pip install pyarrow"
        ) from None
    return pyarrow


def split_name(path: str) -> tuple[str, str]:
    """``FILE.parquet:COLUMN`` in two; the column is empty where none is named, or where a file is called so."""
    if not os.path.exists(path):
        lower = path.lower()
        for suffix in _SUFFIXES:
            at = lower.rfind(suffix + ":")
            if at >= 0:
                return path[: at + len(suffix)], path[at + len(suffix) + 1 :]
    return path, ""


def is_table(path: str) -> bool:
    """By its suffix, without the column."""
    return split_name(path)[0].lower().endswith(_SUFFIXES)


def _stored(type_: Any) -> Any:
    """What an extension type (a tensor of fixed shape) is stored as."""
    return getattr(type_, "storage_type", type_)


def _is_list(pa: Any, type_: Any) -> bool:
    kinds = ("is_fixed_size_list", "is_list", "is_large_list", "is_list_view", "is_large_list_view")
    return any(getattr(pa.types, kind)(_stored(type_)) for kind in kinds if hasattr(pa.types, kind))


def is_vector(type_: Any) -> bool:
    """Whether a column of this type has a list a row."""
    return _is_list(require(), type_)


def _dtype(pa: Any, type_: Any, what: str) -> np.dtype[Any]:
    """The element type; whether Kith searches it is for others to say."""
    if not (pa.types.is_floating(type_) or pa.types.is_integer(type_)):
        raise TypeError(
            f"{what}: elements of Arrow type {type_}; use a column of vectors, lists of numbers of one length each"
        )
    found: np.dtype[Any] = np.dtype(type_.to_pandas_dtype())
    return found


def column_of(schema: Any, name: str, what: str) -> str:
    """The column of vectors that is meant: the one named, or the only one there is."""
    pa = require()
    names = list(schema.names)
    some = ", ".join(map(repr, names[:12])) + (", ..." if len(names) > 12 else "")
    vectors = [field.name for field in schema if _is_list(pa, field.type)]
    if not name and len(vectors) == 1:
        name = vectors[0]
    if name:
        if names.count(name) != 1:
            many = f"{names.count(name)} columns are called {name!r}" if name in names else f"no column {name!r}"
            raise BadTable(f"{what}: {many}; there are {some or 'none'}")
        return name
    if vectors:
        raise BadTable(f"{what}: {len(vectors)} columns of vectors, {', '.join(map(repr, vectors[:12]))}; name one")
    raise BadTable(f"{what}: no column of vectors (lists of numbers); there are {some or 'none'}")


def _first(mask: Any) -> int:
    return int(np.flatnonzero(mask)[0])


def _refuse_nulls(array: Any, what: str, first_row: int, width: int = 1) -> None:
    if array.null_count:
        number = _first(array.is_null().to_numpy(zero_copy_only=False))
        row = first_row + number // width
        null = "is null" if width == 1 else f"has a null, its element {number % width}"
        raise BadTable(f"{what}: row {row} {null}; leave such rows out, or fill them (rows with a NaN are never found)")


def _lists(pa: Any, chunk: Any, what: str, first_row: int, width: int | None) -> tuple[Any, int, Any]:
    """The elements of all rows one after the other, how many a row has, and where views lie that are elsewhere."""
    type_, rows = chunk.type, len(chunk)
    if pa.types.is_fixed_size_list(type_):
        own = type_.list_size
        if width is not None and own != width:
            raise BadTable(f"{what}: row {first_row} has {own} elements, row 0 has {width}; all need as many")
        return chunk.values.slice(chunk.offset * own, rows * own), own, None
    starts = chunk.offsets.to_numpy().astype(np.int64, copy=False)
    view = not (pa.types.is_list(type_) or pa.types.is_large_list(type_))
    lengths = chunk.sizes.to_numpy().astype(np.int64, copy=False) if view else np.diff(starts)
    starts = starts[:rows]
    own = int(lengths[0]) if width is None else width
    odd = lengths != own
    if odd.any():
        row = _first(odd)
        raise BadTable(f"{what}: row {first_row + row} has {lengths[row]} elements, row 0 has {own}; all need as many")
    if np.array_equal(starts, starts[0] + own * np.arange(rows)):
        return chunk.values.slice(int(starts[0]), rows * own), own, None
    return chunk.values, own, starts


def _chunk(pa: Any, chunk: Any, what: str, first_row: int, width: int | None) -> NDArray[Any]:
    """[rows, width] of a chunk that has rows: its own memory, unless a list view mixes them."""
    _refuse_nulls(chunk, what, first_row)
    values, own, starts = _lists(pa, chunk, what, first_row, width)
    _dtype(pa, values.type, what)
    if starts is not None:
        values = values.take(pa.array((starts[:, None] + np.arange(own)).ravel()))
    _refuse_nulls(values, what, first_row, max(own, 1))
    rows: NDArray[Any] = values.to_numpy(zero_copy_only=True).reshape(len(chunk), own)
    return rows


def _chunks(pa: Any, column: Any) -> list[Any]:
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [part.storage if isinstance(part, pa.ExtensionArray) else part for part in parts]


def matrix(column: Any, what: str, allocate: Allocate) -> NDArray[Any]:
    """The rows of an array or chunked array: its own memory where that is one piece, else in one allocation.

    A column of plain numbers gives them as they are, one-dimensional.
    """
    pa = require()
    parts, type_ = _chunks(pa, column), _stored(column.type)
    if not _is_list(pa, type_):
        dtype = _dtype(pa, type_, what)
        row = 0
        for part in parts:
            _refuse_nulls(part, what, row)
            row += len(part)
        arrays = [part.to_numpy(zero_copy_only=True) for part in parts if len(part)]
        return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, dtype), *arrays])
    dtype = _dtype(pa, type_.value_type, what)
    full = [part for part in parts if len(part)]
    fixed = type_.list_size if pa.types.is_fixed_size_list(type_) else None
    if len(full) <= 1:
        return _chunk(pa, full[0], what, 0, None) if full else np.empty((0, fixed or 0), dtype)
    first = _chunk(pa, full[0], what, 0, None)
    out = allocate(sum(map(len, full)), first.shape[1], dtype)
    at = 0
    for part in full:
        out[at : at + len(part)] = _chunk(pa, part, what, at, first.shape[1])
        at += len(part)
    return out


class _File:
    """A Parquet file, or one of Arrow (the file format, or the stream that Hugging Face's datasets are kept as)."""

    def __init__(self, path: str, name: str, what: str) -> None:
        self._pa = pa = require()
        self._what = what
        self._parquet: Any = None
        try:
            with open(path, "rb") as file:
                parquet = file.read(4) == b"PAR1"
            if parquet:
                from pyarrow import parquet as reader

                # As it is decoded: read ahead, a row group would be in memory as a whole.
                self._parquet = reader.ParquetFile(pa.OSFile(path), buffer_size=1 << 20, pre_buffer=False)
                schema, self.rows = self._parquet.schema_arrow, int(self._parquet.metadata.num_rows)
                self.column = column_of(schema, name, what)
            else:
                source, start = pa.memory_map(path), 8
                try:
                    schema = pa.ipc.open_file(source).schema
                except pa.ArrowInvalid:
                    source.seek(0)
                    schema, start = pa.ipc.open_stream(source).schema, 0
                self.column = column_of(schema, name, what)
                # A file is a stream between its mark and its footer. Of a stream one column is taken where it lies, and
                # compressed others are passed over; the reader of files would copy it.
                alone = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(self.column)])
                source.seek(start)
                self._table = pa.ipc.open_stream(source, options=alone).read_all()
                self.rows = self._table.num_rows
        except OSError as error:
            raise CannotRead(f"cannot read {what}: {error.strerror or ' '.join(str(error).split())}") from None
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())
            raise CannotRead(f"cannot read {what}: it is no Parquet or Arrow file, or damaged: {reason}") from None
        self.names = list(schema.names)
        self._type = _stored(schema.field(self.column).type)
        if not _is_list(pa, self._type):
            raise TypeError(f"{what}: column {self.column!r} is of type {self._type}; use one of lists of numbers")
        self.dtype = _dtype(pa, self._type.value_type, what)

    def whole(self) -> Any:
        """The column of an Arrow file in the file's own memory; None for Parquet, which is encoded."""
        return None if self._parquet is not None else self._table.column(self.column)

    def _batches(self, first: int) -> Iterator[tuple[int, Any]]:
        if self._parquet is None:
            yield first, self._table.column(self.column).slice(first)
            return
        metadata, row = self._parquet.metadata, 0
        for group in range(metadata.num_row_groups):
            rows = int(metadata.row_group(group).num_rows)
            if row + rows > first and rows:
                step = max(1, _BATCH_BYTES * rows // (self._elements(metadata.row_group(group)) * self.dtype.itemsize))
                at = row
                for batch in self._parquet.iter_batches(step, row_groups=[group], columns=[self.column]):
                    skip = min(max(first - at, 0), len(batch))
                    if skip < len(batch):
                        yield at + skip, batch.column(self.column).slice(skip)
                    at += len(batch)
            row += rows

    def _elements(self, group: Any) -> int:
        chunks = (group.column(number) for number in range(group.num_columns))
        return max(1, *(int(c.num_values) for c in chunks if c.path_in_schema.startswith(self.column + ".")), 1)

    def blocks(self, first: int, count: int) -> Iterator[NDArray[Any]]:
        """Some rows a time of ``count`` from ``first`` on."""
        pa, width = self._pa, None
        left = count
        try:
            for row, column in self._batches(first):
                for part in _chunks(pa, column):
                    part = part.slice(0, left)
                    if len(part) == 0:
                        continue
                    block = _chunk(pa, part, self._what, row, width)
                    yield block
                    width = block.shape[1]
                    row += len(part)
                    left -= len(part)
                if left == 0:
                    return
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or "it is damaged: " + " ".join(str(error).split())
            raise CannotRead(f"cannot read {self._what}: {reason}") from None
        if left:
            raise CannotRead(f"cannot read {self._what}: it ends {left} rows too early")


def count_rows(path: str, name: str) -> int:
    """Rows of a file's column of vectors."""
    return int(_File(path, name, f"'{path}'").rows)


def has_column(path: str, name: str, beside: str) -> bool:
    """Whether a file has a column of that name, beside one of vectors."""
    return name in _File(path, beside, f"'{path}'").names


def read(
    path: str,
    name: str,
    first_row: int,
    max_rows: int | None,
    allocate: Allocate,
) -> NDArray[Any]:
    """Rows of a file's column of vectors: Arrow's where they lie, memory-mapped, if that is in one piece; Parquet's
    batch by batch into one allocation."""
    file = _File(path, name, f"'{path}'")
    if first_row < 0 or first_row > file.rows:
        raise BadTable(f"'{path}' has {file.rows} rows; first_row is {first_row}, use 0 to {file.rows}")
    count = file.rows - first_row if max_rows is None else min(max_rows, file.rows - first_row)
    whole = file.whole()
    if whole is not None:
        return matrix(whole.slice(first_row, count), f"'{path}'", allocate)
    out: NDArray[Any] | None = None
    at = 0
    for block in file.blocks(first_row, count):
        if out is None:
            out = allocate(count, block.shape[1], file.dtype)
        out[at : at + len(block)] = block
        at += len(block)
    return np.empty((0, 0), file.dtype) if out is None else out


def unpack(path: str, output: str, threads: int = 0) -> int:
    """Writes the column of vectors that ``FILE[:COLUMN]`` names as npy, batch by batch, and returns the rows.

    At most ``threads`` threads decode, 0: one a core.
    """
    pa = require()
    pa.set_cpu_count(threads or len(os.sched_getaffinity(0)))
    plain, name = split_name(path)
    file = _File(plain, name, f"'{path}'")
    if file.dtype.name not in SEARCHED:
        raise TypeError(f"'{path}' holds {file.dtype.name}; Kith searches {', '.join(SEARCHED)}: cast the column")
    width = 0
    with open(output, "wb") as out:
        out.write(bytes(_HEADER_BYTES))
        for block in file.blocks(0, file.rows):
            width = block.shape[1]
            out.write(np.ascontiguousarray(block).data)
        out.seek(0)
        text = f"{{'descr': '{file.dtype.str}', 'fortran_order': False, 'shape': ({file.rows}, {width}), }}"
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", _HEADER_BYTES - 10))
        out.write(text.ljust(_HEADER_BYTES - 11).encode() + b"\n")
    return file.rows


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.path.pop(0)  # this folder, whose files are no modules for others
    try:
        unpack(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    except Exception as error:  # what the command line says in its own name
        print(" ".join(str(error).split()) or type(error).__name__)
        sys.exit(1)
