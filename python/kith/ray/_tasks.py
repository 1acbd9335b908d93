"""What runs on the machines of a cluster: pure functions of files that do not change, whose result is a file.

A task may run twice, at once even, after a machine was lost: both write the same bytes, each under a name of its own,
and the second rename changes nothing. What is finished is not done again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._index import BruteForce, Index
from .._knn_graph import arranged
from .._neighbors import Neighbors
from .._sharded import Sharded
from .._tiles import PointTiles
from .._trees import KdTree, Octree
from ._rows import Rows
from ._units import read_unit, unit_notes, write_unit

__all__ = [
    "Holder",
    "Machine",
    "Part",
    "Question",
    "build_shard",
    "build_tiles",
    "merge",
    "merge_lists",
    "of_tiles",
    "one_shard",
    "rows_of_all",
    "search_tiles",
]

_CLASSES = {"brute_force": BruteForce, "kd_tree": KdTree, "octree": Octree}


@dataclass(frozen=True)
class Machine:
    """What a task may take of its machine."""

    threads: int = 1
    memory_limit: int = 0
    device: str = "cpu"
    device_memory_limit: int = 0

    def limits(self) -> dict[str, Any]:
        return {"threads": self.threads, "memory_limit": self.memory_limit}

    def device_limits(self) -> dict[str, Any]:
        return {**self.limits(), "device": self.device, "device_memory_limit": self.device_memory_limit}


@dataclass(frozen=True)
class Question:
    """What is asked of some rows of a file. ``itself``: they are the rows that are searched; where they stand."""

    rows: Rows
    k: int
    metric: str
    options: dict[str, Any] = field(default_factory=dict)
    itself: str = ""  #: "", "dropped" or "first"

    @property
    def wide(self) -> int:
        """Neighbours to ask for."""
        return self.k + (self.itself == "dropped")

    def arrange(self, answer: Neighbors, rows: NDArray[np.int64]) -> Neighbors:
        return arranged(answer, self.itself == "first", self.metric, rows) if self.itself else answer


@dataclass(frozen=True)
class Part:
    """Rows ``first`` to ``last - 1`` of all: a saved shard, or rows that an index is made of where they are searched."""

    first: int
    last: int
    folder: str = ""
    number: int = 0
    rows: Rows | None = None
    index: str = "brute_force"
    metric: str = "sqeuclidean"
    parameters: dict[str, Any] = field(default_factory=dict)

    def open(self, machine: Machine) -> tuple[Index, NDArray[np.int64] | None]:
        """The index, and which rows of all its rows are; None where they follow each other from ``first`` on."""
        if self.rows is None:
            return one_shard(Sharded.open(self.folder, device=machine.device), self.number, machine)
        rows = self.rows.read(self.first, self.last)
        made: Index = _CLASSES[self.index](rows, self.metric, **self.parameters, **machine.device_limits())
        return made, None


def one_shard(shards: Sharded, number: int, machine: Machine) -> tuple[Index, NDArray[np.int64] | None]:
    """A shard, and which rows of all its rows are; None where they follow those of the shards before."""
    index = shards.shard(number, **machine.device_limits())
    return index, shards.row_numbers(number) if shards.partition == "space" else None


def rows_of_all(indices: NDArray[np.int64], first: int, numbers: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Rows of a part as rows of all; -1 stays."""
    if numbers is not None and len(numbers) == 0:
        return indices
    found = indices + first if numbers is None else numbers[indices]
    return np.where(indices < 0, indices, found)


