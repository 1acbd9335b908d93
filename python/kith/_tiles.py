"""Clouds larger than memory: points in tiles on disk, searched tile by tile."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._arrays import promote_queries, to_rows
from ._errors import InvalidArgument
from ._index import _execution, _integer, name_of
from ._neighborhoods import Normals, Outliers, RadiusNeighbors
from ._neighbors import Neighbors, SearchStatistics, from_parts
from ._point_tree import neighborhood, number
from ._progress import Progress, reporting
from ._tile_files import TileAnswer, TileStatistics, folder_beside, gather, mapped, mark_temporary, unpacked

__all__ = ["PointTiles", "TileAnswer", "TileStatistics"]

_METRICS = "'sqeuclidean', 'euclidean' or 'manhattan'"
_INSIDE = "'kd_tree', 'octree' or 'brute_force'"


def _limits(threads: Any, memory_limit: Any) -> tuple[int, int, int, str]:
    return _execution(threads, memory_limit, 0, "cpu")


class PointTiles:
    """A cloud in tiles on disk, searched within a limit on memory: the same bits as a :class:`KdTree` of its rows.

    Made by :meth:`build` from files or an array, or by :meth:`open` from a folder. Every method keeps to its
    ``memory_limit`` in bytes; 0 for half of the machine's free memory. On the CPU only.

    Attributes:
        folder: where the tiles are.
        rows, dim, dtype: of the cloud.
        tiles: how many there are.
        tile_points: about how many points one has.
        nan_rows: rows with a NaN.
    """

    __slots__ = ("_tiles",)
    _tiles: _kith.PointTiles

    def __init__(self) -> None:
        raise TypeError("PointTiles are made by PointTiles.build(folder, clouds) or PointTiles.open(folder)")

    @classmethod
    def _wrap(cls, tiles: _kith.PointTiles) -> PointTiles:
        made = cls.__new__(cls)
        made._tiles = tiles
        return made

    @classmethod
    def build(
        cls,
        folder: str | os.PathLike[str],
        clouds: Any,
        *,
        tile_points: int = 0,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> PointTiles:
        """Divides a cloud among tiles: one read, one write, in a folder that appears whole or not at all.

        Args:
            folder: where the tiles go. An older folder of tiles is replaced, another one refused.
            clouds: a file; a list of files, which are one cloud whose row numbers run through them; an array ``[n, d]``;
                or an iterator of such arrays, which are written to a file beside ``folder`` first. Files are read in
                blocks; only HDF5 and compressed PCD files are held whole, one at a time. LAZ and COPC (``.laz``,
                laspy with lazrs) and E57 (pye57) need ``pip install 'kith[clouds]'``; worker processes, of some 100 MB
                each beside the limit, unpack them beside ``folder`` first.
            tile_points: about how many points a tile has; no tile has more than twice as many. 0: a million, fewer
                where the memory limit is small.
            threads, memory_limit, progress: as for :class:`KdTree`.

        Raises:
            IoError: a file is missing, truncated, corrupt or foreign, or the folder cannot be written.
            InvalidArgument: files or arrays of different dimension or element type; an iterator without arrays.
            OutOfMemory: the memory limit is too small.
        """
        points, limits = _integer(tile_points, "tile_points"), _limits(threads, memory_limit)
        with reporting(progress) as report:
            if isinstance(clouds, (str, os.PathLike)):
                clouds = [clouds]
            if isinstance(clouds, Sequence) and all(isinstance(cloud, (str, os.PathLike)) for cloud in clouds):
                files = [os.fspath(cloud) for cloud in clouds]
                with unpacked(files, folder, limits[0]) as plain:
                    return cls._wrap(_kith.build_tiles(os.fspath(folder), plain, points, limits, report))
            if isinstance(clouds, Iterator):
                with folder_beside(folder) as beside:
                    path = os.path.join(beside, "cloud.npy")
                    gather(clouds, path)
                    mark_temporary(path)
                    return cls._wrap(_kith.build_tiles(os.fspath(folder), [path], points, limits, report))
            rows = to_rows(clouds, "clouds")
            return cls._wrap(_kith.build_tiles_of_rows(os.fspath(folder), rows, points, limits, report))

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> PointTiles:
        """A folder that was built; no tile is read.

        Raises:
            IoError: it is missing, truncated, corrupt or foreign.
        """
        return cls._wrap(_kith.open_tiles(os.fspath(folder)))

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

        Raises:
            InvalidArgument: k below 1, an unknown metric, ``inside``, ``order`` or ``index_dtype``.
            OutOfMemory: two tiles and the answers of one do not fit into ``memory_limit``.
            IoError: a tile is damaged, or the answer cannot be written.
        """
        names = _written(order, index_dtype)
        search, limits = _search(metric, inside, include_self, radius), _limits(threads, memory_limit)
        with reporting(progress) as report:
            files, statistics = _kith.tiles_all_knn(
                self._tiles, os.fspath(output), _integer(k, "k"), search, *names, limits, report
            )
        indices, distances, *rows = (mapped(file) for file in files)
        return TileAnswer(
            distances, indices, rows[0] if rows else None, tuple(map(Path, files)), TileStatistics(**statistics)
        )

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
    ) -> Neighbors:
        """The k nearest rows of each query, in memory.

        Args:
            Q: queries ``[q, d]``; a type that the tiles' type holds exactly is converted.
            k, metric, radius, inside, threads, memory_limit, progress: as for :meth:`all_knn`.

        Raises:
            InvalidArgument, OutOfMemory, IoError: as for :meth:`all_knn`.
            TypeError: the tiles' element type would round the queries.
        """
        queries = promote_queries(to_rows(Q, "queries", True, self.dtype), self.dtype)
        search, limits = _search(metric, inside, False, radius), _limits(threads, memory_limit)
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
    ) -> TileAnswer:
        """The k nearest rows of each query of another cloud, however large, in npy files.

        Args:
            queries: the other cloud, in tiles of its own, of the same element type and dimension.
            output, k, metric, radius, inside, order, index_dtype, threads, memory_limit, progress: as for
                :meth:`all_knn`.

        Raises:
            InvalidArgument, OutOfMemory, IoError: as for :meth:`all_knn`; queries of another type or dimension.
        """
        search, limits = _search(metric, inside, False, radius), _limits(threads, memory_limit)
        with reporting(progress) as report:
            files, statistics = _kith.tiles_search_files(
                self._tiles,
                os.fspath(output),
                _tiles_of(queries),
                _integer(k, "k"),
                search,
                _written(order, index_dtype),
                limits,
                report,
            )
        indices, distances, *rows = (mapped(file) for file in files)
        return TileAnswer(
            distances, indices, rows[0] if rows else None, tuple(map(Path, files)), TileStatistics(**statistics)
        )

    def normals(
        self,
        output: str | os.PathLike[str],
        k: int | None = None,
        radius: float | None = None,
        viewpoint: Any = None,
        *,
        metric: str = "sqeuclidean",
        inside: str = "kd_tree",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> Normals:
        """Normals and curvature of every row, as :meth:`KdTree.normals` finds them, in an npy file.

        Args:
            output: ``"r"`` or ``"r.npy"`` writes ``r.npy``, float64 ``[rows, dim + 1]``, the curvature last.
            k, radius, viewpoint: as for :meth:`KdTree.normals`; the radius is in units of ``metric``.
            metric: ``"sqeuclidean"`` or ``"euclidean"``.
            inside, threads, memory_limit, progress: as for :meth:`all_knn`.

        Returns:
            :class:`Normals`, views of the memory-mapped file.

        Raises:
            InvalidArgument: neither k nor radius, a viewpoint of another dimension, points of another dimension than
                2 or 3.
            OutOfMemory, IoError: as for :meth:`all_knn`.
        """
        count, limit = neighborhood(k, radius)
        point = None if viewpoint is None else np.asarray(viewpoint, dtype=np.float64).ravel().tolist()
        search, limits = _search(metric, inside, False, None), _limits(threads, memory_limit)
        with reporting(progress) as report:
            files, _ = _kith.tiles_normals(
                self._tiles, os.fspath(output), count, limit, point, search, ("input", "int64"), limits, report
            )
        table = mapped(files[0])
        return Normals(table[:, :-1], table[:, -1])

    def outliers(
        self,
        output: str | os.PathLike[str],
        k: int | None = None,
        radius: float | None = None,
        ratio: float = 2.0,
        *,
        metric: str = "sqeuclidean",
        inside: str = "kd_tree",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> Outliers:
        """Points that are far from their neighbours, as :meth:`KdTree.outliers` finds them, in npy files.

        Args:
            output: ``"r"`` writes ``r.outlier.npy`` and ``r.mean_distance.npy``.
            k, radius, ratio: as for :meth:`KdTree.outliers`.
            metric, inside, threads, memory_limit, progress: as for :meth:`all_knn`.

        Returns:
            :class:`Outliers`, whose arrays are memory-mapped.

        Raises:
            InvalidArgument: neither k nor radius, a ratio below 0.
            OutOfMemory, IoError: as for :meth:`all_knn`.
        """
        count, limit = neighborhood(k, radius)
        flags, means = f"{os.fspath(output)}.outlier.npy", f"{os.fspath(output)}.mean_distance.npy"
        search, limits = _search(metric, inside, False, None), _limits(threads, memory_limit)
        with reporting(progress) as report:
            rest = _kith.tiles_outliers(
                self._tiles, flags, means, count, limit, number(ratio, "ratio"), search, limits, report
            )
        return Outliers(mapped(flags), mapped(means), *rest)

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
    ) -> RadiusNeighbors:
        """All rows within ``radius`` (inclusive) of each query, nearest first.

        Args:
            Q: queries ``[q, d]``, answered in memory; or :class:`PointTiles`, this one among them, whose answer goes to
                files.
            radius: in units of the metric, 0 or more.
            max_neighbors: only this many of the nearest rows a query; 0 for all.
            output: of queries in tiles: ``"r"`` writes ``r.offsets.npy``, ``r.indices.npy``, ``r.distances.npy``.
            metric, inside, threads, memory_limit, progress: as for :meth:`all_knn`.

        Returns:
            :class:`RadiusNeighbors`; of queries in tiles its arrays are memory-mapped.

        Raises:
            InvalidArgument: a radius or max_neighbors below 0; an output for queries in memory, or none for tiles.
            OutOfMemory: the answer, or in files one list, does not fit into ``memory_limit``.
        """
        limit, most = number(radius, "radius"), _integer(max_neighbors, "max_neighbors")
        search, limits = _search(metric, inside, False, None), _limits(threads, memory_limit)
        name = _output_of(Q, output)
        with reporting(progress) as report:
            if name is not None:
                asked = _tiles_of(Q)
                files: Any = _kith.tiles_radius_files(self._tiles, name, asked, limit, most, search, limits, report)
                offsets, indices, distances = (mapped(file) for file in files)
                return RadiusNeighbors(offsets, indices, distances)
            queries = promote_queries(to_rows(Q, "queries", True, self.dtype), self.dtype)
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
        search, limits = _search(metric, inside, False, None), _limits(threads, memory_limit)
        name = _output_of(Q, output)
        with reporting(progress) as report:
            if name is not None:
                files: Any = _kith.tiles_count_files(self._tiles, name, _tiles_of(Q), limit, search, limits, report)
                return mapped(files[0])
            queries = promote_queries(to_rows(Q, "queries", True, self.dtype), self.dtype)
            counts: Any = _kith.tiles_count_within(self._tiles, queries, limit, search, limits, report)
        return np.asarray(counts)

    def verify(self, *, progress: Progress = False) -> None:
        """Reads every tile and checks it.

        Raises:
            IoError: one is damaged; the message names the file.
        """
        with reporting(progress) as report:
            _kith.verify_tiles(self._tiles, _limits(0, 0), report)

    @property
    def folder(self) -> Path:
        """Where the tiles are."""
        return Path(self._tiles.folder)

    @property
    def rows(self) -> int:
        """Rows of the cloud."""
        return int(self._tiles.rows)

    @property
    def dim(self) -> int:
        """Its dimension."""
        return int(self._tiles.dim)

    @property
    def dtype(self) -> str:
        """Its element type, as NumPy names it."""
        return str(self._tiles.dtype)

    @property
    def tiles(self) -> int:
        """How many tiles there are."""
        return int(self._tiles.tiles)

    @property
    def tile_points(self) -> int:
        """About how many points a tile has."""
        return int(self._tiles.tile_points)

    @property
    def nan_rows(self) -> int:
        """Rows with a NaN: never found, and without neighbours."""
        return int(self._tiles.nan_rows)

    def __repr__(self) -> str:
        return f"PointTiles({str(self.folder)!r}: {self.rows:,} x {self.dim} {self.dtype} in {self.tiles:,} tiles)"


def _search(metric: Any, inside: Any, include_self: Any, radius: Any) -> tuple[str, str, bool, float]:
    reach = math.inf if radius is None else float(radius)
    return name_of(metric, "metric", _METRICS), name_of(inside, "inside", _INSIDE), bool(include_self), reach


def _written(order: Any, index_dtype: Any) -> tuple[str, str]:
    return (
        name_of(order, "order", "'input' or 'tiles'"),
        name_of(index_dtype, "index_dtype", "'int64' or 'uint32'"),
    )


def _tiles_of(queries: Any) -> _kith.PointTiles:
    if not isinstance(queries, PointTiles):
        raise TypeError(f"queries: a {type(queries).__name__} is no PointTiles; use search for arrays")
    return queries._tiles


def _output_of(queries: Any, output: Any) -> str | None:
    """Where the answer of queries in tiles goes; None where it comes in memory."""
    if isinstance(queries, PointTiles):
        if output is None:
            raise InvalidArgument("output is None; queries in tiles are answered into files: name them")
        return str(os.fspath(output))
    if output is not None:
        raise InvalidArgument(f"output is {output!r}, the queries are an array, answered in memory; leave output out")
    return None
