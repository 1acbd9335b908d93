"""The third scene of `make demo`: the same detail in another picture, by the graph, checked, drawn."""
