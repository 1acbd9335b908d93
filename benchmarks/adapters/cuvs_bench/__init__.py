"""Kith as a backend of cuvs-bench, outside of its tree: importing kith_backend registers it."""
