"""Rows that come in tables: Arrow's, pandas', polars', Hugging Face's datasets. None of them is imported here first."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _arrow
from ._errors import InvalidArgument, OutOfMemory

__all__ = ["allocate", "as_array", "column"]


def as_array(data: Any, what: str, like: str = "float64") -> Any:
    """The rows of a table or column as a NumPy array, over its own memory where they lie one after the other there;
    any other object as it is.

    Of a table the column of vectors is taken; one without such is a matrix of its columns. Lists of Python's numbers
    take ``like``, if that is a float.
    """
    kind = type(data)
    library = kind.__module__.partition(".")[0]
    if library == "pandas":
        return _from_pandas(data, what, like)
    if library == "datasets":
        data = _from_datasets(data, what)
    elif not (hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__")):
        return data
    return _from_arrow(data, what)


def allocate(rows: int, dim: int, dtype: np.dtype[Any], what: str) -> NDArray[Any]:
    """An array for rows that do not lie in one piece, after a look at what there is."""
    needed = rows * dim * dtype.itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise OutOfMemory(
            f"{what}: {rows} x {dim} {dtype.name} take {needed} bytes, this machine has {there}; take fewer rows"
        )
    try:
        return np.empty((rows, dim), dtype)
    except MemoryError:
        raise OutOfMemory(f"{what}: {rows} x {dim} {dtype.name} take {needed} bytes; take fewer rows") from None


def column(data: Any, what: str) -> Any:
    """Any column (Arrow's, pandas', polars', an array or a list) as an array or chunked array of pyarrow."""
    pa = _arrow.require()
    kind = type(data)
    if kind.__module__.partition(".")[0] == "datasets":
        data = _from_datasets(data, what)
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        return data
    try:
        made = pa.chunked_array(data) if hasattr(kind, "__arrow_c_stream__") else pa.array(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TypeError(f"{what}: a {kind.__name__} that is no column ({error}); use an array or a column") from None
    return made


def _from_arrow(data: Any, what: str) -> NDArray[Any]:
    pa = _arrow.require()
    if not isinstance(data, (pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch)):
        data = pa.chunked_array(data) if hasattr(type(data), "__arrow_c_stream__") else pa.array(data)
    if isinstance(data, (pa.Array, pa.ChunkedArray)) and pa.types.is_struct(data.type):
        data = pa.Table.from_struct_array(data)
    try:
        if not isinstance(data, (pa.Array, pa.ChunkedArray)):
            if not any(_arrow.is_vector(field.type) for field in data.schema):
                return _matrix_of_columns(data, what)
            data = data.column(data.schema.get_field_index(_arrow.column_of(data.schema, "", what)))
        found: NDArray[Any] = _arrow.matrix(data, what, lambda rows, dim, dtype: allocate(rows, dim, dtype, what))
        return found
    except _arrow.BadTable as error:
        raise InvalidArgument(str(error)) from None


def _matrix_of_columns(table: Any, what: str) -> NDArray[Any]:
    """[rows, columns] of a table of numbers, x, y and z for example."""
    if table.num_columns == 0:
        raise InvalidArgument(f"{what}: a table without columns")

    def place(rows: int, dim: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        return allocate(rows, dim, dtype, what)

    parts = [
        _arrow.matrix(table.column(number), f"{what}, column {name!r}", place)
        for number, name in enumerate(table.schema.names)
    ]
    out = allocate(len(parts[0]), len(parts), np.result_type(*parts), what)
    for number, part in enumerate(parts):
        out[:, number] = part
    return out


def _from_datasets(data: Any, what: str) -> Any:
    """A Hugging Face dataset, or one of its columns, as Arrow; selected rows are those selected."""
    name = None
    if type(data).__name__ == "Column":
        data, name = data.source, data.column_name
    if not hasattr(data, "with_format") or not isinstance(getattr(data, "num_rows", None), int):
        raise TypeError(
            f"{what}: a {type(data).__name__} of datasets; use a Dataset in memory or on disk, one split of it, or its column"
        )
    table = (data if name is None else data.select_columns([name])).with_format("arrow")[:]
    return table if name is None else table.column(name)


def _from_pandas(data: Any, what: str, like: str) -> Any:
    if getattr(data, "ndim", 0) == 2:
        vectors = [number for number in range(data.shape[1]) if _has_vectors(data.iloc[:, number])]
        if not vectors:
            return np.asarray(data)
        if len(vectors) > 1:
            names = ", ".join(repr(data.columns[number]) for number in vectors)
            raise InvalidArgument(f"{what}: {len(vectors)} columns of vectors, {names}; pass one of them")
        data = data.iloc[:, vectors[0]]
    elif not _has_vectors(data):
        return np.asarray(data)
    if data.dtype != object:
        return _from_arrow(data.array.__arrow_array__(), what)
    return _stacked(data.array, what, like if like in ("float16", "float32") else "float64")


def _has_vectors(series: Any) -> bool:
    arrow_type = getattr(series.dtype, "pyarrow_dtype", None)
    if arrow_type is not None:
        return bool(_arrow.is_vector(arrow_type))
    if series.dtype != object:
        return False
    first = next((value for value in series.array if not _is_missing(value)), None)
    return isinstance(first, (list, tuple, np.ndarray))


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or isinstance(value, float)


def _stacked(values: Any, what: str, like: str) -> NDArray[Any]:
    """Objects that are rows in one array of the first one's element type; lists become ``like``."""
    out: NDArray[Any] | None = None
    for number, value in enumerate(values):
        if _is_missing(value):
            raise InvalidArgument(f"{what}: row {number} is missing; leave such rows out, for example with dropna()")
        row = np.asarray(value)
        if not isinstance(value, np.ndarray) and row.dtype.kind in "iuf":
            row = row.astype(like)
        if row.ndim != 1:
            raise InvalidArgument(f"{what}: row {number} has the shape {row.shape}; use one vector a row")
        if out is None:
            out = allocate(len(values), len(row), row.dtype, what)
        if row.dtype != out.dtype:
            raise TypeError(f"{what}: row {number} is of {row.dtype}, row 0 of {out.dtype}; give all one element type")
        if len(row) != out.shape[1]:
            raise InvalidArgument(
                f"{what}: row {number} has {len(row)} elements, row 0 has {out.shape[1]}; all need as many"
            )
        out[number] = row
    assert out is not None  # there is a first vector
    return out
