"""A private memcached: the cache of cache-first counters, for tests.

`with memcached_server() as server:` starts one that is gone afterwards; it can be killed, paused and started again on
the same port. `python -m tools.servers.memcached install` installs Debian's package where no server is found.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools import debian
from tools.servers.processes import ADDRESS, find_program, free_port

PROGRAM = "memcached"
INSTALL = debian.command(PROGRAM)
READY_SECONDS = 10.0
PAUSE_SECONDS = 0.001
ACCOUNT = "nobody"


class MemcachedServer:
    """One server on a port of its own; its contents are lost whenever it stops."""

    def __init__(self, program: Path, options: Sequence[str] = ()) -> None:
        self.port = free_port()
        account = [f"--user={ACCOUNT}"] if os.geteuid() == 0 else []  # it refuses to run as root
        own = [f"--listen={ADDRESS}", f"--port={self.port}", "--udp-port=0"]
        self._command = [str(program), *own, *account, *options]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """What `connect(..., cache=)` takes."""
        return f"memcached://{ADDRESS}:{self.port}"

    def start(self) -> None:
        """Start it, empty, and return when it answers.

        Raises:
            RuntimeError: it ended, or did not answer in time; with what it printed.
        """
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        deadline = time.monotonic() + READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = self.kill()
                raise RuntimeError(f"memcached does not start:\n{said}")
            time.sleep(PAUSE_SECONDS)

    def kill(self) -> str:
        """End it at once (SIGKILL), as a crash does; nothing when it does not run. Returns what it printed."""
        if self._process is None:
            return ""
        process, self._process = self._process, None
        process.kill()
        return process.communicate()[1].decode(errors="replace")

    def restart(self) -> None:
        """Kill it, and start it on the same port: connections are cut and everything it held is lost."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Let it answer nothing (SIGSTOP), while the kernel accepts connections; returns once it stands still."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let it answer again, what was sent meanwhile first (SIGCONT)."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((ADDRESS, self.port), READY_SECONDS) as connection:
                connection.sendall(b"version\r\n")
                return connection.recv(100).startswith(b"VERSION ")
        except OSError:
            return False


@contextmanager
def memcached_server(*options: str) -> Generator[MemcachedServer]:
    """Start an empty server on the loopback address and yield it; end it afterwards.

    Args:
        options: of its command line, for example `--memory-limit=1`.

    Raises:
        FileNotFoundError: no server is installed; the message says what installs one.
    """
    program = find_program(PROGRAM)
    if program is None:
        raise FileNotFoundError(f"no memcached found; as root: {INSTALL}")
    server = MemcachedServer(program, options)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def install() -> int:
    """Make sure that a server is installed: nothing when it is, Debian's package when we are root, else say how."""
    if find_program(PROGRAM):
        return 0
    return debian.install(INSTALL, "memcached is missing, which tests keep counters in")


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.servers.memcached install")
    sys.exit(install())
