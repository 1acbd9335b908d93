"""Shards: one set of rows in several saved indexes, in a folder that is searched as one index."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._arrays import promote_queries, to_row_set, to_rows
from ._errors import InvalidArgument
from ._gpu import default_device, library_of
from ._index import CLASSES, METRICS, Index, Limits, _execution, _integer, _optional, flag, name_of, number, seed_of
from ._neighborhoods import RadiusNeighbors
from ._neighbors import Neighbors, SearchStatistics, from_parts
from ._progress import Progress, reporting
from ._tile_files import unpacked

__all__ = ["Sharded"]

_INDEXES = "'brute_force', 'kd_tree', 'octree' or 'vamana'"


def _parameter(name: str, value: Any) -> Any:
    """What a type of index is built with, as _kith takes it."""
    if name == "directions":
        return None if value is None else flag(value, name)
    if name == "lists":
        return _optional(value, name)
    if name in ("filter", "codes"):
        return name_of(value, name, "one of its names")
    if name == "seed":
        return seed_of(value)
    return number(value, name) if name == "alpha" else _integer(value, name)


class Sharded:
    """Rows in several saved indexes of one type, searched as one; what is searched need not fit in memory.

    Made by :meth:`build` from files or an array, or by :meth:`open` from a folder. A search asks the
    shards and keeps the best of what they found: of exact types the same bits as one index over all rows, of graphs
    at least the share that is asked for (docs/shards.md). Shards are opened when they are first asked and stay open
    while ``memory_limit`` has room for their files and what is made anew for them; 0 is half of the machine's memory.

    Thread-safe. A context manager, whose end is :meth:`close`. Can be pickled: the pickle holds the name of the folder.
    """

    __slots__ = ("_device", "_shards")
    _shards: _kith.Sharded
    _device: str

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError("Sharded are made by Sharded.build(X, path, shards) or Sharded.open(path)")

    @classmethod
    def _wrap(cls, shards: _kith.Sharded, device: str) -> Sharded:
        made = cls.__new__(cls)
        made._shards = shards
        made._device = device
        return made

    @classmethod
    def build(
        cls,
        X: Any,
        path: str | os.PathLike[str],
        shards: int,
        *,
        index: str = "brute_force",
        metric: str = "sqeuclidean",
        partition: str = "auto",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
        **parameters: Any,
    ) -> Sharded:
        """Divides rows among shards, each built and saved before the next is read.

        Args:
            X: a file; a list of files, which are one dataset whose row numbers run through them; or an array
                ``[n, d]`` in host memory. Of files no more than one shard's rows are in memory; only HDF5 and
                compressed PCD files are held whole. LAZ and E57 are unpacked beside ``path`` first.
            path: the folder, which appears whole or not at all. An older folder of shards is replaced, another one
                refused. A process that is killed leaves ``path + ".kith-work"``, from which the same call goes on
                (with files).
            shards: how many, 1 to 65,536 and at most ``n``.
            index: ``"brute_force"``, ``"kd_tree"``, ``"octree"`` or ``"vamana"``.
            partition: how rows are divided. ``"rows"``: those of a shard follow each other; their counts differ by at most one.
                ``"space"``: they lie in one part of space, about equally many, so that a query needs few shards; in
                up to 16 dimensions, by sqeuclidean, euclidean and manhattan. ``"auto"``: by space for trees. Of files,
                as many shards' rows as a quarter of ``memory_limit`` holds are then read at once. ``"space"`` is refused
                where rows cannot be divided so that each shard has one.
            metric, threads, memory_limit, device_memory_limit, progress, device: as for :func:`kith.knn`; ``device``
                None is the CPU, and shards are searched where they were built unless a search says otherwise.
            **parameters: what the type takes besides: ``filter``, ``directions`` and ``lists``, ``leaf_size``, or those of
                :class:`Vamana`.

        Raises:
            InvalidArgument: a number of shards outside its limits, an index or metric that is none, a parameter that
                the type does not take, files of different dimension or element type.
            IoError: a file is missing, truncated, corrupt or foreign, or the folder cannot be written.
            TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
        """
        asked = (
            name_of(index, "index", _INDEXES),
            name_of(metric, "metric", METRICS),
            _integer(shards, "shards"),
            name_of(partition, "partition", "'auto', 'rows' or 'space'"),
            {name: _parameter(name, value) for name, value in parameters.items()},
        )
        place = "cpu" if device is None else device
        limits = _execution(threads, memory_limit, device_memory_limit, place)
        folder = os.fspath(path)
        with reporting(progress) as report:
            if isinstance(X, (str, os.PathLike)):
                X = [X]
            if isinstance(X, Sequence) and len(X) > 0 and all(isinstance(file, (str, os.PathLike)) for file in X):
                with unpacked([os.fspath(file) for file in X], folder, limits[0]) as plain:
                    return cls._wrap(_kith.build_shards(folder, plain, asked, limits, report), place)
            rows = to_rows(X, "dataset")
            return cls._wrap(_kith.build_shards_of_rows(folder, rows, asked, limits, report), place)

    @classmethod
    def join(cls, path: str | os.PathLike[str], parts: Sequence[str | os.PathLike[str]]) -> Sharded:
        """Makes one folder of several whose rows follow each other, as of shards that were built apart.

        Args:
            path: the folder, which appears whole or not at all. Of parts by rows its bytes are those of one
                :meth:`build` of all rows into the same shards; parts by space stay a group of shards each. An older folder of shards is replaced, another one refused.
            parts: folders of shards of one index, metric, dimension and element type. They stay; index files are linked
                where the file system can, else copied.

        Raises:
            InvalidArgument: no part, or parts that were built differently.
            IoError: a part is missing or damaged, or the folder cannot be written.
        """
        if isinstance(parts, (str, bytes, os.PathLike)):
            raise TypeError(f"parts: {os.fspath(parts)!r} is one folder; a list of folders is needed")
        try:
            folders = [os.fsdecode(part) for part in parts]
        except TypeError:
            raise TypeError(
                "parts: a list of folders is needed, as the attribute folder of Sharded names them"
            ) from None
        return cls._wrap(_kith.join_shards(os.fspath(path), folders, _execution(0, 0, 0, "cpu"), None), "cpu")

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, device: str | None = None) -> Sharded:
        """A folder that was built; its manifest is read, and no shard.

        Args:
            path: the folder.
            device: where it is searched unless a search says otherwise; None: the CPU.

        Raises:
            IoError: it is missing, truncated, corrupt, foreign or newer.
        """
        place = "cpu" if device is None else name_of(device, "device", "'cpu' or 'cuda'")
        return cls._wrap(_kith.open_shards(os.fspath(path)), place)

    def _queries(self, Q: Any) -> _kith.Rows:
        return promote_queries(to_rows(Q, "queries", True, self.dtype), self.dtype)

    def _limits(
        self, queries: _kith.Rows, threads: Any, memory_limit: Any, device_memory_limit: Any, device: str | None
    ) -> Limits:
        if device is None:
            place = default_device(queries)
            device = self._device if place == "cpu" else place
        return _execution(threads, memory_limit, device_memory_limit, device)

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
        radius: float | None = None,
        recall: float | None = None,
        list_size: int | None = None,
        beam_width: int | None = None,
        rerank: int | None = None,
        allowed: Any = None,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Neighbors:
        """The k nearest rows of all shards for each row of ``Q``.

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``. Widened to the rows' element type where that is exact.
            k: neighbours a query, at least 1. More than there are rows pads with index -1 and distance inf.
            radius: of trees: no row farther than this, in units of the metric.
            recall, list_size, beam_width, rerank: of graphs, for each shard: as for :meth:`Vamana.search`. Each goes
                by the recall that it has measured of itself; the statistics have the least of them.
            allowed: which rows may be found: an array of bool ``[n]``, or None for all. Shards without one are not
                opened.
            threads, memory_limit, device_memory_limit, progress: as for :func:`kith.knn`.
            device: None for the GPU that ``Q`` lies on, else where the shards were built or opened for.

        Raises:
            InvalidArgument: an option that the type does not take; and as for :meth:`Index.search`.
            IoError: a shard is missing, damaged, or not the one that the manifest names.
            TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
        """
        count = _integer(k, "k")
        options = (
            None if radius is None else number(radius, "radius"),
            None if recall is None else number(recall, "recall"),
            None if list_size is None else _integer(list_size, "list_size"),
            None if beam_width is None else _integer(beam_width, "beam_width"),
            None if rerank is None else _integer(rerank, "rerank"),
            to_row_set(allowed, self.rows),
        )
        queries = self._queries(Q)
        limits = self._limits(queries, threads, memory_limit, device_memory_limit, device)
        with reporting(progress) as report:
            parts = _kith.shards_search(self._shards, queries, count, *options, limits, report)
        return from_parts(parts, library_of(Q))

    def radius_search(
        self,
        Q: Any,
        radius: float,
        *,
        sorted: bool = True,
        max_neighbors: int = 0,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> RadiusNeighbors:
        """All rows within ``radius`` (inclusive) of each query; shards of trees.

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``.
            radius: in units of the metric, 0 or more.
            sorted: ascending by (distance, index); False: in no particular order.
            max_neighbors: only this many of the nearest rows a query; 0 for all.
            threads, memory_limit, device_memory_limit, progress, device: as for :meth:`search`.

        Raises:
            InvalidArgument: shards of another type, a radius or max_neighbors below 0.
            OutOfMemory: the answer does not fit into ``memory_limit``.
            IoError, TypeError, DeviceError, KeyboardInterrupt: as for :meth:`search`.
        """
        limit, most = number(radius, "radius"), _integer(max_neighbors, "max_neighbors")
        if most < 0:
            raise InvalidArgument(f"max_neighbors is {most}; use 1 or more, or 0 for all")
        queries = self._queries(Q)
        limits = self._limits(queries, threads, memory_limit, device_memory_limit, device)
        with reporting(progress) as report:
            found: Any = _kith.shards_radius_search(
                self._shards, queries, limit, flag(sorted, "sorted"), most, limits, report
            )
        offsets, indices, distances, statistics = found
        return RadiusNeighbors(offsets, indices, distances, SearchStatistics(**statistics))

    def count_within(
        self,
        Q: Any,
        radius: float,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> NDArray[np.int64]:
        """How many rows are within ``radius`` (inclusive) of each query: int64 ``[q]``; shards of trees.

        Args:
            Q, radius: as for :meth:`radius_search`.
            threads, memory_limit, device_memory_limit, progress, device: as for :meth:`search`.

        Raises:
            InvalidArgument, OutOfMemory, IoError, TypeError, DeviceError, KeyboardInterrupt: as for
                :meth:`radius_search`.
        """
        limit = number(radius, "radius")
        queries = self._queries(Q)
        limits = self._limits(queries, threads, memory_limit, device_memory_limit, device)
        with reporting(progress) as report:
            counts: Any = _kith.shards_count_within(self._shards, queries, limit, limits, report)
        return np.asarray(counts)

    def shard(
        self,
        number: int,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Index:
        """One shard as an index of its own, whose rows are numbered from 0 (:meth:`row_numbers` tells which they are of
        all); it counts among the open ones.

        Args:
            number: 0 to ``shards - 1``.
            threads, memory_limit, device_memory_limit: as for :func:`kith.load`.
            device: None: where the shards were built or opened for.

        Raises:
            InvalidArgument: a shard that there is not.
            IoError: its file is missing, damaged, or not the one that the manifest names.
            OutOfMemory, DeviceError: as for :func:`kith.load`.
        """
        place = self._device if device is None else name_of(device, "device", "'cpu' or 'cuda'")
        limits = _execution(threads, memory_limit, device_memory_limit, place)
        index = _kith.one_shard(self._shards, _integer(number, "number"), limits, None)
        return CLASSES.get(index.type, Index)._wrap(index, place)

    def row_numbers(self, number: int) -> NDArray[np.int64]:
        """The row numbers, among all rows, of a shard's rows, ascending: int64 ``[shard_rows[number]]``.

        Args:
            number: 0 to ``shards - 1``.

        Raises:
            InvalidArgument: a shard that there is not.
            IoError: its file of row numbers is missing or damaged.
        """
        limits = _execution(0, 0, 0, "cpu")
        return np.asarray(_kith.row_numbers(self._shards, _integer(number, "number"), limits, None))

    def verify(self, *, progress: Progress = False) -> None:
        """Reads every shard and checks it against its checksums and the manifest.

        Raises:
            IoError: one is damaged; the message names the file.
        """
        with reporting(progress) as report:
            _kith.verify_shards(self._shards, _execution(0, 0, 0, "cpu"), report)

    def close(self) -> None:
        """Lets go of the shards that are open; a search opens them again."""
        self._shards.close()

    def __enter__(self) -> Sharded:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def folder(self) -> Path:
        """Where the shards are."""
        return Path(self._shards.folder)

    @property
    def type(self) -> str:
        """Name of the shards' index type."""
        return str(self._shards.type)

    @property
    def rows(self) -> int:
        """Rows of all shards."""
        return int(self._shards.rows)

    @property
    def dim(self) -> int:
        """Elements a row."""
        return int(self._shards.dim)

    @property
    def dtype(self) -> str:
        """Element type of the rows, as NumPy names it."""
        return str(self._shards.dtype)

    @property
    def metric(self) -> str:
        """Name of the metric."""
        return str(self._shards.metric)

    @property
    def shards(self) -> int:
        """How many there are."""
        return int(self._shards.shards)

    @property
    def partition(self) -> str:
        """``"space"`` where a shard has the rows of a part of space, else ``"rows"``."""
        return str(self._shards.partition)

    @property
    def shard_rows(self) -> list[int]:
        """Rows of each shard, in their order."""
        return [int(rows) for rows in self._shards.shard_rows()]

    @property
    def open_shards(self) -> int:
        """How many are open now."""
        return int(self._shards.open_shards)

    @property
    def memory_bytes(self) -> int:
        """Bytes that open shards hold beyond their files."""
        return int(self._shards.memory_bytes)

    @property
    def bytes(self) -> int:
        """Bytes of all shards on disk."""
        return int(self._shards.bytes)

    def __repr__(self) -> str:
        shape = f"{self.rows:,} x {self.dim:,} {self.dtype}, {self.metric}"
        return f"Sharded({str(self.folder)!r}: {shape} in {self.shards:,} x {self.type})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (os.path.abspath(self.folder), self._device)


def _reopen(folder: str, device: str) -> Sharded:
    return Sharded.open(folder, device=device)
