"""Neighbours of many queries, of all rows, and shards, by the machines of a Ray cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from .._errors import InvalidArgument
from .._index import METRICS, _integer, flag, name_of
from .._progress import Progress
from .._sharded import Sharded
from .._tiles import PointTiles
from ._answers import Answer, blocks_of_units, in_order
from ._call import MOST_TASKS, Call, blocks_of, count_of, cuts_of, digest_of, folder_of, number_of_parts
from ._cluster import Task
from ._rows import Rows, rows_of
from ._tasks import Part, Question, build_shard, build_tiles, of_tiles, search_tiles

__all__ = ["all_knn", "build", "knn"]

_TILES_BYTES = 512 << 20  # of the lists of a task's tiles
_INDEXES = "'brute_force', 'kd_tree' or 'octree'"
_BOXED = ("sqeuclidean", "euclidean", "manhattan")


def _search(call: Call, output: str, parts: list[Part], question: Question, block: Any, dtype: str) -> Answer:
    blocks = blocks_of(question.rows.rows, question.wide, block)
    total = question.rows.rows * len(parts)
    call.reported(
        "search",
        total,
        lambda report: call.cluster.hold(parts, question, blocks, call.machine, call.work, report),
    )
    notes: list[dict[str, Any]] = []
    files = [call.work.file(f"answer-{number}.unit") for number in range(len(blocks))]
    lists = blocks_of_units(files, notes)
    return call.answer(output, lists, (question.rows.rows, question.k), dtype, notes)


def _slabs(rows: Rows, shards: int, index: str, metric: str, parameters: dict[str, Any]) -> list[Part]:
    return [
        Part(first, last, rows=rows, index=index, metric=metric, parameters=parameters)
        for first, last in cuts_of(rows.rows, shards)
    ]


def _check_index(index: Any) -> str:
    name = name_of(index, "index", _INDEXES)
    if name == "vamana":
        raise InvalidArgument("index 'vamana': build shards of graphs first, by kith.ray.build, and search those")
    if name not in ("brute_force", "kd_tree", "octree"):
        raise InvalidArgument(f"index {name!r} is not known; use {_INDEXES}")
    return name


def knn(
    base: Any,
    queries: Any,
    k: int = 10,
    *,
    output: str | os.PathLike[str],
    metric: str | None = None,
    index: str = "brute_force",
    shards: int | None = None,
    recall: float | None = None,
    list_size: int | None = None,
    beam_width: int | None = None,
    rerank: int | None = None,
    block: int = 0,
    num_cpus: int = 1,
    num_gpus: float = 0,
    device: str | None = None,
    retries: int = 10,
    memory_limit: int = 0,
    device_memory_limit: int = 0,
    progress: Progress = False,
    **parameters: Any,
) -> Answer:
    """The k nearest rows of ``base`` for each query, by the machines of a Ray cluster: the bits of :func:`kith.knn`.

    Files are read where they lie: every machine needs them, and the folder of ``output``, at the same path. A process
    that is killed leaves ``output + ".kith-ray-work"``, from which the same call goes on after the last finished task.

    Args:
        base: shards (:class:`kith.Sharded` or their folder) or point tiles (:class:`kith.PointTiles` or theirs); or rows:
            a file, a list of files, which are one dataset, a Ray Dataset with a column of vectors, or an array
            ``[n, d]``. The last two are copied beside ``output`` first.
        queries: rows likewise, of the element type of ``base``, or of one that it holds exactly.
        k: neighbours a query, at least 1. More than there are rows pads with index -1 and distance inf.
        output: ``"r"`` writes ``r.indices.npy`` and ``r.distances.npy``; ``.parquet``, ``.arrow``, ``.ivecs`` and the
            others of :func:`kith.write_neighbors` their formats.
        metric: of rows and tiles; None: ``"sqeuclidean"``. Shards have theirs.
        index: of rows, what each part is searched by: ``"brute_force"``, ``"kd_tree"`` or ``"octree"``.
        shards: of rows, in how many parts they are dealt out; None: as many as there are tasks at once. Changes no bit.
        recall, list_size, beam_width, rerank: of shards that are graphs: as for :meth:`kith.Sharded.search`.
        block: queries that a task answers; 0: up to 16,384.
        num_cpus, num_gpus: that a task takes of its machine; threads are as many as CPUs.
        device: ``"cpu"`` or ``"cuda"``; None: ``"cuda"`` where ``num_gpus`` is not 0.
        retries: how often a task or an actor is started again that was lost with its machine.
        memory_limit, device_memory_limit: of each task, in bytes; 0: as for :func:`kith.knn`.
        progress: True for a bar, or a function of (done, total), in pairs of a query and a part.
        **parameters: of rows, what the index is built with: ``filter``, ``directions``, ``leaf_size``.

    Returns:
        :class:`Answer`, memory-mapped.

    Raises:
        InvalidArgument, TypeError, OutOfMemory: as for :func:`kith.knn`; a task that no machine has the CPUs for.
        IoError: a file is missing on a machine, damaged, or was changed meanwhile; the work folder is another call's.
        WorkLost: a task was lost more often than ``retries``.
        ImportError: Ray is not installed (``pip install 'ray[data,serve]' pyarrow``).
    """
    target, count = os.fspath(output), count_of(k)
    options = {
        name: value
        for name, value in [
            ("recall", recall),
            ("list_size", list_size),
            ("beam_width", beam_width),
            ("rerank", rerank),
        ]
        if value is not None
    }
    kind, folder = folder_of(base)
    if kind and (shards is not None or parameters):
        given = ", ".join(["shards"] * (shards is not None) + list(parameters))
        raise InvalidArgument(f"'{folder}' is built already; leave out {given}")
    if kind != "shards" and options:
        raise InvalidArgument(f"{', '.join(options)}: of shards that are graphs; leave it out")
    limits = memory_limit, device_memory_limit
    with Call(target, num_cpus, num_gpus, device, limits, retries, progress) as call:
        asked = rows_of(queries, "queries", call.work)
        task: dict[str, Any] = {"call": "knn", "queries": asked.named(), "k": count, "block": _integer(block, "block")}
        if kind == "shards":
            saved = Sharded.open(folder)
            if metric is not None and metric != saved.metric:
                raise InvalidArgument(f"metric {metric!r} is not that of the shards, {saved.metric!r}; leave it out")
            call.work.begin({**task, "shards": digest_of(folder), "options": options})
            cuts = _cuts_by(saved.shard_rows)
            parts = [Part(*cut, folder=folder, number=number) for number, cut in enumerate(cuts)]
            question = Question(asked, count, saved.metric, options)
            return _search(call, target, parts, question, block, saved.dtype)
        name = name_of("sqeuclidean" if metric is None else metric, "metric", METRICS)
        if kind == "tiles":
            call.work.begin({**task, "tiles": digest_of(folder), "metric": name})
            return _search_tiles(call, target, folder, Question(asked, count, name), block)
        rows, its = rows_of(base, "base", call.work), _check_index(index)
        number = number_of_parts(call, shards, rows.rows, "shards")
        call.work.begin(
            {**task, "base": rows.named(), "metric": name, "index": its, "shards": number, "parameters": parameters}
        )
        slabs = _slabs(rows, number, its, name, parameters)
        return _search(call, target, slabs, Question(asked, count, name), block, rows.dtype)


def _cuts_by(sizes: list[int]) -> list[tuple[int, int]]:
    cuts, first = [], 0
    for rows in sizes:
        cuts.append((first, first + rows))
        first += rows
    return cuts


def _no_gpu(call: Call) -> None:
    if call.machine.device != "cpu":
        raise InvalidArgument("num_gpus: point tiles are searched on CPUs; leave it out")


def _search_tiles(call: Call, output: str, folder: str, question: Question, block: Any) -> Answer:
    _no_gpu(call)
    tiles = PointTiles.open(folder)
    blocks = blocks_of(question.rows.rows, question.k, block)
    files = [call.work.file(f"answer-{number}.unit") for number in range(len(blocks))]
    tasks = [
        Task(f"block {number}", search_tiles, (folder, question, *cut, file, call.machine), file, cut[1] - cut[0])
        for number, (cut, file) in enumerate(zip(blocks, files, strict=True))
    ]
    call.reported("search", question.rows.rows, lambda report: call.cluster.run(tasks, call.work, report))
    notes: list[dict[str, Any]] = []
    lists = blocks_of_units(files, notes)
    return call.answer(output, lists, (question.rows.rows, question.k), tiles.dtype, notes)


def all_knn(
    base: Any,
    k: int = 10,
    *,
    output: str | os.PathLike[str],
    include_self: bool = False,
    metric: str | None = None,
    index: str = "auto",
    shards: int | None = None,
    tile_points: int = 0,
    block: int = 0,
    num_cpus: int = 1,
    num_gpus: float = 0,
    device: str | None = None,
    retries: int = 10,
    memory_limit: int = 0,
    device_memory_limit: int = 0,
    progress: Progress = False,
    **parameters: Any,
) -> Answer:
    """The k nearest other rows of every row, by the machines of a Ray cluster: the bits of :func:`kith.all_knn`.

    Args:
        base: rows as for :func:`knn`, or point tiles, whose tasks are some tiles each.
        k: neighbours a row, at least 1.
        include_self: whether a row counts among its neighbours; it is then the first of them.
        metric: None: ``"euclidean"``, as for :func:`kith.all_knn`.
        index: ``"point_tiles"``, by which a cloud is divided in space first, in one task; ``"brute_force"``,
            ``"kd_tree"`` or ``"octree"``, of which every part of the rows is asked for every row; ``"auto"``: tiles up to
            three dimensions, else brute force. Changes no bit.
        shards: in how many parts rows are dealt out, or into how many tasks tiles; None: as many as tasks at once, of
            tiles twice as many.
        tile_points: as for :meth:`kith.PointTiles.build`, where tiles are built.
        output, block, num_cpus, num_gpus, device, retries: as for :func:`knn`.
        memory_limit, device_memory_limit, progress, parameters: as for :func:`knn`.

    Raises:
        As :func:`knn`.
    """
    target, count = os.fspath(output), count_of(k)
    kind, folder = folder_of(base)
    if kind == "shards":
        raise InvalidArgument(f"'{folder}' holds shards, which do not give their rows back; name the rows")
    name = name_of("euclidean" if metric is None else metric, "metric", METRICS)
    limits = memory_limit, device_memory_limit
    itself = "first" if flag(include_self, "include_self") else "dropped"
    with Call(target, num_cpus, num_gpus, device, limits, retries, progress) as call:
        task: dict[str, Any] = {"call": "all_knn", "k": count, "metric": name, "include_self": bool(include_self)}
        if kind == "tiles":
            _check_of_tiles(parameters, block, index if index != "auto" else "point_tiles", tile_points)
            return _all_of_tiles(call, target, folder, {**task, "tiles": digest_of(folder)}, itself, shards)
        rows = rows_of(base, "base", call.work)
        its = name_of(index, "index", f"'auto', 'point_tiles', {_INDEXES}")
        if its == "auto":
            tiled = rows.dim <= 3 and name in _BOXED and call.machine.device == "cpu" and not parameters
            its = "point_tiles" if tiled else "brute_force"
        if its == "point_tiles":
            _check_of_tiles(parameters, block, its, 0)
            points = _integer(tile_points, "tile_points")
            task = {**task, "base": rows.named(), "tile_points": points}
            folder = call.work.file("tiles")

            def made() -> None:
                build = Task("building the tiles", build_tiles, (rows, folder, points, call.machine), folder, rows.rows)
                call.reported("tiles", rows.rows, lambda report: call.cluster.run([build], call.work, report))

            return _all_of_tiles(call, target, folder, task, itself, shards, made)
        if tile_points:
            raise InvalidArgument(f"tile_points is {tile_points}, and the index {its!r}; leave it out")
        its = _check_index(its)
        number = number_of_parts(call, shards, rows.rows, "shards")
        call.work.begin(
            {
                **task,
                "base": rows.named(),
                "index": its,
                "shards": number,
                "block": _integer(block, "block"),
                "parameters": parameters,
            }
        )
        question = Question(rows, count, name, {}, itself)
        return _search(call, target, _slabs(rows, number, its, name, parameters), question, block, rows.dtype)


def _check_of_tiles(parameters: dict[str, Any], block: Any, index: Any, tile_points: Any) -> None:
    given = [*parameters, *(["block"] if block else []), *(["tile_points"] if tile_points else [])]
    if index != "point_tiles":
        given.append(f"index {index!r}")
    if given:
        raise InvalidArgument(f"{', '.join(given)}: not for point tiles; leave it out")


def _all_of_tiles(
    call: Call,
    output: str,
    folder: str,
    task: dict[str, Any],
    itself: str,
    shards: Any,
    make: Callable[[], None] | None = None,
) -> Answer:
    _no_gpu(call)
    k, metric = int(task["k"]), str(task["metric"])
    given = None if shards is None else _integer(shards, "shards")
    if given is not None and given < 1:
        raise InvalidArgument(f"shards is {given}; use 1 or more tasks")
    # How many tiles there will be is not known before they are built, how many tasks are wished for is.
    wished = given or call.work.before("shards", 1, MOST_TASKS) or 2 * call.cluster.slots
    call.work.begin({**task, "shards": wished})
    if make is not None:
        make()
    tiles = PointTiles.open(folder)
    most = max(1, _TILES_BYTES // (2 * max(1, tiles.tile_points) * 12 * k))
    number = min(max(1, tiles.tiles), max(wished, -(-tiles.tiles // most)))
    cuts = cuts_of(tiles.tiles, number)
    files = [call.work.file(f"tiles-{number}.unit") for number in range(len(cuts))]
    tasks = [
        Task(
            f"tiles {cut[0]} to {cut[1] - 1}",
            of_tiles,
            (folder, *cut, k, metric, itself, file, call.machine),
            file,
            tiles.rows * cut[1] // max(1, tiles.tiles) - tiles.rows * cut[0] // max(1, tiles.tiles),
        )
        for cut, file in zip(cuts, files, strict=True)
    ]
    call.reported("all-kNN", tiles.rows, lambda report: call.cluster.run(tasks, call.work, report))
    notes: list[dict[str, Any]] = []
    lists = in_order(files, tiles.rows, k, notes)
    return call.answer(output, lists, (tiles.rows, k), tiles.dtype, notes)


def build(
    base: Any,
    n: int,
    directory: str | os.PathLike[str],
    *,
    index: str = "brute_force",
    metric: str = "sqeuclidean",
    num_cpus: int = 1,
    num_gpus: float = 0,
    device: str | None = None,
    retries: int = 10,
    memory_limit: int = 0,
    device_memory_limit: int = 0,
    progress: Progress = False,
    **parameters: Any,
) -> Sharded:
    """Divides rows among shards that the machines of a Ray cluster build side by side: the bytes of :meth:`kith.Sharded.build`
    with ``partition="rows"``.

    Args:
        base: rows as for :func:`knn`.
        n: how many shards, 1 to 65,536 and at most as many as there are rows.
        directory: the folder, which appears whole or not at all. An older folder of shards is replaced, another one
            refused. Work that is interrupted goes on from ``directory + ".kith-ray-work"``.
        index: ``"brute_force"``, ``"kd_tree"``, ``"octree"`` or ``"vamana"``.
        metric, parameters: as for :meth:`kith.Sharded.build`.
        num_cpus, num_gpus, device, retries, memory_limit, device_memory_limit: as for :func:`knn`.
        progress: True for a bar, or a function of (done, total), in rows.

    Raises:
        As :meth:`kith.Sharded.build` and :func:`knn`.
    """
    if "partition" in parameters:
        raise InvalidArgument("partition: machines build shards of rows that follow each other; leave it out")
    target = os.path.abspath(os.fspath(directory))
    with Call(target, num_cpus, num_gpus, device, (memory_limit, device_memory_limit), retries, progress) as call:
        rows = rows_of(base, "base", call.work)
        number = number_of_parts(call, _integer(n, "n"), rows.rows, "n")
        asked = {
            "index": name_of(index, "index", f"{_INDEXES} or 'vamana'"),
            "metric": name_of(metric, "metric", METRICS),
        }
        call.work.begin({"call": "build", "base": rows.named(), "n": number, **asked, "parameters": parameters})
        cuts = cuts_of(rows.rows, number)
        files = [call.work.file(f"shard-{part}") for part in range(number)]
        tasks = [
            Task(
                f"shard {part}",
                build_shard,
                (rows, *cut, file, {**asked, **parameters}, call.machine),
                file,
                cut[1] - cut[0],
            )
            for part, (cut, file) in enumerate(zip(cuts, files, strict=True))
        ]
        call.reported("build", rows.rows, lambda report: call.cluster.run(tasks, call.work, report))
        shards = Sharded.join(target, files)
        call.work.remove()
    return shards
