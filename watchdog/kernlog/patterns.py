r"""The pattern language of kernel rules: the part of regular expressions that means the same to `re` and to RE2.

Plain text, `.`, classes `[…]`, `\d`, `\w`, `\b`, groups `(?:…)`, `|`, the repeats `* + ? {m,n}`, and `^` and `$` where
a branch starts or ends. Nothing here parses a pattern: `re` and RE2 do that, and refuse what they cannot do.
"""

from __future__ import annotations

import re

MAX_REPEAT = 64
MAX_PATTERN_CHARS = 2000

_TOKEN = re.compile(
    r"(?P<escape>\\.?)|(?P<char_class>\[\^?\]?(?:\\.|[^\]\\])*)|(?P<group>\(\?:?)|(?P<twice>[*+?}][*+?{])"
    r"|(?P<counted>\{[^}]*\}?)(?P<again>[*+?{]?)|."
)
_ESCAPE = re.compile(r"\\[dwbt.^$*+?{}\[\]\\|()\-/ :=#'\"<>!&@,;%~]")
_CLASS_ESCAPE = re.compile(r"\\[dwtn.^$*+?{}\[\]\\|()\-/ :=#'\"<>!&@,;%~]")
_COUNTED = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}")
_HINTS = {"\\s": "write a blank, or '[ \\t]'", "\\D": "write '[^0-9]'", "\\W": "write '[^0-9A-Za-z_]'"}
_ANCHORS = frozenset(("^", "$", "\\b"))


class PatternError(ValueError):
    """A pattern outside the language; the text says what is wrong, and at which character."""


def check_pattern(pattern: str) -> None:
    """Raises PatternError for a pattern outside the language, or one that `re` refuses."""
    if not pattern:
        raise PatternError("the pattern is empty")
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(f"the pattern is longer than {MAX_PATTERN_CHARS} characters")
    if not (pattern.isascii() and pattern.isprintable()):
        raise PatternError("only printable ASCII is allowed")
    tokens = list(_TOKEN.finditer(pattern))
    texts = ["|", *(token[0] for token in tokens), "|"]
    for token, before, after in zip(tokens, texts, texts[2:], strict=False):
        if problem := _problem(token) or _anchor_problem(token[0], before, after):
            raise PatternError(f"{problem} (at character {token.start() + 1})")
    try:
        re.compile(pattern.encode())
        matches_nothing = re.search(without_anchors(pattern), "") is not None
    except re.error as error:
        raise PatternError(str(error)) from None
    except RecursionError:
        raise PatternError("groups are nested too deeply") from None
    if matches_nothing:
        raise PatternError("it matches the empty text, and so every line")


def _problem(token: re.Match[str]) -> str:
    """What is wrong with one piece of a pattern; "" if nothing is."""
    text = token[0]
    match token.lastgroup:
        case "escape" if not _ESCAPE.fullmatch(text):
            hint = _HINTS.get(text)
            return f"'{text}' is not part of the rule language" + (f": {hint}" if hint else "")
        case "char_class":
            return _class_problem(text)
        case "group" if text != "(?:":
            return "only plain groups '(?:…)' are allowed: no look-around, no names, no flags"
        case "twice":
            return "lazy, possessive and double repeats are not allowed"
        case "again":
            return _repeat_problem(token["counted"], token["again"])
    return ""


def _class_problem(text: str) -> str:
    if re.search(r"\[[:.=]", text[1:]):
        return "POSIX classes are not allowed: write the range, such as '[0-9]'"
    odd = [escape for escape in re.findall(r"\\.", text) if not _CLASS_ESCAPE.fullmatch(escape)]
    return f"'{odd[0]}' is not part of the rule language" if odd else ""


def _anchor_problem(text: str, before: str, after: str) -> str:
    """What is wrong with an anchor between the pieces `before` and `after`: none of these can ever match."""
    if text == "^" and before not in ("|", "(", "(?:"):
        return "'^' may only stand where a branch starts; write '\\^' for the character"
    if text == "$" and after not in ("|", ")"):
        return "'$' may only stand where a branch ends; write '\\$' for the character"
    if text == "\\b" and re.fullmatch(r"\w\w", before + after):
        return "'\\b' between two letters or digits can never match"
    return ""


def _repeat_problem(counted: str, again: str) -> str:
    found = _COUNTED.fullmatch(counted)
    if found is None:
        return "write a repeat as {3}, {1,4} or {2,}, or '\\{' for the character"
    if max(int(found[1]), int(found[2] or 0)) > MAX_REPEAT:
        return f"a counted repeat may go up to {MAX_REPEAT}"
    return "lazy, possessive and double repeats are not allowed" if again else ""


def without_anchors(pattern: str) -> str:
    r"""`pattern` without `^`, `$` and `\b`: it matches wherever `pattern` does, also inside a longer text."""
    return "".join("" if token[0] in _ANCHORS else token[0] for token in _TOKEN.finditer(pattern))
