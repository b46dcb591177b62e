"""A private Redis: the peer that benchmarks of counters measure against.

`with redis_server() as url:` starts one in a temporary folder and takes it away again.
`python -m tools.servers.redis install` installs Debian's package where no server is found.
"""

import sys
from collections.abc import Generator, Mapping
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


def install() -> int:
    """Make sure that a server is installed: nothing when it is, Debian's package when we are root, else say how."""
    if find_program():
        return 0
    return debian.install(INSTALL, "Redis is missing, which benchmarks compare with")


if __name__ == "__main__":
    if sys.argv[1:] != ["install"]:
        sys.exit("usage: python -m tools.servers.redis install")
    sys.exit(install())
