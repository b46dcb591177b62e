"""A private memcached: the cache of cache-first counters, for tests.

`with memcached_server() as server:` starts one that is gone afterwards; it can be killed, paused and started again on
the same port. `python -m tools.servers.memcached install` installs Debian's package where no server is found.
"""

import os
import pwd
import socket
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools import debian
from tools.servers.processes import ADDRESS, PrivateServer, find_program, free_port

PROGRAM = "memcached"
INSTALL = debian.command(PROGRAM)
READY_SECONDS = 10.0
ACCOUNT = "nobody"


class MemcachedServer(PrivateServer):
    """One server on a port of its own; its contents are lost whenever it stops."""

    def __init__(self, program: Path, options: Sequence[str] = ()) -> None:
        super().__init__()
        self.account = pwd.getpwnam(ACCOUNT) if os.geteuid() == 0 else None  # it refuses to run as root
        self._command = [str(program), f"--listen={ADDRESS}", "--udp-port=0", *options]
        self.choose_ports()

    @property
    def url(self) -> str:
        """What `connect(..., cache=)` takes."""
        return f"memcached://{ADDRESS}:{self.port}"

    def choose_ports(self) -> None:
        self.port = free_port()

    def start(self) -> None:
        """Start it, empty, and return when it answers.

        Raises:
            RuntimeError: it ended, or did not answer in time; with what it printed.
        """
        with tempfile.TemporaryFile() as output:
            if not self._launch([*self._command, f"--port={self.port}"], output, self._answers, READY_SECONDS):
                output.seek(0)
                raise RuntimeError(f"memcached does not start:\n{output.read().decode(errors='replace')}")

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
        server.start_anywhere()
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
