"""Requests that come over a network: parsed, and held to limits. Nothing of them is executed or unpickled."""

from __future__ import annotations

import io
import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._errors import InvalidArgument

__all__ = ["Ask", "BadRequest", "Limits", "ask_of", "json_body", "npy_body", "npz_body", "parameters_of"]

_MOST_HEADER = 1024  # of an npy
_WHOLE = ("k", "list_size", "beam_width", "rerank")
_REAL = ("recall", "deadline")
_GRAPH = ("recall", "list_size", "beam_width", "rerank")


@dataclass(frozen=True)
class Limits:
    """What a request may ask for; more is refused with its own status.

    Raises:
        InvalidArgument: a limit below 1, or a deadline of 0 or less.
    """

    request_bytes: int = 16 << 20  #: of a body
    queries: int = 4096  #: rows of a request
    k: int = 1000
    neighbors: int = 1_000_000  #: queries times k
    list_size: int = 10_000  #: of a graph's walk; also of ``rerank``
    deadline: float = 30.0  #: seconds that a request may wait for shards
    ongoing: int = 64  #: requests that a router works on at once; as many wait, and others are refused (503)

    def __post_init__(self) -> None:
        for name in ("request_bytes", "queries", "k", "neighbors", "list_size", "ongoing"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InvalidArgument(f"limits.{name} is {value!r}; use a whole number, 1 or more")
        if not 0 < float(self.deadline) < float("inf"):
            raise InvalidArgument(f"limits.deadline is {self.deadline!r}; use seconds above 0")


class BadRequest(Exception):
    """A request that is refused: an HTTP status, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(status, why)
        self.status, self.why = status, why


@dataclass(frozen=True)
class Ask:
    """A request that is within its limits."""

    queries: NDArray[Any]
    k: int
    options: dict[str, Any] = field(default_factory=dict)
    deadline: float | None = None
    partial: bool = True  #: an answer that misses shards will do


def ask_of(queries: NDArray[Any], given: dict[str, Any], dim: int, graph: bool, limits: Limits) -> Ask:
    """Checks numbers and shapes.

    Args:
        given: ``k`` and the others by name, as JSON has them.
        dim: of the rows. graph: whether the options of graphs apply.

    Raises:
        BadRequest: status 400, or 413 for too many queries.
    """
    known = {"k", "deadline", "partial", *(_GRAPH if graph else ())}
    for name, value in given.items():
        if name not in known:
            raise BadRequest(400, f"{str(name)[:40]!r} is no parameter here; use {', '.join(sorted(known))}")
        right = (
            type(value) is int
            if name in _WHOLE
            else type(value) in (int, float)
            if name in _REAL
            else type(value) is bool
        )
        if not right:
            kind = "a whole number" if name in _WHOLE else "a number" if name in _REAL else "true or false"
            raise BadRequest(400, f"{name} is a {type(value).__name__}; use {kind}")
    if queries.ndim == 1:
        queries = queries[np.newaxis]
    if queries.ndim != 2 or queries.shape[1] != dim:
        raise BadRequest(400, f"queries of shape {list(queries.shape)[:8]}; use [q, {dim}]")
    if len(queries) > limits.queries:
        raise BadRequest(413, f"{len(queries)} queries; at most {limits.queries} a request")
    k = given.get("k", 10)
    for name, value, most in [
        ("k", k, limits.k),
        ("list_size", given.get("list_size", 1), limits.list_size),
        ("rerank", given.get("rerank", 1), limits.list_size),
        ("beam_width", given.get("beam_width", 1), 64),
    ]:
        if not 1 <= value <= most:
            raise BadRequest(400, f"{name} is {str(value)[:20]}; use 1 to {most}")
    if len(queries) * k > limits.neighbors:
        raise BadRequest(413, f"{len(queries)} queries with k = {k}; at most {limits.neighbors} neighbours a request")
    if not 0 < given.get("recall", 1) <= 1:
        raise BadRequest(400, "recall: use above 0, to 1")
    deadline = given.get("deadline")
    if deadline is not None and not 0 < deadline <= limits.deadline:
        raise BadRequest(400, f"deadline: use above 0, to {limits.deadline:g} seconds")
    options = {name: given[name] for name in _GRAPH if name in given}
    return Ask(queries, k, options, deadline, bool(given.get("partial", True)))


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no number of JSON")


def json_body(body: bytes, dtype: np.dtype[Any]) -> tuple[NDArray[Any], dict[str, Any]]:
    """``{"queries": [[...], ...], "k": 10, ...}``: the queries in the rows' element type, and the rest.

    Numbers are rounded to a floating type, and must be values of an integral one.

    Raises:
        BadRequest: status 400.
    """
    try:
        given = json.loads(body, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise BadRequest(400, f"the body is no JSON ({str(error)[:80]})") from None
    if type(given) is not dict or "queries" not in given:
        raise BadRequest(400, 'the body is no object with "queries"')
    listed = given.pop("queries")
    if type(listed) is not list:
        raise BadRequest(400, "queries are no list of lists of numbers")
    try:
        queries = np.array(listed)
    except (ValueError, OverflowError, RecursionError):
        raise BadRequest(400, "queries are no list of lists of numbers, of one length each") from None
    if queries.size == 0 and queries.ndim <= 2:
        queries = queries.astype(np.float64)
    if queries.dtype.kind not in "iuf" or not np.isfinite(queries).all():
        raise BadRequest(400, "queries hold what is no finite number")
    with np.errstate(all="ignore"):
        cast = queries.astype(dtype)
        exact = dtype.kind not in "iu" or np.array_equal(cast.astype(np.float64), queries.astype(np.float64))
    if not exact or not np.isfinite(cast.astype(np.float64)).all():
        raise BadRequest(400, f"queries hold values that {dtype.name} does not")
    return cast, given


def npy_body(body: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """An npy of the rows' element type, or of one that it holds exactly; no other is read, and no object at all.

    Raises:
        BadRequest: status 400.
    """
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
        shape, fortran, found = read(stream, max_header_size=_MOST_HEADER)
    except Exception as error:  # of damaged headers NumPy's reader raises what its parsers raise
        raise BadRequest(400, f"the body is no npy of version 1 or 2 ({type(error).__name__})") from None
    if dtype.name == "bfloat16" and found == np.dtype("V2"):
        found = dtype
    if found.kind not in "iufV" or found.hasobject or found.fields is not None or found.subdtype is not None:
        raise BadRequest(400, f"an npy of {str(found)[:40]}; use {dtype.name}")
    if found != dtype and not (found.kind in "iuf" and np.can_cast(found, dtype, "safe")):
        raise BadRequest(400, f"an npy of {found.name}; use {dtype.name}")
    if not 1 <= len(shape) <= 2 or any(type(n) is not int or n < 0 for n in shape):
        raise BadRequest(400, "an npy that is not [q, d]")
    count = 1
    for n in shape:
        count *= n
    start = stream.tell()
    if len(body) - start != count * found.itemsize:
        raise BadRequest(400, f"an npy of {count} values of {found.itemsize} bytes with {len(body) - start} bytes")
    values = np.frombuffer(body, found, count, start).reshape(shape, order="F" if fortran else "C")
    return np.ascontiguousarray(values, dtype)


def parameters_of(query: dict[str, str]) -> dict[str, Any]:
    """Parameters of a URL: numbers, true and false.

    Raises:
        BadRequest: status 400.
    """
    given: dict[str, Any] = {}
    for name, text in query.items():
        if text in ("true", "false"):
            given[name] = text == "true"
        elif re.fullmatch(r"-?[0-9]{1,18}", text):
            given[name] = int(text)
        elif re.fullmatch(r"-?[0-9]{1,18}\.[0-9]{1,18}(e-?[0-9]{1,2})?", text):
            given[name] = float(text)
        else:
            raise BadRequest(400, f"{name[:40]!r} is {text[:40]!r}; use a number, true or false")
    return given


def npz_body(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Arrays as an npz that is not compressed."""
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **arrays)
    return stream.getvalue()
