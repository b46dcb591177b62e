"""Progress bars: what they say, and where they are shown."""

import io
import os
import pty
import subprocess
import sys

from rich.console import Console

from oneread.cli.bars import amount, bar
from oneread.plans.progress import Progress
from tests.cli.conftest import SCHEMA


def test_a_bar_says_how_far_how_fast_and_how_long_yet():
    assert amount(Progress("reading", 5), 0.5) == "5"
    assert amount(Progress("reading", 3000, 12_000), 2.0) == "3,000 of 12,000, 1,500/s, 6 s left"
    assert amount(Progress("reading", 20, faults=2), 4.0) == "20, 5/s, 2 faults"
    assert amount(Progress("loading", 20, refused=3), 4.0) == "20, 5/s, 3 refused"
    assert amount(Progress("loading", 20, share=0.25, refused=3), 4.0) == "20, 25%, 5/s, 12 s left, 3 refused"
    assert amount(Progress("loading", 0, share=0.0), 4.0) == "0, 0%"


def test_one_phase_is_shown_at_a_time():
    out = io.StringIO()
    with bar(Console(file=out, force_terminal=True, width=100, color_system=None)) as tell:
        tell(Progress("first [phase]", 1, 2))
        tell(Progress("first [phase]", 2, 2))
        tell(Progress("second", 1))
    text = out.getvalue()
    assert "first [phase]" in text
    last = text.rpartition("\r\x1b[2K")[2]
    assert ("second" in last, " 1 " in last, "first" in last) == (True, True, False)


def on_a_terminal(url, *arguments, **environment):
    """What a command writes to stderr when that is a terminal."""
    terminal, other = pty.openpty()
    command = [sys.executable, "-m", "oneread", "stat", "--exact", "--schema", SCHEMA, "--db", url, *arguments]
    ran = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=other, env=os.environ | {"TERM": "xterm"} | environment
    )
    os.close(other)
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not part:
            break
        said += part
    out, _err = ran.communicate()
    os.close(terminal)
    assert ran.returncode == 0
    return out.decode(), said.decode()


def test_a_terminal_sees_a_bar_and_stdout_does_not(url):
    out, said = on_a_terminal(url)
    assert "counting rows of" in said
    assert "counting rows of" not in out


def test_colours_are_left_out_where_that_is_asked_for(url):
    assert "\x1b[32m" in on_a_terminal(url)[1]
    assert "\x1b[32m" not in on_a_terminal(url, NO_COLOR="1")[1]


def test_json_and_quiet_see_no_bar(url):
    assert on_a_terminal(url, "--json")[1] == ""
    assert on_a_terminal(url, "--quiet")[1] == ""
