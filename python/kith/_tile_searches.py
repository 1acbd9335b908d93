"""Searches of points in tiles: nearest rows, rows within a radius, in memory or into files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._arrays import promote_queries, to_rows
from ._errors import InvalidArgument
from ._index import _execution, _integer, flag, name_of, number
from ._neighborhoods import RadiusNeighbors
from ._neighbors import Neighbors, SearchStatistics, from_parts, plain_int64
from ._point_tree import radius_of
from ._progress import Progress, reporting
from ._tile_files import TileAnswer, answer_of, mapped

if TYPE_CHECKING:
    from ._tiles import PointTiles

_METRICS = "'sqeuclidean', 'euclidean' or 'manhattan'"
_INSIDE = "'kd_tree', 'octree' or 'brute_force'"


def limits_of(
    threads: Any, memory_limit: Any, device: Any = "cpu", device_memory_limit: Any = 0
) -> tuple[int, int, int, str]:
    return _execution(threads, memory_limit, device_memory_limit, device)


def search_of(metric: Any, inside: Any, include_self: Any = False, radius: Any = None) -> tuple[str, str, bool, float]:
    """How tiles are searched, as _kith takes it."""
    return (
        name_of(metric, "metric", _METRICS),
        name_of(inside, "inside", _INSIDE),
        flag(include_self, "include_self"),
        radius_of(radius),
    )


def _written(order: Any, index_dtype: Any) -> tuple[str, str]:
    return (
        name_of(order, "order", "'input' or 'tiles'"),
        name_of(index_dtype, "index_dtype", "'int64' or 'uint32'"),
    )


class TileSearches:
    """What :class:`PointTiles` answer of queries and of their own rows."""

    __slots__ = ("_tiles",)
    _tiles: _kith.PointTiles

    @property
    def dtype(self) -> str:
        """The cloud's element type, as NumPy names it."""
        return str(self._tiles.dtype)

    def _queries(self, Q: Any) -> Any:
        return promote_queries(to_rows(Q, "queries", True, self.dtype), self.dtype)

    def all_knn(
        self,
        output: str | os.PathLike[str],
        k: int = 10,
        *,
        include_self: bool = False,
        metric: str = "sqeuclidean",
        radius: float | None = None,
        inside: str = "kd_tree",
        order: str = "input",
        index_dtype: str = "int64",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> TileAnswer:
        """The k nearest other rows of every row, in npy files.

        Args:
            output: ``"r"`` writes ``r.indices.npy`` and ``r.distances.npy``, with ``order="tiles"`` also
                ``r.rows.npy``; all of them, or none.
            k: neighbours a row, at least 1.
            include_self: whether a row counts among its own neighbours.
            metric: ``"sqeuclidean"``, ``"euclidean"`` or ``"manhattan"``.
            radius: no row farther than this, in units of the metric; None for no limit.
            inside: what is built in a tile while it is searched, ``"kd_tree"``, ``"octree"`` or ``"brute_force"``; it
                never changes the answer.
            order: ``"input"``, the answer of row i is the i-th; or ``"tiles"``, as tiles come, which spares a pass.
            index_dtype: ``"int64"``, or ``"uint32"`` for fewer than 2**32 - 1 rows.
            threads, memory_limit, progress: as for :class:`KdTree`.
            device: what searches, ``"cpu"``, ``"cuda"`` or ``"cuda:1"``, several GPUs (``"cuda:0,1"``, ``"all"``), which
                share the tiles, or ``"auto"``. The answer is the same, bit for bit.
            device_memory_limit: bytes of each GPU's memory; 0 for 15/16 of what is free.

        Raises:
            InvalidArgument: k below 1, an unknown metric, ``inside``, ``order`` or ``index_dtype``.
            OutOfMemory: two tiles and the answers of one do not fit into ``memory_limit``, or two tiles into a GPU's.
            DeviceError: the device is not there, or failed.
            IoError: a tile is damaged, or the answer cannot be written.
        """
        names = _written(order, index_dtype)
        search, limits = (
            search_of(metric, inside, include_self, radius),
            limits_of(threads, memory_limit, device, device_memory_limit),
        )
        with reporting(progress) as report:
            found = _kith.tiles_all_knn(
                self._tiles, os.fspath(output), _integer(k, "k"), search, *names, limits, report
            )
        return answer_of(*found)

    def all_knn_of_tiles(
        self,
        first: int,
        last: int,
        k: int = 10,
        *,
        include_self: bool = False,
        metric: str = "sqeuclidean",
        radius: float | None = None,
        inside: str = "kd_tree",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> tuple[NDArray[np.int64], Neighbors]:
        """:meth:`all_knn` of the rows of some tiles, in memory: a part of the work that needs no other to be done.

        Args:
            first, last: tiles ``first`` to ``last - 1`` in the order of the curve, of 0 to :attr:`tiles`.
            k, include_self, metric, radius, inside, threads, memory_limit, progress: as for :meth:`all_knn`.

        Returns:
            The rows, int64 ``[n]``, tile by tile and ascending in each; and their neighbours, ``[n, k]``. Parts that
            cover all tiles have each row once, with the bits of :meth:`all_knn`.

        Raises:
            InvalidArgument: tiles that there are not; and as for :meth:`all_knn`.
            OutOfMemory, IoError: as for :meth:`all_knn`.
        """
        search, limits = search_of(metric, inside, include_self, radius), limits_of(threads, memory_limit)
        tiles = _integer(first, "first"), _integer(last, "last")
        with reporting(progress) as report:
            rows, parts = _kith.tiles_all_knn_of(self._tiles, *tiles, _integer(k, "k"), search, limits, report)
        return plain_int64(rows), from_parts(parts)

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
        metric: str = "sqeuclidean",
        radius: float | None = None,
        inside: str = "kd_tree",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> Neighbors:
        """The k nearest rows of each query, in memory.

        Args:
            Q: queries ``[q, d]``; a type that the tiles' type holds exactly is converted.
            k, metric, radius, inside, threads, memory_limit, progress, device, device_memory_limit: as for
                :meth:`all_knn`.

        Raises:
            InvalidArgument, OutOfMemory, IoError: as for :meth:`all_knn`.
            TypeError: the tiles' element type would round the queries.
        """
        queries = self._queries(Q)
        search, limits = (
            search_of(metric, inside, radius=radius),
            limits_of(threads, memory_limit, device, device_memory_limit),
        )
        with reporting(progress) as report:
            parts = _kith.tiles_search(self._tiles, queries, _integer(k, "k"), search, limits, report)
        return from_parts(parts)

    def search_tiles(
        self,
        output: str | os.PathLike[str],
        queries: PointTiles,
        k: int = 10,
        *,
        metric: str = "sqeuclidean",
        radius: float | None = None,
        inside: str = "kd_tree",
        order: str = "input",
        index_dtype: str = "int64",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> TileAnswer:
        """The k nearest rows of each query of another cloud, however large, in npy files.

        Args:
            queries: the other cloud, in tiles of its own, of the same element type and dimension.
            output, k, metric, radius, inside, order, index_dtype, threads, memory_limit, progress: as for
                :meth:`all_knn`.

        Raises:
            InvalidArgument, OutOfMemory, IoError: as for :meth:`all_knn`; queries of another type or dimension.
        """
        search, limits = (
            search_of(metric, inside, radius=radius),
            limits_of(threads, memory_limit, device, device_memory_limit),
        )
        with reporting(progress) as report:
            found = _kith.tiles_search_files(
                self._tiles,
                os.fspath(output),
                _tiles_of(queries),
                _integer(k, "k"),
                search,
                _written(order, index_dtype),
                limits,
                report,
            )
        return answer_of(*found)

    def radius_search(
        self,
        Q: Any,
        radius: float,
        max_neighbors: int = 0,
        *,
        output: str | os.PathLike[str] | None = None,
        metric: str = "sqeuclidean",
        inside: str = "kd_tree",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> RadiusNeighbors:
        """All rows within ``radius`` (inclusive) of each query, nearest first.

        Args:
            Q: queries ``[q, d]``, answered in memory; or :class:`PointTiles`, this one among them, whose answer goes to
                files.
            radius: in units of the metric, 0 or more.
            max_neighbors: only this many of the nearest rows a query; 0 for all.
            output: of queries in tiles: ``"r"`` writes ``r.offsets.npy``, ``r.indices.npy``, ``r.distances.npy``.
            metric, inside, threads, memory_limit, progress, device, device_memory_limit: as for
                :meth:`all_knn`.

        Returns:
            :class:`RadiusNeighbors`; of queries in tiles its arrays are memory-mapped.

        Raises:
            InvalidArgument: a radius or max_neighbors below 0; an output for queries in memory, or none for tiles.
            OutOfMemory: the answer, or in files one list, does not fit into ``memory_limit``.
        """
        limit, most = number(radius, "radius"), _integer(max_neighbors, "max_neighbors")
        search, limits = search_of(metric, inside), limits_of(threads, memory_limit, device, device_memory_limit)
        name = _output_of(Q, output)
        with reporting(progress) as report:
            if name is not None:
                asked = _tiles_of(Q)
                files: Any = _kith.tiles_radius_files(self._tiles, name, asked, limit, most, search, limits, report)
                offsets, indices, distances = (mapped(file) for file in files)
                return RadiusNeighbors(offsets, indices, distances)
            queries = self._queries(Q)
            found: Any = _kith.tiles_radius_search(self._tiles, queries, limit, most, search, limits, report)
        offsets, indices, distances, statistics = found
        return RadiusNeighbors(offsets, indices, distances, SearchStatistics(**statistics))

    def count_within(
        self,
        Q: Any,
        radius: float,
        *,
        output: str | os.PathLike[str] | None = None,
        metric: str = "sqeuclidean",
        inside: str = "kd_tree",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> NDArray[np.int64]:
        """How many rows are within ``radius`` (inclusive) of each query.

        Args:
            Q: as for :meth:`radius_search`.
            output: of queries in tiles: ``"r"`` or ``"r.npy"`` writes ``r.npy``.
            radius, metric, inside, threads, memory_limit, progress: as for :meth:`radius_search`.

        Returns:
            int64 ``[queries]``; of queries in tiles memory-mapped.

        Raises:
            InvalidArgument, OutOfMemory, IoError: as for :meth:`radius_search`.
        """
        limit = number(radius, "radius")
        search, limits = search_of(metric, inside), limits_of(threads, memory_limit, device, device_memory_limit)
        name = _output_of(Q, output)
        with reporting(progress) as report:
            if name is not None:
                files: Any = _kith.tiles_count_files(self._tiles, name, _tiles_of(Q), limit, search, limits, report)
                return mapped(files[0])
            queries = self._queries(Q)
            counts: Any = _kith.tiles_count_within(self._tiles, queries, limit, search, limits, report)
        return np.asarray(counts)


def _tiles_of(queries: Any) -> _kith.PointTiles:
    if not isinstance(queries, TileSearches):
        raise TypeError(f"queries: a {type(queries).__name__} is no PointTiles; use search for arrays")
    return queries._tiles


def _output_of(queries: Any, output: Any) -> str | None:
    """Where the answer of queries in tiles goes; None where it comes in memory."""
    if isinstance(queries, TileSearches):
        if output is None:
            raise InvalidArgument("output is None; queries in tiles are answered into files: name them")
        return str(os.fspath(output))
    if output is not None:
        raise InvalidArgument(f"output is {output!r}, the queries are an array, answered in memory; leave output out")
    return None
