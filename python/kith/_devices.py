"""Where Kith can run."""

from __future__ import annotations

from dataclasses import dataclass

from . import _kith

__all__ = ["DeviceInfo", "devices"]


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
