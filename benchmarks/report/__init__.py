"""docs/benchmarks.md is made from benchmarks/results; no figure in it is typed by hand."""
