"""Plots as inline SVG that stretches to any width, with its words in HTML around it: crisp on a phone, no script.

Shapes get their colours from the style sheet by class, so light and dark need no second drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from watchdog.model import LastSeen
from watchdog.overview.format import number, percent, seconds
from watchdog.overview.html import Html, raw, tag
from watchdog.overview.statistics import Bucket, Level, Series, Span, cut_points
from watchdog.text import quantity

WIDTH, HEIGHT = 1000, 100
Line = tuple[str, Callable[[Bucket], float | None]]
"""CSS class of a line, and its value in a bucket."""
Bar = tuple[str, float, float, str]
"""A bar of a timeline: CSS class, begin and end in Unix seconds, and what it stands for."""
STRIPES = raw(
    '<svg width="0" height="0" aria-hidden="true" class="defs"><defs><pattern id="stripes" width="9" height="4"'
    ' patternUnits="userSpaceOnUse"><rect width="4" height="4" class="stripe"/></pattern></defs></svg>'
)
"""The pattern of a blind window; once in a page that has a timeline."""


def nice_top(value: float) -> float:
    """The smallest of 1, 2, 2.5, 4, 5, 10 times a power of ten that is at least `value`, which is above 0."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1.0, 2.0, 2.5, 4.0, 5.0, 10.0) if step * power >= value * (1 - 1e-9))


def plot(
    buckets: Sequence[Bucket],
    span: Span,
    *,
    lines: Sequence[Line],
    band: Callable[[Bucket], Level | None],
    unit: str,
    label: str,
    now: float,
) -> Html:
    """One plot over `span`: a band from the median to the worst 5 %, `lines`, and a red mark where a probe failed.

    `label` is what a screen reader says instead.
    """
    values = [value for _, of in lines for bucket in buckets if (value := of(bucket)) is not None]
    # A single slow probe may leave the plot at its top: it must not flatten all the others.
    far = [max(level.median, level.worst) for bucket in buckets if (level := band(bucket)) is not None]
    highest = max([*values, cut_points(far, 100)[96] if far else 0.0])
    top = nice_top(highest) if highest > 0 else 1.0
    shapes = [
        *_grid(len(span.marks)),
        _failures(buckets),
        _band(buckets, band, top),
        *(_line(name, buckets, of, top) for name, of in lines),
        tag("path", d=f"M{span.share(now) * WIDTH:.0f} 0V{HEIGHT}", class_="now"),
    ]
    drawing = tag(
        "svg",
        shapes,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label if far else f"{label}: no measurements",
    )
    steps = (tag("span", f"{top * part:.3g}{unit}") for part in (1, 0.5, 0))
    scale = tag("div", *steps, class_="y", aria_hidden="true")
    return tag("div", scale, tag("div", drawing, class_="draw"), time_marks(span), class_="plot")


def time_marks(span: Span) -> Html:
    """The labels below a plot."""
    return tag("div", *(tag("span", mark) for mark in span.marks), class_="x", aria_hidden="true")


def _grid(marks: int) -> list[Html]:
    across = "".join(f"M0 {HEIGHT * part:g}H{WIDTH}" for part in (0, 0.5, 1))
    down = "".join(f"M{WIDTH * number / (marks - 1):.0f} 0V{HEIGHT}" for number in range(marks))
    return [tag("path", d=raw(across + down), class_="grid")]


def _runs(points: Iterable[tuple[float, ...] | None]) -> Iterable[list[tuple[float, ...]]]:
    """Points without a gap between them, run by run."""
    run: list[tuple[float, ...]] = []
    for point in points:
        if point is not None:
            run.append(point)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _line(name: str, buckets: Sequence[Bucket], of: Callable[[Bucket], float | None], top: float) -> Html:
    step = WIDTH / len(buckets)
    points = [
        None if (value := of(bucket)) is None else ((position + 0.5) * step, _height(value, top))
        for position, bucket in enumerate(buckets)
    ]
    path = ""
    for run in _bridged(points):
        if len(run) == 1:
            run = [(run[0][0] - step / 2, run[0][1]), (run[0][0] + step / 2, run[0][1])]  # noqa: PLW2901 - a dash
        path += "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in run)
    return tag("path", d=raw(path), class_=name)


def _bridged(points: Sequence[tuple[float, ...] | None]) -> Iterable[list[tuple[float, ...]]]:
    """Runs, in which one empty bucket between two full ones is no gap: intervals do not divide buckets evenly."""
    around = [None, *points, None]
    return _runs(
        point
        for place, point in enumerate(points)
        if point is not None or around[place] is None or around[place + 2] is None
    )


