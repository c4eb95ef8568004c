"""What an engine's own metrics say: which engine, how busy, and whether its live counters move. No IO, no clock.

One row per engine in `table`; `metrics.read_metrics` turns a scrape into an `EngineSample`, and `movement.compare` two
of them into busy, frozen, lost, reset, partial or unknown.
"""
