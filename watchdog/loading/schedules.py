"""Rules about time: a check must fit into its own interval, and alerting times must make sense together."""

from __future__ import annotations

from watchdog.loading.problems import Problems
from watchdog.loading.records import Record
from watchdog.loading.scalars import written_duration

SHORT_INTERVAL_S = 10.0


NO_OVERLAP = "runs of one check never overlap"


def check_schedule(section: Record, effect: str, problems: Problems, *, why: str = NO_OVERLAP) -> None:
    """`timeout` within `interval`, and `why`; a short interval is said, not refused.

    `effect` begins the sentence about a default timeout that outlasts a short interval.
    """
    interval_s, timeout_s = section.get("interval_s"), section.get("timeout_s")
    if interval_s is None or timeout_s is None:
        return
    every, within = written_duration(interval_s), written_duration(timeout_s)
    if timeout_s > interval_s:
        if section.given("timeout_s"):
            problem = f"timeout {within} is longer than interval {every}, and {why}"
            problems.error(section.at("timeout_s"), problem, f"use at most {every}, or a longer interval")
        else:
            problem = f"the default timeout {within} is longer than interval {every}: {effect} only every {within}"
            problems.warn(section.at("interval_s"), problem, f"set timeout to {every} or less")
    if interval_s < SHORT_INTERVAL_S:
        problems.warn(section.at("interval_s"), f"{every} is very short; fine for a test, a load for a server", "")


def check_alerting(root: Record, problems: Problems) -> None:
    """The flapping rule can be met, and reminders do not come faster later than first."""
    alerting = root.section("alerting")
    window, failures = alerting.get("flap_window"), alerting.get("flap_failures")
    if window is not None and failures is not None and failures > window:
        where = "flap_failures" if alerting.given("flap_failures") else "flap_window"
        problem = f"flap_failures {failures} never happen within flap_window {window}, so flapping would go unnoticed"
        problems.error(alerting.at(where), problem, f"use at most {window} for flap_failures")
