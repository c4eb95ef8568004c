"""HTML is escaped by construction, whatever comes in."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from watchdog.overview.html import LONGEST, tag, text

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</code></li></ol><h1>owned</h1>",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202egnp.exe\u2066\u200b",
    "<!-- --><style>*{display:none}</style>",
    "javascript:alert(1) &lt;b&gt; &#60;",
    "A" * 1_000_000,
    "[link](http://evil.example) **bold** `code`",
)


class Names(HTMLParser):
    """Collects the elements and attributes of a document."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.attributes: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def parsed(markup: str) -> Names:
    names = Names()
    names.feed(markup)
    names.close()
    return names


@given(st.one_of(st.text(), st.sampled_from(HOSTILE)))
def test_no_text_becomes_an_element_an_attribute_or_a_control_character(words: str) -> None:
    markup = tag("p", words, title=words)
    names = parsed(markup)
    assert (names.elements, names.attributes) == (["p"], ["title"])
    assert markup.isprintable()
    assert len(markup) < 20 * LONGEST


def test_html_of_ours_is_not_escaped_twice_and_attributes_can_be_left_out() -> None:
    inner = tag("b", "a & b")
    assert tag("p", inner, " ", None, ["x", ["y"]], class_="c", hidden=False, open=True) == (
        '<p class="c" open><b>a &amp; b</b> xy</p>'
    )
    assert tag("meta", charset="utf-8") == '<meta charset="utf-8">'


def test_a_space_beside_an_element_stays() -> None:
    assert text("since ") == "since "
    assert text(" x\n\ny ") == " x y "
