"""What private servers share: a folder that goes away, a free port, starting and ending a process."""

import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

ADDRESS: Final = "127.0.0.1"
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 10.0
LOOK_SECONDS: Final = 0.01
STARTS: Final = 3
"""Times that a server is started, each time on other ports: another program may take one first."""

_DIE_WITH_STARTER: Final = """
import ctypes, os, signal, sys
starter, uid, gid, *command = sys.argv[1:]
if uid:
    os.setgroups([])
    os.setgid(int(gid))
    os.setuid(int(uid))
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(starter):
    sys.exit("the process that started this one has ended")
try:
    os.execvp(command[0], command)
except OSError as error:
    sys.exit(f"cannot run {command[0]}: {error}")
"""
"""A program that becomes another one, which the kernel kills when its starter ends (PR_SET_PDEATHSIG is 1).

It takes its account first: the kernel forgets the signal when a process changes its user.
"""

SYSTEM_FOLDERS: Final = (Path("/usr/bin"), Path("/usr/sbin"))
"""Where Debian keeps servers; `sbin` is not on every user's PATH."""


def find_program(name: str, folders: Sequence[Path] = SYSTEM_FOLDERS) -> Path | None:
    """A server's program, from PATH or one of the folders; None where there is none."""
    on_path = shutil.which(name)
    candidates = [*([Path(on_path)] if on_path else []), *(folder / name for folder in folders)]
    return next((each for each in candidates if each.is_file()), None)


def is_left_out(server: str) -> bool:
    """Whether tests do without a server: ONEREAD_WITHOUT=NAME,... names it."""
    return server in re.split(r"[, ]+", os.environ.get("ONEREAD_WITHOUT", ""))


def cache_folder() -> Path:
    """Where servers that are built or fetched are kept, outside the tree: once for each user of the machine."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneread"


def ends_with_this_process(command: Sequence[str], account: pwd.struct_passwd | None = None) -> list[str]:
    """A command that runs another one, whose process is killed when this one ends, however it ends.

    The kernel asks whether the thread has ended that started it, so that thread must live as long as the server.

    Args:
        command: the program and its arguments. It must not change its user: the kernel would forget the signal.
        account: whom to run as, when we are root.
    """
    who = ("", "") if account is None else (str(account.pw_uid), str(account.pw_gid))
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_STARTER, str(os.getpid()), *who, *command]


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

    It ends with this process, even when that is killed.

    Args:
        command: the program and its arguments.
        folder: where it runs; what it says goes into the file `output` there.
        is_ready: whether it answers; asked again and again.

    Raises:
        RuntimeError: it ended before it was ready, or was not ready in time; the message says what it said.
    """
    output = folder / "output"
    with output.open("wb") as stream:
        process = _popen(command, stream, folder)
    try:
        if not _wait_for(process, is_ready, START_SECONDS):
            raise RuntimeError(f"{Path(command[0]).name} did not start:\n{output.read_text(errors='replace')}")
        yield process
    finally:
        end(process)


def _popen(
    command: Sequence[str], output: IO[bytes], folder: Path | None, account: pwd.struct_passwd | None = None
) -> subprocess.Popen[bytes]:
    """Start a server, which says what it says into `output`, and ends with this process."""
    whole = ends_with_this_process(command, account)
    return subprocess.Popen(whole, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def _wait_for(process: subprocess.Popen[bytes], is_ready: Callable[[], bool], seconds: float) -> bool:
    """Returns once a server is ready; False when it ended, or was not ready in time."""
    deadline = time.monotonic() + seconds
    while (has_ended := process.poll() is not None) or not is_ready():
        if has_ended or time.monotonic() > deadline:
            return False
        time.sleep(LOOK_SECONDS)
    return True


class PrivateServer:
    """A base of servers that are one process each, which can be killed, paused and started again.

    Each ends with the process that started it, even when that is killed.
    """

    account: pwd.struct_passwd | None = None
    """Whom it runs as; by default as whoever starts it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The number of its process, which runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether its process is there, paused or not."""
        return self._process is not None and self._process.poll() is None

    def choose_ports(self) -> None:
        """Take free ports, on which it starts from now on."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and return when it answers. Raises RuntimeError when it does not start, with what it said."""
        raise NotImplementedError

    def start_anywhere(self) -> None:
        """Start it for the first time, on other ports when one of them is taken meanwhile."""
        for left in reversed(range(STARTS)):
            try:
                self.start()
            except RuntimeError:
                if not left:
                    raise
                self.choose_ports()
            else:
                return

    def restart(self) -> None:
        """Kill it, and start it on the same ports: connections are cut, and what it held in memory is lost."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash does; nothing when it does not run."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()

    def pause(self) -> None:
        """Let it answer nothing (SIGSTOP), while the kernel accepts connections; returns once it stands still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let it answer again, what was sent meanwhile first (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _launch(
        self,
        command: Sequence[str],
        output: IO[bytes],
        is_ready: Callable[[], bool],
        seconds: float,
        folder: Path | None = None,
    ) -> bool:
        """Start the process, which says what it says into `output`; it is killed, and False, when it is not ready."""
        self._begin(command, output, folder)
        return self._wait(is_ready, seconds)

    def _begin(self, command: Sequence[str], output: IO[bytes], folder: Path | None) -> None:
        """Start the process, and do not wait for it."""
        self._process = _popen(command, output, folder, self.account)

    def _wait(self, is_ready: Callable[[], bool], seconds: float) -> bool:
        """Returns once it is ready; it is killed, and False, when it is not."""
        assert self._process is not None
        started = _wait_for(self._process, is_ready, seconds)
        if not started:
            self.kill()
        return started


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
