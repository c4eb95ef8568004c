"""Counters and their exposition for Prometheus. Loaded only when `web:` is configured; decides and stores nothing.

Every series exists from the start (a counter that appears with its first failure hides that failure from `rate()`),
and every label has a bounded number of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from watchdog import kinds
from watchdog.config import Config
from watchdog.model import Delivery, Incident, Nature, Observation, OutcomeReason, Severity, TransitionKind, Verdict
from watchdog.reasons import HostReason, ServerReason

PREFIX = "inference_watchdog"
SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0)
MOST_PREPARED = 100
"""Beyond so many servers or hosts only the healthy series exist from the start: the rest would be most of a scrape."""
MOST_VALUES = 200
"""Different values of one label that grows with what is found; what comes later is counted as `other`."""
OTHER = "other"
GENERATION, KERNEL_LOG = kinds.GENERATION.name, kinds.KERNEL_LOG.name
UNFINISHED = "scrape_timeout"
"""The reason given when the scrape had to be answered before the probe ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMetrics:
    """What a scrape reads from the state.

    Open incidents by severity; by check: firing (1 or 0), and seconds blind since our start; waiting by receiver.
    """

    open_incidents: Mapping[str, int] = field(default_factory=dict)
    firing: Mapping[str, int] = field(default_factory=dict)
    blind_s: Mapping[str, float] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)
    storage_ok: bool = True


class StateCollector(Collector):
    """Gives the newest `state` to a scrape."""

    def __init__(self) -> None:
        self.state = StateMetrics()

    def collect(self) -> Iterable[GaugeMetricFamily | CounterMetricFamily]:
        state = self.state
        yield self._gauge("incidents_open", "Open incidents.", "severity", state.open_incidents)
        yield self._gauge("check_firing", "1 while an incident of this check is open.", "check", state.firing)
        yield self._gauge("outbox_depth", "Messages waiting for a receiver.", "receiver", state.waiting)
        words = "Seconds since our start in which nothing could be observed of a check."
        blind = CounterMetricFamily(f"{PREFIX}_blind_seconds", words, labels=["check"])
        for check, seconds in state.blind_s.items():
            blind.add_metric([check], seconds)
        yield blind
        words = "1 while the state is on disk, 0 while it is in memory only."
        yield GaugeMetricFamily(f"{PREFIX}_storage_ok", words, value=float(state.storage_ok))

    def _gauge(self, name: str, words: str, label: str, values: Mapping[str, int]) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"{PREFIX}_{name}", words, labels=[label])
        for value, number in values.items():
            family.add_metric([value], number)
        return family


@dataclass(slots=True)
class BoundedValues:
    """Lets `limit` different values of a label through, then only `other`."""

    limit: int = MOST_VALUES
    known: set[str] = field(default_factory=set)

    def __call__(self, value: str) -> str:
        if value in self.known:
            return value
        if len(self.known) >= self.limit:
            return OTHER
        self.known.add(value)
        return value


