"""Private servers for a developer: `python -m tools.servers [NAME...]` starts them, and ends them at Ctrl-C.

All of them by default; it prints how to connect. HBase runs as several processes, whose numbers are printed: kill and
pause them by hand.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Final, TypeAlias

from tools.servers.bigtable import bigtable_emulator
from tools.servers.hbase_cluster import REGION_SERVERS, THRIFT_SERVERS, hbase_cluster
from tools.servers.memcached import memcached_server
from tools.servers.postgres import postgres_server
from tools.servers.redis import redis_server

Started: TypeAlias = Generator[list[str]]


@contextmanager
def _hbase(options: argparse.Namespace) -> Started:
    with hbase_cluster(options.region_servers, options.thrift_servers) as cluster:
        processes = [f"  process {each.pid}: {each.folder.name}" for each in cluster.servers]
        yield [f"hbase://{cluster.places}/default", *processes]


@contextmanager
def _bigtable(_options: argparse.Namespace) -> Started:
    with bigtable_emulator() as emulator:
        yield [f"BIGTABLE_EMULATOR_HOST={emulator.host}", "bigtable://test/test", f"  process {emulator.pid}: emulator"]


@contextmanager
def _memcached(_options: argparse.Namespace) -> Started:
    with memcached_server() as server:
        yield [server.url]


@contextmanager
def _redis(_options: argparse.Namespace) -> Started:
    with redis_server() as url:
        yield [url]


@contextmanager
def _postgres(_options: argparse.Namespace) -> Started:
    with postgres_server() as dsn:
        yield [dsn]


SERVERS: Final[dict[str, Callable[[argparse.Namespace], AbstractContextManager[list[str]]]]] = {
    "hbase": _hbase,
    "bigtable": _bigtable,
    "memcached": _memcached,
    "redis": _redis,
    "postgres": _postgres,
}


def main(arguments: Sequence[str]) -> int:
    """Start what is asked for, say where it is, and wait; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.servers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SERVERS)}; all by default")
    parser.add_argument("--region-servers", type=int, default=REGION_SERVERS, metavar="COUNT")
    parser.add_argument("--thrift-servers", type=int, default=THRIFT_SERVERS, metavar="COUNT")
    options = parser.parse_args(arguments)
    names = options.names or list(SERVERS)
    unknown = [each for each in names if each not in SERVERS]
    if unknown:
        parser.error(f"no such server: {', '.join(unknown)}; there are {', '.join(SERVERS)}")
    if options.region_servers < 1 or options.thrift_servers < 1:
        parser.error("HBase needs a region server and a Thrift server")
    for number in (signal.SIGTERM, signal.SIGINT):  # a shell lets what it starts in the background ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    with suppress(KeyboardInterrupt), ExitStack() as stack:
        for name in names:
            try:
                lines = stack.enter_context(SERVERS[name](options))
            except (FileNotFoundError, RuntimeError) as error:
                print(f"{name}: {error}", file=sys.stderr)
                return 1
            print("\n".join(lines), flush=True)
        print("running; Ctrl-C ends them", flush=True)
        signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
