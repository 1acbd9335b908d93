"""The exceptions of Kith. Each message says the value, the limit and the remedy."""

from __future__ import annotations

__all__ = ["Cancelled", "DeviceError", "Error", "InvalidArgument", "IoError", "OutOfMemory"]


class Error(Exception):
    """Base of every exception of Kith."""


class InvalidArgument(Error, ValueError):
    """An argument is outside what the function accepts (k = 0, dimensions that differ, ...)."""


class OutOfMemory(Error, MemoryError):
    """The memory needed is above ``memory_limit`` or above what the machine has."""


class DeviceError(Error, RuntimeError):
    """A device is missing, too old, or reported a failure."""


class IoError(Error, OSError):
    """A file is missing, unreadable, truncated, corrupt, of a foreign format, or cannot be written."""


class Cancelled(Error):
    """The call was asked to stop. No output was produced."""


# They belong to the package, wherever they are defined.
for _name in __all__:
    globals()[_name].__module__ = "kith"
