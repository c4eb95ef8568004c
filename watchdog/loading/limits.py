"""The range of every number in the configuration: least and most, both allowed."""

from __future__ import annotations

from watchdog.config import (
    AlertingSettings,
    HeartbeatSettings,
    HostSettings,
    KernelLogSettings,
    MaintenanceSettings,
    ProbeSettings,
    ReceiverSettings,
    ServerSettings,
    Size,
    VitalsSettings,
)
from watchdog.loading.scalars import written_duration, written_size

DAY_S = 86400.0
LIMITS: dict[tuple[type, str], tuple[float, float]] = {
    (ProbeSettings, "interval_s"): (1.0, 7 * DAY_S),
    (ProbeSettings, "timeout_s"): (0.1, 3600.0),
    (ProbeSettings, "max_tokens"): (1, 4096),
    (ProbeSettings, "failures"): (1, 100),
    (ProbeSettings, "successes"): (1, 100),
    (ProbeSettings, "metrics_timeout_s"): (0.1, 60.0),
    (KernelLogSettings, "interval_s"): (1.0, 7 * DAY_S),
    (KernelLogSettings, "timeout_s"): (0.1, 3600.0),
    (KernelLogSettings, "failures"): (1, 100),
    (KernelLogSettings, "successes"): (1, 100),
    (VitalsSettings, "interval_s"): (1.0, 7 * DAY_S),
    (VitalsSettings, "timeout_s"): (0.1, 3600.0),
    (VitalsSettings, "failures"): (1, 100),
    (VitalsSettings, "successes"): (1, 100),
    (VitalsSettings, "memory_available_min"): (Size(2**20), Size(2**44)),
    (HostSettings, "port"): (1, 65535),
    (ReceiverSettings, "timeout_s"): (0.1, 600.0),
    (ReceiverSettings, "fallback_after"): (1, 1000),
    (AlertingSettings, "reminder_first_s"): (1.0, 30 * DAY_S),
    (AlertingSettings, "reminder_every_s"): (1.0, 30 * DAY_S),
    (AlertingSettings, "occurrence_quiet_s"): (1.0, 30 * DAY_S),
    (AlertingSettings, "flap_window"): (2, 100),
    (AlertingSettings, "flap_failures"): (2, 100),
    (AlertingSettings, "expire_delivery_s"): (60.0, 365 * DAY_S),
    (MaintenanceSettings, "duration_s"): (1.0, 7 * DAY_S),
    (HeartbeatSettings, "interval_s"): (1.0, DAY_S),
    (HeartbeatSettings, "timeout_s"): (0.1, 60.0),
}
"""Every number field is in here; a test holds that."""

ONE_OR_MORE = {
    (ServerSettings, "receivers"): "leave the key out to tell every receiver",
    (HostSettings, "receivers"): "leave the key out to tell every receiver",
    (ReceiverSettings, "alertmanager"): "give one address or more",
    (MaintenanceSettings, "days"): "name one day or more, like [sat, sun]",
}
"""Lists whose emptiness would not mean what it says → what to do."""

LINES_ALLOWED = {(HostSettings, "identity")}
"""Secrets of more than one line: a private key in OpenSSH or PEM form."""


def limit_of(kind: type, name: str, value: float) -> str:
    """What is wrong with `value` in field `name`, or an empty text."""
    least, most = LIMITS[kind, name]
    if least <= value <= most:
        return ""
    written = written_duration if name.endswith("_s") else written_size if isinstance(value, Size) else "{:g}".format
    side, bound = ("at least", least) if value < least else ("at most", most)
    return f"{written(value)} is out of range; it must be {side} {written(bound)}"
