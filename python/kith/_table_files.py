"""Parquet and Arrow files: vectors and answers, in and out, with ids of the user's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow, _arrow_answers
from ._arrow_answers import columns_of, lists
from ._errors import InvalidArgument, IoError
from ._tables import allocate, as_array, column
from ._whole import whole_file

__all__ = ["answer_table", "read_answer", "read_table", "write_answer", "write_table"]

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
            return {**made, name or _COLUMN: lists(rows[part])}

        _write(plain, block, len(rows), rows.shape[1])


def answer_table(distances: NDArray[Any], indices: NDArray[np.int64], ids: Any, query_ids: Any) -> Any:
    """A pyarrow.Table with a row a query: query, indices, ids, distances."""
    pa = _arrow.require()
    try:
        return pa.table(_answer(distances, indices, ids, query_ids)(slice(0, len(indices))))
    except _arrow.BadTable as error:
        raise InvalidArgument(str(error)) from None


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


def _answer(distances: NDArray[Any], indices: NDArray[np.int64], ids: Any, query_ids: Any) -> _arrow_answers.Block:
    names = None if ids is None else column(ids, "ids")
    return columns_of(distances, indices, names, None if query_ids is None else column(query_ids, "query_ids"))


def _ids(ids: Any, what: str, rows: int) -> Any:
    found = column(ids, what)
    if len(found) != rows:
        raise InvalidArgument(f"{what} has {len(found)} entries, {rows} are needed: one a row")
    return found


def _write(path: str, block: _arrow_answers.Block, rows: int, width: int) -> None:
    """The columns of ``block(slice)`` for all rows, whole or not at all."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise IoError(f"cannot write '{path}': there is no folder '{folder}'; make it first")
    with whole_file(path) as temporary:
        _arrow_answers.write(temporary, path, block, rows, width)
