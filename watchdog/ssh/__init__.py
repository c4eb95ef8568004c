"""Running the packaged reader on a host over SSH, and naming every way that can fail. Nothing else is ever run.

`reading` opens a session under one deadline. asyncssh is imported inside the functions that connect, so that the
command line stays light; with it comes its server half, which it always loads and this package never uses.
"""

from watchdog.ssh.errors import HostError, ReaderError, Stage
from watchdog.ssh.session import ANSWER_LIMIT_BYTES, Answer, Session, reading

__all__ = ["ANSWER_LIMIT_BYTES", "Answer", "HostError", "ReaderError", "Session", "Stage", "reading"]
