"""Shards behind HTTP and a Python handle, by Ray Serve."""

from __future__ import annotations

import hashlib
import os
import re
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._arrays import promote_queries, to_rows
from .._errors import InvalidArgument
from .._index import _integer, flag, name_of, number
from .._sharded import Sharded
from .._tables import as_array
from ._call import digest_of
from ._requests import Limits
from ._require import require_serve
from ._router import Router, Served, ShardReplica
from ._tasks import Machine

__all__ = ["Service", "deploy"]


@dataclass(frozen=True)
class Service:
    """Shards that are served, as :func:`deploy` has made them; :meth:`search` asks them from Python."""

    name: str
    url: str  #: of HTTP requests: ``url + "/search"``, ``/info``, ``/health``, ``/metrics``
    version: str
    dtype: str
    _handle: Any = field(repr=False)
    _options: dict[str, Any] = field(repr=False)

    def search(
        self, Q: Any, k: int = 10, *, deadline: float | None = None, partial: bool = True, **options: Any
    ) -> Served:
        """The k nearest rows of all shards for each query; those that answer in time.

        Args:
            Q: queries ``[q, d]`` or ``[d]``, of the rows' element type or one that it holds exactly.
            k: neighbours a query, within the limits of the service.
            deadline: seconds; None: the service's.
            partial: whether an answer will do that misses shards. It says so.
            **options: of graphs: ``recall``, ``list_size``, ``beam_width``, ``rerank``.

        Raises:
            InvalidArgument: beyond a limit, or what :meth:`kith.Sharded.search` refuses.
            TimeoutError: shards were missing, and ``partial`` is False.
        """
        given = {"k": _integer(k, "k"), "partial": flag(partial, "partial"), **options}
        if deadline is not None:
            given["deadline"] = number(deadline, "deadline")
        queries = np.asarray(as_array(Q, "queries", self.dtype))
        if queries.dtype.name != self.dtype:
            promote_queries(to_rows(queries, "queries", True, self.dtype), self.dtype)  # refuses what would be rounded
        found: Served = self._handle.search.remote(queries, given).result()
        return found

    def describe(self) -> dict[str, Any]:
        """What is served now: version, rows, dimension, element type, metric, index, shards."""
        found: dict[str, Any] = self._handle.describe.remote().result()
        return found

    def health(self) -> dict[str, Any]:
        """``status``, ``"ok"`` or ``"degraded"``, and the shards of which no replica answers."""
        found: dict[str, Any] = self._handle.health.remote().result()
        return found

    def swap(self, shards: Any) -> Service:
        """Serves other shards from now on, without a pause: see :func:`deploy`."""
        return deploy(shards, **self._options)

    def delete(self) -> None:
        """Ends the service, and lets go of its shards. Serve itself goes on."""
        serve = require_serve()
        serve.delete(self.name)
        for name in _of_versions(serve, self.name):
            serve.delete(name)


def _of_versions(serve: Any, name: str) -> dict[str, int]:
    """Applications of shards of a service, and their versions' numbers."""
    pattern = re.compile(re.escape(name) + r"-v(\d+)-shard-\d+")
    found = {}
    for application in serve.status().applications:
        if match := pattern.fullmatch(application):
            found[application] = int(match[1])
    return found


def _check_host(serve: Any, host: str, port: int) -> None:
    """Serve has one proxy: where it runs already it listens where it was told to, whatever is asked now."""
    from ray.serve.context import _get_global_client

    its = getattr(_get_global_client(), "http_config", None)
    if its is not None and (its.host, its.port) != (host, port):
        raise InvalidArgument(
            f"host {host!r}, port {port}: Ray Serve runs already and listens at {its.host}:{its.port}; name that, or call "
            "ray.serve.shutdown() first"
        )


