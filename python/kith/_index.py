"""knn(), what every index has, and brute force; the trees are in _trees.py, the graph in _vamana.py."""

from __future__ import annotations

import operator
import os
import tempfile
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from . import _kith
from ._arrays import promote, promote_queries, to_row_set, to_rows
from ._errors import InvalidArgument, IoError
from ._gpu import addresses_of, default_device, library_of, room_for
from ._neighbors import Neighbors, from_parts
from ._progress import Progress, reporting

__all__ = ["BruteForce", "Index", "IndexChoice", "choose_index", "knn", "load"]

_Self = TypeVar("_Self", bound="Index")
_INT64_MAX = 2**63 - 1


def _integer(value: Any, what: str) -> int:
    """An integer of Python or NumPy that fits 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what}: {value!r} is not an integer") from None
    if not -_INT64_MAX <= number <= _INT64_MAX:
        raise InvalidArgument(f"{what} is {number}; at most 2**63 - 1 is possible")
    return number


def _optional(value: Any, what: str) -> int | None:
    """The same, or None for what is not given."""
    return None if value is None else _integer(value, what)


def number(value: Any, what: str) -> float:
    """A real number of Python or NumPy; text that reads like one is none."""
    try:
        if isinstance(value, (str, bytes, bytearray)) or isinstance(value, np.ndarray) and value.dtype.kind in "US":
            raise TypeError
        return float(value)
    except OverflowError:
        raise InvalidArgument(f"{what} does not fit in float64, whose magnitude is at most 1.8e308") from None
    except (TypeError, ValueError):
        raise TypeError(f"{what}: {value!r} is not a number") from None


def flag(value: Any, what: str) -> bool:
    """A switch; not text, of which Python takes "off" for true as well."""
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"{what}: {value!r} is not True or False")
    return bool(value)


def seed_of(value: Any) -> int:
    """A seed, from 0 on."""
    seed = _integer(value, "seed")
    if seed < 0:
        raise InvalidArgument(f"seed is {seed}; use 0 to 2**63 - 1")
    return seed


def name_of(value: Any, what: str, choices: str) -> str:
    """A name that the compiled part looks up; ``choices`` are said where it is none at all."""
    if not isinstance(value, str):
        raise TypeError(f"{what}: {value!r} is not a name; use {choices}")
    return str(value)


METRICS = "'sqeuclidean', 'euclidean', 'inner_product', 'cosine' or 'manhattan'"
_FILTERS = "'auto', 'int8', 'fp16', 'fp32' or 'none'"
_INDEXES = "'brute_force', 'kd_tree', 'octree', 'vamana' or 'auto'"
_DEVICES = "'cpu', 'cuda', 'cuda:1', 'cuda:0,1', 'all' or 'auto'"


#: threads, memory_limit, device_memory_limit, device: how a call runs.
Limits = tuple[int, int, int, str]


def _execution(threads: Any, memory_limit: Any, device_memory_limit: Any, device: Any) -> Limits:
    return (
        _integer(threads, "threads"),
        _integer(memory_limit, "memory_limit"),
        _integer(device_memory_limit, "device_memory_limit"),
        name_of(device, "device", _DEVICES),
    )


def knn(
    X: Any,
    Q: Any,
    k: int = 10,
    metric: str = "sqeuclidean",
    filter: str = "auto",
    threads: int = 0,
    memory_limit: int = 0,
    progress: Progress = False,
    device: str | None = None,
    index: str = "auto",
    allowed: Any = None,
    device_memory_limit: int = 0,
) -> Neighbors:
    """The k nearest rows of ``X`` for each row of ``Q``, exactly.

    Builds what pays off for this many queries, searches and forgets; to search the same rows again, keep a
    :class:`BruteForce` or a :class:`KdTree`. The answer is the same, bit for bit, for every ``index``,
    ``filter``, ``device``, number of threads and limit on memory: the k smallest pairs (distance, index), the
    distance evaluated in float64 and rounded once.

    Args:
        X: dataset ``[n, d]``: any object with ``__dlpack__`` or the buffer protocol (NumPy, PyTorch on the
            CPU, ...) of float32, float64, float16, bfloat16, int8 or uint8. Not copied where the elements of
            a row are adjacent. Lists of Python's numbers become float64. An array on a GPU (PyTorch, CuPy,
            JAX, or anything with ``__cuda_array_interface__``) is used where it lies, after what its stream
            still does to it; its rows must be contiguous and its element type that of ``Q``. Columns of vectors, and
            tables with one (Arrow's C interface, pandas, datasets), are used where they lie in one piece.
        Q: queries ``[q, d]``, or one query ``[d]``. Where its element type differs from that of ``X``, both
            are widened as ``numpy.result_type`` says (int8 with uint8: float32). Lists of Python's numbers
            take the element type of ``X``. Where they lie on a GPU, so does the answer.
        k: neighbours a query, at least 1. More than ``n`` pads with index -1 and distance inf.
        metric: ``"sqeuclidean"``, ``"euclidean"``, ``"inner_product"`` (its sign flipped), ``"cosine"`` or
            ``"manhattan"``.
        filter: the cheap first comparison of brute force: ``"auto"``, ``"int8"``, ``"fp16"``, ``"fp32"`` or
            ``"none"``. Changes time and memory only. One that is named asks for brute force.
        threads: 0 for all cores this process may use.
        memory_limit: bytes of host memory the call may take beyond its inputs; 0 for no limit.
        progress: True for a bar on stderr, or a function called as ``f(done, total)`` in this thread, some
            times a second. What it raises stops the search and is raised here.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ``"cuda:0,1"``, ``"all"`` or ``"auto"``. None: the GPU
            that ``X`` lies on, else the one ``Q`` lies on, else the CPU.
        index: ``"brute_force"``, ``"kd_tree"``, ``"octree"`` (2 or 3 dimensions), or ``"auto"`` for what
            :func:`choose_index` names: a tree for many queries of few dimensions. Changes time and memory
            only. Trees know sqeuclidean, euclidean and manhattan. ``"vamana"`` builds a graph for this one
            search, and its answer is approximate: see :class:`Vamana`.
        allowed: which rows of ``X`` may be found: an array of bool ``[n]``, or None for all. An exact answer is
            exact over them.
        device_memory_limit: bytes of each GPU's memory the call may take beyond arrays that lie there; 0 for
            most of what is free. Rows that brute force has no room for stay in host memory or stream through.
            Refused where the call runs on the CPU, but for ``device="auto"``.

    Returns:
        :class:`Neighbors` with ``distances`` (float64 for float64 data, else float32) and ``indices``
        (int64), both ``[q, k]``: NumPy arrays, or for queries on a GPU arrays on that GPU, complete, of
        PyTorch or CuPy where the queries are, else :class:`GpuArray`.

    Raises:
        InvalidArgument: k below 1, dimensions that differ, an unknown metric, filter or index, a wrong shape,
            a row of a table that is null or of another length, a filter for a tree, a ``device_memory_limit`` without a GPU.
        TypeError: an element type Kith does not search, no array, or an array on a device that this build or
            machine cannot use.
        ImportError: a table without pyarrow.
        OutOfMemory: more than ``memory_limit`` or ``device_memory_limit``, or than there is.
        DeviceError: the device is not there.
        KeyboardInterrupt: Ctrl-C, within about a tenth of a second.
    """
    count = _integer(k, "k")
    names = (name_of(metric, "metric", METRICS), name_of(filter, "filter", _FILTERS), name_of(index, "index", _INDEXES))
    dataset = to_rows(X, "dataset")
    dataset, queries = promote(dataset, to_rows(Q, "queries", True, dataset.dtype))
    execution = _execution(
        threads, memory_limit, device_memory_limit, default_device(dataset, queries) if device is None else device
    )
    with reporting(progress) as report:
        parts = _kith.knn(dataset, queries, count, *names, to_row_set(allowed, dataset.rows), execution, report)
    return from_parts(parts, library_of(Q))


@dataclass(frozen=True)
class IndexChoice:
    """A type of index and why it is the one; see :func:`choose_index`."""

    index: str  #: ``"brute_force"``, ``"kd_tree"`` or ``"vamana"``
    reason: str


def choose_index(
    rows: int,
    dim: int,
    queries: int = 0,
    k: int = 10,
    metric: str = "sqeuclidean",
    device: str = "cpu",
    recall: float = 1.0,
) -> IndexChoice:
    """The type of index that answers soonest, its build included.

    Args:
        rows, dim: shape of the dataset.
        queries: how many are expected; 0: as many as rows.
        k: neighbours a query.
        metric, device: as for :func:`kith.knn`.
        recall: share of the nearest rows to find, above 0 and at most 1. Below 1 an approximate index is named
            where no exact one answers as soon.

    Raises:
        InvalidArgument: rows or queries below 0, dim or k below 1, an unknown metric, a recall outside its limits.
        DeviceError: the device is not there.
    """
    numbers = (_integer(rows, "rows"), _integer(dim, "dim"), _integer(queries, "queries"), _integer(k, "k"))
    names = (name_of(metric, "metric", METRICS), name_of(device, "device", _DEVICES))
    return IndexChoice(*_kith.choose_index(*numbers, *names, number(recall, "recall")))


class Index:
    """A searchable index of any type; :func:`kith.load` makes one from a file.

    Thread-safe and immutable: any number of threads may search one index at once. Can be pickled; the
    pickle holds the same bytes as a saved index.
    """

    __slots__ = ("_device", "_index")

    _index: _kith.Index
    _device: str

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError("Index has no constructor; use kith.BruteForce(X), kith.KdTree(X) or kith.load(path)")

    @classmethod
    def _wrap(cls: type[_Self], index: _kith.Index, device: str) -> _Self:
        self = cls.__new__(cls)
        self._index = index
        self._device = device
        return self

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
        allowed: Any = None,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Neighbors:
        """The k nearest rows of the dataset for each row of ``Q``.

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``. Widened to the dataset's element type where that is
                exact (on the host only). Where they lie on a GPU, so does the answer.
            k: neighbours a query, at least 1. More than there are rows pads with index -1 and distance inf.
            allowed, threads, memory_limit, device_memory_limit, progress: as for :func:`kith.knn`.
            device: None for the devices the index was built for; it can be searched on no others.

        Raises:
            InvalidArgument: k below 1, dimensions that differ, a wrong shape, another device.
            TypeError: the dataset's element type cannot hold every query value (float64 queries to a float32
                index), or is none that Kith searches.
            OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
        """
        count = _integer(k, "k")
        execution = _execution(threads, memory_limit, device_memory_limit, self._device if device is None else device)
        dtype = self._index.dtype
        room = room_for(Q, count, dtype)
        queries = promote_queries(to_rows(Q, "queries", True, dtype), dtype)
        with reporting(progress) as report:
            options = (None, None, None, None, to_row_set(allowed, self.rows))
            parts = self._index.search(queries, count, *options, execution, report, addresses_of(room))
        return from_parts(parts, library_of(Q), room)

    @classmethod
    def load(
        cls: type[_Self],
        path: str | os.PathLike[str],
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> _Self:
        """Opens a saved index of this class, memory-mapped. The codes of brute force are made again.

        Raises:
            IoError: the file is missing, truncated, corrupt, foreign, or holds another type of index.
        """
        index = load(
            path,
            threads=threads,
            memory_limit=memory_limit,
            device_memory_limit=device_memory_limit,
            progress=progress,
            device=device,
        )
        if not isinstance(index, cls):
            raise IoError(f"'{os.fspath(path)}' holds an index of type {index.type}; use kith.load")
        return index

    def save(self, path: str | os.PathLike[str], *, progress: Progress = False) -> None:
        """Writes the index to one file, whole or not at all.

        Raises:
            IoError: the file cannot be written.
        """
        with reporting(progress) as report:
            self._index.save(os.fspath(path), report)

    @property
    def type(self) -> str:
        """Name of the index type: ``"brute_force"``, ``"kd_tree"``, ``"octree"`` or ``"vamana"``."""
        return self._index.type

    @property
    def rows(self) -> int:
        """Rows of the dataset."""
        return self._index.rows

    @property
    def dim(self) -> int:
        """Elements a row."""
        return self._index.dim

    @property
    def dtype(self) -> str:
        """Element type of the dataset, as NumPy names it: ``"float32"``, ``"bfloat16"``, ..."""
        return self._index.dtype

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return self._index.metric

    @property
    def memory_bytes(self) -> int:
        """Bytes held beyond the caller's array; a tree has its own copy of the rows."""
        return self._index.memory_bytes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rows:,} x {self.dim:,} {self.dtype}, {self.metric})"

    def __copy__(self: _Self) -> _Self:
        return self

    def __deepcopy__(self: _Self, _memo: dict[int, Any]) -> _Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory(prefix="kith-") as folder:
            path = os.path.join(folder, "index.kith")
            self._index.save(path, None)
            with open(path, "rb") as file:
                return _unpickle, (file.read(),)


