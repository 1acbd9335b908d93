"""The interface of a peer."""

import abc


class BasePeer(abc.ABC):
    """A library that finds nearest neighbours by looking at every row."""

    name = ""
    version = ""
    metrics = ()  # Kith's names of those it can do
    note = ""  # what it computes, in a few words

    def check_metric(self, metric):
        """@raises ValueError"""
        if metric not in self.metrics:
            raise ValueError(f"{self.name} cannot do {metric}; it can: {', '.join(self.metrics)}")

    @abc.abstractmethod
    def build(self, base, metric, threads):
        """Takes the rows [n, d] as they are in the file; conversion to what it needs is part of this."""

    @abc.abstractmethod
    def prepare(self, queries):
        """The queries in the type `search` wants; not part of the measured time."""

    @abc.abstractmethod
    def search(self, queries, k):
        """(indices int64 [q, k], distances [q, k]) with Kith's meaning of the metric, ascending."""
