"""The result of `kith ladder --json`, and what follows from it: who is fastest, what the floor allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ._fields import Node, machine_rows

DEVICES = {"cpu": "CPU", "gpu": "GPU", "gpus": "several GPUs"}


@dataclass(frozen=True)
class Rung:
    """One implementation; the same in every case."""

    number: int
    id: str
    title: str
    device: str  # a key of DEVICES
    engine: bool  # Kith itself, not a step of the ladder

    @property
    def name(self) -> str:
        """The title, with where it runs: Kith has the same search on both sides."""
        return self.title + (" on the CPU" if self.device == "cpu" and "CPU" not in self.title else "")

    @property
    def tree(self) -> bool:
        """Whether it leaves pairs out; the others look at every pair of query and point."""
        return "kd-tree" in self.id or "octree" in self.id


@dataclass(frozen=True)
class Timing:
    """A rung in one case: measured, or skipped for a reason."""

    rung: Rung
    seconds: float | None
    with_copies: float | None
    build: float | None  # making its tree, layout or codes; not part of `seconds`
    checked: bool | None  # whether its answer was the engine's; None: nobody looked
    wrong: int  # cells of the answer that were not
    skipped: str
    fallback: str
    published: tuple[float, ...]  # seconds: one, or the least and the most
    published_what: str
    recall: float | None = None  # of a walk through a graph; None: exact
    recall_floor: float | None = None  # what it must reach

    @property
    def right(self) -> bool:
        return self.seconds is not None and self.wrong == 0 and self.checked is not False


@dataclass(frozen=True)
class Published:
    """A figure of the reports that Kith implements."""

    rung: int | None
    what: str
    seconds: tuple[float, ...]
    source: str


@dataclass(frozen=True)
class Case:
    name: str
    dim: int
    queries: int
    points: int
    k: int
    data: str
    floor: float | None
    floor_by: str  # "bandwidth" or "arithmetic"
    timings: tuple[Timing, ...]
    published: tuple[Published, ...]
    list_size: int | None = None  # of walks through a graph; None: exact searches
    degree: int = 0  # values a list of neighbours of that graph

    @property
    def title(self) -> str:
        count = f"{self.queries:,} quer{'y' if self.queries == 1 else 'ies'}"
        return f"{count}, {self.points:,} points, {self.dim} dimensions, k = {self.k}"

    @property
    def short(self) -> str:
        return f"d {self.dim}, q {self.queries:,}, n {self.points:,}, k {self.k}"

    @property
    def measured(self) -> list[Timing]:
        return [t for t in self.timings if t.seconds is not None]

    @property
    def base(self) -> Timing | None:
        """What speed-ups count from: the lowest rung that ran."""
        return next((t for t in self.measured if not t.rung.engine), None)

    def fastest(self, engine: bool) -> Timing | None:
        """Of Kith, or of the ladder's other rungs; a rung with wrong answers is none."""
        found = [t for t in self.measured if t.rung.engine == engine and t.right]
        return min(found, key=lambda t: seconds_of(t), default=None)

    @property
    def operations(self) -> float:
        """Float32 instructions of brute force: a subtraction and a multiply-add a coordinate and pair."""
        return 2.0 * self.dim * self.queries * self.points

    @property
    def bytes(self) -> float:
        """What brute force must move at least: points and queries in, indices (8 bytes) and distances (4) out."""
        return 4.0 * self.dim * (self.points + self.queries) + 12.0 * self.queries * self.k


@dataclass(frozen=True)
class Ladder:
    source: str
    cases: tuple[Case, ...]  # of exact searches
    graphs: tuple[Case, ...]  # of walks through a graph, which may miss rows
    rungs: tuple[Rung, ...]  # all of them, by number
    include_copies: bool
    repeat: int
    command: str
    hardware: str  # in a few words
    gpu: str  # its name; "" without one
    gpus: int
    bandwidth: float | None  # bytes/s
    instructions: float | None  # float32 instructions/s
    machine: tuple[tuple[str, str], ...]


def seconds_of(timing: Timing) -> float:
    assert timing.seconds is not None
    return timing.seconds


def _milliseconds(node: Node, name: str) -> float | None:
    return node[name].positive() / 1e3 if node.has(name) else None


def _range(node: Node) -> tuple[float, ...]:
    values = tuple(value.positive() / 1e3 for value in node.items(some=True))
    if len(values) > 2 or (len(values) == 2 and values[0] > values[1]):
        raise node.error("must be one time, or the least and the most")
    return values


def _optional_text(node: Node, name: str) -> str:
    return node[name].text() if node.has(name) else ""


def _share(node: Node, name: str) -> float | None:
    if not node.has(name):
        return None
    value = node[name].number()
    if not 0 <= value <= 1:
        raise node[name].error("is not a share, from 0 to 1")
    return value


