"""Receivers are checked by the real apprise, without loading it into this process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.config_files import asking_apprise

ROOT = Path(__file__).parents[2]
URLS = ["json://127.0.0.1/hook", "jsn://127.0.0.1/hook", "nothing at all", "ntfys://ntfy.sh/topic"]


def run(program: str, *arguments: str) -> str:
    """What a fresh interpreter prints for `program`."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_another_process_gives_the_same_answers_and_apprise_stays_there() -> None:
    """Every time it is asked, and no process is left behind."""
    program = """
        import os, sys
        from watchdog.loading.receiver_checks import check_urls
        print(check_urls(sys.argv[1:]))
        print(check_urls(sys.argv[1:]) == check_urls(sys.argv[1:]))
        print("apprise" in sys.modules)
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("no child")
    """
    assert run(program, *URLS) == f"{list(asking_apprise(URLS))}\nTrue\nFalse\nno child\n"


def test_loading_a_configuration_leaves_apprise_out_of_this_process(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "servers: [{name: a, base_url: http://192.0.2.1/v1}]\nreceivers: [{name: b, url: 'json://127.0.0.1/'}]\n"
    )
    program = """
        import sys
        from watchdog.loading import load
        print(load(sys.argv[1]).config.receivers[0].name, "apprise" in sys.modules)
    """
    assert run(program, str(config)) == "b False\n"


@pytest.mark.parametrize("broken", ["raise SystemExit(3)", "print('no JSON')"])
def test_an_installation_without_a_working_apprise_says_so(broken: str) -> None:
    program = """
        import sys
        from watchdog.loading import receiver_checks
        receiver_checks.PROGRAM = sys.argv[1]
        print(receiver_checks.check_urls(["json://127.0.0.1/"]))
    """
    assert "apprise does not work in this installation" in run(program, broken)


def test_an_apprise_that_hangs_is_given_up_and_ended() -> None:
    program = """
        import os
        from watchdog.loading import receiver_checks
        receiver_checks.PROGRAM = "import time; time.sleep(60)"
        receiver_checks.LIMIT_S = 0.3
        print(receiver_checks.check_urls(["json://127.0.0.1/"]))
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("no child")
    """
    said = run(program)
    assert "apprise does not work in this installation" in said
    assert said.endswith("no child\n")


def test_no_receivers_need_no_process() -> None:
    program = """
        import subprocess
        from watchdog.loading.receiver_checks import check_urls
        subprocess.run = None
        print(check_urls([]))
    """
    assert run(program) == "[]\n"


def test_a_working_directory_that_is_gone_checks_and_sends_as_ever(tmp_path: Path) -> None:
    """In a process of its own, and here: apprise asks for the working directory when it is imported."""
    program = """
        import os, sys
        sys.path.insert(0, sys.argv[2])
        gone = sys.argv[1]
        os.mkdir(gone)
        os.chdir(gone)
        os.rmdir(gone)
        from watchdog.loading.receiver_checks import check_urls
        print(check_urls(["json://127.0.0.1/"]), "apprise" in sys.modules)
        from watchdog.notify.apprise_receiver import open_plugin
        print(len(open_plugin("json://127.0.0.1/")))
        from watchdog.notify import url_problem
        print(url_problem("json://127.0.0.1/"))
    """
    assert run(program, str(tmp_path / "gone"), str(ROOT)) == "[None] False\n1\nNone\n"
