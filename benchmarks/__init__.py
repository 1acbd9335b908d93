"""Datasets, peers and reports of Kith's benchmarks; see docs/benchmarks.md."""
