"""Structured logs: JSON lines, or readable ones on a terminal; secrets are removed from every line at any level."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Hashable, Iterable, MutableMapping
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import structlog

from watchdog.config import Secret

HIDDEN = "…"
FILE_LIMIT_BYTES = 5 * 1024 * 1024
FILES_KEPT = 3
MOST_ALIKE = 60
"""Lines of one kind that are written in one minute."""
ALIKE_WITHIN_S = 60.0
_SUBJECT = ("check", "key", "incident", "receiver", "problem")
SHORTEST_SECRET = 4
"""Shorter secrets are left alone: hiding them would blank out half of every line."""


def configure(
    *,
    secrets: Iterable[Secret] = (),
    level: str = "INFO",
    stream: IO[str] | None = None,
    json: bool | None = None,
    file: Path | None = None,
) -> None:
    """Send all logs, ours and the libraries', to `stream` (default: stderr); `json=None` asks the terminal.

    With `file` they go there instead, as JSON lines, and it is kept below `FILE_LIMIT_BYTES`, as are its
    `FILES_KEPT` predecessors. Raises OSError when it cannot be opened.

    Library loggers stay at WARNING: apprise logs receiver URLs below it, asyncssh user names and commands.
    """
    stream = stream or sys.stderr
    as_json = (file is not None or not stream.isatty()) if json is None else json
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        LogRedactor(secrets),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler: logging.Handler = _File(file) if file else logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    handler.addFilter(RepeatedLines())
    root = logging.getLogger()
    before, root.handlers[:] = root.handlers[:], [handler]
    for old in before:
        if isinstance(old, _File):
            old.close()
    root.setLevel(level)
    for name in ("apprise", "asyncssh", "aiohttp", "asyncio", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)


def log_crashes() -> Callable[..., None]:
    """Log an uncaught exception instead of printing it; returns a function that logs why the daemon did not start.

    For service managers that let standard error grow without bound.
    """
    log = structlog.get_logger("daemon")

    def write(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        log.critical("crashed", exc_info=(kind, error, traceback))

    def complain(*lines: str) -> None:
        for line in lines:
            log.error("not_started", problem=line)

    sys.excepthook = write
    return complain


class RepeatedLines(logging.Filter):
    """Lets the first `MOST_ALIKE` warnings of a kind pass in a minute; the rest are counted, and that is logged."""

    def __init__(self) -> None:
        """Nothing has been seen yet."""
        super().__init__()
        self._seen: dict[Hashable, int] = {}
        self._began_at = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` is to be written. Lines below WARNING always are."""
        if record.levelno < logging.WARNING or getattr(record, "counts_repeats", False):
            return True
        if not 0 <= record.created - self._began_at < ALIKE_WITHIN_S:
            seen, self._seen, self._began_at = self._seen, {}, record.created
            for kind, count in seen.items():
                if count > MOST_ALIKE:
                    self._report(kind, count - MOST_ALIKE)
        kind = _line_kind(record)
        self._seen[kind] = self._seen.get(kind, 0) + 1
        return self._seen[kind] <= MOST_ALIKE

    @staticmethod
    def _report(kind: Hashable, count: int) -> None:
        name, level, *what = kind if isinstance(kind, tuple) else (kind,)
        logging.getLogger(str(name)).log(
            level if isinstance(level, int) else logging.WARNING,
            "%d more lines like this were left out: %s",
            count,
            " ".join(str(word) for word in what if word),
            extra={"counts_repeats": True},
        )


def _line_kind(record: logging.LogRecord) -> Hashable:
    """What makes two lines alike: who logs which event about what. Figures and times in it may differ."""
    if isinstance(record.msg, dict):
        subject = tuple(str(record.msg.get(name, "")) for name in _SUBJECT)
        return (record.name, record.levelno, str(record.msg.get("event", ""))[:100], *subject)
    return (record.name, record.levelno, str(record.msg)[:100])


class _File(RotatingFileHandler):
    """A log file of bounded size, readable by us only. launchd lets a log grow without bound and never reopens it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, maxBytes=FILE_LIMIT_BYTES, backupCount=FILES_KEPT, encoding="utf-8")

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


class LogRedactor:
    """A structlog processor that replaces every configured secret, wherever in the line it occurs."""

    def __init__(self, secrets: Iterable[Secret]) -> None:
        """Longest secrets first, so that a part of one never hides the rest of another."""
        texts = {secret.reveal() for secret in secrets}
        self._texts = sorted((text for text in texts if len(text) >= SHORTEST_SECRET), key=len, reverse=True)

    def __call__(self, _logger: object, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Return the same event with its values cleaned."""
        if self._texts:
            for key, value in event.items():
                event[key] = self._clean(value)
        return event

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            for text in self._texts:
                value = value.replace(text, HIDDEN)
            return value
        if isinstance(value, dict):
            return {key: self._clean(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean(item) for item in value]
        return value


def log_warnings(warnings: Iterable[object]) -> None:
    """Log each configuration warning, in the words `validate` uses."""
    log = structlog.get_logger("configuration")
    for warning in warnings:
        log.warning("configuration_warning", problem=str(warning))
