"""The folder beside an answer where tasks leave what they have done, and which outlives a driver that is killed."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from types import TracebackType
from typing import Any

from .._errors import IoError
from ._units import lasting

__all__ = ["Work"]

_FORMAT, _VERSION = "kith ray work", 1
_SHARD = re.compile(r"shard-\d+")
_COPY = re.compile(r"(base|queries)(-\d+-[0-9a-f]+)?\.npy")


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Work:
    """``<answer>.kith-ray-work``: a manifest of the call, and a file or folder for each finished task.

    Names in it come from numbers of tasks alone, never from what a file says. While a driver is at work it holds a lock.

    Raises:
        IoError: the folder is another call's, damaged, or another driver's; it cannot be made.
    """

    def __init__(self, answer: str | os.PathLike[str]) -> None:
        self.answer = os.path.abspath(os.fspath(answer))
        self.path = self.answer.rstrip("/") + ".kith-ray-work"
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            raise IoError(f"cannot write '{self.answer}': there is no folder '{parent}'; make it first")
        try:
            os.makedirs(self.path, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError as error:
            raise IoError(f"cannot make '{self.path}': {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise IoError(f"'{self.path}' is at work in another process; wait for it, or name another answer") from None
        except OSError:
            pass  # a file system without locks
        self._before = self._read()

    def _read(self) -> dict[str, Any] | None:
        """The call of a run before."""
        file = self.file("manifest.json")
        try:
            with open(file, "rb") as manifest:
                found = json.loads(manifest.read(1 << 24))
            if found["format"] != _FORMAT or type(found["call"]) is not dict:
                raise ValueError("it is of another format")
            if found["version"] != _VERSION:
                raise ValueError(f"it is of version {_shown(found['version'])}, this Kith knows {_VERSION}")
            call: dict[str, Any] = found["call"]
            return call
        except FileNotFoundError:
            # A run that was killed before it wrote one may have copied rows already.
            if any(not name.endswith(".tmp") and not _COPY.fullmatch(name) for name in os.listdir(self.path)):
                self.close()
                raise IoError(
                    f"'{self.path}' has no manifest, and is not empty: it is no work of kith.ray; move it away"
                ) from None
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            self.close()
            raise IoError(f"'{file}' is damaged: {error}; remove the folder, and begin again") from None

    def before(self, key: str, least: int, most: int) -> int | None:
        """A number that a run before has chosen; None where there was none."""
        value = None if self._before is None else self._before.get(key)
        return value if type(value) is int and least <= value <= most else None

    def begin(self, call: dict[str, Any]) -> None:
        """Notes what is to be done, all that the answer depends on; refuses another call's folder."""
        call = json.loads(json.dumps(call))
        if self._before is None:
            with lasting(self.file("manifest.json")) as temporary, open(temporary, "w") as file:
                json.dump({"format": _FORMAT, "version": _VERSION, "call": call}, file, indent=1)
            return
        for key in {**call, **self._before}:
            then, now = self._before.get(key), call.get(key)
            if then != now:
                self.close()
                raise IoError(
                    f"'{self.path}' holds the work of another call, whose {key} is {_shown(then)}; this one's is "
                    f"{_shown(now)}. Finish that one, remove the folder, or name another answer"
                )

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def remove(self) -> None:
        """The answer is in place."""
        shutil.rmtree(self.path, ignore_errors=True)

    def give_up(self) -> None:
        """After a failure: the folder goes, unless it is another call's, or there is something to go on from."""
        if self._lock < 0 or not os.path.isdir(self.path):
            return
        if not any(name.endswith((".unit", "tiles")) or _SHARD.fullmatch(name) for name in os.listdir(self.path)):
            self.remove()

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Work:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is not None:
            self.give_up()
        self.close()
