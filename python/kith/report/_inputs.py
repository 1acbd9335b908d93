"""What a report is made from: results of `kith ladder`, `kith bench`, the GPU benchmark `gpu_search`, and the graphs' of
benchmarks/vamana."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ._errors import InputError, UsageError
from ._fields import Node, machine_rows, read_json
from ._ladder import Ladder, read_ladder


@dataclass(frozen=True)
class Peer:
    """Another library, measured in turns with Kith."""

    name: str
    queries_per_second: float
    ratio: float | None  # how many times longer it took
    recall: float | None


@dataclass(frozen=True)
class Search:
    """One combination that was measured."""

    source: str  # the file's name
    data: str  # what was searched, in words; "" for uniform random rows
    rows: int
    dim: int
    dtype: str
    queries: int
    k: int
    metric: str
    filter: str
    batch: int  # queries a call; 0: all
    where: str  # "2 threads", "1 GPU"
    workers: int  # threads or GPUs
    worker: str  # "thread" or "GPU"
    mode: str  # "", "host", "streamed": where the rows lay, on GPUs
    seconds: float  # median of all queries
    queries_per_second: float
    candidates: float | None  # a query, that the filter kept
    fallbacks: int
    peers: tuple[Peer, ...] = ()

    @property
    def shape(self) -> str:
        return f"d {self.dim}, {self.queries:,} {'query' if self.queries == 1 else 'queries'}, {self.rows:,} rows, k {self.k}"

    @property
    def certified(self) -> bool:
        """Whether a filter stood before the exact evaluation."""
        return self.candidates is not None and self.filter not in ("", "none")


@dataclass(frozen=True)
class CurvePoint:
    """What one length of the list finds."""

    recall: float
    queries_per_second: float


@dataclass(frozen=True)
class Stated:
    """A search that asked for a recall."""

    asked: float
    stated: float
    recall: float  # measured
    setting: int
    queries_per_second: float


@dataclass(frozen=True)
class Curve:
    """One graph of one library, with one k and number of threads."""

    source: str
    library: str
    version: str
    parameters: str
    data: str
    rows: int
    dim: int
    dtype: str
    queries: int
    k: int
    threads: int
    build_seconds: float
    memory_bytes: float
    points: tuple[CurvePoint, ...]
    at: dict[str, float]  # queries a second by recall; without those that were never reached
    stated: tuple[Stated, ...]
    failed: tuple[tuple[str, str], ...]  # libraries of the same run that could not be measured, and why

    @property
    def where(self) -> str:
        return f"{self.threads} thread{'' if self.threads == 1 else 's'}"


@dataclass(frozen=True)
class Machine:
    """What is known of where a file was measured, as rows of a table."""

    source: str
    kind: str
    rows: tuple[tuple[str, str], ...]


@dataclass
class Results:
    """All inputs together, in the order they were named."""

    ladders: list[Ladder] = field(default_factory=list)
    searches: list[Search] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    machines: list[Machine] = field(default_factory=list)


def _version(document: Node, known: int) -> None:
    node = document["format_version"]
    version = node.count(1)
    if version != known:
        raise node.error(f"is {version}; this report reads version {known}: make it with the kith that measured")


def _facts(document: Node, *names: str) -> list[tuple[str, str]]:
    """Rows of the table of the machine: what the file says, under the names it uses."""
    return [(name.replace("_", " "), document[name].text()) for name in names if document.has(name)]


def _read_bench(document: Node, results: Results, source: str) -> None:
    _version(document, 1)
    data = document["data"]
    rows, dim, queries = data["rows"].count(1), data["dim"].count(1), data["queries"].count(1)
    dtype = data["dtype"].text()
    name = data["base"].text() if data.has("base") else data["generator"].text() + " (generated)"
    for run in document["runs"].items(some=True):
        statistics = run["statistics"]
        threads, batch = run["threads"].count(1), run["batch"].count()
        peers = []
        for peer in run["peers"].items():
            title = peer["name"].text() + (f" {peer['version'].text()}" if peer.has("version") else "")
            peers.append(
                Peer(title, peer["queries_per_second"].positive(), peer["ratio"].positive(), peer["recall"].number())
            )
        results.searches.append(
            Search(
                source=source,
                data=name,
                rows=rows,
                dim=dim,
                dtype=dtype,
                queries=queries,
                k=run["k"].count(1),
                metric=run["metric"].text(),
                filter=statistics["filter"].text(),
                batch=batch,
                where=f"{threads} thread{'' if threads == 1 else 's'}",
                workers=threads,
                worker="thread",
                mode="",
                seconds=run["median_seconds"].positive(),
                queries_per_second=run["queries_per_second"].positive(),
                candidates=run["candidates_per_query"].number(),
                fallbacks=statistics["fallbacks"].count(),
                peers=tuple(peers),
            )  # fmt: skip
        )
    machine = [*machine_rows(document["machine"])]
    machine += [("kith", document["kith"].text()), ("measured", document["date"].text())]
    if document.has("labels"):
        machine += [(label, value) for label, value in machine_rows(document["labels"])]
    results.machines.append(Machine(source, "kith bench", tuple(machine)))


def _read_gpu_search(document: Node, results: Results, source: str) -> None:
    _version(document, 1)
    modes = {"resident": "", "multi": "", "host": "rows on the host", "streamed": "rows streamed from the host"}
    for section in document["sections"].items(some=True):
        mode = section["mode"].text()
        if mode not in modes:
            raise section["mode"].error(f"is '{mode}', not one of {', '.join(modes)}")
        for case in section["cases"].items(some=True):
            queries, seconds = case["queries"].count(1), case["median_ms"].positive() / 1e3
            gpus = len(case["devices"].text().split(","))
            words = modes[mode]
            if mode == "streamed":
                words += f", at most {case['memory_limit_mib'].count():,} MiB on the GPU"
            results.searches.append(
                Search(
                    source=source,
                    data="",
                    rows=case["rows"].count(1),
                    dim=case["dim"].count(1),
                    dtype=case["dtype"].text(),
                    queries=queries,
                    k=case["k"].count(1),
                    metric="sqeuclidean",
                    filter=case["filter"].text(),
                    batch=0,
                    where=f"{gpus} GPU{'' if gpus == 1 else 's'}",
                    workers=gpus,
                    worker="GPU",
                    mode=words,
                    seconds=seconds,
                    queries_per_second=queries / seconds,
                    candidates=case["candidates"].count() / queries,
                    fallbacks=case["fallbacks"].count(),
                )  # fmt: skip
            )
    rows = _facts(document, "machine") + [("kith", document["commit"].text()), ("measured", document["date"].text())]
    results.machines.append(Machine(source, "gpu_search", tuple(rows)))


def _share(node: Node) -> float:
    value = node.number()
    if not 0 <= value <= 1:
        raise node.error(f"is {value:g}; a recall lies between 0 and 1")
    return value


def _read_vamana(document: Node, results: Results, source: str) -> None:
    _version(document, 1)
    data = document["data"]
    failed = tuple((item["name"].text(), item["error"].text()) for item in document["failed"].items())
    curves = []
    for library in document["libraries"].items(some=True):
        parameters = ", ".join(f"{name} {value}" for name, value in machine_rows(library["parameters"]))
        stated: dict[tuple[int, int], list[Stated]] = {}
        for item in library["stated"].items():
            stated.setdefault((item["threads"].count(1), item["k"].count(1)), []).append(
                Stated(_share(item["asked"]), _share(item["stated"]), _share(item["recall"]),
                       item["setting"].count(), item["queries_per_second"].positive())
            )  # fmt: skip
        for run in library["runs"].items():
            at = run["queries_per_second_at"]
            threads, k = run["threads"].count(1), run["k"].count(1)
            curves.append(
                Curve(
                    source=source,
                    library=library["name"].text(),
                    version=library["version"].text(),
                    parameters=parameters,
                    data=data["name"].text(),
                    rows=data["rows"].count(1),
                    dim=data["dim"].count(1),
                    dtype=data["dtype"].text(),
                    queries=data["queries"].count(1),
                    k=k,
                    threads=threads,
                    build_seconds=library["build_seconds"].positive(),
                    memory_bytes=library["memory_bytes"].number(),
                    points=tuple(
                        CurvePoint(_share(p["recall"]), p["queries_per_second"].positive())
                        for p in run["points"].items(some=True)
                    ),
                    at={t: at[t].positive() for t in ("0.90", "0.95", "0.99") if at.has(t)},
                    stated=tuple(stated.get((threads, k), ())),
                    failed=failed,
                )  # fmt: skip
            )
    results.curves += curves
    machine = [*machine_rows(document["machine"]), ("commit", document["commit"].text())]
    machine += [("measured", document["date"].text()), ("command", document["command"].text())]
    hashes = [item["graph_hash"].text() for item in document["libraries"].items() if item.has("graph_hash")]
    machine += [("graph hash", value) for value in hashes]
    machine += [("load before", f"{document['load'].number():g}")]
    results.machines.append(Machine(source, "benchmarks.vamana", tuple(machine)))


def _read_ladder(document: Node, results: Results, source: str) -> None:
    ladder = read_ladder(document, source)
    results.ladders.append(ladder)
    results.machines.append(Machine(source, "kith ladder", tuple(ladder.machine)))


READERS: dict[str, Callable[[Node, Results, str], None]] = {
    "kith-ladder": _read_ladder,
    "kith-bench": _read_bench,
    "kith-gpu-search": _read_gpu_search,
    "kith-vamana": _read_vamana,
}


def _kind(document: Node) -> str:
    """A key of READERS. A ladder says name and version in one field, a benchmark in two."""
    names = [name for name in ("schema", "format") if document.has(name)]
    if not names:
        raise document.error(
            "has no field 'format' or 'schema': it is not a result of kith ladder, kith bench, gpu_search or "
            "benchmarks.vamana"
        )
    node = document[names[0]]
    kind, slash, version = node.text().partition("/")
    if kind not in READERS:
        raise node.error(f"is '{kind}', not one of {', '.join(READERS)}")
    if kind == "kith-ladder" and version != "1":
        raise node.error(
            f"is '{kind}{slash}{version}'; this report reads {kind}/1: make it with the kith that measured"
        )
    return kind


def read_results(paths: list[Path]) -> Results:
    """All files, checked. @raises InputError, UsageError"""
    if not paths:
        raise UsageError("name at least one JSON file of kith ladder or kith bench")
    seen: dict[Path, Path] = {}
    results = Results()
    for path in paths:
        whole = path.resolve()
        if whole in seen:
            raise UsageError(
                f"'{path}' is named twice" if seen[whole] == path else f"'{path}' and '{seen[whole]}' are one file"
            )
        seen[whole] = path
        document = read_json(path)
        if not isinstance(document.value, dict):
            raise InputError(
                f"'{path}' is not a result of kith: it holds {type(document.value).__name__}, not an object"
            )
        READERS[_kind(document)](document, results, path.name)
    return results