def deploy(
    shards: Any,
    *,
    name: str = "kith",
    replicas: int = 1,
    routers: int = 1,
    deadline: float = 1.0,
    hedge_after: float | None = None,
    limits: Limits | None = None,
    token: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    every_node: bool = False,
    num_cpus: float = 1,
    num_gpus: float = 0,
    device: str | None = None,
    memory_limit: int = 0,
    device_memory_limit: int = 0,
) -> Service:
    """Serves a folder of shards: a deployment of each, in replicas, and a router that asks all of them.

    Called again with the name of a service that runs, it swaps versions: replicas of the new shards are started beside
    the old ones, the router goes over when all of them are there, and the old ones go when their last requests are
    answered. No answer mixes versions, and none is refused meanwhile.

    Args:
        shards: a folder, or :class:`kith.Sharded`, at the same path on every machine.
        name: of the service, and of the path of its URLs.
        replicas: of each shard. routers: replicas of the router.
        deadline: seconds that a request waits for shards, where it names no other.
        hedge_after: seconds after which a shard that has not answered is asked once more; None: never.
        limits: :class:`Limits` of a request.
        token: that HTTP requests bear (``Authorization: Bearer ...``), but for ``/health``; None: none. Its SHA-256 is
            what the cluster keeps.
        host, port: where HTTP listens: the loopback unless told otherwise.
        every_node: whether each machine listens; else the head of the cluster alone.
        num_cpus, num_gpus, device, memory_limit, device_memory_limit: of a replica; as for :func:`kith.ray.knn`.

    Raises:
        InvalidArgument: a number outside its limits, another host or port than Serve listens at.
        IoError: no folder of shards, or a damaged one.
        ImportError: Ray Serve is not installed (``pip install 'ray[data,serve]' pyarrow``).
    """
    if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(name)) is None:
        raise InvalidArgument(f"name is {name!r}; use letters, digits, - and _")
    for what, count in [("replicas", replicas), ("routers", routers)]:
        if _integer(count, what) < 1:
            raise InvalidArgument(f"{what} is {count}; use 1 or more")
    if not 1 <= _integer(port, "port") <= 65535:
        raise InvalidArgument(f"port is {port}; use 1 to 65535")
    its_limits = Limits() if limits is None else limits
    deadline = number(deadline, "deadline")
    hedge_after = None if hedge_after is None else number(hedge_after, "hedge_after")
    every_node = flag(every_node, "every_node")
    if not 0 < deadline <= its_limits.deadline:
        raise InvalidArgument(f"deadline is {deadline:g}; use above 0, to {its_limits.deadline:g} seconds")
    if hedge_after is not None and not 0 < hedge_after < deadline:
        raise InvalidArgument(f"hedge_after is {hedge_after:g}; use above 0 and below the deadline, {deadline:g}")
    if token is not None and not isinstance(token, str):
        raise TypeError(f"token: a {type(token).__name__} is not text")
    if token is not None and len(token) < 16:
        raise InvalidArgument(f"a token of {len(token)} characters; use 16 or more")
    place = ("cuda" if num_gpus else "cpu") if device is None else name_of(device, "device", "'cpu' or 'cuda'")
    if (place == "cuda") != (num_gpus > 0):
        raise InvalidArgument(
            f"device {place!r} and num_gpus {num_gpus:g}: a search on GPUs takes one or more, any other none"
        )
    machine = Machine(
        max(1, int(num_cpus)),
        _integer(memory_limit, "memory_limit"),
        place,
        _integer(device_memory_limit, "device_memory_limit"),
    )
    saved = shards if isinstance(shards, Sharded) else Sharded.open(shards)
    folder = os.path.abspath(saved.folder)
    options = {
        "name": name, "replicas": replicas, "routers": routers, "deadline": deadline, "hedge_after": hedge_after,
        "limits": its_limits, "token": token, "host": host, "port": port, "every_node": every_node, "num_cpus": num_cpus,
        "num_gpus": num_gpus, "device": device, "memory_limit": memory_limit, "device_memory_limit": device_memory_limit,
    }  # fmt: skip

    loopback = host == "localhost" or host == "::1" or host.startswith("127.")
    serve = require_serve()
    serve.start("EveryNode" if every_node else "HeadOnly", {"host": host, "port": port})
    _check_host(serve, host, port)
    before = _of_versions(serve, name)
    latest = max(before.values(), default=0) + 1
    version = f"{latest}-{digest_of(folder)[:12]}"
    replica = serve.deployment(
        ShardReplica,
        num_replicas=replicas,
        ray_actor_options={"num_cpus": num_cpus, "num_gpus": num_gpus},
        max_ongoing_requests=4,
        health_check_period_s=2,
        health_check_timeout_s=10,
    )
    applications = [f"{name}-v{latest}-shard-{part}" for part in range(saved.shards)]
    try:
        serve.run_many(
            [
                serve.RunTarget(replica.bind(folder, part, machine, loopback), name=application, route_prefix=None)
                for part, application in enumerate(applications)
            ]
        )
    except BaseException:
        for application in _of_versions(serve, name):
            if application not in before:
                serve.delete(application)
        raise
    config = {
        "version": version,
        "shards": applications,
        "rows": saved.rows,
        "dim": saved.dim,
        "dtype": saved.dtype,
        "metric": saved.metric,
        "type": saved.type,
    }
    router = serve.deployment(
        Router,
        num_replicas=routers,
        ray_actor_options={"num_cpus": 0},
        max_ongoing_requests=its_limits.ongoing,
        max_queued_requests=its_limits.ongoing,
        user_config=config,
        health_check_period_s=2,
    )
    digest = None if token is None else hashlib.sha256(token.encode()).digest()
    # A version is all that changes between calls with the same options: Serve hands it to the routers that run.
    handle = serve.run(
        router.bind(name, deadline, hedge_after, its_limits, digest, loopback), name=name, route_prefix=f"/{name}"
    )
    if before:
        time.sleep(its_limits.deadline if deadline is None else deadline)  # the last requests by the old shards
        for application in before:
            serve.delete(application)
    return Service(name, f"http://{host}:{port}/{name}", version, saved.dtype, handle, options)
