"""Vamana: the graph index, and the recall it has measured."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from . import _kith
from ._arrays import promote_queries, to_row_set, to_rows
from ._gpu import addresses_of, default_device, library_of, room_for
from ._index import CLASSES, METRICS, Index, _execution, _integer, _optional, name_of, number, seed_of
from ._neighbors import Neighbors, from_parts
from ._progress import Progress, reporting
from ._tuning import RecallPoint, Tuning

__all__ = ["Vamana"]

_CODES = "'scalar', 'rabitq' or 'pq'"


def _tuning(given: Tuning | str | os.PathLike[str]) -> Tuning:
    return given if isinstance(given, Tuning) else Tuning.load(given)


class Vamana(Index):
    """Approximate search by a walk through a graph (Vamana, Subramanya et al. 2019), to a stated recall.

    Distances are true and ordered as everywhere; what is approximate is only which rows are found. The graph is
    the same, bit for bit, for any number of threads and from a GPU, and so are the answers.

    Args:
        X: dataset ``[n, d]``; see :func:`kith.knn`. Not copied where the elements of a row are adjacent: the
            index keeps the array alive, and its values must not change. ``d`` up to 32,768.
        metric: ``"sqeuclidean"``, ``"euclidean"``, ``"cosine"`` or ``"inner_product"``.
        max_degree: most neighbours a row in the graph, 4 to 1024; 4 bytes each.
        build_list_size: length of the list while a row's neighbours are sought, max_degree to 65536. A longer one
            makes a better graph and takes longer. 0 for 128, or 256 for 400,000 rows or more of 384 values or more,
            and never less than twice max_degree.
        alpha: how much longer a detour may be that makes an edge superfluous, 1 to 2.
        seed: of the order in which rows are added.
        code_bits: bits a value of the codes that walks compare: 8, or 4 for half the bytes and longer lists; or 0 for 4
            where 4,096 rows or more have codes of 384 values or more, and those of 4 bits order the nearest rows of a
            sample nearly as the rows do; else, and for integers that are their own codes, 8.
        code_dim: values a code: so many leading principal directions, a multiple of 32 below d; d for all values;
            or 0 for as few directions as hold 92.5 % of the variance where half of d do, else all values.
        codes: what walks compare: ``"scalar"`` codes, by which the graph is built in any case; or ``"rabitq"`` or
            ``"pq"`` codes of these, which are kept in their place, take less memory and want longer lists. Such an
            index is built and searched on the CPU.
        rabitq_bits: of ``"rabitq"``: bits a value, 1 to 8; 0 for 4.
        pq_subspaces: of ``"pq"``: bytes a code; 0 for one for every four values of a scalar code.
        threads, memory_limit, device_memory_limit, progress: how to build; as for :func:`kith.knn`.
        device: where to build, and to search unless a search says otherwise; as for :func:`kith.knn`. The first GPU
            named builds, all of them search. The rows stay on the host.

    Raises:
        InvalidArgument: the metric manhattan, a parameter outside its limits, a wrong shape.
        TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :func:`kith.knn`.
    """

    __slots__ = ()

    def __init__(
        self,
        X: Any,
        metric: str = "sqeuclidean",
        max_degree: int = 64,
        build_list_size: int = 0,
        alpha: float = 1.05,
        seed: int = 0,
        code_bits: int = 0,
        code_dim: int = 0,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
        device: str | None = None,
        device_memory_limit: int = 0,
        codes: str = "scalar",
        rabitq_bits: int = 0,
        pq_subspaces: int = 0,
    ) -> None:
        dataset = to_rows(X, "dataset")
        self._device = default_device(dataset) if device is None else device
        execution = _execution(threads, memory_limit, device_memory_limit, self._device)
        parameters = (
            name_of(metric, "metric", METRICS),
            _integer(max_degree, "max_degree"),
            _integer(build_list_size, "build_list_size"),
            number(alpha, "alpha"),
            seed_of(seed),
            _integer(code_bits, "code_bits"),
            _integer(code_dim, "code_dim"),
            name_of(codes, "codes", _CODES),
            _integer(rabitq_bits, "rabitq_bits"),
            _integer(pq_subspaces, "pq_subspaces"),
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
        tune: Tuning | str | os.PathLike[str] | None = None,
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
                as many with 99 % confidence, by :attr:`recall_curve`; of rows at one distance any counts. Where none
                does, for k above 100, and for 1, the exact engine answers. None, with no list_size: 0.95.
            list_size: instead of recall: length of the list of nearest rows that the walk keeps, at least min(k, rows).
            beam_width: with list_size: rows of that list expanded at a time, 1 to 64; None: 1.
            rerank: with list_size: rows of the list evaluated exactly, k to list_size; None: as many as the build
                found to be enough.
            tune: a :class:`Tuning` of this index, or the file of one: recall goes by what was measured for queries of
                that kind, in place of :attr:`recall_curve`.
            allowed: which rows may be found: an array of bool ``[n]``, or None for all. The walk goes through the
                others, too, with a list long enough for as many allowed rows as it would have in view of all;
                where few are allowed the exact engine answers over those.
            threads, memory_limit, progress: as for :func:`kith.knn`.
            device: as for :func:`kith.knn`; None for the GPU that ``Q`` lies on, or the devices it was built for. Any
                device searches any graph: what a GPU needs is copied to it by the first search there, and kept.
            device_memory_limit: bytes of each GPU's memory the copy and the search may take, 0 for what is free. Where
                not all fits, rows stay in the host's memory, then the graph, too.

        Raises:
            InvalidArgument: an option outside its limits, list_size beside recall, beam_width or rerank without
                list_size, a tuning of another graph; and as for :meth:`Index.search`.
            TypeError, OutOfMemory, DeviceError, KeyboardInterrupt: as for :meth:`Index.search`.
        """
        count = _integer(k, "k")
        options = (
            None if recall is None else number(recall, "recall"),
            _optional(list_size, "list_size"),
            _optional(beam_width, "beam_width"),
            _optional(rerank, "rerank"),
            to_row_set(allowed, self.rows),
        )
        dtype = self._index.dtype
        room = room_for(Q, count, dtype)
        queries = promote_queries(to_rows(Q, "queries", True, dtype), dtype)
        if device is None:
            place = default_device(queries)
            device = self._device if place == "cpu" else place
        execution = _execution(threads, memory_limit, device_memory_limit, device)
        index = self._index if tune is None else self._index.tuned(_tuning(tune)._tuning)
        with reporting(progress) as report:
            parts = index.search(queries, count, *options, execution, report, addresses_of(room))
        return from_parts(parts, library_of(Q), room)

    def tune(
        self,
        Q: Any,
        k: int | Iterable[int] = (1, 10, 100),
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> Tuning:
        """Measures the recall of lists of growing size for queries like ``Q``, against the exact engine.

        Takes as long as an exact search for them and some walks each. Some hundred queries make intervals of a few
        hundredths, some thousand of about one.

        Args:
            Q: queries ``[q, d]`` like those to come.
            k: neighbours to measure it for: one number or several, each 1 to 4096 and at most ``rows``.
            threads, memory_limit, progress: as for :func:`kith.knn`.

        Raises:
            InvalidArgument: no queries, a k outside its limits; and as for :meth:`Index.search`.
            TypeError, OutOfMemory, KeyboardInterrupt: as for :meth:`Index.search`.
        """
        ks = [_integer(each, "k") for each in (k if isinstance(k, Iterable) else (k,))]
        execution = _execution(threads, memory_limit, 0, self._device)
        dtype = self._index.dtype
        queries = promote_queries(to_rows(Q, "queries", True, dtype), dtype)
        with reporting(progress) as report:
            return Tuning._wrap(self._index.tune(queries, ks, execution, report))

    def insert(self, X: Any, *, threads: int = 0, memory_limit: int = 0, progress: Progress = False) -> Vamana:
        """An index over the rows of ``X``, too, numbered on from :attr:`rows`. This one stays as it is.

        The new rows are added to the graph by the steps of the build, and its recall is measured again, by old rows
        and new; it is the same, bit for bit, for any number of threads. The new index has a copy of all rows. Codes stay those of the
        first build, so rows of another kind than those it was built over are refused: build anew for them.

        Args:
            X: rows ``[m, d]``, widened to the dataset's element type where that is exact.
            threads, memory_limit, progress: as for :func:`kith.knn`.

        Raises:
            InvalidArgument: rows that do not fit the codes (for inner_product: that are longer than all of the first
                build), dimensions that differ, a wrong shape.
            TypeError, OutOfMemory, KeyboardInterrupt: as for :meth:`Index.search`.
        """
        execution = _execution(threads, memory_limit, 0, self._device)
        dtype = self._index.dtype
        rows = promote_queries(to_rows(X, "rows", True, dtype), dtype)
        with reporting(progress) as report:
            return type(self)._wrap(self._index.insert(rows, execution, report), self._device)

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
    def codes(self) -> str:
        """What walks compare: ``"scalar"``, ``"rabitq"`` or ``"pq"`` codes."""
        return str(self._index.vamana_parameters["codes"])

    @property
    def code_bytes(self) -> int:
        """Bytes of a code that walks compare."""
        return int(self._index.vamana_parameters["code_bytes"])

    @property
    def recall_curve(self) -> list[RecallPoint]:
        """Recall over list sizes, ascending by (k, list_size), measured on rows of the dataset against the exact
        engine when the index was built; empty where there were too few rows (below 800)."""
        return [RecallPoint(*point) for point in self._index.recall_curve]

    @property
    def graph_hash(self) -> int:
        """A hash of the graph's edges, and of codes that are not scalar: equal for equal graphs."""
        return int(self._index.graph_hash)


CLASSES["vamana"] = Vamana
