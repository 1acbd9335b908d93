"""KdTree and Octree."""

from __future__ import annotations

from ._index import CLASSES
from ._tree_queries import QueryableTree

__all__ = ["KdTree", "Octree"]


class KdTree(QueryableTree):
    """A k-d tree (Bentley 1975): exact nearest neighbours in any dimension, sensible up to about 16.

    Takes the place of ``scipy.spatial.cKDTree`` and ``sklearn.neighbors.KDTree``: see :meth:`query`,
    :meth:`query_ball_point`, :meth:`query_radius`.

    Args:
        X: points ``[n, d]``, on the host or a GPU; see :func:`kith.knn` for what counts as an array. Copied.
        metric: ``"sqeuclidean"``, ``"euclidean"`` or ``"manhattan"``.
        leaf_size: most points a leaf, 1 to 4096; 0 for a good one. Changes time and memory only.
        threads: to build with, 0 for all cores.
        memory_limit: bytes of host memory that building may take; 0 for no limit.
        progress: True for a bar on stderr, or a function of ``(done, total)``.
        device: where to build, and to search unless a search says otherwise; None: the GPU that ``X`` lies on,
            else the CPU. Of several GPUs the first does the work.
        device_memory_limit: bytes of the GPU's memory that building may take, copies of the rows included; 0 for
            no limit. Refused on the CPU, but for ``device="auto"``.

    Raises:
        InvalidArgument: a metric without bounding boxes (inner product, cosine), a leaf_size outside its
            limits, a wrong shape.
        TypeError: an element type Kith does not search, or no array.
        DeviceError: the device is not there, or fails.
        OutOfMemory: more than ``memory_limit`` or ``device_memory_limit``, or than there is.
    """

    __slots__ = ()

    _type = "kd_tree"


class Octree(QueryableTree):
    """An octree (Meagher 1980) for points of 3 dimensions, or a quadtree for 2: quick to build.

    Args:
        X, metric, leaf_size, threads, memory_limit, progress, device, device_memory_limit: as for :class:`KdTree`.

    Raises:
        InvalidArgument: points of another dimension than 2 or 3, or as for :class:`KdTree`.
        TypeError, DeviceError, OutOfMemory: as for :class:`KdTree`.
    """

    __slots__ = ()

    _type = "octree"


CLASSES["kd_tree"] = KdTree
CLASSES["octree"] = Octree
