"""Measurements behind docs/benchmarks.md; run them with `make bench`."""
