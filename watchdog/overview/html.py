"""HTML that is escaped by construction: a text becomes HTML only through `text`, and everything else is made by `tag`.

Texts of others (kernel lines, model replies) lose control, invisible and direction characters and are cut on the way.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from watchdog.message import clean_line
from watchdog.message.clean import shortened

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
    inside = joined(children)
    if name in VOID:
        return Html("".join([*parts, ">"]))
    return Html("".join([*parts, ">", inside, f"</{name}>"]))


def _attribute(value: str | float) -> str:
    return text(value) if isinstance(value, str) else f"{value:g}"


def joined(children: Child) -> Html:
    """Everything in `children`, one after the other."""
    if children is None:
        return Html("")
    if isinstance(children, str):
        return text(children)
    return Html("".join([joined(child) for child in children]))


def scrolling(inside: Html, name: str, class_: str = "scroll") -> Html:
    """A part that may be wider than a phone: the keyboard can reach and move it, and it has a name."""
    return tag("div", inside, class_=class_, tabindex="0", role="region", aria_label=name)


def raw(markup: str) -> Html:
    """HTML or CSS that is a constant of ours. Never call it with anything that came from outside."""
    return Html(markup)
