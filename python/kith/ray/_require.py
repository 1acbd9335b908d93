"""Ray, which is imported when it is needed, and what its failures become."""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from .._errors import Error

__all__ = ["WorkLost", "fail", "require", "require_serve"]


class WorkLost(Error, RuntimeError):
    """A task or an actor was lost more often than it is started again. What is finished stays in the work folder."""


WorkLost.__module__ = "kith.ray"

_REMEDY = "run: pip install 'ray[data,serve]' pyarrow"


def require() -> Any:
    """The package ray, connected to a cluster: the one there is, or one of this machine."""
    try:
        import ray
    except ImportError:
        raise ImportError(f"kith.ray needs Ray, which '{sys.executable}' does not have; {_REMEDY}") from None
    if not ray.is_initialized():
        try:
            ray.init(address="auto")
        except ConnectionError:
            _start_here(ray)
    return ray


def _start_here(ray: Any) -> None:
    """A cluster for this process alone, nothing of which listens beyond the loopback.

    Ray knows that only of systems where it makes no clusters of several machines; this is how it is told so.
    """
    from ray._private import ray_constants

    os.environ[ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR] = "0"  # for the processes it starts
    ray_constants.ENABLE_RAY_CLUSTER = False
    ray.init(address="local", include_dashboard=False)


def require_serve() -> Any:
    """The module ray.serve."""
    require()
    try:
        from ray import serve
    except ImportError as error:
        raise ImportError(f"kith.ray.deploy needs Ray Serve ({error}); {_REMEDY}") from None
    return serve


def fail(error: BaseException, what: str, folder: str) -> NoReturn:
    """Raises what a task has raised as its own; a task that was lost as :class:`WorkLost`.

    Args:
        what: the task, for messages.
        folder: where what is finished lies.
    """
    from ray.exceptions import RayError, RayTaskError

    if isinstance(error, RayTaskError):
        cause = error.cause
        if isinstance(cause, Error | TypeError | ValueError | ImportError | OSError):
            raise cause from None
        raise error
    if isinstance(error, RayError):
        reason = " ".join(str(error).split())[:500]
        raise WorkLost(
            f"{what} was lost ({type(error).__name__}: {reason}), and not started again: its retries are used up; "
            f"the same call goes on from what is finished in '{folder}'"
        ) from error
    raise error
