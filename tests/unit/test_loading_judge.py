"""Receivers are judged by the real apprise, without carrying it into this process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support.config_files import asking_apprise

ROOT = Path(__file__).parents[2]
URLS = ["json://127.0.0.1/hook", "jsn://127.0.0.1/hook", "nothing at all", "ntfys://ntfy.sh/topic"]


def run(program: str, *arguments: str) -> str:
    """What a fresh interpreter prints for `program`."""
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_another_process_gives_the_same_answers_and_apprise_stays_there() -> None:
    program = """
        import sys
        from watchdog.loading.url_check import judge_apart
        print(judge_apart(sys.argv[1:])())
        print("apprise" in sys.modules)
    """
    assert run(program, *URLS) == f"{list(asking_apprise(URLS)())}\nFalse\n"


def test_a_judge_that_is_started_early_answers_once_and_later_questions_too() -> None:
    program = """
        import sys
        from watchdog import apprise_process
        from watchdog.loading.url_check import early_judge
        with early_judge(apprise_process.start()) as judge:
            print(judge(sys.argv[1:])())
            print(judge(sys.argv[1:])() == judge(sys.argv[1:])())
        print("apprise" in sys.modules)
    """
    assert run(program, *URLS) == f"{list(asking_apprise(URLS)())}\nTrue\nFalse\n"


def test_a_judge_nobody_asks_leaves_no_process_behind() -> None:
    program = """
        import os
        from watchdog import apprise_process
        from watchdog.loading.url_check import early_judge
        with early_judge(apprise_process.start()):
            pass
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("no child")
    """
    assert run(program) == "no child\n"


def test_something_else_can_be_done_meanwhile(tmp_path: Path) -> None:
    """And it is done while the question is out: before the answer is asked for, after the process has begun."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "servers: [{name: a, base_url: http://192.0.2.1/v1}]\nreceivers: [{name: b, url: 'json://127.0.0.1/'}]\n"
    )
    program = """
        import sys
        from watchdog.loading import load
        seen = []
        loaded = load(sys.argv[1], meanwhile=lambda: seen.append("apprise" in sys.modules))
        print(loaded.config.receivers[0].name, seen, "apprise" in sys.modules)
    """
    assert run(program, str(config)) == "b [False] False\n"


def test_an_installation_without_a_working_apprise_says_so() -> None:
    program = """
        import sys
        from watchdog import apprise_process
        from watchdog.loading import url_check
        apprise_process.PROGRAM = "raise SystemExit(3)"
        print(url_check.judge_apart(["json://127.0.0.1/"])())
    """
    assert "apprise does not work in this installation" in run(program)


def test_no_receivers_need_no_process() -> None:
    program = """
        import subprocess
        from watchdog.loading import url_check
        subprocess.Popen = None
        print(url_check.judge_apart([])())
    """
    assert run(program) == "[]\n"


def test_a_working_directory_that_is_gone_judges_and_sends_as_ever(tmp_path: Path) -> None:
    """In a process of its own, and here: apprise asks for the working directory when it is imported."""
    program = """
        import os, sys
        sys.path.insert(0, sys.argv[2])
        gone = sys.argv[1]
        os.mkdir(gone)
        os.chdir(gone)
        os.rmdir(gone)
        from watchdog.loading.url_check import judge_apart
        print(judge_apart(["json://127.0.0.1/"])(), "apprise" in sys.modules)
        from watchdog.notify.apprise_receiver import open_service
        print(len(open_service("json://127.0.0.1/")))
        from watchdog.notify import url_problem
        print(url_problem("json://127.0.0.1/"))
    """
    assert run(program, str(tmp_path / "gone"), str(ROOT)) == "[None] False\n1\nNone\n"
