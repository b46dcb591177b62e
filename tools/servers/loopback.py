"""Free ports of the loopback address, for servers that tests and benchmarks start."""

import socket

ADDRESS = "127.0.0.1"


def free_port() -> int:
    """A port that nothing listens on; another program may take it before the server does."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return int(probe.getsockname()[1])
