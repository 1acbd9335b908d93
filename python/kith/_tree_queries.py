"""The interfaces of scipy's cKDTree and scikit-learn's KDTree, so that their users need not change a call.

Distances and radii are euclidean here, for a sqeuclidean tree too, and float64: its distances are widened to
float64 and rooted there (``numpy.sqrt`` rounds correctly), and a radius r asks for the rows whose distance so
computed is at most r. For float64 points that is bit for bit what a euclidean tree answers.
"""

from __future__ import annotations

import math
import operator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ._arrays import from_list, is_list_of_numbers, numbers, plain_array, refuse_path
from ._errors import InvalidArgument
from ._gpu import DTYPES, gpu_rows
from ._index import flag, number
from ._pieces import keep, pieces, row_pieces
from ._point_tree import PointTree
from ._progress import Progress


def _largest_square(radius: float) -> float:
    """The largest s with sqrt(s) <= radius, in float64."""
    if math.isinf(radius):
        return radius
    square = radius * radius
    while math.sqrt(square) > radius:
        square = math.nextafter(square, 0)
    while math.sqrt(math.nextafter(square, math.inf)) <= radius:
        square = math.nextafter(square, math.inf)
    return square


def _threads(workers: Any) -> int:
    """The threads that scipy's ``workers`` asks for."""
    count = 1 if workers is None else operator.index(workers)
    if count != -1 and count < 1:
        raise InvalidArgument(f"workers is {count}; use 1 or more, or -1 for all cores")
    return 0 if count == -1 else count


def ragged(values: Any, offsets: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.object_]:
    """An array of objects: the parts of ``values`` between the offsets."""
    out = np.empty(len(offsets) - 1, dtype=object)
    ends = offsets.tolist()
    for i, (first, last) in enumerate(zip(ends, ends[1:], strict=False)):
        out[i] = values[first:last]
    return out.reshape(shape)


