"""A server that several processes share, as the workers of one run of pytest do: the first starts it, the last ends it.

Each user holds a shared lock on a file. A keeper - a program that runs the server - waits for that lock alone, which it
gets when the last user has ended, also by a crash; then it ends the server.
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
            if not (folder / _FACTS).exists():
                _start(folder, module)
        yield (folder / _FACTS).read_text()


def keep(folder: Path, facts: str) -> None:
    """Tell the users of a server about it, and return once there are none; the server must end then."""
    unfinished = folder / f"{_FACTS}.unfinished"
    unfinished.write_text(facts)
    unfinished.rename(folder / _FACTS)
    with (folder / _USERS).open("r+b") as users:
        fcntl.flock(users, fcntl.LOCK_EX)
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
                yield users
                return


def _is(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _start(folder: Path, module: str) -> None:
    output = folder / "output"
    with output.open("wb") as stream:
        keeper = subprocess.Popen(
            [sys.executable, "-m", module, "keep", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C in the run of tests is not for it: it ends after them
        )
    while not (folder / _FACTS).exists():
        if keeper.poll() is not None:
            raise RuntimeError(f"{module} did not start its server:\n{output.read_text(errors='replace')}")
        time.sleep(LOOK_SECONDS)
    _KEEPERS.append(keeper)
