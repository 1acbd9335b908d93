"""Kith in the benchmarks that people know; docs/adapters.md. A folder for each, copied into its checkout by install.py."""
