"""What both trees do: exact search in low dimension, radius search, normals, outliers, density."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._arrays import numbers, promote_queries, to_row_set, to_rows
from ._errors import InvalidArgument
from ._gpu import default_device, dimensions, in_library, library_of
from ._index import Index, Limits, _execution, _integer, flag, number
from ._neighborhoods import Normals, Outliers, RadiusNeighbors
from ._neighbors import Neighbors, SearchStatistics, from_parts, plain_int64
from ._progress import Progress, reporting

__all__ = ["PointTree"]

_Self = TypeVar("_Self", bound="PointTree")


def radius_of(value: Any) -> float:
    """A radius, inf for none."""
    return math.inf if value is None else number(value, "radius")


def viewpoint_of(value: Any) -> list[float] | None:
    """The coordinates of a viewpoint; None where none is given."""
    if value is None:
        return None
    point = numbers(value, "viewpoint")
    if point.ndim != 1:
        raise InvalidArgument(f"viewpoint: an array of {dimensions(point.ndim)}; [dim] is needed")
    coordinates: list[float] = point.tolist()
    return coordinates


def neighborhood(k: Any, radius: Any) -> tuple[int, float]:
    """k, 0 for none, and a radius, inf for none."""
    count = 0 if k is None else _integer(k, "k")
    if k is not None and count < 1:
        raise InvalidArgument(f"k is {count}; use 1 or more, or None with a radius")
    return count, radius_of(radius)


class PointTree(Index):
    """What :class:`KdTree` and :class:`Octree` share.

    Keeps its own copy of the points, in its own order: the caller's array is neither changed nor needed after
    the build, and every index returned is a row of it. Answers are the same bits as those of
    :class:`BruteForce`. Thread-safe; can be pickled.

    Distances and radii are in units of the metric: squared for ``"sqeuclidean"``, the default. Only
    ``query``, ``query_ball_point`` and ``query_radius``, which speak as scipy and scikit-learn do, use
    euclidean ones there.

    A tree built on a GPU is searched on the CPU as well, and the other way round: its first search elsewhere
    copies it there.

    Every method that takes ``threads`` (0 for all cores), ``memory_limit`` (bytes of host memory it may take
    beyond the tree, 0 for no limit), ``device_memory_limit`` (the same of the GPU's memory; a copy of the tree that
    the call makes there counts), ``progress`` (True for a bar, or a function of ``(done, total)``) and ``device``
    takes them as :func:`kith.knn` does, and raises KeyboardInterrupt at Ctrl-C. ``device`` None is the GPU that the
    queries lie on, else where the tree was built; of several GPUs the first does the work.
    """

    __slots__ = ("_source",)

    #: The library and the number of the GPU of the array the tree was built over, where that lay on one.
    _source: tuple[str, int] | None

    @classmethod
    def _wrap(cls: type[_Self], index: _kith.Index, device: str) -> _Self:
        self = super()._wrap(index, device)
        self._source = None
        return self

    def _build(
        self,
        type: str,
        X: Any,
        metric: str,
        leaf_size: Any,
        threads: Any,
        memory_limit: Any,
        progress: Progress,
        device: str | None,
        device_memory_limit: Any,
    ) -> None:
        if not isinstance(metric, str):
            raise TypeError(
                f"metric: {metric!r} is not a name; use 'sqeuclidean', 'euclidean' or 'manhattan' (the size of leaves is "
                "given as leaf_size=...)"
            )
        dataset = to_rows(X, "dataset")
        self._device = default_device(dataset) if device is None else device
        on_gpu = dataset.device != "cpu"
        self._source = (library_of(X), int(dataset.device.partition(":")[2])) if on_gpu else None
        size = _integer(leaf_size, "leaf_size")
        execution = _execution(threads, memory_limit, device_memory_limit, self._device)
        with reporting(progress) as report:
            self._index = _kith.build(type, dataset, metric, "auto", size, None, None, execution, report)

    def _queries(self, Q: Any) -> _kith.Rows:
        dtype = self._index.dtype
        return promote_queries(to_rows(Q, "queries", True, dtype), dtype)

    def _run(
        self,
        threads: Any,
        memory_limit: Any,
        device_memory_limit: Any,
        device: str | None,
        queries: _kith.Rows | None = None,
    ) -> Limits:
        place = "cpu" if queries is None else default_device(queries)
        if place == "cpu":
            place = self._device
        return _execution(threads, memory_limit, device_memory_limit, place if device is None else device)

    @property
    def leaf_size(self) -> int:
        """Most points a leaf holds."""
        return self._index.leaf_size

    def search(
        self,
        Q: Any,
        k: int = 10,
        radius: float | None = None,
        *,
        allowed: Any = None,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Neighbors:
        """The k nearest rows of each row of ``Q``, none farther than ``radius``.

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``. Widened to the tree's element type where that is
                exact (on the host only). Where they lie on a GPU, so does the answer.
            k: neighbours a query, at least 1. Where fewer are found the rest is index -1 and distance inf.
            radius: in units of the metric, 0 or more, inclusive; None for no limit.
            allowed: which rows may be found: an array of bool ``[n]``, or None for all. The answer is exact over
                them.
            memory_limit: bytes of host memory the answer may take; 0 for no limit.

        Returns:
            :class:`Neighbors`, both arrays ``[q, k]``; see :func:`kith.knn`.

        Raises:
            InvalidArgument: k below 1, a radius below 0, dimensions that differ, a wrong shape.
            TypeError: the tree's element type cannot hold every query value.
            OutOfMemory: the answer is above ``memory_limit`` or above what the machine has.
        """
        count, limit = _integer(k, "k"), radius_of(radius)
        queries = self._queries(Q)
        run = self._run(threads, memory_limit, device_memory_limit, device, queries)
        with reporting(progress) as report:
            parts = self._index.search_within(queries, count, limit, to_row_set(allowed, self.rows), run, report)
            return from_parts(parts, library_of(Q))

    def all_knn(
        self,
        k: int = 10,
        include_self: bool = False,
        radius: float | None = None,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Neighbors:
        """The k nearest other rows of every row of the tree: quicker than a search for the rows themselves.

        Args:
            k, radius, memory_limit: as for :meth:`search`.
            include_self: whether a row counts among its own neighbours.

        Returns:
            :class:`Neighbors`, both arrays ``[rows, k]``; index -1 and distance inf for rows with a NaN. On the
            GPU for a tree built over an array there and searched there, as PyTorch and CuPy have them for an array of theirs, else :class:`GpuArray`.

        Raises:
            InvalidArgument, OutOfMemory: as for :meth:`search`.
        """
        count, limit = _integer(k, "k"), radius_of(radius)
        run = self._run(threads, memory_limit, device_memory_limit, device)
        library, stays = ("", -1) if self._source is None else self._source
        with reporting(progress) as report:
            parts = self._index.all_knn(count, flag(include_self, "include_self"), limit, stays, run, report)
        return from_parts(parts, library)

    def radius_search(
        self,
        Q: Any,
        radius: float,
        sorted: bool = True,
        max_neighbors: int = 0,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> RadiusNeighbors:
        """All rows within ``radius`` (inclusive) of each row of ``Q``.

        Args:
            Q: as for :meth:`search`; what is found comes to the host in any case.
            radius: in units of the metric, 0 or more.
            sorted: ascending by (distance, index); False for no particular order, which is quicker.
            max_neighbors: only this many of the nearest rows a query, then sorted; 0 for all.
            memory_limit: bytes that what is found may take; 0 for no limit.

        Returns:
            :class:`RadiusNeighbors`.

        Raises:
            InvalidArgument: a radius below 0, max_neighbors below 0, dimensions that differ, a wrong shape.
            TypeError, OutOfMemory: as for :meth:`search`.
        """
        limit, most = number(radius, "radius"), _integer(max_neighbors, "max_neighbors")
        queries = self._queries(Q)
        run = self._run(threads, memory_limit, device_memory_limit, device, queries)
        with reporting(progress) as report:
            offsets, indices, distances, statistics = self._index.radius_search(
                queries, limit, flag(sorted, "sorted"), most, run, report
            )
        return RadiusNeighbors(plain_int64(offsets), plain_int64(indices), distances, SearchStatistics(**statistics))

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
        """How many rows are within ``radius`` (inclusive) of each row of ``Q``: int64 ``[q]``.

        Args:
            Q, radius: as for :meth:`radius_search`.

        Raises:
            InvalidArgument, TypeError: as for :meth:`radius_search`.
        """
        limit = number(radius, "radius")
        queries = self._queries(Q)
        run = self._run(threads, memory_limit, device_memory_limit, device, queries)
        with reporting(progress) as report:
            counts: Any = self._index.count_within(queries, limit, run, report)
        return plain_int64(counts)

    def normals(
        self,
        k: int | None = None,
        radius: float | None = None,
        viewpoint: Any = None,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Normals:
        """Normals of the surface that the points were measured on, by the least variance of each neighbourhood.

        Hoppe et al., SIGGRAPH 1992. For points of dimension 2 or 3 and euclidean metrics.

        Args:
            k: the k nearest points, the point itself among them; None for all within ``radius``.
            radius: only points within it, in units of the metric; None for no limit. One of the two is needed.
            viewpoint: ``[dim]``; normals point towards it. None: their largest component is positive.

        Returns:
            :class:`Normals`: ``normals`` float64 ``[rows, dim]`` and ``curvature`` float64 ``[rows]``. On the GPU
            for a tree built over an array there and searched there, as PyTorch and CuPy have them for an array of theirs, else :class:`GpuArray`.

        Raises:
            InvalidArgument: neither k nor radius, k below 1, a radius below 0, a viewpoint of another dimension,
                points of another dimension than 2 or 3, a manhattan tree.
        """
        count, limit = neighborhood(k, radius)
        point = viewpoint_of(viewpoint)
        run = self._run(threads, memory_limit, device_memory_limit, device)
        library, stays = ("", -1) if self._source is None else self._source
        with reporting(progress) as report:
            found: tuple[Any, ...] = self._index.normals(count, limit, point, stays, run, report)
        if isinstance(found[0], np.ndarray):
            return Normals(*found)
        return Normals(*(in_library(library, part) for part in found))

    def outliers(
        self,
        k: int | None = None,
        radius: float | None = None,
        ratio: float = 2.0,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> Outliers:
        """Points whose mean distance to their neighbours is large: statistical outlier removal (Rusu et al. 2008).

        Args:
            k: the k nearest other points; None for all within ``radius``.
            radius: only points within it, in units of the metric; None for no limit. One of the two is needed.
            ratio: how many standard deviations above the mean of all points is an outlier; 0 or more.

        Returns:
            :class:`Outliers`. Points without a neighbour are outliers.

        Raises:
            InvalidArgument: neither k nor radius, k below 1, a radius or ratio below 0.
        """
        count, limit = neighborhood(k, radius)
        share = number(ratio, "ratio")
        run = self._run(threads, memory_limit, device_memory_limit, device)
        with reporting(progress) as report:
            flags, *rest = self._index.outliers(count, limit, share, run, report)
        return Outliers(flags.view(np.bool_), *rest)

    def density(
        self,
        k: int | None = None,
        radius: float | None = None,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> NDArray[np.float64]:
        """Points a unit of length, area or volume (of euclidean distances) around each point: float64 ``[rows]``.

        Args:
            k: the k nearest other points over the ball that reaches the last of them.
            radius: alone, the points within it, itself included, over its ball; in units of the metric. With
                ``k``, where fewer than k are within it, those over its ball. One of the two is needed.

        Raises:
            InvalidArgument: neither k nor radius, k below 1, a radius below 0, a manhattan tree.
        """
        count, limit = neighborhood(k, radius)
        run = self._run(threads, memory_limit, device_memory_limit, device)
        with reporting(progress) as report:
            values: Any = self._index.density(count, limit, run, report)
        return np.asarray(values)
