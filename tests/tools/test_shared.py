"""A shared server is one for all that use it at the same time, and ends with the last of them."""

import os
import signal
from pathlib import Path

import pytest

from tests.failures.stores import child, until
from tools.servers.shared import shared

KEEPER = "tests.tools.keeper"
USER = """
import sys
from pathlib import Path
from tools.servers.shared import shared
with shared(Path(sys.argv[1]), "tests.tools.keeper") as facts:
    print(facts, flush=True)
    sys.stdin.read()
"""


def runs(process):
    """Whether a process runs: a child that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_all_users_share_one_server_which_ends_with_the_last(tmp_path):
    folder = tmp_path / "server"
    with shared(folder, KEEPER) as facts:
        with shared(folder, KEEPER) as again:
            assert again == facts
        assert runs(int(facts))
    until(lambda: not runs(int(facts)))
    until(lambda: not folder.exists())
    with shared(folder, KEEPER) as later:
        assert later != facts


def test_a_user_that_is_killed_uses_nothing_any_more(tmp_path):
    folder = tmp_path / "server"
    user = child(USER, folder, measured=False)
    keeper = int(user.stdout.readline())
    user.kill()
    user.communicate()
    until(lambda: not runs(keeper))


def test_facts_of_a_keeper_that_was_killed_are_not_believed(tmp_path):
    folder = tmp_path / "server"
    with shared(folder, KEEPER) as facts:
        os.kill(int(facts), signal.SIGKILL)
        until(lambda: not runs(int(facts)))
        with shared(folder, KEEPER) as later:
            assert later != facts
            assert runs(int(later))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_uses_no_server(tmp_path):
    folder = tmp_path / "server"
    reading, writing = os.pipe()
    with shared(folder, KEEPER) as facts:
        child_of_fork = os.fork()
        if not child_of_fork:
            os.close(writing)
            os.read(reading, 1)  # until the parent closes its end
            os._exit(0)
    try:
        until(lambda: not runs(int(facts)))
    finally:
        os.close(writing)
        os.close(reading)
        os.waitpid(child_of_fork, 0)


def test_a_server_that_does_not_start_says_why(tmp_path):
    with pytest.raises(RuntimeError, match="this one never starts"), shared(tmp_path / "failing", KEEPER):
        pytest.fail("it does not start")