def merge_lists(
    distances: list[NDArray[Any]], indices: list[NDArray[np.int64]], k: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Of each query the k smallest pairs (distance, row) of several lists ``[q, k_i]``, whose rows are different."""
    near, rows = np.concatenate(distances, axis=1), np.concatenate(indices, axis=1)
    missing = rows < 0
    # The last key counts most: padding comes after rows at an infinite distance.
    order = np.lexsort((rows, near, missing), axis=1)[:, :k]
    return np.take_along_axis(near, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _notes(answers: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "certified": all(bool(notes.get("certified")) for notes in answers),
        "recall": min(float(notes.get("recall", 0)) for notes in answers),
    }


def _save(path: str, answer: Neighbors, notes: dict[str, Any]) -> None:
    write_unit(path, [answer.distances, answer.indices], notes)


class Holder:
    """Holds one part, and answers questions from it. An actor: started again, it opens the part again."""

    def __init__(self, part: Part, machine: Machine) -> None:
        self._part, self._machine = part, machine
        self._index: Index | None = None
        self._numbers: NDArray[np.int64] | None = None

    def answer(self, question: Question, first: int, last: int, path: str, alone: bool) -> int:
        """Answers queries ``first`` to ``last - 1`` into a file. ``alone``: there are no other parts to merge with."""
        if unit_notes(path) is None:
            if self._index is None:
                # Not by __init__, whose errors Ray tells as the loss of an actor.
                self._index, self._numbers = self._part.open(self._machine)
            queries = question.rows.read(first, last)
            found = self._index.search(queries, question.wide, **question.options, **self._machine.limits()).numpy()
            indices = rows_of_all(found.indices, self._part.first, self._numbers)
            notes = {"certified": found.statistics.certified, "recall": found.statistics.recall}
            answer = Neighbors(found.distances, indices)
            _save(path, question.arrange(answer, np.arange(first, last)) if alone else answer, notes)
        return last - first


def merge(question: Question, first: int, last: int, parts: list[str], path: str) -> int:
    """Answers of all parts to queries ``first`` to ``last - 1`` become one, and go."""
    if unit_notes(path) is None:
        found = [read_unit(part) for part in parts]
        near, rows = merge_lists([arrays[0] for arrays, _ in found], [arrays[1] for arrays, _ in found], question.wide)
        answer = question.arrange(Neighbors(near, rows), np.arange(first, last))
        _save(path, answer, _notes([notes for _, notes in found]))
    for part in parts:
        if os.path.exists(part):
            os.remove(part)
    return last - first


def search_tiles(folder: str, question: Question, first: int, last: int, path: str, machine: Machine) -> int:
    """The rows of tiles that are nearest to queries ``first`` to ``last - 1``."""
    if unit_notes(path) is None:
        queries = question.rows.read(first, last)
        how = {"metric": question.metric, **question.options, **machine.limits()}
        found = PointTiles.open(folder).search(queries, question.k, **how)
        _save(path, found, {"certified": True, "recall": 1.0})
    return last - first


def of_tiles(folder: str, first: int, last: int, k: int, metric: str, itself: str, path: str, machine: Machine) -> int:
    """The nearest rows of each row of tiles ``first`` to ``last - 1``: rows, distances, indices."""
    notes = unit_notes(path)
    if notes is None:
        tiles = PointTiles.open(folder)
        how = {"include_self": itself == "first", "metric": metric, **machine.limits()}
        rows, found = tiles.all_knn_of_tiles(first, last, k, **how)
        if itself == "first":
            found = arranged(found, True, metric, rows)
        notes = {"certified": True, "recall": 1.0, "rows": len(rows)}
        write_unit(path, [rows, found.distances, found.indices], notes)
    return int(notes["rows"])


def build_tiles(rows: Rows, path: str, tile_points: int, machine: Machine) -> int:
    """The cloud in tiles."""
    if not os.path.exists(path):
        with _folder(path) as temporary:
            PointTiles.build(temporary, list(rows.files), tile_points=tile_points, **machine.limits())
    return rows.rows


def build_shard(rows: Rows, first: int, last: int, path: str, index: dict[str, Any], machine: Machine) -> int:
    """One shard in a folder of its own."""
    if not os.path.exists(path):
        with _folder(path) as temporary:
            Sharded.build(rows.read(first, last), temporary, 1, partition="rows", **index, **machine.device_limits())
    return last - first


class _folder:
    """A folder of this attempt, which at the end is called ``path``, unless another attempt's is by then."""

    def __init__(self, path: str) -> None:
        self._path, self._temporary = path, f"{path}.{secrets.token_hex(8)}.tmp"

    def __enter__(self) -> str:
        return self._temporary

    def __exit__(self, kind: Any, error: Any, _: Any) -> None:
        if error is None:
            try:
                os.rename(self._temporary, self._path)
            except OSError:
                if not os.path.isdir(self._path):
                    raise
        shutil.rmtree(self._temporary, ignore_errors=True)
