"""Quantizer: rows as codes of a few bits a value, and distances estimated from them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import _kith
from ._arrays import promote_queries, to_rows
from ._index import _integer, _optional, flag, name_of, number, seed_of
from ._neighbors import Neighbors, from_parts
from ._progress import Progress, reporting

__all__ = ["Estimates", "Quantizer"]

_KINDS = "'scalar', 'rabitq' or 'pq'"
_METRICS = "'sqeuclidean' or 'inner_product'"


@dataclass(frozen=True)
class Estimates:
    """Distances estimated from codes; see :meth:`Quantizer.estimate`."""

    distances: NDArray[np.float32]  #: ``[queries, rows]``; squared ones may be below 0, by their error
    #: ``[queries, rows]``: the true distance is within this of the estimate, with the confidence asked for; None
    #: where the kind has no bound
    bounds: NDArray[np.float32] | None


class Quantizer:
    """A way of encoding rows in a few bits a value, trained on some of them.

    ``"scalar"`` rounds every value on one scale, to 8 or 4 bits. ``"rabitq"`` (Gao and Long 2024, Gao et al. 2025)
    turns the direction from the mean at random and rounds it to 1 to 8 bits a dimension; its estimates come with a
    bound on their error. ``"pq"`` (product quantization, Jégou et al. 2011) cuts rows into parts, a byte each: the
    nearest of 256 centroids. Codes and estimates are the same, bit for bit, for any number of threads. On the CPU.

    Args:
        X: rows ``[n, d]`` to learn from; see :func:`kith.knn` for what counts as an array. ``d`` up to 32,768; rows
            with a NaN, an infinity or values beyond 2**50 are left out.
        kind: ``"scalar"``, ``"rabitq"`` or ``"pq"``.
        metric: what estimates are of: ``"sqeuclidean"`` or ``"inner_product"`` (its sign flipped).
        bits: scalar: a value, 8 or 4 (None: 8). rabitq: a dimension, 1 to 8 (None: 4).
        subspaces: pq: parts, 1 to d, and bytes a row (None: one for every four dimensions).
        rotate: pq: rotate rows at random first (None: False).
        iterations: pq: of k-means at most, 1 to 1000 (None: 20).
        training_rows: pq: centroids are found from so many rows (None: 65,536).
        seed: rabitq, pq: of the rotation and the first centroids (None: 0).
        threads: 0 for all cores this process may use.
        memory_limit: bytes the call may take beyond its inputs; 0 for no limit.
        progress: as for :func:`kith.knn`.

    Raises:
        InvalidArgument: a parameter outside its limits or of another kind, another metric, no row to learn from.
        TypeError, OutOfMemory, KeyboardInterrupt: as for :func:`kith.knn`.
    """

    __slots__ = ("_quantizer",)

    _quantizer: _kith.Quantizer

    def __init__(
        self,
        X: Any,
        kind: str = "rabitq",
        metric: str = "sqeuclidean",
        *,
        bits: int | None = None,
        subspaces: int | None = None,
        rotate: bool | None = None,
        iterations: int | None = None,
        training_rows: int | None = None,
        seed: int | None = None,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> None:
        rows = to_rows(X, "X")
        if rotate is not None and not isinstance(rotate, (bool, np.bool_)):
            raise TypeError(f"rotate: {rotate!r} is not True or False")
        parameters = (
            name_of(kind, "kind", _KINDS),
            name_of(metric, "metric", _METRICS),
            _optional(bits, "bits"),
            _optional(subspaces, "subspaces"),
            None if rotate is None else flag(rotate, "rotate"),
            _optional(iterations, "iterations"),
            _optional(training_rows, "training_rows"),
            None if seed is None else seed_of(seed),
        )
        limits = _integer(threads, "threads"), _integer(memory_limit, "memory_limit")
        with reporting(progress) as report:
            self._quantizer = _kith.train_quantizer(rows, *parameters, *limits, report)

    @classmethod
    def _wrap(cls, quantizer: _kith.Quantizer) -> Quantizer:
        self = cls.__new__(cls)
        self._quantizer = quantizer
        return self

    def _rows(self, array: Any, what: str) -> _kith.Rows:
        return promote_queries(to_rows(array, what, True, self.dtype), self.dtype)

    def encode(
        self, X: Any, *, threads: int = 0, memory_limit: int = 0, progress: Progress = False
    ) -> NDArray[np.uint8]:
        """Codes of rows.

        Args:
            X: rows ``[n, d]``, or one row ``[d]``. Widened to the element type trained on where that is exact.
            threads, memory_limit, progress: as for the constructor.

        Returns:
            uint8 ``[n, code_bytes]``.

        Raises:
            InvalidArgument: a value that is not finite or beyond 2**50; for scalar codes of inner products also a row
                longer than all that were trained on; another dimension.
            TypeError, OutOfMemory, KeyboardInterrupt: as for the constructor.
        """
        limits = _integer(threads, "threads"), _integer(memory_limit, "memory_limit")
        with reporting(progress) as report:
            return cast(NDArray[np.uint8], self._quantizer.encode(self._rows(X, "X"), *limits, report))

    def decode(
        self, codes: Any, *, threads: int = 0, memory_limit: int = 0, progress: Progress = False
    ) -> NDArray[Any]:
        """What codes stand for.

        Args:
            codes: uint8 ``[n, code_bytes]``, as :meth:`encode` gives them, or one code.
            threads, memory_limit, progress: as for the constructor.

        Returns:
            float32 ``[n, d]``; float64 where float64 rows were trained on.

        Raises:
            InvalidArgument: codes of another shape or element type.
            OutOfMemory, KeyboardInterrupt: as for the constructor.
        """
        limits = _integer(threads, "threads"), _integer(memory_limit, "memory_limit")
        with reporting(progress) as report:
            return cast(NDArray[Any], self._quantizer.decode(to_rows(codes, "codes", True), *limits, report))

    def estimate(
        self,
        Q: Any,
        codes: Any,
        *,
        confidence: float = 0.95,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> Estimates:
        """Distances of all queries to all encoded rows, from the codes alone.

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``.
            codes: uint8 ``[n, code_bytes]``.
            confidence: rabitq: with which each bound holds, over random rotations; above 0, below 1.
            threads, memory_limit, progress: as for the constructor.

        Raises:
            InvalidArgument: a value that cannot be encoded, another shape, a confidence outside its limits.
            TypeError, OutOfMemory, KeyboardInterrupt: as for the constructor.
        """
        limits = _integer(threads, "threads"), _integer(memory_limit, "memory_limit")
        with reporting(progress) as report:
            return Estimates(
                *self._quantizer.estimate(
                    self._rows(Q, "Q"), to_rows(codes, "codes", True), number(confidence, "confidence"), *limits, report
                )
            )

    def search(
        self,
        Q: Any,
        codes: Any,
        k: int = 10,
        *,
        threads: int = 0,
        memory_limit: int = 0,
        progress: Progress = False,
    ) -> Neighbors:
        """The k rows of the smallest estimates for each query: ranking by codes alone.

        Distances are estimates. Nothing is known of the recall: measure it with :func:`kith.evaluate`.

        Args:
            Q: queries ``[q, d]``, or one query ``[d]``.
            codes: uint8 ``[n, code_bytes]``.
            k: neighbours a query, at least 1. More than there are codes pads with index -1 and distance inf.
            threads, memory_limit, progress: as for the constructor.

        Raises:
            InvalidArgument: a value that cannot be encoded, another shape, k below 1.
            TypeError, OutOfMemory, KeyboardInterrupt: as for the constructor.
        """
        limits = _integer(threads, "threads"), _integer(memory_limit, "memory_limit")
        with reporting(progress) as report:
            return from_parts(
                self._quantizer.search(
                    self._rows(Q, "Q"), to_rows(codes, "codes", True), _integer(k, "k"), *limits, report
                )
            )

    def reconstruction_error(self, X: Any, codes: Any, *, threads: int = 0, progress: Progress = False) -> float:
        """Sum of ``|x - decode(code of x)|**2`` over the rows, divided by that of ``|x - mean|**2``.

        0 is exact, 1 as good as the mean alone.

        Args:
            X: rows ``[n, d]``, n at least 1.
            codes: those of the rows.
            threads, progress: as for the constructor.

        Raises:
            InvalidArgument: numbers of rows and codes that differ, a value that cannot be encoded.
        """
        with reporting(progress) as report:
            return self._quantizer.reconstruction_error(
                self._rows(X, "X"), to_rows(codes, "codes", True), _integer(threads, "threads"), report
            )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what was trained, not codes, to one file, whole or not at all.

        Raises:
            IoError: the file cannot be written.
        """
        self._quantizer.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Quantizer:
        """Opens a saved quantizer.

        Raises:
            IoError: the file is missing, truncated, corrupt, foreign, or holds an index.
        """
        return cls._wrap(_kith.load_quantizer(os.fspath(path)))

    @property
    def kind(self) -> str:
        """``"scalar"``, ``"rabitq"`` or ``"pq"``."""
        return self._quantizer.kind

    @property
    def metric(self) -> str:
        """Name of the metric that estimates are of."""
        return self._quantizer.metric

    @property
    def dtype(self) -> str:
        """Element type of the rows, as NumPy names it."""
        return self._quantizer.dtype

    @property
    def dim(self) -> int:
        """Elements a row."""
        return self._quantizer.dim

    @property
    def code_bytes(self) -> int:
        """Bytes an encoded row."""
        return self._quantizer.code_bytes

    @property
    def memory_bytes(self) -> int:
        """Bytes that the quantizer itself holds: mean, rotation, centroids."""
        return self._quantizer.memory_bytes

    @property
    def parameters(self) -> dict[str, int | bool]:
        """What it was trained with, by the constructor's names; ``subspaces`` as it came out."""
        return dict(self._quantizer.parameters)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.parameters.items())
        return f"Quantizer({self.kind}, {given}; {self.dim:,} {self.dtype} in {self.code_bytes:,} bytes, {self.metric})"

    def __copy__(self) -> Quantizer:
        return self

    def __deepcopy__(self, _memo: dict[int, Any]) -> Quantizer:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory(prefix="kith-") as folder:
            path = os.path.join(folder, "quantizer.kith")
            self.save(path)
            with open(path, "rb") as file:
                return _unpickle, (file.read(),)


def _unpickle(content: bytes) -> Quantizer:
    with tempfile.TemporaryDirectory(prefix="kith-") as folder:
        path = os.path.join(folder, "quantizer.kith")
        with open(path, "wb") as file:
            file.write(content)
        return Quantizer.load(path)
