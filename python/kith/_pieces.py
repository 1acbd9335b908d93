"""NumPy's work in pieces: inside of one call it hears no Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["joined", "keep", "pieces", "row_pieces"]

_ELEMENTS = 1 << 22  # some tens of milliseconds


def pieces(rows: int, width: int = 1) -> Iterator[slice]:
    """Slices of rows of ``width`` elements, each soon done."""
    step = max(1, _ELEMENTS // max(width, 1))
    for first in range(0, rows, step):
        yield slice(first, min(rows, first + step))


def row_pieces(offsets: NDArray[np.int64]) -> Iterator[tuple[slice, slice]]:
    """The same of rows of different lengths: the rows, and where their elements lie."""
    rows = len(offsets) - 1
    first = 0
    while first < rows:
        last = int(np.searchsorted(offsets, offsets[first] + _ELEMENTS, side="right")) - 1
        last = min(rows, max(first + 1, last))
        yield slice(first, last), slice(int(offsets[first]), int(offsets[last]))
        first = last


def joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """The parts one after the other."""
    out = np.empty((sum(len(part) for part in parts), *parts[0].shape[1:]), parts[0].dtype)
    at = 0
    for part in parts:
        out[at : at + len(part)] = part
        at += len(part)
    return out


def keep(
    offsets: NDArray[np.int64],
    indices: NDArray[np.int64],
    distances: NDArray[Any],
    wanted: Callable[[slice, slice], NDArray[np.bool_]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Of compressed rows those elements that ``wanted(rows, elements)`` says."""
    counts = np.zeros(len(offsets), np.int64)
    kept = [(indices[:0], distances[:0])]
    for rows, part in row_pieces(offsets):
        mask = wanted(rows, part)
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(mask)])
        counts[rows.start + 1 : rows.stop + 1] = np.diff(sums[offsets[rows.start : rows.stop + 1] - part.start])
        kept.append((indices[part][mask], distances[part][mask]))
    return np.cumsum(counts), joined([part for part, _ in kept]), joined([part for _, part in kept])
