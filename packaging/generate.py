"""Writes the man page and the shell completions from the commands themselves, so that they cannot drift.

Run `python packaging/generate.py`; a test holds that the files in the tree are what this gives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from watchdog.cli import COMMANDS, cli

FOLDER = Path(__file__).parent
NAME = "inference-watchdog"
COMPLETIONS: dict[str, type[ShellComplete]] = {
    f"completions/{NAME}.bash": BashComplete,
    f"completions/_{NAME}": ZshComplete,
    f"completions/{NAME}.fish": FishComplete,
}
MAN_PAGE = f"man/{NAME}.1"
FILES = (
    ("/etc/inference-watchdog/config.yaml", "The configuration of the system service."),
    ("/etc/inference-watchdog/environment", "Variables for ${env:NAME} in it, for the service."),
    ("/etc/inference-watchdog/credentials/", "Files for ${credential:secret_FILE} in it, for the service."),
    ("/var/lib/inference-watchdog/", "The state of the service."),
    ("~/.config/inference-watchdog/config.yaml", "The configuration of one user."),
)
EXITS = (
    ("0", "All is well, or done."),
    ("1, 2, 3", "check, probe, scan: warning, critical, unknown, as plugins of other monitors use them."),
    ("64", "Wrong usage, or a configuration that is not valid."),
    ("74", "The output could not be written, and it was all that was asked for."),
    ("75", "run: the state directory cannot be used now; trying again can help."),
    ("141", "Whoever read the output has gone, as in scan | head."),
)


def generated() -> dict[str, str]:
    """Path below `packaging/` → text, for every generated file."""
    files = {path: _completion(kind) for path, kind in COMPLETIONS.items()}
    files[MAN_PAGE] = man_page()
    return files


def _completion(kind: type[ShellComplete]) -> str:
    """The script that asks the program itself at each press of tab; click's, without looking at the shell here."""
    complete = kind(cli, {}, NAME, f"_{NAME.upper().replace('-', '_')}_COMPLETE")
    return complete.source_template % complete.source_vars()


def man_page() -> str:
    """The manual page in man(7) macros."""
    root = click.Context(cli, info_name=NAME)
    summary, _, description = (cli.help or "").partition("\n\n")
    lines = [
        f'.TH {NAME.upper()} 1 "" "{NAME}" "User Commands"',
        ".SH NAME",
        rf"{_plain(NAME)} \- {_plain(_joined(summary)).rstrip('.')}",
        ".SH SYNOPSIS",
        rf".B {_plain(NAME)}",
        r".I command",
        r"[\fIoption\fR ...]",
        ".SH DESCRIPTION",
        *_paragraphs(description),
        ".SH COMMANDS",
    ]
    for name in COMMANDS:
        found = cli.get_command(root, name)
        assert found is not None
        lines += _command(found, name, root)
    for title, rows in (("FILES", FILES), ("EXIT STATUS", EXITS)):
        lines += [f".SH {title}", *(line for term, text in rows for line in _term(term, text))]
    lines += [".SH SEE ALSO", ".BR journalctl (1),", ".BR systemctl (1)", ""]
    return "\n".join(lines)


def _command(command: click.Command, name: str, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_plain(name)} {_plain(usage)}"
    yield from _paragraphs(command.help or "")
    for parameter in command.get_params(context):
        record = None if "--help" in parameter.opts else parameter.get_help_record(context)
        if record is not None and record[1]:
            yield from _term(*record)
    if isinstance(command, click.Group):
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            assert found is not None
            yield from _command(found, f"{name} {inner}", parent)


def _paragraphs(text: str) -> Iterator[str]:
    for block in re.split(r"\n\s*\n", text.strip()):
        yield ".PP"
        yield _plain(_joined(block))


def _term(term: str, text: str) -> tuple[str, ...]:
    return (".TP", rf"\fB{_plain(term)}\fR", _plain(_joined(text)) or "\\&")


def _joined(text: str) -> str:
    return " ".join(text.replace("\b", "").split())


def _plain(text: str) -> str:
    r"""`text` for troff: backslashes, hyphens that are typed, and lines that would be a request."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...").replace("→", "to")
    return rf"\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    for path, text in generated().items():
        (FOLDER / path).parent.mkdir(exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")
