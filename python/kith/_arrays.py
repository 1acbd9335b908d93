"""What counts as an array, and which element types go together."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._errors import InvalidArgument
from ._gpu import DTYPES, gpu_rows
from ._tables import as_array

_REMEDY = {
    "b": "use x.astype(numpy.uint8)",
    "i": "use x.astype(numpy.float64), exact up to 2**53 (or numpy.int8 where the values fit)",
    "u": "use x.astype(numpy.float64), exact up to 2**53 (or numpy.uint8 where the values fit)",
    "f": "use x.astype(numpy.float64)",
    "c": "search real and imaginary parts side by side: x.view(x.real.dtype)",
    "O": "pass a rectangular array of numbers, for example numpy.array(x, dtype=numpy.float64)",
}


@lru_cache(maxsize=64)
def _name_of(dtype: np.dtype[Any]) -> str:
    """NumPy puts a dtype's name together anew each time, which takes as long as a query of a tree."""
    return str(dtype.name)


# Kinds of element types that are text, dates or complex numbers.
NOT_NUMBERS = "USMmc"


def plain_array(values: Any, what: str) -> NDArray[Any]:
    """``numpy.asarray``, which says of lists of different lengths what they are."""
    try:
        return np.asarray(values)
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise InvalidArgument(f"{what}: lists of different lengths; all of them must have the same length") from None


def refuse_path(values: Any, what: str) -> None:
    if isinstance(values, (str, bytes, os.PathLike)):
        raise TypeError(f"{what}: {os.fspath(values)!r} is a path, not an array; read it with kith.read(path)")


def numbers(values: Any, what: str) -> NDArray[np.float64]:
    """An array or nested list of numbers as float64; neither text nor dates nor complex numbers."""
    array = plain_array(values, what)
    if array.dtype.kind in NOT_NUMBERS:
        kind = "text" if array.dtype.kind in "US" else array.dtype.name
        raise TypeError(f"{what}: {kind} in place of numbers")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise InvalidArgument(f"{what}: a number does not fit in float64, whose magnitude is at most 1.8e308") from None
    except (TypeError, ValueError):
        raise TypeError(f"{what}: {type(values).__name__} in place of an array of numbers") from None


def to_rows(array: Any, what: str, one_row_allowed: bool = False, like: str = "float64") -> _kith.Rows:
    """The array as a matrix of the library: its own memory where the rows are contiguous, else a copy.

    An array on a GPU is used there, and refused where its rows are not contiguous. Tables give their column of
    vectors (_tables.py).

    ``what`` names the argument in messages. With ``one_row_allowed``, shape ``[d]`` counts as ``[1, d]``.
    Lists of Python's numbers have no element type of their own and take ``like``.
    """
    if not isinstance(array, np.ndarray):
        refuse_path(array, what)
        array = as_array(array, what, like)
    if not isinstance(array, np.ndarray):
        on_gpu = gpu_rows(array, what, one_row_allowed)
        if on_gpu is not None:
            return on_gpu
        if hasattr(type(array), "__dlpack__"):
            return _kith.Rows(array, what, "", one_row_allowed)
        if hasattr(array, "tocsr"):
            raise TypeError(f"{what}: a sparse matrix; Kith searches dense rows, use x.toarray()")
        array = from_list(array, like, what) if is_list_of_numbers(array) else plain_array(array, what)
    return _numpy_rows(array, what, one_row_allowed)


def is_list_of_numbers(values: Any) -> bool:
    first = values
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    return first is not values and type(first) in (int, float)


def from_list(values: Any, like: str, what: str) -> NDArray[Any]:
    """The list as an array of ``like``; as float64 where integers are asked for and it holds others."""
    array = plain_array(values, what)
    if array.dtype.kind not in "iuf" or like == "bfloat16":
        return array
    if like in ("int8", "uint8"):
        limits = np.iinfo(like)
        fits = array.dtype.kind in "iu" and array.min() >= limits.min and array.max() <= limits.max
        return array.astype(like if fits else np.float64)
    return array.astype(like)


def _numpy_rows(array: NDArray[Any], what: str, one_row_allowed: bool) -> _kith.Rows:
    if isinstance(array, np.ma.MaskedArray) and np.any(array.mask):
        raise TypeError(f"{what}: a masked array; use x.filled(numpy.nan): rows with a NaN are never found")
    dtype = array.dtype
    name = _name_of(dtype)
    reinterpret = ""
    if name == "bfloat16":
        # Neither DLPack nor the buffer protocol of NumPy knows it: hand over the bits.
        array, reinterpret = array.view(np.uint16), "bfloat16"
    elif name not in DTYPES:
        remedy = _REMEDY.get(dtype.kind, "use an array of numbers")
        raise TypeError(f"{what}: element type {name}; Kith searches {', '.join(DTYPES)}: {remedy}")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.aligned or any(stride % array.itemsize for stride in array.strides):
        array = array.copy()
    return _kith.Rows(array, what, reinterpret, one_row_allowed)


def common_dtype(first: str, second: str) -> str:
    """The narrowest element type of Kith that holds every value of both, as numpy.result_type would choose.

    int8 with uint8 would be int16 in NumPy, which Kith does not search: they meet in float32.
    """
    pair = {first, second}
    if len(pair) == 1:
        return first
    if "float64" in pair:
        return "float64"
    if "float32" in pair or pair in ({"float16", "bfloat16"}, {"int8", "uint8"}):
        return "float32"
    return "float16" if "float16" in pair else "bfloat16"


def promote(dataset: _kith.Rows, queries: _kith.Rows) -> tuple[_kith.Rows, _kith.Rows]:
    """Both in their common element type; what has it already stays where it lies."""
    common = common_dtype(dataset.dtype, queries.dtype)
    return (
        dataset if dataset.dtype == common else dataset.widen(common),
        queries if queries.dtype == common else queries.widen(common),
    )


def promote_queries(queries: _kith.Rows, dtype: str) -> _kith.Rows:
    """The queries in the element type of a finished index.

    Raises TypeError where that would round them.
    """
    if queries.dtype == dtype:
        return queries
    common = common_dtype(queries.dtype, dtype)
    if common != dtype:
        raise TypeError(
            f"queries: element type {queries.dtype}, the index holds {dtype}, which would round them; use "
            f"q.astype({_numpy_expression(dtype)}), or build the index over x.astype({_numpy_expression(common)})"
        )
    return queries.widen(dtype)


def _numpy_expression(dtype: str) -> str:
    return f"{'ml_dtypes' if dtype == 'bfloat16' else 'numpy'}.{dtype}"


def to_row_set(allowed: Any, rows: int) -> _kith.RowSet | None:
    """Which of ``rows`` rows may be found: an array of bool, a flag a row."""
    if allowed is None:
        return None
    if hasattr(allowed, "__cuda_array_interface__"):
        raise TypeError("allowed: an array on a GPU; the flags are read on the host, copy them there")
    flags = plain_array(allowed, "allowed")
    if flags.dtype != np.bool_:
        raise TypeError(
            f"allowed: an array of {flags.dtype}; an array of bool is needed, a flag a row: for the numbers of rows, "
            "flags = numpy.zeros(n, bool); flags[numbers] = True"
        )
    if flags.shape != (rows,):
        raise InvalidArgument(f"allowed has the shape {flags.shape}, ({rows},) is needed: a flag for each row")
    return _kith.RowSet(flags.tobytes())
