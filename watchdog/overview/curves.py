"""The two plots of a server: how long it takes, and how fast it writes."""

from __future__ import annotations

from watchdog.overview.html import Html, tag
from watchdog.overview.plot import plot
from watchdog.overview.series import Series
from watchdog.overview.span import Span
from watchdog.overview.words import counted, number, percent, seconds


def curves(name: str, series: Series, span: Span, *, words: str, now: float) -> Html:
    """Both plots of the server `name` over `span`, which is `words` long ("7 days")."""
    keys, rates = _keys(series), [tag("span", f"tokens/s, median {number(series.speed.p50)}", class_="key")]
    return tag(
        "div",
        tag("figure", tag("figcaption", *keys), _latency(name, series, span, words, now)),
        tag("figure", tag("figcaption", *rates), _rate(name, series, span, words, now)),
        class_="plots",
    )


def _keys(series: Series) -> list[Html]:
    total = series.passes + series.fails
    keys = [
        tag("span", f"first token, median {seconds(series.ttft.p50)}", class_="key"),
        tag("span", f"95 % within {seconds(series.ttft.p95)}", class_="key wide"),
        tag("span", f"whole reply, median {seconds(series.duration.p50)}", class_="key two"),
    ]
    if total:
        answered = f"failed {series.fails} of {total} ({percent(series.passes / total)} answered)"
        keys.append(tag("span", answered, class_="key bad"))
    return keys


def _latency(name: str, series: Series, span: Span, words: str, now: float) -> Html:
    ttft, whole = series.ttft, series.duration
    said = (
        f"{name}, {words}: first token {seconds(ttft.p50)} in the middle, 95 % within {seconds(ttft.p95)}; whole reply "
        f"{seconds(whole.p50)}; {counted(series.fails, 'probe')} of {series.passes + series.fails} failed"
    )
    return plot(
        series.buckets,
        span,
        lines=[
            ("line two", lambda bucket: bucket.duration.middle if bucket.duration else None),
            ("line", lambda bucket: bucket.ttft.middle if bucket.ttft else None),
        ],
        band=lambda bucket: bucket.ttft,
        unit=" s",
        label=said,
        now=now,
    )


def _rate(name: str, series: Series, span: Span, words: str, now: float) -> Html:
    return plot(
        series.buckets,
        span,
        lines=[("line", lambda bucket: bucket.speed.middle if bucket.speed else None)],
        band=lambda bucket: bucket.speed,
        unit="",
        label=f"{name}, {words}: {number(series.speed.p50)} tokens per second in the middle",
        now=now,
    )
