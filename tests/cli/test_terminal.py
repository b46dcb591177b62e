"""What commands do on a terminal: records that are too wide for it, and the better prompt where that is installed."""

import os
import pty
import select
import subprocess
import sys

from tests.cli.conftest import SCHEMA

IPYTHON = """
def embed(*, user_ns, banner1, colors, display_banner):
    print("IPython", user_ns["db"].get(user_ns["Person"], 1).name, display_banner)
"""


def answered(url, answer, *arguments):
    """What a command shows on a terminal where somebody types an answer."""
    return on_a_terminal(url, *arguments, typed=answer, codes=(0, 1))


def on_a_terminal(url, *arguments, typed="", codes=(0,), **environment):
    """What a command shows on a terminal of 60 columns."""
    terminal, other = pty.openpty()
    ran = subprocess.Popen(
        [sys.executable, "-m", "oneread", arguments[0], "--schema", SCHEMA, "--db", url, *arguments[1:]],
        stdin=other, stdout=other, stderr=other,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "60", "LINES": "24"} | environment,
    )  # fmt: skip
    os.close(other)
    os.write(terminal, typed.encode())
    shown = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            shown += os.read(terminal, 4096)
        except OSError:  # Linux's way to say that the other end is closed
            break
    os.close(terminal)
    assert ran.wait(timeout=60) in codes
    return shown.decode().replace("\r\n", "\n")


def test_rows_too_wide_for_the_terminal_stand_one_below_the_other(url):
    shown = on_a_terminal(url, "page", "NotesOfAuthor", "1", "--limit", "2")
    assert shown.startswith("[1]\nsource  ")
    assert "\n\n[2]\nsource  " in shown
    assert "\nbody    body 3\n" in shown


def test_rows_that_fit_are_a_table(url):
    assert on_a_terminal(url, "page", "Person").startswith("number  name  email\n")


def test_ipython_is_used_where_it_is_installed(url, tmp_path):
    (tmp_path / "IPython.py").write_text(IPYTHON)
    assert on_a_terminal(url, "shell", PYTHONPATH=str(tmp_path)) == "IPython Ada True\n"
    assert on_a_terminal(url, "shell", "--quiet", PYTHONPATH=str(tmp_path)) == "IPython Ada False\n"
