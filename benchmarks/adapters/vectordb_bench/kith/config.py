"""Where Kith keeps its files, and how it builds and searches."""

from pydantic import BaseModel

from ..api import DBCaseConfig, DBConfig, MetricType

METRICS = {
    MetricType.L2: "sqeuclidean",
    MetricType.COSINE: "cosine",
    MetricType.IP: "inner_product",
    MetricType.DP: "inner_product",
}


class KithConfig(DBConfig):
    path: str = "/tmp/kith-vectordb-bench"  # a folder on this machine

    def to_dict(self) -> dict:
        return {"path": self.path}


class KithIndexConfig(BaseModel, DBCaseConfig):
    """A graph, searched to ``recall`` or by ``list_size``; ``exact`` for brute force."""

    metric_type: MetricType | None = None
    exact: bool = False
    max_degree: int = 64
    build_list_size: int = 128
    recall: float | None = None
    list_size: int | None = None

    def index_param(self) -> dict:
        metric = METRICS[self.metric_type or MetricType.COSINE]
        shape = {} if self.exact else {"max_degree": self.max_degree, "build_list_size": self.build_list_size}
        return {"exact": self.exact, "metric": metric, **shape}

    def search_param(self) -> dict:
        if self.exact:
            return {}
        return {"list_size": self.list_size} if self.list_size else {"recall": self.recall or 0.95}
