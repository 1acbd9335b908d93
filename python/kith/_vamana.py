"""Vamana: the graph index, and the recall it has measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from . import _kith
from ._arrays import promote_queries, to_row_set, to_rows
from ._gpu import default_device, library_of
from ._index import CLASSES, METRICS, Index, _execution, _integer, name_of
from ._neighbors import Neighbors, from_parts
from ._progress import Progress, reporting

__all__ = ["RecallPoint", "Vamana"]


def _optional(value: Any, what: str) -> int | None:
    return None if value is None else _integer(value, what)


@dataclass(frozen=True)
class RecallPoint:
    """What a list of some size finds, measured when the index was built; see :attr:`Vamana.recall_curve`."""

    k: int  #: neighbours asked for
    list_size: int  #: length of the list
    recall: float  #: share of the k nearest rows that was found
    lower: float  #: at least this with 95 % confidence (one-sided)
    upper: float  #: at most this with 95 % confidence (one-sided)
    hops: float  #: nodes whose neighbours were looked at, mean a query
    distances: float  #: distances of codes that were evaluated, mean a query


class Vamana(Index):
    """Approximate search by a walk through a graph (Vamana, Subramanya et al. 2019), to a stated recall.

    Distances are true and ordered as everywhere; what is approximate is only which rows are found. The graph is
    the same, bit for bit, for any number of threads, and so are the answers. On the CPU only, for now.

    Args:
        X: dataset ``[n, d]``; see :func:`kith.knn`. Not copied where the elements of a row are adjacent: the
            index keeps the array alive, and its values must not change. ``d`` up to 32,768.
        metric: ``"sqeuclidean"``, ``"euclidean"``, ``"cosine"`` or ``"inner_product"``.
        max_degree: most neighbours a row in the graph, 4 to 1024; 4 bytes each.
        build_list_size: length of the list while a row's neighbours are sought, max_degree to 65536. A longer one
            makes a better graph and takes longer.
        alpha: how much longer a detour may be that makes an edge superfluous, 1 to 2.
        seed: of the order in which rows are added.
        code_bits: bits a value of the codes that walks compare: 8, or 4 for half the bytes and longer lists.
        code_dim: values a code: so many leading principal directions, a multiple of 32 below d; d for all values;
            or 0 for as few directions as hold 92.5 % of the variance where half of d do, else all values.
        threads, memory_limit, progress: how to build; as for :func:`kith.knn`.
        device: ``"cpu"`` or None.

    Raises:
        InvalidArgument: the metric manhattan, a parameter outside its limits, a wrong shape.
        TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
    """

    __slots__ = ()

    def __init__(
        self,
        X: Any,
        metric: str = "sqeuclidean",
        max_degree: int = 32,
        build_list_size: int = 128,
        alpha: float = 1.1,
        seed: int = 0,
        code_bits: int = 8,
        code_dim: int = 0,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
    ) -> None:
        dataset = to_rows(X, "dataset")
        self._device = default_device(dataset) if device is None else device
        execution = _execution(threads, memory_limit, 0, self._device)
        parameters = (
            name_of(metric, "metric", METRICS),
            _integer(max_degree, "max_degree"),
            _integer(build_list_size, "build_list_size"),
            float(alpha),
            _integer(seed, "seed"),
            _integer(code_bits, "code_bits"),
            _integer(code_dim, "code_dim"),
        )
        with reporting(progress) as report:
            self._index = _kith.build_vamana(dataset, *parameters, execution, report)

    def search(
        self,
        Q: Any,
        k: int = 10,
        *,
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
        """Some k rows near each row of ``Q``, mostly the nearest, at their true distances.

        ``statistics`` of the answer say what list was used, what recall is stated, and whether the exact engine
        answered (``certified``).

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``. Widened to the dataset's element type where that is
                exact.
            k: neighbours a query, at least 1. More than there are rows pads with index -1 and distance inf.
            recall: share of the nearest rows to find, above 0 and at most 1: takes the shortest list that finds
                as many with 95 % confidence, by :attr:`recall_curve`. Where none does, and for 1, the exact
                engine answers. None, with no list_size: 0.95.
            list_size: instead of recall: length of the list of nearest rows that the walk keeps, at least min(k, rows).
            beam_width: with list_size: rows of that list expanded at a time, 1 to 64; None: 1.
            rerank: with list_size: rows of the list evaluated exactly, k to list_size; None: as many as the build
                found to be enough.
            allowed: which rows may be found: an array of bool ``[n]``, or None for all. The walk goes through the
                others, too, with a list long enough for as many allowed rows as it would have in view of all;
                where few are allowed the exact engine answers over those.
            threads, memory_limit, progress, device, device_memory_limit: as for :func:`kith.knn`.

        Raises:
            InvalidArgument: an option outside its limits, list_size beside recall, beam_width or rerank without
                list_size; and as for :meth:`Index.search`.
            TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :meth:`Index.search`.
        """
        count = _integer(k, "k")
        options = (
            None if recall is None else float(recall),
            _optional(list_size, "list_size"),
            _optional(beam_width, "beam_width"),
            _optional(rerank, "rerank"),
            to_row_set(allowed, self.rows),
        )
        execution = _execution(threads, memory_limit, device_memory_limit, self._device if device is None else device)
        dtype = self._index.dtype
        queries = promote_queries(to_rows(Q, "queries", True, dtype), dtype)
        with reporting(progress) as report:
            parts = self._index.search(queries, count, *options, execution, report)
        return from_parts(parts, library_of(Q))

    @property
    def max_degree(self) -> int:
        """Most neighbours a row in the graph."""
        return int(self._index.vamana_parameters["max_degree"])

    @property
    def build_list_size(self) -> int:
        """Length of the list while the graph was built."""
        return int(self._index.vamana_parameters["build_list_size"])

    @property
    def alpha(self) -> float:
        """How much longer a detour may be that makes an edge superfluous."""
        return float(self._index.vamana_parameters["alpha"])

    @property
    def seed(self) -> int:
        """Of the order in which rows were added."""
        return int(self._index.vamana_parameters["seed"])

    @property
    def code_bits(self) -> int:
        """Bits a value of the codes that walks compare."""
        return int(self._index.vamana_parameters["code_bits"])

    @property
    def code_dim(self) -> int:
        """Values a code."""
        return int(self._index.vamana_parameters["code_dim"])

    @property
    def recall_curve(self) -> list[RecallPoint]:
        """Recall over list sizes, ascending by (k, list_size), measured on rows of the dataset against the exact
        engine when the index was built; empty where there were too few rows (below 400)."""
        return [RecallPoint(*point) for point in self._index.recall_curve]

    @property
    def graph_hash(self) -> int:
        """A hash of the graph's edges: equal for equal graphs."""
        return int(self._index.graph_hash)


CLASSES["vamana"] = Vamana
