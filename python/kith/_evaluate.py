"""Quality of an approximate answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _kith
from ._arrays import plain_array
from ._neighbors import Neighbors

__all__ = ["Evaluation", "evaluate"]


@dataclass(frozen=True)
class Evaluation:
    """Quality figures; see :func:`evaluate`. An interval ``(lower, upper)`` is where the figure lies with 95 %
    confidence for queries of the same kind, NaN where that is not known."""

    queries: int
    k: int
    recall: float  #: share of the true k indices found
    recall_interval: tuple[float, float]  #: of recall
    recall_with_ties: float  #: counts any row as near as the true k-th; NaN without distances
    recall_with_ties_interval: tuple[float, float]  #: of recall_with_ties
    distance_ratio: float  #: mean of found / true distance; NaN without distances
    distance_ratio_interval: tuple[float, float]  #: of distance_ratio
    exact_queries: int  #: queries whose index list equals the truth
    exact_share_interval: tuple[float, float]  #: of the share that exact_queries are


def evaluate(result: Any, truth: Any, k: int = 0) -> Evaluation:
    """Recall@k and distance ratio of ``result`` against ``truth``, both cut to the first k columns, with their
    confidence intervals.

    The neighbours of one query are found or missed together, so the intervals go by the spread among queries
    (design effect, Kish 1965); those of shares are Wilson's (1927).

    Args:
        result, truth: :class:`Neighbors`, or pairs ``(distances, indices)``, or an array ``[queries, k]`` of
            indices alone (then the figures that need distances are NaN).
        k: 0 for the smaller of the two.

    Raises:
        InvalidArgument: the numbers of queries differ, or k is above either.
    """
    return Evaluation(**_kith.evaluate(*as_arrays(result), *as_arrays(truth), k))


def as_arrays(neighbors: Any) -> tuple[Any, Any]:
    """(distances, indices) in the layout of the compiled part; missing distances become NaN."""
    if isinstance(neighbors, np.ndarray):
        distances, indices = None, neighbors
    elif isinstance(neighbors, Neighbors) or (isinstance(neighbors, (tuple, list)) and len(neighbors) == 2):
        distances, indices = neighbors.numpy() if isinstance(neighbors, Neighbors) else neighbors
    else:
        raise TypeError(
            f"{type(neighbors).__name__} is no result; use Neighbors, (distances, indices), or an array of indices"
        )
    indices = plain_array(indices, "indices")
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices: element type {indices.dtype}; use an array of integers")
    indices = np.ascontiguousarray(indices, dtype=np.int64)
    if distances is None:
        distances = np.full(indices.shape, np.nan, dtype=np.float32)
    distances = np.ascontiguousarray(plain_array(distances, "distances"))
    if indices.ndim != 2 or distances.ndim != 2:
        raise ValueError(f"distances have shape {distances.shape}, indices {indices.shape}; both must be [queries, k]")
    if distances.dtype not in (np.float32, np.float64):
        distances = distances.astype(np.float64)
    return distances, indices
