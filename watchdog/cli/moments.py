"""Times as a person reads them in a terminal: in this machine's zone, which is always said."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo


def moment(at: float, zone: tzinfo | None = None) -> str:
    """`at` (Unix seconds) as `Sun 2026-11-29 18:22 CET (UTC+01:00)`, in `zone` (None: this machine's)."""
    local = datetime.fromtimestamp(at, UTC).astimezone(zone)
    offset = local.strftime("%z")
    named = local.strftime("%Z")
    written = f"UTC{offset[:3]}:{offset[3:5]}"
    return f"{local:%a %Y-%m-%d %H:%M} " + (named if named == "UTC" else f"{named} ({written})")


def ago(now: float, at: float) -> str:
    """The time from `at` to `now`, in its two largest units."""
    seconds = max(0, round(now - at))
    for unit_s, name, smaller_s, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if seconds >= unit_s:
            rest = seconds % unit_s // smaller_s
            return f"{seconds // unit_s}{name}" + (f" {rest}{smaller}" if rest else "")
    return f"{seconds}s"