def _band(buckets: Sequence[Bucket], of: Callable[[Bucket], Level | None], top: float) -> Html:
    step = WIDTH / len(buckets)
    points = [
        None
        if (level := of(bucket)) is None
        else ((position + 0.5) * step, _height(level.median, top), _height(level.worst, top))
        for position, bucket in enumerate(buckets)
    ]
    path = ""
    for run in _bridged(points):
        there = "L".join(f"{x:.1f} {far:.1f}" for x, _, far in run)
        back = "L".join(f"{x:.1f} {near:.1f}" for x, near, _ in reversed(run))
        path += f"M{there}L{back}Z"
    return tag("path", d=raw(path), class_="band")


def _failures(buckets: Sequence[Bucket]) -> Html:
    step = WIDTH / len(buckets)
    path = "".join(
        f"M{position * step:.1f} 0h{step:.1f}v{HEIGHT}h-{step:.1f}z"
        for position, bucket in enumerate(buckets)
        if bucket.fails
    )
    return tag("path", d=raw(path), class_="fail")


def _height(value: float, top: float) -> float:
    return HEIGHT * (1 - min(value / top, 1.0))


def timeline_row(bars: Iterable[Bar], span: Span, *, label: str, now: float) -> Html:
    """One target's row of a timeline; the words of a bar are shown under the pointer."""
    shapes = []
    for name, since_at, until_at, words in bars:
        begin, end = span.share(since_at) * WIDTH, span.share(until_at) * WIDTH
        top, high = {"silence": (16, 4), "warn": (6, 8), "info": (8, 4)}.get(name, (2, 16))
        width = max(end - begin, 3.0)
        shapes.append(
            tag(
                "rect",
                tag("title", words),
                x=round(min(begin, WIDTH - width), 1),
                y=top,
                width=round(width, 1),
                height=high,
                class_=f"bar {name}",
            )
        )
    ground = tag("rect", x=0, y=9, width=round(span.share(now) * WIDTH, 1), height=2, class_="ground")
    box = f"0 0 {WIDTH} 20"
    return tag("svg", ground, shapes, viewBox=box, preserveAspectRatio="none", role="img", aria_label=label)


def server_plots(name: str, series: Series, span: Span, *, words: str, now: float) -> Html:
    """How long the server `name` takes and how fast it generates, over `span`, which is `words` long ("7 days")."""
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
        f"{name}, {words}: median first token {seconds(ttft.p50)}, 95 % within {seconds(ttft.p95)}; median whole "
        f"reply {seconds(whole.p50)}; {series.fails} of {quantity(series.passes + series.fails, 'probe')} failed"
    )
    return plot(
        series.buckets,
        span,
        lines=[
            ("line two", lambda bucket: bucket.duration.median if bucket.duration else None),
            ("line", lambda bucket: bucket.ttft.median if bucket.ttft else None),
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
        lines=[("line", lambda bucket: bucket.speed.median if bucket.speed else None)],
        band=lambda bucket: bucket.speed,
        unit="",
        label=f"{name}, {words}: median {number(series.speed.p50)} tokens per second",
        now=now,
    )


_LAST_SEEN: Sequence[tuple[str, str, Callable[[LastSeen], float | None]]] = (
    ("memory", "GiB available", lambda one: None if one.available_bytes is None else one.available_bytes / 2**30),
    ("heat", "°C", lambda one: one.temperature_c),
    ("power", "W", lambda one: one.power_w),
    ("clock", "MHz", lambda one: one.clock_mhz),
)
"""CSS class, unit and value of each small plot of a host's last minutes."""


def last_seen_plots(points: Sequence[LastSeen]) -> Html | None:
    """The last minutes of a host that is gone: one small plot a measure, with its first, highest and last value."""
    drawn = [plot for name, unit, of in _LAST_SEEN if (plot := _small_plot(name, unit, points, of)) is not None]
    return tag("div", *drawn, class_="last-seen") if drawn else None


def _small_plot(
    name: str, unit: str, points: Sequence[LastSeen], of: Callable[[LastSeen], float | None]
) -> Html | None:
    known = [(one.at, value) for one in points if (value := of(one)) is not None]
    if len(known) < 2:
        return None
    began, lasted = known[0][0], max(1.0, known[-1][0] - known[0][0])
    values = [value for _, value in known]
    top = nice_top(max(values)) if max(values) > 0 else 1.0
    path = "M" + "L".join(f"{(at - began) / lasted * WIDTH:.0f} {_height(value, top):.1f}" for at, value in known)
    words = f"{values[0]:.4g} → {values[-1]:.4g} {unit} (at most {max(values):.4g}) in {lasted / 60:.0f} min"
    drawing = tag(
        "svg",
        tag("path", d=raw(path), class_=name),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=words,
    )
    return tag("figure", drawing, tag("figcaption", words), class_="small")
