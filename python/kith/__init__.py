"""Kith: exact nearest neighbours, certified fast, the same bits everywhere.

>>> import numpy as np
>>> import kith
>>> X = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
>>> distances, indices = kith.knn(X, [[0.0, 0.0]], k=2, metric="euclidean")
>>> indices.tolist(), distances.tolist()
([[0, 2]], [[0.0, 1.0]])
"""

from . import _module  # noqa: F401  first: it chooses _kith
from ._codes import Estimates, Quantizer
from ._devices import Calibration, DeviceInfo, calibrate, calibrations, devices
from ._errors import Cancelled, DeviceError, Error, InvalidArgument, IoError, OutOfMemory
from ._evaluate import Evaluation, evaluate
from ._graph_files import ImportedGraph, export_graph, export_pq, import_graph, import_pq
from ._index import BruteForce, Index, IndexChoice, choose_index, knn, load
from ._io import copy_points, read, read_neighbors, write, write_neighbors
from ._kith import GpuArray
from ._knn_graph import all_knn, knn_graph
from ._neighborhoods import Normals, Outliers, RadiusNeighbors
from ._neighbors import Neighbors, SearchStatistics
from ._point_tree import PointTree
from ._sharded import Sharded
from ._tiles import PointTiles, TileAnswer, TileStatistics
from ._trees import KdTree, Octree
from ._tuning import QueryDistribution, RecallPoint, Tuning, TuningPoint
from ._vamana import Vamana
from ._version import __version__

__all__ = [
    "BruteForce",
    "Calibration",
    "Cancelled",
    "DeviceError",
    "DeviceInfo",
    "Error",
    "Estimates",
    "Evaluation",
    "GpuArray",
    "ImportedGraph",
    "Index",
    "IndexChoice",
    "InvalidArgument",
    "IoError",
    "KdTree",
    "Neighbors",
    "Normals",
    "Octree",
    "OutOfMemory",
    "Outliers",
    "PointTiles",
    "PointTree",
    "Quantizer",
    "QueryDistribution",
    "RadiusNeighbors",
    "RecallPoint",
    "SearchStatistics",
    "Sharded",
    "TileAnswer",
    "TileStatistics",
    "Tuning",
    "TuningPoint",
    "Vamana",
    "__version__",
    "all_knn",
    "calibrate",
    "calibrations",
    "choose_index",
    "copy_points",
    "devices",
    "evaluate",
    "export_graph",
    "export_pq",
    "import_graph",
    "import_pq",
    "knn",
    "knn_graph",
    "load",
    "read",
    "read_neighbors",
    "write",
    "write_neighbors",
]
