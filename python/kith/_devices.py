"""Where Kith can run."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from . import _kith
from ._errors import InvalidArgument
from ._progress import Progress, reporting

__all__ = ["Calibration", "DeviceInfo", "calibrate", "calibrations", "devices"]


@dataclass(frozen=True)
class DeviceInfo:
    """One device."""

    name: str  #: what the argument ``device`` takes: ``"cpu"``, ``"cuda:0"``
    description: str  #: model name
    memory_bytes: int  #: total memory
    cores: int  #: hardware threads this process may use, or multiprocessors
    instruction_sets: str  #: kernel paths usable here, best first
    usable: bool
    note: str  #: why it is not usable


def devices() -> list[DeviceInfo]:
    """The CPU first, then every CUDA device the driver reports."""
    return [DeviceInfo(**entry) for entry in _kith.devices()]


@dataclass(frozen=True)
class Calibration:
    """A processor or GPU and what its work takes; see :func:`calibrate`."""

    device: str  #: ``"cpu"`` or ``"cuda"``
    model: str
    instruction_set: str  #: that was measured; of a GPU the compute capability, ``"sm_90"``
    cores: int  #: hardware threads the process could use, or multiprocessors
    threads: int  #: that measured; of a GPU 0
    cache_bytes: int  #: of the last level; 0: unknown, as of a GPU
    bandwidth: float  #: bytes a second that these threads read from memory; of a GPU 0
    date: str  #: ISO 8601, UTC
    nanoseconds: dict[str, float]  #: of pieces of work, all threads together, or the whole of a GPU


def calibrate(
    *,
    threads: int = 0,
    file: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    progress: Progress = False,
) -> Calibration:
    """Measures what work takes on this processor or GPU and keeps it, so that automatic choices suit the machine.

    Which filter brute force uses, and which index ``"auto"`` takes, then go by its figures in place of those built in for
    each instruction set, and for GPUs. Exact answers stay the same bits. Where a recall below 1 is asked of ``"auto"``, it
    may change whether a graph or an exact search answers. Takes some ten seconds on two cores, and twice the last cache's
    size of memory, from 256 MiB to 1 GiB; on a GPU some seconds, 300 MiB of memory and 2 GiB of its own. Other work on the
    machine blurs the figures.

    Args:
        threads: to measure with; 0: one per core this process may use. Choices for so many threads go by it; those for
            another number by what most threads measured.
        file: where to keep it, beside the calibrations there. ``None``: the file that choices go by,
            ``~/.cache/kith/calibration.json`` (under ``$XDG_CACHE_HOME``) or the one that the environment variable
            ``KITH_CALIBRATION`` names.
        device: ``"cpu"``, or the GPU to measure: ``"cuda"``, ``"cuda:1"``.
        progress: as for :func:`kith.knn`.

    Returns:
        What was measured.

    Raises:
        ValueError: threads out of range, several GPUs, or no file to keep it in (``KITH_CALIBRATION=off``).
        DeviceError: the GPU is not there, or cannot be used.
        OSError: the file cannot be written, or holds something else.
    """
    path = None if file is None else os.fsdecode(file)
    if path == "":
        raise InvalidArgument("file is empty; name one, or leave it out")
    with reporting(progress) as report:
        return Calibration(**json.loads(_kith.calibrate(threads, path, device, report)))


def calibrations() -> list[Calibration]:
    """Those that automatic choices of this process go by, of this machine and others.

    Raises:
        OSError: ``KITH_CALIBRATION`` names a file that cannot be read. One in the cache's folder is left aside.
    """
    return [Calibration(**json.loads(text)) for text in _kith.calibrations()]
