"""What private servers share: a folder that goes away, a free port, starting and ending a process."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

ADDRESS: Final = "127.0.0.1"
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.01
SYSTEM_FOLDERS: Final = (Path("/usr/bin"), Path("/usr/sbin"))
"""Where Debian keeps servers; `sbin` is not on every user's PATH."""


def find_program(name: str, folders: Sequence[Path] = SYSTEM_FOLDERS) -> Path | None:
    """A server's program, from PATH or one of the folders; None where there is none."""
    on_path = shutil.which(name)
    candidates = [*([Path(on_path)] if on_path else []), *(folder / name for folder in folders)]
    return next((each for each in candidates if each.is_file()), None)


def cache_folder() -> Path:
    """Where servers that are built or fetched are kept, outside the tree: once for each user of the machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneread"


@contextmanager
def temporary_folder(server: str) -> Generator[Path]:
    """A server's own folder, gone afterwards with everything in it."""
    with tempfile.TemporaryDirectory(prefix=f"oneread-{server}-") as name:
        yield Path(name)


def free_port() -> int:
    """A port of the loopback address on which nothing listens now; another program may take it before the server."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: Sequence[str], folder: Path, is_ready: Callable[[], bool]) -> Generator[subprocess.Popen[bytes]]:
    """Run a server in the foreground, in `folder`, until the block ends; yield its process once it is ready.

    Args:
        command: the program and its arguments.
        folder: where it runs; what it says goes into the file `output` there.
        is_ready: whether it answers; asked again and again.

    Raises:
        RuntimeError: it ended before it was ready, or was not ready in time; the message says what it said.
    """
    output = folder / "output"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{Path(command[0]).name} did not start:\n{output.read_text(errors='replace')}")
            time.sleep(LOOK_SECONDS)
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a server to end, and kill it when it does not."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def answers(socket_path: Path) -> bool:
    """Whether a server accepts connections on its socket."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(socket_path)) == 0
