"""Clouds larger than memory: points in tiles on disk, searched tile by tile."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from . import _kith
from ._arrays import to_rows
from ._index import _integer, name_of, number
from ._neighborhoods import Normals, Outliers
from ._point_tree import neighborhood, viewpoint_of
from ._progress import Progress, reporting
from ._tile_files import TileAnswer, TileStatistics, folder_beside, gather, mapped, mark_temporary, unpacked
from ._tile_searches import TileSearches, limits_of, search_of

__all__ = ["PointTiles", "TileAnswer", "TileStatistics"]


class PointTiles(TileSearches):
    """A cloud in tiles on disk, searched within a limit on memory: the same bits as a :class:`KdTree` of its rows.

    Made by :meth:`build` from files or an array, or by :meth:`open` from a folder. Every method keeps to its
    ``memory_limit`` in bytes; 0 for half of the machine's free memory. Made on the CPU, and searched on ``device``.

    Attributes:
        folder: where the tiles are.
        rows, dim, dtype: of the cloud.
        tiles: how many there are.
        tile_points: about how many points one has.
        nan_rows: rows with a NaN.
    """

    __slots__ = ()

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
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
                laspy with lazrs) and E57 (pye57) need ``pip install laspy lazrs pye57``; worker processes, of some 100 MB
                each beside the limit, unpack them beside ``folder`` first. So are Parquet and Arrow files
                (``"rows.parquet:COLUMN"``, see :func:`kith.read`; ``pip install pyarrow``).
            tile_points: about how many points a tile has; no tile has more than twice as many. 0: a million, fewer
                where the memory limit is small.
            threads, memory_limit, progress: as for :class:`KdTree`.

        Raises:
            IoError: a file is missing, truncated, corrupt or foreign, or the folder cannot be written.
            InvalidArgument: files or arrays of different dimension or element type; an iterator without arrays.
            OutOfMemory: the memory limit is too small.
        """
        points, limits = _integer(tile_points, "tile_points"), limits_of(threads, memory_limit)
        with reporting(progress) as report:
            if isinstance(clouds, (str, os.PathLike)):
                clouds = [clouds]
            if isinstance(clouds, Sequence) and all(isinstance(cloud, (str, os.PathLike)) for cloud in clouds):
                files = [os.fspath(cloud) for cloud in clouds]
                with unpacked(files, folder, limits[0]) as plain:
                    return cls._wrap(_kith.build_tiles(os.fspath(folder), plain, files, points, limits, report))
            if isinstance(clouds, Iterator):
                with folder_beside(folder) as beside:
                    path = os.path.join(beside, "cloud.npy")
                    gather(clouds, path)
                    mark_temporary(path)
                    return cls._wrap(_kith.build_tiles(os.fspath(folder), [path], [], points, limits, report))
            rows = to_rows(clouds, "clouds")
            return cls._wrap(_kith.build_tiles_of_rows(os.fspath(folder), rows, points, limits, report))

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> PointTiles:
        """A folder that was built; no tile is read.

        Raises:
            IoError: it is missing, truncated, corrupt or foreign.
        """
        return cls._wrap(_kith.open_tiles(os.fspath(folder)))

    def normals(
        self,
        output: str | os.PathLike[str],
        k: int | None = None,
        radius: float | None = None,
        viewpoint: Any = None,
        *,
        metric: str = "sqeuclidean",
        inside: str = "kd_tree",
        value_dtype: str = "float64",
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> Normals:
        """Normals and curvature of every row, as :meth:`KdTree.normals` finds them, in an npy file.

        Args:
            output: ``"r"`` or ``"r.npy"`` writes ``r.npy``, ``[rows, dim + 1]``, the curvature last.
            k, radius, viewpoint: as for :meth:`KdTree.normals`; the radius is in units of ``metric``.
            metric: ``"sqeuclidean"`` or ``"euclidean"``.
            value_dtype: ``"float64"``, or ``"float32"``, which rounds to nearest and takes half the bytes.
            inside, threads, memory_limit, progress, device, device_memory_limit: as for :meth:`all_knn`.

        Returns:
            :class:`Normals`, views of the memory-mapped file.

        Raises:
            InvalidArgument: neither k nor radius, a viewpoint of another dimension, points of another dimension than
                2 or 3.
            OutOfMemory, IoError: as for :meth:`all_knn`.
        """
        count, limit = neighborhood(k, radius)
        values = name_of(value_dtype, "value_dtype", "'float64' or 'float32'")
        point = viewpoint_of(viewpoint)
        search, limits = search_of(metric, inside), limits_of(threads, memory_limit, device, device_memory_limit)
        with reporting(progress) as report:
            files, _ = _kith.tiles_normals(
                self._tiles, os.fspath(output), count, limit, point, search, ("input", "int64"), values, limits, report
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
        device: str = "cpu",
        device_memory_limit: int = 0,
    ) -> Outliers:
        """Points that are far from their neighbours, as :meth:`KdTree.outliers` finds them, in npy files.

        Args:
            output: ``"r"`` writes ``r.outlier.npy`` and ``r.mean_distance.npy``.
            k, radius, ratio: as for :meth:`KdTree.outliers`.
            metric, inside, threads, memory_limit, progress, device, device_memory_limit: as for :meth:`all_knn`.

        Returns:
            :class:`Outliers`, whose arrays are memory-mapped.

        Raises:
            InvalidArgument: neither k nor radius, a ratio below 0.
            OutOfMemory, IoError: as for :meth:`all_knn`.
        """
        count, limit = neighborhood(k, radius)
        flags, means = f"{os.fspath(output)}.outlier.npy", f"{os.fspath(output)}.mean_distance.npy"
        search, limits = search_of(metric, inside), limits_of(threads, memory_limit, device, device_memory_limit)
        with reporting(progress) as report:
            rest = _kith.tiles_outliers(
                self._tiles, flags, means, count, limit, number(ratio, "ratio"), search, limits, report
            )
        return Outliers(mapped(flags), mapped(means), *rest)

    def verify(self, *, progress: Progress = False) -> None:
        """Reads every tile and checks it.

        Raises:
            IoError: one is damaged; the message names the file.
        """
        with reporting(progress) as report:
            _kith.verify_tiles(self._tiles, limits_of(0, 0), report)

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
