"""A whole HTML document: one file without any request to elsewhere, its style sheet inside, allowed by its hash."""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib.resources import files

from watchdog.overview.html import Child, Html, joined, raw, tag


@functools.cache
def style() -> Html:
    """The style sheet, as it stands inside a page."""
    lines = (files("watchdog.overview") / "style.css").read_text(encoding="utf-8").splitlines()
    return raw("".join(line.strip() for line in lines))


@functools.cache
def content_policy() -> str:
    """The Content-Security-Policy under which a document of ours works: this one style sheet, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src 'self' data:; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )


def document(title: str, *body: Child, head: Child = ()) -> str:
    """The text of a page. `head` is put into its head, before the style sheet."""
    first = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        head,
        tag("title", title),
        tag("style", style()),
    )
    return "<!doctype html>\n" + tag("html", first, tag("body", joined(body)), lang="en")
