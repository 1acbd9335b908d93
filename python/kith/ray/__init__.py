"""Kith on a Ray cluster: neighbours of more queries than one machine is asked, and shards that are served.

``pip install 'ray[data,serve]' pyarrow``; docs/ray.md. Ray itself is imported by the first call.
"""

from ._answers import Answer, RunStatistics
from ._batch import all_knn, build, knn
from ._requests import Limits
from ._require import WorkLost
from ._router import Served
from ._serving import Service, deploy

__all__ = [
    "Answer",
    "Limits",
    "RunStatistics",
    "Served",
    "Service",
    "WorkLost",
    "all_knn",
    "build",
    "deploy",
    "knn",
]
