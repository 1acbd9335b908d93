"""What the disk gives: one reader and one writer of large blocks past the page cache; files that the cache forgets."""

import mmap
import os
import time
from pathlib import Path

BLOCK = 4 << 20


def forget(paths):
    """The page cache gives these files up."""
    for path in paths:
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_rate(paths):
    """Bytes a second of one reader of these files, 4 MiB at a time."""
    buffer = mmap.mmap(-1, BLOCK)
    total, start = 0, time.monotonic()
    for path in paths:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
        while (count := os.readv(file, [buffer])) > 0:
            total += count
        os.close(file)
    return total / (time.monotonic() - start)


def write_rate(folder, total=512 << 20):
    """Bytes a second of one writer of a new file there, 4 MiB at a time, until they are on the disk."""
    buffer = mmap.mmap(-1, BLOCK)
    buffer.write(os.urandom(BLOCK))
    path = Path(folder) / "rate"
    start = time.monotonic()
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT)
    try:
        for _ in range(total // BLOCK):
            os.writev(file, [buffer])
        os.fsync(file)
        return total // BLOCK * BLOCK / (time.monotonic() - start)
    finally:
        os.close(file)
        path.unlink()