class Metrics:
    """Everything that is counted."""

    def __init__(self, config: Config, *, version: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it without types
        self._registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        self._state = StateCollector()
        self._registry.register(self._state)
        self._kinds: tuple[str, ...] = ()
        self._reason, self._kind = BoundedValues(), BoundedValues()
        build = Gauge(f"{PREFIX}_build_info", "Always 1; the version that runs.", ["version"], registry=self._registry)
        build.labels(version).set(1)
        self._probes = self._counter("probes", "Finished generation probes.", "server", "verdict", "reason")
        self._duration = self._histogram("probe_duration_seconds", "Whole reply of passing probes.")
        self._first_token = self._histogram("probe_first_token_seconds", "Time to the first token of passing probes.")
        self._speed = self._gauge("probe_tokens_per_second", "Decode rate of the last passing probe.", "server")
        self._scans = self._counter("scans", "Finished kernel log scans.", "host", "verdict", "reason")
        self._lines = self._counter("kernel_lines_read", "Kernel log lines read.", "host")
        self._findings = self._counter("kernel_findings", "Kernel log lines that a rule matched.", "host", "kind")
        self._last_run = self._gauge("last_run_timestamp_seconds", "When a check last ended.", "check")
        self._last_good = self._gauge("last_success_timestamp_seconds", "When a check last passed.", "check")
        self._incidents = self._counter("incidents", "Changes of incidents.", "severity", "change")
        self._deliveries = self._counter("deliveries", "Delivery attempts.", "receiver", "result")
        for severity in Severity:
            for change in TransitionKind:
                self._incidents.labels(severity.value, change.value)
        self._names: dict[str, set[str]] = {"server": set(), "host": set(), "receiver": set()}
        self.follow(config)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", words, labels, registry=self._registry)

    def _gauge(self, name: str, words: str, *labels: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", words, labels, registry=self._registry)

    def _histogram(self, name: str, words: str) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", words, ["server"], buckets=SECONDS, registry=self._registry)

    def follow(self, config: Config) -> None:
        """Prepare the series of everything in `config`, and remove those of what is no longer in it."""
        wanted = {
            "server": {server.name for server in config.servers},
            "host": {host.name for host in config.hosts},
            "receiver": {receiver.name for receiver in config.receivers},
        }
        for label, names in wanted.items():
            for gone in self._names[label] - names:
                self._forget(label, gone)
            prepare = {"server": self._prepare_server, "host": self._prepare_host, "receiver": self._prepare_receiver}
            for name in sorted(names - self._names[label]):
                prepare[label](name, fully=len(names) <= MOST_PREPARED)
        self._names = wanted

    def know_kinds(self, kinds: Iterable[str]) -> None:
        """Prepare the series of the kinds of kernel findings that the rules know."""
        self._kinds = tuple(sorted(set(kinds)))
        self._kind.known |= set(self._kinds)
        for name in self._names["host"] if len(self._names["host"]) <= MOST_PREPARED else ():
            for kind in self._kinds:
                self._findings.labels(name, kind)

    def _prepare_server(self, name: str, *, fully: bool) -> None:
        for reason in ServerReason if fully else (ServerReason.OK,):
            self._probes.labels(name, reason.row.verdict.value, reason.value)
        self._duration.labels(name)
        self._first_token.labels(name)

    def _prepare_host(self, name: str, *, fully: bool) -> None:
        self._lines.labels(name)
        self._scans.labels(name, Verdict.PASS.value, HostReason.OK.value)
        for reason in HostReason if fully else ():
            if reason != HostReason.OK:
                self._scans.labels(name, Verdict.FAIL.value, self._reason(reason.value))
        for kind in self._kinds if fully else ():
            self._findings.labels(name, kind)

    def _prepare_receiver(self, name: str, *, fully: bool) -> None:
        for result in OutcomeReason if fully else (OutcomeReason.DELIVERED,):
            self._deliveries.labels(name, result.value)

    def _forget(self, label: str, name: str) -> None:
        series = {
            "server": (self._probes, self._duration, self._first_token, self._speed),
            "host": (self._scans, self._lines, self._findings),
            "receiver": (self._deliveries,),
        }
        for metric in series[label]:
            metric.remove_by_labels({label: name})
        for kind in {"server": (GENERATION,), "host": (KERNEL_LOG,)}.get(label, ()):
            for stamp in (self._last_run, self._last_good):
                stamp.remove_by_labels({"check": f"{kind}/{name}"})

    def observed(self, observation: Observation) -> None:
        """Count an observation of a server's or host's check."""
        kind, _, rest = observation.key.partition("/")
        name = rest.partition("/")[0]
        if kind == GENERATION and name in self._names["server"]:
            self._probed(name, observation)
        elif kind == KERNEL_LOG and name in self._names["host"]:
            if observation.nature is Nature.OCCURRENCE:
                self._findings.labels(name, self._kind(observation.reason)).inc(observation.count)
                return
            self._scans.labels(name, observation.verdict.value, self._reason(observation.reason)).inc()
            self._lines.labels(name).inc(max(0.0, observation.measurements.get("lines", 0.0)))
        else:
            return
        self._last_run.labels(f"{kind}/{name}").set(observation.at + observation.duration_s)
        if observation.verdict is Verdict.PASS:
            self._last_good.labels(f"{kind}/{name}").set(observation.at)

    def _probed(self, name: str, observation: Observation) -> None:
        self._probes.labels(name, observation.verdict.value, self._reason(observation.reason)).inc()
        if observation.verdict is not Verdict.PASS:
            return
        seen = observation.measurements
        self._duration.labels(name).observe(seen.get("duration_s", observation.duration_s))
        if "ttft_s" in seen:
            self._first_token.labels(name).observe(seen["ttft_s"])
        if "tokens_per_s" in seen:
            self._speed.labels(name).set(seen["tokens_per_s"])

    def changed(self, incident: Incident, change: TransitionKind) -> None:
        self._incidents.labels(incident.severity.value, change.value).inc()

    def attempted(self, delivery: Delivery, result: OutcomeReason) -> None:
        if delivery.receiver in self._names["receiver"]:
            self._deliveries.labels(delivery.receiver, result.value).inc()

    def exposition(self, accept: str, state: StateMetrics) -> tuple[bytes, str]:
        """Everything, in the format that the `Accept` header asks for, and its content type."""
        self._state.state = state
        return encode(self._registry, accept)


def encode(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """What `registry` holds, and its content type: OpenMetrics where `accept` asks for it."""
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


def probe_exposition(server: str, probe: Observation | None, accept: str) -> tuple[bytes, str]:
    """The result of `probe` (None: it has not ended in time) for `/probe`, as `Metrics.exposition` returns it."""
    registry = CollectorRegistry(auto_describe=True)

    def gauge(name: str, words: str, value: float) -> None:
        Gauge(f"{PREFIX}_probe_{name}", words, ["server"], registry=registry).labels(server).set(value)

    passed = probe is not None and probe.verdict is Verdict.PASS
    gauge("success", "1 if generated text came back in time.", float(passed))
    reason = Gauge(
        f"{PREFIX}_probe_reason",
        "Always 1; why it ended so.",
        ["server", "verdict", "reason"],
        registry=registry,
    )
    verdict = Verdict.FAIL if probe is None else probe.verdict
    reason.labels(server, verdict.value, UNFINISHED if probe is None else probe.reason).set(1)
    if probe is not None:
        gauge("started_timestamp_seconds", "When this probe began.", probe.at)
        gauge("last_duration_seconds", "How long it took.", probe.measurements.get("duration_s", probe.duration_s))
        for name, key, words in (
            ("last_first_token_seconds", "ttft_s", "Time to the first token."),
            ("last_tokens_per_second", "tokens_per_s", "Decode rate."),
        ):
            if key in probe.measurements:
                gauge(name, words, probe.measurements[key])
    return encode(registry, accept)
