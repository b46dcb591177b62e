"""A private Redis: the peer that benchmarks of counters measure against, and a cache for tests.

`with redis_server() as url:` starts one in a temporary folder and takes it away again. `with redis_on_a_port() as
server:` starts one that can be killed, paused and started again on the same port.
`python -m tools.servers.redis install` installs Debian's package where no server is found.
"""

import socket
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools import debian
from tools.servers import processes

PROGRAM = "redis-server"
INSTALL = debian.command("redis-server")
NO_SETTINGS: Mapping[str, str] = {}


def find_program() -> Path | None:
    """The server's program, or None where there is none."""
    return processes.find_program(PROGRAM)


@contextmanager
def redis_server(settings: Mapping[str, str] = NO_SETTINGS) -> Generator[str]:
    """Start an empty server and yield its URL, `unix://...`; stop it and delete its data afterwards.

    The URL goes through the server's socket, the fastest way to it; it listens on no port. It takes no snapshots
    (`save ""`): what survives it is what `appendonly` and `appendfsync` say.

    Args:
        settings: what to set as in redis.conf, for example `{"appendonly": "yes", "appendfsync": "always"}`.

    Raises:
        FileNotFoundError: no server is installed; the message says what installs one.
        RuntimeError: the server did not start; the message says why.
    """
    program = find_program()
    if program is None:
        raise FileNotFoundError(f"no Redis server found; as root: {INSTALL}")
    with processes.temporary_folder("redis") as folder:
        socket = folder / "socket"
        own = {"port": "0", "unixsocket": str(socket), "dir": str(folder), "save": "", "daemonize": "no"}
        options = [part for key, value in {**own, **settings}.items() for part in (f"--{key}", value)]
        with processes.running([str(program), *options], folder, lambda: processes.answers(socket)):
            yield f"unix://{socket}"


class RedisServer(processes.PrivateServer):
    """One server on a port of its own; its contents are lost whenever it stops."""

    def __init__(self, program: Path, options: Sequence[str] = ()) -> None:
        super().__init__()
        kept_nothing = ["--save", "", "--appendonly", "no", "--daemonize", "no"]
        self._command = [str(program), "--bind", processes.ADDRESS, *kept_nothing, *options]
        self.choose_ports()

    @property
    def url(self) -> str:
        """What `connect(..., cache=)` takes."""
        return f"redis://{processes.ADDRESS}:{self.port}/0"

    def choose_ports(self) -> None:
        self.port = processes.free_port()

    def start(self) -> None:
        """Start it, empty, and return when it answers.

        Raises:
            RuntimeError: it ended, or did not answer in time; with what it printed.
        """
        with tempfile.TemporaryFile() as output:
            command = [*self._command, "--port", str(self.port)]
            if not self._launch(command, output, self._answers, processes.START_SECONDS):
                output.seek(0)
                raise RuntimeError(f"Redis does not start:\n{output.read().decode(errors='replace')}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection((processes.ADDRESS, self.port), processes.START_SECONDS) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(100)[:1] in {b"+", b"-"}
        except OSError:
            return False


@contextmanager
def redis_on_a_port(*options: str) -> Generator[RedisServer]:
    """Start an empty server on the loopback address and yield it; end it afterwards.

    Args:
        options: of its command line, for example `"--maxmemory", "2mb"`.

    Raises:
        FileNotFoundError: no server is installed; the message says what installs one.
    """
    program = find_program()
    if program is None:
        raise FileNotFoundError(f"no Redis server found; as root: {INSTALL}")
    server = RedisServer(program, options)
    try:
        server.start_anywhere()
        yield server
    finally:
        server.kill()


def install() -> int:
    """Make sure that a server is installed: nothing when it is, Debian's package when we are root, else say how."""
    if find_program():
        return 0
    return debian.install(INSTALL, "Redis is missing, which tests and benchmarks need")


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.servers.redis install")
    sys.exit(install())
