"""What the calls on a cluster share: arguments, the work folder, how rows and queries are dealt out."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .._errors import InvalidArgument, IoError
from .._index import _integer, name_of
from .._progress import Progress, reporting
from .._sharded import Sharded
from .._tiles import PointTiles
from ._answers import Answer, RunStatistics, put_in_place
from ._cluster import Cluster, Counts
from ._require import require
from ._tasks import Machine
from ._work import Work

__all__ = ["Call", "blocks_of", "count_of", "cuts_of", "digest_of", "folder_of", "number_of_parts"]

MOST_SHARDS = 65536
MOST_TASKS = 1 << 24
_BLOCK_BYTES = 64 << 20  # of the lists of a block of queries
_MOST_BLOCK = 16384


class Call:
    """What the calls share: the cluster, the work folder, the count of what is done, the answer."""

    def __init__(
        self,
        output: Any,
        num_cpus: Any,
        num_gpus: Any,
        device: Any,
        limits: tuple[Any, Any],
        retries: Any,
        progress: Progress,
    ) -> None:
        self.start = time.monotonic()
        cpus, gpus, again = _integer(num_cpus, "num_cpus"), float(num_gpus), _integer(retries, "retries")
        if cpus < 1:
            raise InvalidArgument(f"num_cpus is {cpus}; use 1 or more")
        if gpus < 0:
            raise InvalidArgument(f"num_gpus is {gpus:g}; use 0 or more")
        if again < 0:
            raise InvalidArgument(f"retries is {again}; use 0 or more")
        place = ("cuda" if gpus else "cpu") if device is None else name_of(device, "device", "'cpu' or 'cuda'")
        if (place == "cuda") != (gpus > 0):
            raise InvalidArgument(
                f"device {place!r} and num_gpus {gpus:g}: a search on GPUs takes one or more, any other none"
            )
        self.machine = Machine(
            cpus, _integer(limits[0], "memory_limit"), place, _integer(limits[1], "device_memory_limit")
        )
        self.work = Work(output)
        try:
            self.cluster = Cluster(require(), cpus, gpus, again)
        except BaseException:
            self.work.give_up()
            self.work.close()
            raise
        self.progress = progress
        self.counts = Counts()

    def count(self, counts: Counts) -> None:
        self.counts.done += counts.done
        self.counts.found += counts.found

    def reported(self, stage: str, total: int, run: Callable[[Callable[[int], None]], Counts]) -> None:
        """Runs with a report of rows, counted."""
        with reporting(self.progress) as report:
            done = 0

            def advance(rows: int) -> None:
                nonlocal done
                done += rows
                if report is not None:
                    report(stage, done, total)

            self.count(run(advance))

    def answer(
        self, output: str, lists: Any, shape: tuple[int, int], dtype: str, notes: list[dict[str, Any]]
    ) -> Answer:
        """The answer in place of the work."""
        answer = put_in_place(output, lists, shape, "<f8" if dtype == "float64" else "<f4", self.work)
        self.work.remove()
        statistics = RunStatistics(
            queries=shape[0],
            tasks=self.counts.done,
            resumed=self.counts.found,
            certified=all(bool(its["certified"]) for its in notes),
            recall=min((float(its["recall"]) for its in notes), default=1.0),
            seconds=time.monotonic() - self.start,
        )
        return replace(answer, statistics=statistics)

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *error: Any) -> None:
        self.work.__exit__(*error)


def folder_of(base: Any) -> tuple[str, str]:
    """The kind of folder that a base is, "shards" or "tiles", and its path; "" and "" for rows."""
    if isinstance(base, Sharded):
        return "shards", os.path.abspath(base.folder)
    if isinstance(base, PointTiles):
        return "tiles", os.path.abspath(base.folder)
    if isinstance(base, (str, os.PathLike)) and os.path.isdir(base):
        path = os.path.abspath(os.fspath(base))
        try:
            with open(os.path.join(path, "manifest.json"), "rb") as manifest:
                start = manifest.read(64)
        except OSError:
            raise IoError(f"'{path}' is a folder, and neither shards nor point tiles; name files of rows") from None
        return ("tiles" if b"kith point tiles" in start else "shards"), path
    return "", ""


def digest_of(folder: str) -> str:
    """What tells one folder from another: the digest of its manifest, which has the checksums of all it holds."""
    with open(os.path.join(folder, "manifest.json"), "rb") as manifest:
        return hashlib.blake2b(manifest.read(), digest_size=16).hexdigest()


def count_of(k: Any) -> int:
    count = _integer(k, "k")
    if count < 1:
        raise InvalidArgument(f"k is {count}; use at least 1")
    return count


def cuts_of(rows: int, parts: int) -> list[tuple[int, int]]:
    """Rows dealt out as shards are."""
    return [(rows * part // parts, rows * (part + 1) // parts) for part in range(parts)]


def blocks_of(queries: int, k: int, block: Any) -> list[tuple[int, int]]:
    size = _integer(block, "block")
    if size < 0:
        raise InvalidArgument(f"block is {size}; use 1 or more queries, or 0 for the default")
    size = size or max(1, min(_MOST_BLOCK, _BLOCK_BYTES // (12 * k)))
    if queries // size > MOST_TASKS:
        raise InvalidArgument(
            f"{queries} queries in blocks of {size}: more than {MOST_TASKS} tasks; take larger blocks"
        )
    return [(first, min(first + size, queries)) for first in range(0, queries, size)]


def number_of_parts(call: Call, given: Any, rows: int, key: str) -> int:
    """How many parts: as given, as a call before has chosen, or one for each task that runs at once."""
    most = max(1, min(rows, MOST_SHARDS))
    if given is None:
        return call.work.before(key, 1, most) or min(call.cluster.slots, most)
    number = _integer(given, key)
    if not 1 <= number <= most:
        raise InvalidArgument(f"{key} is {number}, of {rows} rows; use 1 to {most}")
    return number
