"""NVIDIA GPUs for the package kith, which uses this module by itself. There is nothing to call here."""

from ._version import __version__ as __version__
