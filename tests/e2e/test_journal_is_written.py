"""A real journald that is stopped, suspended or disobedient is found out by the reader. In one container, in order."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.systemd_container import Container, container
from watchdog.checks.journal_proof import JournalProof
from watchdog.journal.frame import Hello, Transcript, parse_hello
from watchdog.ssh.session import script

pytestmark = [pytest.mark.slow, pytest.mark.real, pytest.mark.timeout(240)]

SOCKETS = ("systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald-audit.socket")
LOGIN_AGE_S = 1.0


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with container(tmp_path_factory.mktemp("container")) as booted:
        yield booted


def log_in(inside: Container) -> None:
    """What sshd does when it lets someone in; where nobody takes the record, it goes on without."""
    inside.run("timeout", "2", "logger", "-t", "sshd", "Accepted publickey for monitor", check=False)


def greet(inside: Container) -> Hello:
    return greeting_of(inside.run("sh", "-s", "--", "read1 hello", stdin=script().decode()))


def greeting_of(answer: str) -> Hello:
    frame = Transcript()
    lines = frame.feed(answer.encode() + b"\n")
    assert frame.complete
    greeting = parse_hello(frame.header or {}, lines)
    assert greeting is not None
    return greeting


def look(inside: Container, proof: JournalProof) -> str:
    """What a scan says of the journal; empty if it is written."""
    log_in(inside)
    time.sleep(0.3)
    error = proof.judge(greet(inside), LOGIN_AGE_S, time.time())
    return "" if error is None else error.summary


def journald(inside: Container, signal: str) -> None:
    # Not by its cgroup: a container that is under load refuses that now and then.
    inside.run("systemctl", "kill", "--kill-who=main", "-s", signal, "systemd-journald")


def restart_journald(inside: Container) -> None:
    """As often as we like: systemd gives up on what starts too often."""
    inside.run("systemctl", "reset-failed", "systemd-journald.service", check=False)
    inside.run("systemctl", "restart", "systemd-journald")


def outlive_the_last_record() -> None:
    time.sleep(LOGIN_AGE_S + 2.5)


def test_a_journal_that_is_written_holds_our_login(inside: Container) -> None:
    proof = JournalProof()
    assert look(inside, proof) == ""
    assert proof.logins_recorded
    assert greet(inside).journald == "running"


def test_a_suspended_journald_is_named_at_the_first_look(inside: Container) -> None:
    journald(inside, "STOP")
    try:
        outlive_the_last_record()
        assert "suspended" in look(inside, JournalProof())
        assert "suspended" in look(inside, JournalProof(logins_recorded=True))
    finally:
        journald(inside, "CONT")
    time.sleep(0.5)
    assert look(inside, JournalProof(logins_recorded=True)) == ""


def test_a_full_disk_makes_journald_write_to_memory_and_is_told(inside: Container) -> None:
    inside.write("/run/systemd/journald.conf.d/lab.conf", "[Journal]\nStorage=persistent\nRateLimitBurst=0\n")
    inside.run("mkdir", "-p", "/var/log/journal")
    inside.run("mount", "-t", "tmpfs", "-o", "size=40m,mode=0755", "tmpfs", "/var/log/journal")
    restart_journald(inside)
    inside.run("journalctl", "--flush")
    try:
        assert not greet(inside).in_memory
        inside.run("sh", "-c", "cat /dev/zero >/var/log/journal/filler", check=False)
        assert greet(inside).disk_is_full
        inside.run("sh", "-c", "head -c 3000000 /dev/urandom | base64 -w 900 | logger -t filler", check=False)
        inside.wait(lambda: greet(inside).in_memory, what="journald gives up on the disk")
        assert greet(inside).disk_is_full
        assert look(inside, JournalProof(logins_recorded=True)) == "", "it is written all the same"
    finally:
        inside.run("rm", "-f", "/run/systemd/journald.conf.d/lab.conf")
        inside.run("umount", "-l", "/var/log/journal")
        restart_journald(inside)


def test_a_journal_in_memory_only_is_known_as_one(inside: Container) -> None:
    inside.write("/run/systemd/journald.conf.d/lab.conf", "[Journal]\nStorage=persistent\n")
    restart_journald(inside)
    inside.run("journalctl", "--flush")
    inside.wait(lambda: not greet(inside).in_memory, what="persistent")
    inside.write("/run/systemd/journald.conf.d/lab.conf", "[Journal]\nStorage=volatile\n")
    restart_journald(inside)
    try:
        inside.wait(lambda: greet(inside).in_memory, what="volatile")
        assert not greet(inside).disk_is_full
        assert look(inside, JournalProof(logins_recorded=True)) == "", "it is read all the same"
    finally:
        inside.run("rm", "/run/systemd/journald.conf.d/lab.conf")
        restart_journald(inside)


def test_a_journal_file_that_lost_its_acl_is_no_permission(inside: Container) -> None:
    """Whoever reads it as a member of adm does so by the file's ACL alone."""
    inside.run("useradd", "--groups", "adm", "monitor")
    request = ("runuser", "-u", "monitor", "--", "sh", "-s", "--", "read1 hello")
    files = "/run/log/journal/*/system.journal /var/log/journal/*/system.journal"
    inside.run("sh", "-c", f"chgrp adm {files}; chmod 0640 {files}; true", check=False)
    assert greeting_of(inside.run(*request, stdin=script().decode())).may_read_journal
    inside.run("sh", "-c", f"chmod 0600 {files}; true", check=False)  # an ACL counts only within the group's bits
    greeting = greeting_of(inside.run(*request, stdin=script().decode()))
    assert greeting.unreadable
    assert not greeting.may_read_journal
    inside.run("sh", "-c", f"chmod 0640 {files}; true", check=False)


def test_a_journald_that_records_nothing_is_found_out_where_logins_were_recorded_before(inside: Container) -> None:
    inside.write("/run/systemd/journald.conf.d/lab.conf", "[Journal]\nMaxLevelStore=emerg\n")
    restart_journald(inside)
    try:
        outlive_the_last_record()
        assert "recorded not even our login" in look(inside, JournalProof(logins_recorded=True))
        assert look(inside, JournalProof()) == "", "where logins never left a record, their absence says nothing"
    finally:
        inside.run("rm", "/run/systemd/journald.conf.d/lab.conf")
        restart_journald(inside)
    assert look(inside, JournalProof(logins_recorded=True)) == ""


def test_a_journald_that_is_stopped_is_not_running(inside: Container) -> None:
    inside.run("systemctl", "stop", *SOCKETS, "systemd-journald", check=False)
    outlive_the_last_record()
    assert "is not running" in look(inside, JournalProof())
    assert "is not running" in look(inside, JournalProof(logins_recorded=True))
