"""Kith's trees beside nanoflann, SciPy and pykdtree; and beside brute force: where a tree begins to pay."""
