"""Arrays that lie on a GPU: how they come in, and in whose type answers go out."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Any

import numpy as np

from . import _kith
from ._errors import InvalidArgument

#: Element types that are searched, as NumPy names them. bfloat16 comes from the package ml_dtypes or
#: from any DLPack producer.
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8")
#: Device types of DLPack whose memory a GPU reads: its own, and managed memory.
_CUDA = (2, 13)
_TYPES = {"f4": "float32", "f8": "float64", "f2": "float16", "i1": "int8", "u1": "uint8"}
_WANTED = f"Kith searches {', '.join(DTYPES)}: convert it where it lies"


def gpu_rows(array: Any, what: str, one_row_allowed: bool) -> _kith.Rows | None:
    """The rows of an array on a GPU where they lie; None for every other object.

    DLPack first, which every library speaks that knows bfloat16, then ``__cuda_array_interface__`` (Numba,
    PyCUDA). What the producer still has to do to the array, and what the default streams have been given, is put
    before a stream of Kith's, which a search follows.
    """
    if library_of(array) == "torch":
        tensor = _from_torch(array, what, one_row_allowed)
        if tensor is not None:
            return tensor
    if hasattr(type(array), "__dlpack_device__") and hasattr(type(array), "__dlpack__"):
        kind, number = (int(part) for part in array.__dlpack_device__())
        return _from_dlpack(array, number, what, one_row_allowed) if kind in _CUDA else None
    interface = getattr(array, "__cuda_array_interface__", None)
    return None if interface is None else _from_interface(array, interface, what, one_row_allowed)


@lru_cache(maxsize=64)
def _torch_name(dtype: Any) -> str:
    return str(dtype).partition(".")[2]


def _from_torch(array: Any, what: str, one_row_allowed: bool) -> _kith.Rows | None:
    """A plain contiguous tensor of PyTorch on a GPU; None for all else.

    By DLPack, where PyTorch makes an event and a stream of its own for a stream of ours, it takes four times as long.
    """
    torch = sys.modules["torch"]
    if type(array) is not torch.Tensor or not array.is_cuda or array.layout != torch.strided or array.requires_grad:
        return None
    dtype = _torch_name(array.dtype)
    shape = array.shape
    if len(shape) == 1 and one_row_allowed:
        shape = (1, *shape)
    if dtype not in DTYPES or len(shape) != 2 or 0 in shape or not array.is_contiguous() or array.is_neg():
        return None
    rows, dim = shape
    # The function behind current_stream(), which makes an object of every stream.
    current = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    device = array.get_device()
    stream = torch.cuda.current_stream(device).cuda_stream if current is None else current(device)
    # rows_at() meets the default streams, of which 0 is one. What keeps the memory is a tensor of our own: the caller's
    # may be given other memory (X.data = Y).
    return _kith.rows_at(array.data_ptr(), dtype, rows, dim, dim, stream, array.detach(), what)


def _from_dlpack(array: Any, device: int, what: str, one_row_allowed: bool) -> _kith.Rows:
    stream = _kith.meeting_stream(device, what)
    try:
        try:
            capsule = array.__dlpack__(stream=stream, max_version=(1, 1))
        except TypeError:  # from before DLPack 1
            capsule = array.__dlpack__(stream=stream)
    except (BufferError, RuntimeError) as error:
        raise TypeError(f"{what}: {type(array).__name__} does not give its memory away: {error}") from error
    return _kith.Rows(capsule, what, "", one_row_allowed)


def dimensions(count: int) -> str:
    """``count`` dimensions, in words."""
    return f"{count} dimension{'' if count == 1 else 's'}"


def _from_interface(array: Any, interface: dict[str, Any], what: str, one_row_allowed: bool) -> _kith.Rows:
    typestr = interface["typestr"]
    dtype = _TYPES.get(typestr[1:])
    if dtype is None:
        raise TypeError(f"{what}: element type {_type_name(typestr)}; {_WANTED}")
    size = int(typestr[2:])
    if typestr[0] == ">" and size > 1:
        raise TypeError(f"{what}: big-endian {dtype}; Kith reads the GPU's own byte order only")
    if interface.get("mask") is not None:
        raise TypeError(f"{what}: a masked array; fill it with NaN: rows with a NaN are never found")

    shape = tuple(int(extent) for extent in interface["shape"])
    strides = interface.get("strides")
    if len(shape) == 1 and one_row_allowed:
        shape = (1, *shape)
        strides = None if strides is None else (shape[1] * size, *strides)
    if len(shape) != 2:
        wanted = "[rows, dim], or [dim] for one query, is" if one_row_allowed else "[rows, dim] is"
        raise InvalidArgument(f"{what}: an array of {dimensions(len(shape))}; {wanted} needed")
    rows, dim = shape
    row_stride = dim
    if strides is not None and rows > 0:
        if dim > 1 and strides[1] != size or rows > 1 and (strides[0] % size or strides[0] < dim * size):
            raise InvalidArgument(
                f"{what}: strides of {tuple(strides)} bytes; on a GPU the elements of a row must be adjacent and "
                "rows must follow each other: pass a contiguous copy, for example cupy.ascontiguousarray(x)"
            )
        row_stride = strides[0] // size if rows > 1 else dim

    stream = interface.get("stream")
    if stream == 0:
        raise InvalidArgument(
            f"{what}: __cuda_array_interface__ names stream 0, which could be either default stream; "
            "1 is the legacy one, 2 that of the thread"
        )
    pointer = int(interface["data"][0])
    if pointer % size:
        raise InvalidArgument(f"{what}: the elements are not aligned to their size of {size} bytes; pass a copy")
    return _kith.rows_at(pointer, dtype, rows, dim, row_stride, int(stream or 0), array, what)


def _type_name(typestr: str) -> str:
    try:
        return str(np.dtype(typestr).name)
    except TypeError:
        return repr(typestr)


def default_device(*arrays: _kith.Rows) -> str:
    """Where to run what names no device: the GPU of the first array that lies on one, else the CPU."""
    return next((rows.device for rows in arrays if rows.device != "cpu"), "cpu")


def library_of(array: Any) -> str:
    """The name of the library that an array is of."""
    return type(array).__module__.partition(".")[0]


#: Cells of an answer that lies in arrays of PyTorch's own: to make these takes less time than to hand over ours, and
#: few need no other message where there is no memory.
_FEW_CELLS = 1 << 14


def room_for(queries: Any, k: int, dtype: str) -> tuple[Any, Any] | None:
    """(distances, indices) of PyTorch for the answer to a few queries of PyTorch, of ``dtype``, on a GPU; None for all
    else.

    To be called before the queries come in (:func:`gpu_rows`): a search follows what their stream has been given until
    then, and so does not write while somebody still reads what lay in these arrays before.
    """
    if library_of(queries) != "torch":
        return None
    torch = sys.modules["torch"]
    if not isinstance(queries, torch.Tensor) or not queries.is_cuda or not 1 <= queries.ndim <= 2:
        return None
    rows = 1 if queries.ndim == 1 else queries.shape[0]
    if not 1 <= rows * k <= _FEW_CELLS:
        return None
    distances = torch.float64 if dtype == "float64" else torch.float32
    return queries.new_empty((rows, k), dtype=distances), queries.new_empty((rows, k), dtype=torch.int64)


def addresses_of(room: tuple[Any, Any] | None) -> tuple[int, int] | None:
    return None if room is None else (room[0].data_ptr(), room[1].data_ptr())


def in_library(library: str, answer: Any) -> Any:
    """An answer on the GPU as an array of a library, where that is one we know."""
    if isinstance(answer, _kith.GpuArray) and library in ("torch", "cupy"):
        return sys.modules[library].from_dlpack(answer)
    return answer
