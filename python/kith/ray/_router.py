"""Shards that are served: a replica holds one, a router asks all of them and merges what they say in time."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument
from .._sharded import Sharded
from ._requests import Ask, BadRequest, Limits, ask_of, json_body, npy_body, npz_body, parameters_of
from ._tasks import Machine, merge_lists, one_shard, rows_of_all

__all__ = ["Router", "Served", "ShardReplica"]

_PAUSE = 0.02  # seconds before a shard is asked again whose replica was lost
_PING = 2.0  # seconds that a replica has to say that it is there


@dataclass(frozen=True)
class Served:
    """An answer of served shards; unpacks as ``distances, indices = answer``."""

    distances: NDArray[Any]  #: ``[q, k]``, float64 for float64 data, else float32
    indices: NDArray[np.int64]  #: ``[q, k]``, -1 for none
    partial: bool  #: shards are missing: rows of theirs may be nearer
    missing_shards: tuple[int, ...]
    version: str  #: of the shards, all of them
    certified: bool  #: the nearest rows by proof; never where shards are missing
    recall: float  #: the least that a shard states; 0 where shards are missing

    def __iter__(self) -> Any:
        return iter((self.distances, self.indices))


def stay_on_loopback() -> None:
    """Has the server that Serve opens in each replica, for calls between deployments by gRPC, listen on the loopback.

    It listens on all interfaces else, and what it is sent is unpickled. Calls by actors, which are Serve's default, need
    none of it. Called while a replica is made, before Serve opens the server.
    """
    from ray.serve._private import replica

    add_port = getattr(replica, "add_port_to_grpc_server", None)
    if add_port is not None:
        replica.add_port_to_grpc_server = lambda server, _: add_port(server, "127.0.0.1:0")


class ShardReplica:
    """One shard, opened once. Searches run in a thread, so that Serve's checks of its health are answered meanwhile."""

    def __init__(self, folder: str, number: int, machine: Machine, loopback: bool) -> None:
        if loopback:
            stay_on_loopback()
        shards = Sharded.open(folder, device=machine.device)
        self._machine = machine
        self._index, self._numbers = one_shard(shards, number, machine)
        self._base = sum(shards.shard_rows[:number])
        self._pool = ThreadPoolExecutor(1)

    def _search(self, queries: NDArray[Any], k: int, options: dict[str, Any]) -> tuple[Any, ...]:
        found = self._index.search(queries, k, **options, **self._machine.limits()).numpy()
        rows = rows_of_all(found.indices, self._base, self._numbers)
        return found.distances, rows, found.statistics.certified, found.statistics.recall

    async def search(self, queries: NDArray[Any], k: int, options: dict[str, Any]) -> tuple[Any, ...]:
        """(distances, rows of all, certified, recall)"""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._search, queries, k, options)

    async def ping(self) -> int:
        """The number of the process."""
        return os.getpid()


class _Metrics:
    """Counters of one router, in Prometheus' form."""

    def __init__(self) -> None:
        import prometheus_client as prometheus

        self._text = prometheus.generate_latest
        self.registry = its = prometheus.CollectorRegistry()
        self.requests = prometheus.Counter("kith_requests", "HTTP requests by status.", ["status"], registry=its)
        self.seconds = prometheus.Histogram("kith_search_seconds", "Time of a search.", registry=its)
        self.queries = prometheus.Counter("kith_queries", "Queries that were answered.", registry=its)
        self.partial = prometheus.Counter("kith_partial_answers", "Answers that missed a shard.", registry=its)
        self.lost = prometheus.Counter("kith_shard_failures", "Calls of a shard that failed.", ["shard"], registry=its)
        self.late = prometheus.Counter(
            "kith_shard_late", "Calls of a shard past the deadline.", ["shard"], registry=its
        )
        self.hedged = prometheus.Counter("kith_hedged_calls", "Second calls of a slow shard.", registry=its)

    def text(self) -> bytes:
        return bytes(self._text(self.registry))


@dataclass(frozen=True)
class _Version:
    """Shards of one build. A request keeps to the one that it began with."""

    name: str
    handles: tuple[Any, ...]
    rows: int
    dim: int
    dtype: np.dtype[Any]
    metric: str
    type: str

    @property
    def graph(self) -> bool:
        return self.type == "vamana"


