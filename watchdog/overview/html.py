"""HTML that is escaped by construction: a text becomes HTML only through `text`, and everything else is made by `tag`.

Texts of others (kernel lines, model replies) lose control, invisible and direction characters and are cut on the way.
A document is one file without any request to elsewhere, its style sheet inside, allowed by its hash.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Iterable
from html import escape
from importlib.resources import files

from watchdog.text import clean_line, shortened

LONGEST = 1000
"""Characters of one text on a page."""


class Html(str):
    """A piece of HTML, safe to put into a page as it is. Only this module makes it."""

    __slots__ = ()


Child = str | None | Iterable["Child"]
"""What may stand inside a tag: text, HTML, nothing, or a row of these."""
VOID = frozenset({"meta", "link", "br", "img"})
"""Elements without an end."""


def text(words: str) -> Html:
    """`words` as HTML: one line, cleaned, cut at `LONGEST`, escaped; HTML stays as it is."""
    if isinstance(words, Html):
        return words
    start = words[: 2 * LONGEST]
    clean = shortened(clean_line(start), LONGEST)
    before, after = " " * (start[:1] == " "), " " * (start[-1:] == " " and len(clean) > 0)
    return Html(escape(before + clean + after, quote=True))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """One element. `class_` is written `class`, other underscores become hyphens; None and False are left out."""
    parts = [f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        shown = key.rstrip("_").replace("_", "-")
        parts.append(f" {shown}" if value is True else f' {shown}="{_attribute(value)}"')
    inside = join(children)
    if name in VOID:
        return Html("".join([*parts, ">"]))
    return Html("".join([*parts, ">", inside, f"</{name}>"]))


def _attribute(value: str | float) -> str:
    return text(value) if isinstance(value, str) else f"{value:g}"


def join(children: Child) -> Html:
    if children is None:
        return Html("")
    if isinstance(children, str):
        return text(children)
    return Html("".join([join(child) for child in children]))


def scroll_area(inside: Html, name: str, class_: str = "scroll") -> Html:
    """A part that may be wider than a phone: the keyboard can reach and move it, and it has a name."""
    return tag("div", inside, class_=class_, tabindex="0", role="region", aria_label=name)


def raw(markup: str) -> Html:
    """HTML or CSS that is a constant of ours. Never call it with anything that came from outside."""
    return Html(markup)


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
    """The text of a page. `head` goes into its head, before the style sheet."""
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
    return "<!doctype html>\n" + tag("html", first, tag("body", join(body)), lang="en")
