"""Recall of a graph for queries of one's own."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from . import _kith

__all__ = ["QueryDistribution", "RecallPoint", "Tuning", "TuningPoint"]


@dataclass(frozen=True)
class RecallPoint:
    """What a list of some size finds, measured when the index was built; see :attr:`Vamana.recall_curve`."""

    k: int  #: neighbours asked for
    list_size: int  #: length of the list
    recall: float  #: share of the k nearest rows that was found
    lower: float  #: between this
    upper: float  #: and this with 99 % confidence (two-sided), for queries of the same kind
    hops: float  #: nodes whose neighbours were looked at, mean a query
    distances: float  #: distances of codes that were evaluated, mean a query


@dataclass(frozen=True)
class TuningPoint(RecallPoint):
    """The same for queries that :meth:`Vamana.tune` was given."""

    queries_per_second: float  #: with the threads of the measurement


@dataclass(frozen=True)
class QueryDistribution:
    """Whether queries come from where the rows do, by their distances to the nearest row: those of rows to theirs
    are distributed alike (two-sample test of Kolmogorov and Smirnov, 1948). What does not show in these distances is
    not noticed."""

    other: bool  #: the difference is no accident (p_value below 0.001) and no trifle (0.1 or more)
    rows: int  #: rows compared with; 0: too few, and nothing is known
    difference: float  #: largest difference of the two distribution functions, 0 to 1
    p_value: float  #: of one as large between samples of one distribution
    queries_median: float  #: distance to the nearest row, in units of the metric
    rows_median: float  #: the same of rows, themselves left out


class Tuning:
    """What lists of growing size find for some queries, and what kind these are: :meth:`Vamana.tune` makes one, and
    ``search(..., recall=, tune=)`` goes by it. It fits the graph it was measured on, and no other."""

    __slots__ = ("_tuning",)

    _tuning: _kith.Tuning

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        raise TypeError("Tuning has no constructor; use Vamana.tune(Q) or Tuning.load(path)")

    @classmethod
    def _wrap(cls, tuning: _kith.Tuning) -> Tuning:
        self = cls.__new__(cls)
        self._tuning = tuning
        return self

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tuning:
        """Reads a file that :meth:`save` or ``kith tune -o`` wrote.

        Raises:
            IoError: the file is missing, corrupt, foreign or newer.
        """
        return cls._wrap(_kith.read_tuning(os.fspath(path)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it as JSON, whole or not at all.

        Raises:
            IoError: the file cannot be written.
        """
        self._tuning.save(os.fspath(path))

    @property
    def points(self) -> list[TuningPoint]:
        """What was measured, ascending by (k, list_size)."""
        return [TuningPoint(*point) for point in self._tuning.points]

    @property
    def queries(self) -> int:
        """How many queries were measured."""
        return int(self._tuning.queries)

    @property
    def distribution(self) -> QueryDistribution:
        """Of these queries against the rows of the index."""
        return QueryDistribution(**self._tuning.distribution)

    @property
    def graph_hash(self) -> int:
        """:attr:`Vamana.graph_hash` of the index that it is for."""
        return int(self._tuning.graph_hash)

    def __repr__(self) -> str:
        return f"Tuning({self.queries:,} queries, {len(self.points)} points)"
