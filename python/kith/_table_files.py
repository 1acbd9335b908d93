"""Parquet and Arrow files: vectors and answers, in and out, with ids of the user's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow
from ._errors import InvalidArgument, IoError
from ._tables import allocate, as_array, column
from ._whole import whole_file

__all__ = ["answer_table", "read_answer", "read_table", "write_answer", "write_table"]

_BLOCK_ELEMENTS = 1 << 20  # that are written at a time, and a row group of Parquet
_COLUMN = "vector"


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    pa = _arrow.require()
    try:
        yield
    except _arrow.BadTable as error:
        raise InvalidArgument(str(error)) from None
    except _arrow.CannotRead as error:
        raise IoError(str(error)) from None
    except IoError:
        raise
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise IoError(f"cannot write '{path}': {reason}") from None


def read_table(path: str, member: str, first_row: int, max_rows: int | None) -> NDArray[Any]:
    """:func:`kith.read` of such a file."""
    plain, named = _arrow.split_name(path)
    if member and named:
        raise InvalidArgument(f"'{path}' names a column, member={member!r} another; name one")
    with _errors_of(path):
        rows: NDArray[Any] = _arrow.read(
            plain, member or named, first_row, max_rows, lambda n, dim, dtype: allocate(n, dim, dtype, f"'{path}'")
        )
        return rows


def write_table(path: str, array: Any, ids: Any) -> None:
    """:func:`kith.write` to such a file: a column of vectors of one length, after the ids where there are any."""
    plain, name = _arrow.split_name(path)
    rows = as_array(array, "array")
    if not isinstance(rows, np.ndarray):
        rows = np.asarray(rows)
    if rows.ndim != 2 or rows.dtype.name not in _arrow.SEARCHED:
        raise InvalidArgument(
            f"cannot write '{path}': an array of shape {rows.shape} and type {rows.dtype}; Arrow has [n, d] of "
            f"{', '.join(_arrow.SEARCHED)}"
        )
    with _errors_of(path):
        numbers = None if ids is None else _ids(ids, "ids", len(rows))

        def block(part: slice) -> dict[str, Any]:
            made = {} if numbers is None else {"id": numbers[part]}
            return {**made, name or _COLUMN: _lists(rows[part])}

        _write(plain, block, len(rows), rows.shape[1])


def answer_table(distances: NDArray[Any], indices: NDArray[np.int64], ids: Any, query_ids: Any) -> Any:
    """A pyarrow.Table with a row a query: query, indices, ids, distances."""
    pa = _arrow.require()
    return pa.table(_answer(distances, indices, ids, query_ids)(slice(0, len(indices))))


def write_answer(path: str, distances: NDArray[Any], indices: NDArray[np.int64], ids: Any, query_ids: Any) -> None:
    with _errors_of(path):
        _write(path, _answer(distances, indices, ids, query_ids), len(indices), indices.shape[1])


def read_answer(path: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(distances, indices) of a file that :func:`write_answer` has written; distances NaN where it has none."""
    with _errors_of(path):
        found: list[NDArray[Any]] = []
        for name in ("indices", "distances"):
            if name == "distances" and not _arrow.has_column(path, name, "indices"):
                found.append(np.full(found[0].shape, np.nan, np.float32))
            else:
                found.append(_arrow.read(path, name, 0, None, lambda n, dim, dtype: allocate(n, dim, dtype, path)))
    indices, distances = found
    if indices.dtype.kind not in "iu" or distances.dtype.kind != "f" or indices.shape != distances.shape:
        raise IoError(
            f"'{path}' is no answer: its indices are {indices.dtype} {indices.shape}, its distances {distances.dtype} "
            f"{distances.shape}"
        )
    return distances, indices.astype(np.int64, copy=False)


def _answer(distances: NDArray[Any], indices: NDArray[np.int64], ids: Any, query_ids: Any) -> Any:
    """A function of slices of queries, which gives their columns."""
    pa = _arrow.require()
    rows, k = indices.shape
    names = None if ids is None else column(ids, "ids")
    last = int(np.max(indices)) if indices.size else -1
    if names is not None and last >= len(names):
        raise InvalidArgument(
            f"ids has {len(names)} entries, the answer names row {last}; give one for each row searched"
        )
    queries = None if query_ids is None else _ids(query_ids, "query_ids", rows)

    def block(part: slice) -> dict[str, Any]:
        some = indices[part]
        made = {"query": pa.array(np.arange(part.start, part.stop)) if queries is None else queries[part]}
        made["indices"] = _lists(some)
        if names is not None:
            taken = names.take(pa.array(some.ravel(), mask=some.ravel() < 0))
            if isinstance(taken, pa.ChunkedArray):
                taken = pa.concat_arrays(taken.chunks) if taken.num_chunks else pa.array([], taken.type)
            made["ids"] = pa.FixedSizeListArray.from_arrays(taken, k)
        return {**made, "distances": _lists(distances[part])}

    return block


def _ids(ids: Any, what: str, rows: int) -> Any:
    found = column(ids, what)
    if len(found) != rows:
        raise InvalidArgument(f"{what} has {len(found)} entries, {rows} are needed: one a row")
    return found


def _lists(rows: NDArray[Any]) -> Any:
    """[n, width] as lists of one length, over the same memory where that is contiguous."""
    pa = _arrow.require()
    plain = np.ascontiguousarray(rows, rows.dtype.newbyteorder("="))
    return pa.FixedSizeListArray.from_arrays(pa.array(plain.reshape(-1)), rows.shape[1])


def _write(path: str, block: Any, rows: int, width: int) -> None:
    """The columns of ``block(slice)`` for all rows, some at a time, whole or not at all."""
    pa = _arrow.require()
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise IoError(f"cannot write '{path}': there is no folder '{folder}'; make it first")
    step = max(1, _BLOCK_ELEMENTS // max(1, width))
    with whole_file(path) as temporary:
        first = pa.table(block(slice(0, min(rows, step))))
        with _writer(temporary, path, first.schema) as writer:
            writer.write_table(first)
            for start in range(step, rows, step):
                writer.write_table(pa.table(block(slice(start, min(rows, start + step)))))


def _writer(temporary: str, path: str, schema: Any) -> Any:
    if path.lower().endswith((".parquet", ".pq")):
        from pyarrow import parquet

        return parquet.ParquetWriter(temporary, schema)
    return _arrow.require().ipc.new_file(temporary, schema)