def _dtype_of(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        name = ml_dtypes.bfloat16
    found: np.dtype[Any] = np.dtype(name)
    return found


class Router:
    """Asks every shard, and answers by the deadline with what there is.

    Args:
        name: of the service: its paths begin with it.
        deadline: seconds, where a request names none.
        hedge_after: seconds after which a shard that has not answered is asked once more, of another replica maybe;
            None: never.
        token: SHA-256 of the token that requests bear, or None.
        loopback: whether this process shall listen nowhere else.
    """

    def __init__(
        self, name: str, deadline: float, hedge_after: float | None, limits: Limits, token: bytes | None, loopback: bool
    ) -> None:
        if loopback:
            stay_on_loopback()
        self._place = f"/{name}/"
        self._deadline, self._hedge_after, self._limits, self._token = deadline, hedge_after, limits, token
        self._metrics = _Metrics()
        self._version: _Version | None = None

    def reconfigure(self, config: dict[str, Any]) -> None:
        """Serve calls it with the version to answer by, when there is one and when there is another."""
        from ray import serve

        handles = tuple(serve.get_app_handle(name) for name in config["shards"])
        self._version = _Version(
            config["version"],
            handles,
            config["rows"],
            config["dim"],
            _dtype_of(config["dtype"]),
            config["metric"],
            config["type"],
        )

    def _now(self) -> _Version:
        assert self._version is not None  # Serve has called reconfigure() before the first request
        return self._version

    async def describe(self) -> dict[str, Any]:
        """What is served."""
        its = self._now()
        return {
            "version": its.name,
            "shards": len(its.handles),
            "rows": its.rows,
            "dim": its.dim,
            "dtype": its.dtype.name,
            "metric": its.metric,
            "index": its.type,
        }

    async def _call(self, handle: Any, ask: Ask) -> Any:
        return await handle.search.remote(ask.queries, ask.k, ask.options)

    async def _first(self, handle: Any, ask: Ask) -> Any:
        """The answer of a replica; of the quicker one of two where hedging is on."""
        first = asyncio.ensure_future(self._call(handle, ask))
        both = {first}
        try:
            if self._hedge_after is not None:
                await asyncio.wait(both, timeout=self._hedge_after)
                if not first.done():
                    self._metrics.hedged.inc()
                    both.add(asyncio.ensure_future(self._call(handle, ask)))
            while True:
                done, left = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.exception() is None or not left:
                        return task.result()
                both = left
        finally:
            for task in both:
                task.cancel()

    async def _ask(self, number: int, handle: Any, ask: Ask) -> Any:
        """A shard's answer, however often its replica is lost: a search changes nothing, so it may be asked again."""
        from ray.exceptions import RayTaskError

        while True:
            try:
                return await self._first(handle, ask)
            except InvalidArgument as error:
                raise BadRequest(400, str(error)[:300]) from None
            except RayTaskError as error:
                if isinstance(error.cause, InvalidArgument):
                    raise BadRequest(400, str(error.cause)[:300]) from None
                self._metrics.lost.labels(number).inc()
                raise
            except Exception:
                self._metrics.lost.labels(number).inc()
                await asyncio.sleep(_PAUSE)

    async def answer(self, ask: Ask) -> Served:
        """Answers a request that was checked.

        Raises:
            BadRequest: 400 for what a shard refuses, 504 where shards are missing and the request wants all.
        """
        its, start = self._now(), time.monotonic()
        tasks = [asyncio.ensure_future(self._ask(number, handle, ask)) for number, handle in enumerate(its.handles)]
        try:
            await asyncio.wait(tasks, timeout=self._deadline if ask.deadline is None else ask.deadline)
        finally:
            for task in tasks:
                if not task.done():
                    task.cancel()
        found, missing = [], []
        for number, task in enumerate(tasks):
            if not task.done() or task.cancelled():
                self._metrics.late.labels(number).inc()
                missing.append(number)
            elif isinstance(task.exception(), BadRequest):
                raise task.exception()  # type: ignore[misc]
            elif task.exception() is not None:
                missing.append(number)
            else:
                found.append(task.result())
        if missing and not ask.partial:
            raise BadRequest(504, f"shards {missing} of {len(tasks)} did not answer in time")
        served = self._merged(its, ask, found, missing)
        self._metrics.seconds.observe(time.monotonic() - start)
        self._metrics.queries.inc(len(ask.queries))
        if missing:
            self._metrics.partial.inc()
        return served

    def _merged(self, its: _Version, ask: Ask, found: list[Any], missing: list[int]) -> Served:
        if found:
            near, rows = merge_lists([its[0] for its in found], [its[1] for its in found], ask.k)
        else:
            shape = len(ask.queries), ask.k
            kind = np.float64 if its.dtype == np.float64 else np.float32
            near, rows = np.full(shape, np.inf, kind), np.full(shape, -1, np.int64)
        certified = not missing and all(bool(one[2]) for one in found)
        recall = 0.0 if missing else min((float(one[3]) for one in found), default=1.0)
        return Served(near, rows, bool(missing), tuple(missing), its.name, certified, recall)

    async def search(self, queries: NDArray[Any], given: dict[str, Any]) -> Served:
        """The Python handle's: as a request, but for the token, since who has the handle is in the cluster already."""
        its = self._now()
        try:
            return await self.answer(ask_of(np.asarray(queries), given, its.dim, its.graph, self._limits))
        except BadRequest as error:
            raise (InvalidArgument(error.why) if error.status < 500 else TimeoutError(error.why)) from None

    async def health(self) -> dict[str, Any]:
        """Which shards have a replica that answers now."""
        its = self._now()

        async def there(handle: Any) -> Any:
            return await handle.ping.remote()

        tasks = [asyncio.ensure_future(there(handle)) for handle in its.handles]
        await asyncio.wait(tasks, timeout=_PING)
        missing = [number for number, task in enumerate(tasks) if not task.done() or task.exception() is not None]
        for task in tasks:
            task.cancel()
        return {"status": "degraded" if missing else "ok", "version": its.name, "missing_shards": missing}

    # HTTP

    async def __call__(self, request: Any) -> Any:
        """POST /search; GET /info, /metrics, /health."""
        from starlette.requests import ClientDisconnect
        from starlette.responses import JSONResponse, Response

        try:
            response = await self._respond(request, JSONResponse, Response)
        except BadRequest as error:
            headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
            response = JSONResponse({"error": error.why}, error.status, headers)
        except ClientDisconnect:
            response = Response(None, 400)  # to nobody
        self._metrics.requests.labels(response.status_code).inc()
        return response

    async def _respond(self, request: Any, json_response: Any, plain_response: Any) -> Any:
        path, method = request.url.path, request.method
        path = path[len(self._place) :] if path.startswith(self._place) else ""
        methods = {"search": "POST", "info": "GET", "metrics": "GET", "health": "GET"}
        if path not in methods:
            raise BadRequest(404, "there are search, info, metrics and health")
        if path == "health" and method in ("GET", "HEAD"):
            state = await self.health()
            return json_response(state, 200 if state["status"] == "ok" else 503)
        self._check_token(request.headers.get("authorization", ""))
        if method != methods[path]:
            raise BadRequest(405, f"use {methods[path]}")
        if path == "info":
            return json_response(await self.describe())
        if path == "metrics":
            return plain_response(self._metrics.text(), 200, media_type="text/plain; version=0.0.4")
        return await self._searched(request, plain_response)

    def _check_token(self, header: str) -> None:
        if self._token is None:
            return
        kind, _, given = header.partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "surrogateescape")).digest()
        # Of digests, so that neither the time nor the length of the token shows.
        if not hmac.compare_digest(digest, self._token) or kind.lower() != "bearer":
            raise BadRequest(401, "a token is needed: Authorization: Bearer ...")

    async def _body(self, request: Any) -> bytes:
        most = self._limits.request_bytes
        length = request.headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit():
            raise BadRequest(400, "Content-Length is no number")
        parts, size = [], 0
        if len(length) > 18 or int(length) > most:
            raise BadRequest(413, f"a body of {length[:20]} bytes; at most {most}")
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise BadRequest(413, f"a body of more than {most} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _searched(self, request: Any, response: Any) -> Any:
        its = self._now()
        kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
        if kind not in ("application/json", "application/x-npy"):
            raise BadRequest(415, "use application/json or application/x-npy")
        accepted = request.headers.get("accept", "*/*")
        body = await self._body(request)
        given = parameters_of(dict(request.query_params))
        if kind == "application/json":
            queries, more = json_body(body, its.dtype)
            given = {**given, **more}
        else:
            queries = npy_body(body, its.dtype)
        served = await self.answer(ask_of(queries, given, its.dim, its.graph, self._limits))
        headers = {"Kith-Version": served.version, "Kith-Partial": "1" if served.partial else "0"}
        if "application/x-npz" in accepted:
            arrays = {"distances": served.distances, "indices": served.indices}
            arrays["missing_shards"] = np.array(served.missing_shards, np.int64)
            return response(npz_body(arrays), 200, headers, "application/x-npz")
        far = served.distances.astype(np.float64).tolist()
        table = {
            "version": served.version,
            "partial": served.partial,
            "missing_shards": list(served.missing_shards),
            "certified": served.certified,
            "recall": served.recall,
            # JSON has no infinity.
            "distances": [[None if value == np.inf else value for value in row] for row in far],
            "indices": served.indices.tolist(),
        }
        return response(json.dumps(table, allow_nan=False), 200, headers, "application/json")
