"""Standard streams that a command can rely on, even if the shell closed them or their disk is full."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

EXIT_PIPE_CLOSED = 141
"""The reader of our output has gone: 128 + SIGPIPE, as a shell reports any other program."""
EXIT_OUTPUT_LOST = 74
"""The output, which is all the command is for, could not be written (sysexits.h, EX_IOERR)."""
VERDICT_COMMANDS = frozenset({"probe", "check", "scan", "status"})
"""Their exit code is the result; it stands even if the output is lost."""
BRIEF_COMMANDS = VERDICT_COMMANDS - {"scan"}
"""They end by themselves; the others may run for long, which is pointless once nobody reads."""


class _Raw(io.FileIO):
    """A stream whose writes never fail: what cannot be written is dropped, and `problem` says why."""

    def __init__(self, number: int, *, ends_with_reader: bool) -> None:
        super().__init__(number, "wb", closefd=False)
        self.problem: OSError | None = None
        self._ends_with_reader = ends_with_reader

    def write(self, data: ReadableBuffer, /) -> int:
        """Write all of `data`. Raises `SystemExit` if the reader has gone and the command should end too."""
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest and self.problem is None:
            try:
                rest = rest[super().write(rest) or 0 :]
            except OSError as error:
                self.problem = error
                if error.errno == errno.EPIPE and self._ends_with_reader:
                    raise SystemExit(EXIT_PIPE_CLOSED) from None
        return size


class Output:
    """Standard output and standard error of one command, and whether they could be written."""

    def __init__(self, command: str) -> None:
        """Replace the streams for `command`; those that are not the process's own are left as they are."""
        self._gives_verdict = command in VERDICT_COMMANDS
        self._closed = sys.stdout is None
        self._raw: _Raw | None = None
        if sys.stdin is None:  # also keeps the first file we open from becoming standard input
            sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - stays open as long as the process
        if command == "run":  # a log whose disk was full for an hour must go on afterwards
            self._closed = False
        elif sys.stdout is None:
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - stays open as long as the process
        elif sys.stdout is sys.__stdout__ and sys.__stdout__ is not None:
            self._raw = _Raw(sys.__stdout__.fileno(), ends_with_reader=command not in BRIEF_COMMANDS)
            sys.stdout = _text(self._raw, like=sys.stdout)
        if command != "run" and sys.stderr is sys.__stderr__ and sys.__stderr__ is not None:
            sys.stderr = _text(_Raw(sys.__stderr__.fileno(), ends_with_reader=False), like=sys.stderr)

    def finish(self, code: int) -> int:
        """Flush, and return the exit code; `code` is the command's own."""
        if self._raw is not None:
            with suppress(SystemExit):  # reported below
                sys.stdout.flush()
        problem = self._raw.problem if self._raw is not None else None
        if problem is not None and problem.errno == errno.EPIPE:
            return code if code or self._gives_verdict else EXIT_PIPE_CLOSED
        if problem is None and not self._closed:
            return code
        why = "it is closed" if problem is None else problem.strerror or str(problem)
        if sys.stderr is not None:
            sys.stderr.write(f"The output could not be written: {why}.\n")
            sys.stderr.flush()
        return code if code or self._gives_verdict else EXIT_OUTPUT_LOST


def _text(raw: _Raw, like: io.TextIOBase | object) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors=getattr(like, "errors", None),
        line_buffering=raw.isatty() or getattr(like, "line_buffering", False),
    )