class QueryableTree(PointTree):
    """A tree that also answers as scipy's and scikit-learn's do."""

    __slots__ = ()

    _type: ClassVar[str]

    def __init__(
        self,
        X: Any,
        metric: str = "sqeuclidean",
        leaf_size: int = 0,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
    ) -> None:
        self._build(self._type, X, metric, leaf_size, threads, memory_limit, progress, device, device_memory_limit)

    @property
    def n(self) -> int:
        """Number of points, as scipy says; :meth:`query` answers it for a neighbour that is missing."""
        return self.rows

    @property
    def m(self) -> int:
        """Dimension of the points, as scipy says."""
        return self.dim

    def query(
        self,
        x: Any,
        k: Any = 1,
        eps: float = 0,
        p: float | None = None,
        distance_upper_bound: float = math.inf,
        workers: int | None = 1,
        *,
        return_distance: bool = True,
        sort_results: bool = True,
    ) -> Any:
        """The nearest rows, as ``scipy.spatial.cKDTree.query`` gives them.

        Exact, ties to the lower row, nearest first; distances euclidean (or manhattan, for such a tree), never
        squared.

        Args:
            x: one point ``[m]`` or points ``[..., m]``, of the tree's element type or narrower; for a float64
                tree any numbers.
            k: how many, or a list of ranks from 1: ``[2]`` for the second nearest alone.
            eps: 0 or more. Exact answers satisfy every eps.
            p: 2 (euclidean), or 1 for a manhattan tree; None for the tree's own.
            distance_upper_bound: only rows nearer than this are found.
            workers: threads; -1 for all cores.
            return_distance: scikit-learn's: False for the indices alone.
            sort_results: scikit-learn's. True: ascending by distance. False: any order will do, and it is the same.

        Returns:
            ``(distances, indices)``, float64 and int64, both ``[..., k]``, or ``[...]`` where k is the number 1
            (``k=[1]`` keeps the axis, as scikit-learn does always). A neighbour that is missing (k above n,
            the bound, an infinite distance, a NaN in x) has index n and distance inf.

        Raises:
            InvalidArgument: k or a rank below 1, another p than the tree's, eps or the bound below 0 or NaN, workers
                neither -1 nor positive, points of another dimension.
            TypeError: element types the tree would have to round (float64 points to a float32 tree), a GPU
                array, k that is neither an integer nor a list of them.
        """
        self._check_norm(p, eps)
        if not isinstance(sort_results, (bool, np.bool_)):
            raise TypeError(f"sort_results: {sort_results!r} is not True or False")
        return_distance = flag(return_distance, "return_distance")
        threads = _threads(workers)
        ranks, squeezed = _ranks(k)
        points, shape = self._points(x)
        bound = number(distance_upper_bound, "distance_upper_bound")
        if not bound >= 0:
            raise InvalidArgument(f"distance_upper_bound is {bound}; use 0 or more")
        farthest = ranks[-1] if isinstance(ranks, range) else max(ranks)
        found, rows = self.search(points, farthest, self._radius(bound), threads=threads)
        columns = slice(None) if isinstance(ranks, range) else np.asarray(ranks) - 1
        indices = rows if isinstance(columns, slice) else np.empty((len(rows), len(ranks)), np.int64)
        distances = np.empty(indices.shape)
        for part in pieces(*rows.shape):
            rooted = self._rooted(found[part, columns])
            missing = ~(rooted < bound)  # a search includes its radius, the bound is exclusive
            rooted[missing] = math.inf
            distances[part] = rooted
            if not isinstance(columns, slice):
                indices[part] = rows[part, columns]
            indices[part][missing] = self.rows
        del found, rows
        shape = shape if squeezed else (*shape, len(ranks))
        # [()] makes a number of an array without dimensions, as scipy does.
        distances, indices = distances.reshape(shape)[()], indices.reshape(shape)[()]
        return (distances, indices) if return_distance else indices

    def query_ball_point(
        self,
        x: Any,
        r: Any,
        p: float | None = None,
        eps: float = 0,
        workers: int | None = 1,
        return_sorted: bool | None = None,
        return_length: bool = False,
    ) -> Any:
        """The rows within ``r`` (inclusive), as ``scipy.spatial.cKDTree.query_ball_point`` gives them.

        Args:
            x, p, eps, workers: as for :meth:`query`.
            r: a radius, 0 or more, or an array of them that broadcasts to the shape of the points: their search
                then takes as long as with the largest.
            return_sorted: the rows ascending by number; None: for several points yes, for one no.
            return_length: only how many.

        Returns:
            For one point a list of rows, for points ``[..., m]`` an array ``[...]`` of lists. With
            ``return_length`` int64 ``[...]``.

        Raises:
            InvalidArgument, TypeError: as for :meth:`query`; a radius below 0 or NaN.
        """
        self._check_norm(p, eps)
        return_sorted = None if return_sorted is None else flag(return_sorted, "return_sorted")
        threads = _threads(workers)
        points, shape = self._points(x)
        if flag(return_length, "return_length"):
            return self._counts(points, r, shape, threads)[()]
        offsets, indices, _ = self._within(points, r, shape, threads, False)
        if return_sorted or (return_sorted is None and shape != ()):
            for queries, part in row_pieces(offsets):
                counts = np.diff(offsets[queries.start : queries.stop + 1])
                numbers = np.repeat(np.arange(len(counts)), counts)
                indices[part] = indices[part][np.lexsort((indices[part], numbers))]
        rows: list[int] = []
        for part in pieces(len(indices)):
            rows += indices[part].tolist()
        return ragged(rows, offsets, shape) if shape != () else rows

    def query_radius(
        self,
        X: Any,
        r: Any,
        return_distance: bool = False,
        count_only: bool = False,
        sort_results: bool = False,
        *,
        threads: int = 0,
    ) -> Any:
        """The rows within ``r`` (inclusive), as ``sklearn.neighbors.KDTree.query_radius`` gives them.

        Args:
            X: points ``[q, d]``; see :meth:`query`.
            r: a radius, 0 or more, euclidean (or manhattan, for such a tree), or ``[q]`` of them.
            return_distance: the distances, too.
            count_only: only how many.
            sort_results: nearest first, ties to the lower row; needs return_distance.
            threads: 0 for all cores.

        Returns:
            ``indices``, or ``(indices, distances)``: arrays ``[q]`` of arrays (int64, float64); with
            ``count_only`` int64 ``[q]``.

        Raises:
            InvalidArgument: a radius below 0 or NaN, points that are not ``[q, d]``, sort_results without
                return_distance, count_only with it.
            TypeError: as for :meth:`query`.
        """
        count_only, return_distance = flag(count_only, "count_only"), flag(return_distance, "return_distance")
        sort_results = flag(sort_results, "sort_results")
        if count_only and return_distance:
            raise InvalidArgument("count_only and return_distance cannot both be true; leave one of them out")
        if sort_results and not return_distance:
            raise InvalidArgument("sort_results needs return_distance=True")
        points, shape = self._points(X)
        if len(shape) != 1:
            raise InvalidArgument(f"X has {len(shape) + 1} dimensions; [q, d] is needed: use X.reshape(-1, {self.dim})")
        if count_only:
            return self._counts(points, r, shape, threads)
        offsets, indices, distances = self._within(points, r, shape, threads, sort_results)
        found = ragged(indices, offsets, shape)
        return (found, ragged(distances, offsets, shape)) if return_distance else found

    def _points(self, x: Any) -> tuple[NDArray[Any], tuple[int, ...]]:
        """The points as a matrix, and the shape that their answers come in."""
        if not isinstance(x, np.ndarray):
            on_gpu = gpu_rows(x, "queries", True)
            if on_gpu is not None:
                raise TypeError(
                    f"the array lies on {on_gpu.device}; query and its like answer in NumPy's arrays: copy it to the "
                    "host first, with .cpu() (PyTorch) or .get() (CuPy), or use search, radius_search, count_within"
                )
            refuse_path(x, "queries")
            x = from_list(x, self.dtype, "queries") if is_list_of_numbers(x) else plain_array(x, "queries")
        if self.dtype == "float64" and x.dtype.kind in "biu" and x.dtype.name not in DTYPES:
            x = x.astype(np.float64)
        if x.ndim == 0 or x.shape[-1] != self.dim:
            raise InvalidArgument(
                f"points of shape {x.shape}; the tree has dimension {self.dim}: [..., {self.dim}] is needed"
            )
        return x.reshape(-1, self.dim), x.shape[:-1]

    def _check_norm(self, p: float | None, eps: float) -> None:
        own = 1 if self.metric == "manhattan" else 2
        if p is not None and p != own:
            raise InvalidArgument(
                f"p is {p}; this tree was built for p = {own}: use that, or a tree with metric="
                f"{'manhattan' if p == 1 else 'euclidean'!r}; Kith has p = 1 and p = 2"
            )
        if isinstance(eps, (bool, np.bool_)):
            raise TypeError("eps: a bool; give return_distance by its name")
        if not number(eps, "eps") >= 0:
            raise InvalidArgument(f"eps is {eps}; use 0 or more")

    def _radius(self, radius: float) -> float:
        """A euclidean radius in units of the tree's metric."""
        return _largest_square(radius) if self.metric == "sqeuclidean" and radius >= 0 else radius

    def _rooted(self, distances: NDArray[Any]) -> NDArray[np.float64]:
        wide = np.empty(distances.shape)
        for part in pieces(len(distances), 1 if distances.ndim == 1 else distances.shape[1]):
            wide[part] = distances[part]
            if self.metric == "sqeuclidean":
                np.sqrt(wide[part], out=wide[part])
        return wide

    def _radii(self, r: Any, shape: tuple[int, ...]) -> float | NDArray[np.float64]:
        """One radius, or one a query."""
        if np.isscalar(r):
            return number(r, "r")
        radii = numbers(r, "r")
        if radii.ndim == 0:
            return float(radii)
        if not (radii >= 0).all():
            raise InvalidArgument(f"a radius of {radii[~(radii >= 0)][0]}; use 0 or more")
        try:
            return np.broadcast_to(radii, shape).ravel()
        except ValueError:
            raise InvalidArgument(
                f"radii of shape {radii.shape} for points of shape {shape}; one a point is needed"
            ) from None

    def _within(
        self, points: NDArray[Any], r: Any, shape: tuple[int, ...], threads: int, sort: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """(offsets, indices, distances) of the rows within each point's radius."""
        radii = self._radii(r, shape)
        largest = radii if isinstance(radii, float) else float(radii.max(initial=0))
        found = self.radius_search(points, self._radius(largest), bool(sort), threads=threads)
        distances = self._rooted(found.distances)
        if isinstance(radii, float):
            return found.offsets, found.indices, distances
        offsets = found.offsets

        def near(rows: slice, part: slice) -> NDArray[np.bool_]:
            return distances[part] <= np.repeat(radii[rows], np.diff(offsets[rows.start : rows.stop + 1]))

        return keep(offsets, found.indices, distances, near)

    def _counts(self, points: NDArray[Any], r: Any, shape: tuple[int, ...], threads: int) -> NDArray[np.int64]:
        radii = self._radii(r, shape)
        if isinstance(radii, float):
            return self.count_within(points, self._radius(radii), threads=threads).reshape(shape)
        return np.diff(self._within(points, r, shape, threads, False)[0]).reshape(shape)


def _ranks(k: Any) -> tuple[range | list[int], bool]:
    """Ranks from 1, as a range where none is left out, and whether k is the number 1, whose axis is dropped."""
    try:
        count = operator.index(k)
    except TypeError:
        try:
            ranks = [operator.index(rank) for rank in k]
        except TypeError:
            raise TypeError(f"k: {k!r} is neither an integer nor a list of integers") from None
        if not ranks or min(ranks) < 1:
            raise InvalidArgument(f"k is {ranks}; use ranks of 1 or more") from None
        whole = range(1, len(ranks) + 1)
        return (whole if ranks == list(whole) else ranks), False
    if count < 1:
        raise InvalidArgument(f"k is {count}; use 1 or more")
    return range(1, count + 1), count == 1