def _unpickle(content: bytes) -> Index:
    with tempfile.TemporaryDirectory(prefix="kith-") as folder:
        path = os.path.join(folder, "index.kith")
        with open(path, "wb") as file:
            file.write(content)
        return load(path)  # a mapped file stays readable after its name is gone


class BruteForce(Index):
    """Exact search over every row: a cheap filter with a proven bound, then exact re-ranking.

    Args:
        X: dataset ``[n, d]``; see :func:`kith.knn`. Not copied where the elements of a row are adjacent: the
            index keeps the array alive, and its values must not change.
        metric, filter: as for :func:`kith.knn`.
        threads, memory_limit, device_memory_limit, progress, device: how to build. The index lies on ``device``
            and is searched there; None: the GPU that ``X`` lies on, else the CPU.
        directions: whether filters may compare leading directions alone, where these promise to be quicker. None: as
            True, but on a GPU, where finding them takes some tenths of a second, they must promise more. Changes time
            and memory only.
        lists: divide the rows into about so many lists by k-means, so that a query looks only at those near enough; 0:
            none. None: where a sample shows clusters. For ``"sqeuclidean"``, ``"euclidean"`` and ``"cosine"``; on a
            GPU where rows and codes fit into its memory. Changes time and memory only.

    Raises:
        InvalidArgument, TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
    """

    __slots__ = ()

    def __init__(
        self,
        X: Any,
        metric: str = "sqeuclidean",
        filter: str = "auto",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
        directions: bool | None = None,
        lists: int | None = None,
    ) -> None:
        metric, filter = name_of(metric, "metric", METRICS), name_of(filter, "filter", _FILTERS)
        dataset = to_rows(X, "dataset")
        self._device = default_device(dataset) if device is None else device
        execution = _execution(threads, memory_limit, device_memory_limit, self._device)
        with reporting(progress) as report:
            self._index = _kith.build(
                "brute_force",
                dataset,
                metric,
                filter,
                0,
                None if directions is None else flag(directions, "directions"),
                _optional(lists, "lists"),
                execution,
                report,
            )

    @property
    def filter(self) -> str:
        """Name of the filter in use; never ``"auto"``."""
        return self._index.filter


#: By the names of index types; _trees.py and _vamana.py add their own.
CLASSES: dict[str, type[Index]] = {"brute_force": BruteForce}


def load(
    path: str | os.PathLike[str],
    *,
    threads: int = 0,
    memory_limit: int = 0,
    progress: Progress = False,
    device: str | None = None,
    device_memory_limit: int = 0,
) -> Index:
    """Opens a saved index of whatever type its header names.

    Raises:
        IoError: the file is missing, truncated, corrupt or foreign.
    """
    place = "cpu" if device is None else device
    execution = _execution(threads, memory_limit, device_memory_limit, place)
    file = os.fsdecode(path)
    if os.path.isdir(file):
        raise IoError(
            f"'{file}' is a folder; open shards with kith.Sharded.open, point tiles with kith.PointTiles.open"
        )
    with reporting(progress) as report:
        index = _kith.load(file, execution, report)
    return CLASSES.get(index.type, Index)._wrap(index, place)
