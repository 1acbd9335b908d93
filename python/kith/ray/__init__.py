"""Kith on a Ray cluster: neighbours of more queries than one machine is asked, and shards that are served.

``pip install 'kith[ray]'``; docs/ray.md. Ray itself is imported by the first call.
"""

from ._answers import Answer, RunStatistics
from ._batch import all_knn, build, knn
from ._require import WorkLost

__all__ = ["Answer", "RunStatistics", "WorkLost", "all_knn", "build", "knn"]
