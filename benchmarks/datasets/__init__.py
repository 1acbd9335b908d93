"""Benchmark datasets: made from Debian packages or a seed, cached outside the repository, checksummed."""

from .cache import cache_folder
from .registry import DATASETS, ensure

__all__ = ["DATASETS", "cache_folder", "ensure"]
