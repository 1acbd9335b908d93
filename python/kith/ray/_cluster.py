"""Tasks and actors on a cluster, some at a time; what has to be done, in which order, and what is done already."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .._errors import InvalidArgument
from ._require import fail
from ._tasks import Holder, Machine, Part, Question, merge
from ._units import unit_notes
from ._work import Work

__all__ = ["Cluster", "Counts", "Task"]

#: Calls that wait at an actor, so that it has the next when one is done. More would only lie in the object store.
_AHEAD = 2

Report = Callable[[int], None]


@dataclass(frozen=True)
class Task:
    """A call of a function, what it is called in messages, and the file that says it is done."""

    what: str
    function: Callable[..., int]
    arguments: tuple[Any, ...]
    file: str
    rows: int


@dataclass
class Counts:
    """Tasks of a call."""

    done: int = 0  #: by this call
    found: int = 0  #: that a call before had finished


@dataclass
class _Held:
    """An actor with a part, and how many of its answers are under way."""

    part: int
    actor: Any
    flying: int = 0


class Cluster:
    """What a call may take of the cluster that Ray is connected to.

    Args:
        cpus, gpus: of a machine for each task or actor.
        retries: how often one is started again that was lost.
    """

    def __init__(self, ray: Any, cpus: int, gpus: float, retries: int) -> None:
        self._ray = ray
        self._resources = {"num_cpus": cpus, "num_gpus": gpus}
        self._retries = retries
        self._functions: dict[Any, Any] = {}  # each is sent to the cluster once
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        #: Tasks that run at once. A task takes all it needs of one machine.
        self.slots = sum(
            int(min(its.get("CPU", 0) // cpus, its.get("GPU", 0) // gpus if gpus else its.get("CPU", 0)))
            for its in machines
        )
        if self.slots < 1:
            most = max((its.get("CPU", 0), its.get("GPU", 0)) for its in machines)
            raise InvalidArgument(
                f"a task takes {cpus} CPUs and {gpus:g} GPUs, and no machine of {len(machines)} has them (the largest "
                f"{most[0]:g} and {most[1]:g}); ask for less, or add machines"
            )

    def _wait(self, flying: dict[Any, Any]) -> list[Any]:
        ready, _ = self._ray.wait(list(flying), num_returns=1)
        return list(ready)

    def task(self, function: Callable[..., int], free: bool = False) -> Any:
        """A function as Ray calls it. ``free``: it takes no CPU of those that are counted, since actors have them all."""
        if function not in self._functions:
            resources = {"num_cpus": 0} if free else self._resources
            self._functions[function] = self._ray.remote(function).options(
                **resources, max_retries=self._retries, scheduling_strategy="SPREAD"
            )
        return self._functions[function]

    def run(self, tasks: list[Task], work: Work, report: Report) -> Counts:
        """Runs those tasks whose file is not there; returns when all are."""
        counts = Counts()
        todo: deque[Task] = deque()
        for task in tasks:
            if os.path.exists(task.file):
                counts.found += 1
                report(task.rows)
            else:
                todo.append(task)
        flying: dict[Any, Task] = {}
        try:
            while todo or flying:
                while todo and len(flying) < self.slots + _AHEAD:
                    task = todo.popleft()
                    flying[self.task(task.function).remote(*task.arguments)] = task
                for ref in self._wait(flying):
                    task = flying.pop(ref)
                    try:
                        self._ray.get(ref)
                    except Exception as error:
                        fail(error, task.what, work.path)
                    counts.done += 1
                    report(task.rows)
        finally:
            for ref in flying:
                self._ray.cancel(ref, force=True)
        return counts

    def hold(
        self,
        parts: list[Part],
        question: Question,
        blocks: list[tuple[int, int]],
        machine: Machine,
        work: Work,
        report: Report,
    ) -> Counts:
        """Has every part answer every block of queries, and merges the answers of each block into ``answer-N.unit``."""
        return _Holding(self, parts, question, blocks, machine, work, report)()

    def holder(self, part: Part, machine: Machine) -> Any:
        """An actor that has a part."""
        if Holder not in self._functions:
            self._functions[Holder] = self._ray.remote(Holder).options(
                **self._resources,
                max_restarts=self._retries,
                max_task_retries=self._retries,
                scheduling_strategy="SPREAD",
            )
        return self._functions[Holder].remote(part, machine)


@dataclass
class _Holding:
    """One call of :meth:`Cluster.hold`."""

    cluster: Cluster
    parts: list[Part]
    question: Question
    blocks: list[tuple[int, int]]
    machine: Machine
    work: Work
    report: Report
    counts: Counts = field(default_factory=Counts)
    todo: list[deque[int]] = field(default_factory=list)  # blocks, of each part
    missing: dict[int, int] = field(default_factory=dict)  # parts that have not answered, of each block
    active: list[_Held] = field(default_factory=list)
    merging: deque[int] = field(default_factory=deque)  # blocks that wait for it
    flying: dict[Any, tuple[_Held | None, int]] = field(default_factory=dict)

    @property
    def _alone(self) -> bool:
        return len(self.parts) == 1

    def _answer(self, block: int) -> str:
        return self.work.file(f"answer-{block}.unit")

    def _file(self, part: int, block: int) -> str:
        return self._answer(block) if self._alone else self.work.file(f"part-{part}-{block}.unit")

    def _take_up(self) -> None:
        """What calls before have done."""
        self.todo = [deque() for _ in self.parts]
        steps = 1 if self._alone else len(self.parts) + 1
        for block, (first, last) in enumerate(self.blocks):
            if unit_notes(self._answer(block)) is not None:
                self.counts.found += steps
                self.report((last - first) * len(self.parts))
                continue
            left = [part for part in range(len(self.parts)) if unit_notes(self._file(part, block)) is None]
            if answered := len(self.parts) - len(left):
                self.counts.found += answered
                self.report((last - first) * answered)
            for part in left:
                self.todo[part].append(block)
            self.missing[block] = len(left)
            if not left:
                self.merging.append(block)

    def _start(self) -> None:
        """Actors, where there is room: for the part that has the most to do for each of those it has."""
        while len(self.active) < self.cluster.slots:
            holders = [0] * len(self.parts)
            for held in self.active:
                holders[held.part] += 1
            busiest = max(range(len(self.parts)), key=lambda part: len(self.todo[part]) / (holders[part] + 1))
            if len(self.todo[busiest]) <= holders[busiest] * _AHEAD:
                return
            self.active.append(_Held(busiest, self.cluster.holder(self.parts[busiest], self.machine)))
            self._submit()

    def _submit(self) -> None:
        for held in list(self.active):
            todo = self.todo[held.part]
            while todo and held.flying < _AHEAD:
                block = todo.popleft()
                first, last = self.blocks[block]
                path = self._file(held.part, block)
                ref = held.actor.answer.remote(self.question, first, last, path, self._alone)
                self.flying[ref] = held, block
                held.flying += 1
            if held.flying == 0:
                self._let_go(held)
        merges = sum(held is None for held, _ in self.flying.values())
        while self.merging and merges < self.cluster.slots:
            block = self.merging.popleft()
            first, last = self.blocks[block]
            parts = [self._file(part, block) for part in range(len(self.parts))]
            merging = self.cluster.task(merge, free=True)
            self.flying[merging.remote(self.question, first, last, parts, self._answer(block))] = None, block
            merges += 1

    def _let_go(self, held: _Held) -> None:
        self.active.remove(held)
        self.cluster._ray.kill(held.actor)

    def _finish(self, ref: Any) -> None:
        held, block = self.flying.pop(ref)
        what = f"merging block {block}" if held is None else f"block {block} of part {held.part}"
        try:
            rows = self.cluster._ray.get(ref)
        except Exception as error:
            fail(error, what, self.work.path)
        self.counts.done += 1
        if held is None:
            return
        held.flying -= 1
        self.report(rows)
        self.missing[block] -= 1
        if self.missing[block] == 0 and not self._alone:
            self.merging.append(block)

    def __call__(self) -> Counts:
        self._take_up()
        try:
            while True:
                self._start()
                self._submit()
                if not self.flying:
                    return self.counts
                for ref in self.cluster._wait(self.flying):
                    self._finish(ref)
        finally:
            for held in list(self.active):
                self._let_go(held)
            for ref, (holder, _) in self.flying.items():
                if holder is None:
                    self.cluster._ray.cancel(ref, force=True)
