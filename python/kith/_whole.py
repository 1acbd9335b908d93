"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["whole_file"]


@contextmanager
def whole_file(path: str) -> Iterator[str]:
    """Another name beside ``path`` to write to; at the end the file takes its place, after an error it goes."""
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
