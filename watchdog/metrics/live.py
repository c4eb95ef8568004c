"""What is read from the state at the moment of a scrape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Open incidents by severity; by check: firing (1 or 0), and seconds blind since our start; waiting by receiver."""

    open_incidents: Mapping[str, int] = field(default_factory=dict)
    firing: Mapping[str, int] = field(default_factory=dict)
    blind_s: Mapping[str, float] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    storage_ok: bool = True


class LiveCollector(Collector):
    """Gives the newest `reading` to whoever scrapes."""

    def __init__(self, prefix: str) -> None:
        """Names begin with `prefix`."""
        self._prefix = prefix
        self.reading = Reading()

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        """One family for each part of the reading."""
        now = self.reading
        yield self._gauge("incidents_open", "Open incidents.", "severity", now.open_incidents)
        yield self._gauge("check_firing", "1 while an incident of this check is open.", "check", now.firing)
        yield self._gauge("outbox_depth", "Messages that wait for a receiver.", "receiver", now.waiting)
        words = "Seconds since our start in which a check could not tell, or we saw nothing at all."
        blind = CounterMetricFamily(f"{self._prefix}_blind_seconds", words, labels=["check"])
        for check, seconds in now.blind_s.items():
            blind.add_metric([check], seconds)
        yield blind
        words = "1 while the state is on the disk, 0 while it is in memory only."
        yield GaugeMetricFamily(f"{self._prefix}_storage_ok", words, value=float(now.storage_ok))

    def _gauge(self, name: str, words: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"{self._prefix}_{name}", words, labels=[label])
        for value, number in values.items():
            family.add_metric([value], number)
        return family
