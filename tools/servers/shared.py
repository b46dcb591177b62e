"""A server that several processes share, as the workers of one run of pytest do: the first starts it, the last ends it.

Each user holds a shared lock on a file. A keeper - a program that runs the server - waits for that lock alone, which it
gets when the last user has ended, also by a crash; then it ends the server. The keeper holds a lock from its start on:
who gets that lock knows that there is none any more, whatever a keeper that was killed said of its server.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

LOOK_SECONDS: Final = 0.05
_USERS: Final = "users"
_FACTS: Final = "facts"
_KEEPER: Final = "keeper"
_TREE: Final = Path(__file__).parents[2]
_KEEPERS: Final[list[subprocess.Popen[bytes]]] = []
"""Keepers that this process started, and does not wait for: each ends when nothing uses its server."""


@contextmanager
def shared(folder: Path, module: str) -> Generator[str]:
    """What the keeper says of its server, which runs until the block ends here and in all other processes.

    Args:
        folder: of this server; it is made, and deleted with the server.
        module: the keeper: `python -m MODULE keep FOLDER`, which calls `keep`.

    Raises:
        RuntimeError: the keeper ended before its server ran; with what it said.
    """
    with _user_of(folder):
        with (folder / "starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            facts = _facts_of_keeper(folder.resolve(), module)
        yield facts


def keep(folder: Path, facts: str) -> None:
    """Tell the users of a server about it, and return once there are none; the server must end then."""
    unfinished = folder / f"{_FACTS}.unfinished"
    unfinished.write_text(facts)
    unfinished.rename(folder / _FACTS)
    with (folder / _USERS).open("r+b") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
        (folder / _FACTS).unlink()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _user_of(folder: Path) -> Generator[IO[bytes]]:
    """Holds the users' lock: of the file that is there now, since a keeper that ends deletes it."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            users = (folder / _USERS).open("ab")
        except FileNotFoundError:  # deleted just now
            continue
        with users:
            fcntl.flock(users, fcntl.LOCK_SH)
            if _is(users, folder / _USERS):
                os.register_at_fork(after_in_child=users.close)  # the child would hold the lock, too
                yield users
                return


def _is(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _facts_of_keeper(folder: Path, module: str) -> str:
    """What the keeper that runs says of its server; one is started where none runs."""
    was_started = False
    while True:
        with (folder / _KEEPER).open("ab") as kept:
            if _takes(kept):
                if was_started:
                    said = (folder / "output").read_text(errors="replace")
                    raise RuntimeError(f"{module} did not start its server:\n{said}")
                (folder / _FACTS).unlink(missing_ok=True)
                _start(folder, module, kept)
                was_started = True
        if (folder / _FACTS).exists():
            return (folder / _FACTS).read_text()
        time.sleep(LOOK_SECONDS)


def _takes(kept: IO[bytes]) -> bool:
    """Whether the keeper's lock is free; it is held then."""
    try:
        fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(folder: Path, module: str, kept: IO[bytes]) -> None:
    """Start a keeper, which inherits its lock."""
    with (folder / "output").open("wb") as stream:
        keeper = subprocess.Popen(
            [sys.executable, "-m", module, "keep", str(folder)],
            cwd=_TREE,
            env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            pass_fds=[kept.fileno()],
            start_new_session=True,  # Ctrl-C in the run of tests is not for it: it ends after them
        )
    _KEEPERS.append(keeper)