def _read_timing(node: Node) -> Timing:
    device = node["device"].text()
    if device not in DEVICES:
        raise node["device"].error(f"is '{device}', not one of {', '.join(DEVICES)}")
    rung = Rung(node["number"].count(1), node["id"].text(), node["title"].text(), device, node["engine"].flag())
    node["ms"]  # null is an answer, absence is not
    seconds, skipped = _milliseconds(node, "ms"), _optional_text(node, "skipped")
    if seconds is None and not skipped:
        raise node.error("has neither a time in 'ms' nor a reason in 'skipped'")
    return Timing(
        rung=rung, seconds=seconds, with_copies=_milliseconds(node, "ms_with_copies"), build=_milliseconds(node, "build_ms"),
        checked=node["checked"].flag() if node.has("checked") else None, wrong=node["wrong"].count(), skipped=skipped,
        fallback=_optional_text(node, "fallback"),
        published=_range(node["published_ms"]) if node.has("published_ms") else (),
        published_what=_optional_text(node, "published_what"),
        recall=_share(node, "recall"), recall_floor=_share(node, "recall_floor"),
    )  # fmt: skip


def _read_case(node: Node) -> Case:
    timings = tuple(_read_timing(rung) for rung in node["rungs"].items(some=True))
    seen: set[int] = set()
    for timing, entry in zip(timings, node["rungs"].items(), strict=True):
        if timing.rung.number in seen:
            raise entry["number"].error(f"is {timing.rung.number}, which an earlier rung of the case has")
        seen.add(timing.rung.number)
    floor = _milliseconds(node, "floor_ms")
    published = [
        Published(p["rung"].count(1) if p.has("rung") else None, p["what"].text(), _range(p["ms"]), p["source"].text())
        for p in (node["published"].items() if node.has("published") else ())
    ]
    graph = node["graph"] if node.has("graph") else None
    if graph is not None:
        for timing, entry in zip(timings, node["rungs"].items(), strict=True):
            if timing.seconds is not None and timing.recall is None:
                raise entry.error("has a time and no 'recall', which a case of graphs needs")
    return Case(
        name=node["name"].text(), dim=node["dim"].count(1), queries=node["queries"].count(1),
        points=node["points"].count(1), k=node["k"].count(1), data=_optional_text(node, "data"), floor=floor,
        floor_by=_optional_text(node, "floor_by"), timings=tuple(sorted(timings, key=lambda t: t.rung.number)),
        published=tuple(published), list_size=graph["list_size"].count(1) if graph is not None else None,
        degree=graph["degree"].count(1) if graph is not None else 0,
    )  # fmt: skip


def _rungs(cases: Sequence[Case], document: Node) -> tuple[Rung, ...]:
    found: dict[int, Rung] = {}
    for case in cases:
        for timing in case.timings:
            known = found.setdefault(timing.rung.number, timing.rung)
            if known.id != timing.rung.id:
                raise document["cases"].error(f"call rung {known.number} both '{known.id}' and '{timing.rung.id}'")
    return tuple(found[number] for number in sorted(found))


def read_ladder(document: Node, source: str) -> Ladder:
    """The checked content of a file. @raises InputError"""
    cases = tuple(_read_case(case) for case in document["cases"].items(some=True))
    machine = document["machine"]
    rows = machine_rows(machine)
    gpu_name, gpus, bandwidth, instructions = "", 0, None, None
    hardware = _optional_text(machine, "cpu") or "a CPU"
    if machine.has("gpu"):
        gpu = machine["gpu"]
        gpu_name, gpus = gpu["name"].text(), gpu["count"].count(1)
        hardware = gpu_name if gpus == 1 else f"{gpus} × {gpu_name}"
        # Both are the chip's own: clock and width of its memory, clock and number of its cores.
        bandwidth = gpu["bandwidth_gbs"].positive() * 1e9 if gpu.has("bandwidth_gbs") else None
        # A multiply-add counts as two operations in "flops" and is one instruction.
        instructions = gpu["fp32_gflops"].positive() * 1e9 / 2 if gpu.has("fp32_gflops") else None
        rows += [(f"GPU {label}", value) for label, value in machine_rows(gpu)]
    rows += [("kith", document["kith"].text()), ("commit", _optional_text(document, "commit")),
             ("measured", document["date"].text())]  # fmt: skip
    command = " ".join(word.text() for word in document["command"].items()) if document.has("command") else ""
    return Ladder(
        source=source, cases=tuple(c for c in cases if c.list_size is None),
        graphs=tuple(c for c in cases if c.list_size is not None), rungs=_rungs(cases, document), include_copies=document["include_copies"].flag(),
        repeat=document["repeat"].count(1), command=command, hardware=hardware, gpu=gpu_name, gpus=gpus,
        bandwidth=bandwidth, instructions=instructions, machine=tuple((a, b) for a, b in rows if b),
    )  # fmt: skip
