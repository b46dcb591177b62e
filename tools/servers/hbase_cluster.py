"""A private HBase of several processes: ZooKeeper, a master, region servers, and Thrift2 servers before them.

`with hbase_cluster(region_servers=3, thrift_servers=2) as cluster:` starts one that is gone afterwards. Each process
can be killed, paused and started again by itself, on the same data; `revive` starts all that ended. HBase's log goes to
the local disk without checksums, whose buffer a killed process would take with it: what a region server acknowledged is
in the kernel's hands when it is killed.
"""

import re
import socket
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.servers import processes
from tools.servers.hbase import (
    READY_SECONDS,
    SMALL_STORES,
    THRIFT_READY_SECONDS,
    JavaServer,
    ThriftServer,
    check_installed,
    client_settings,
)
from tools.servers.processes import ADDRESS, STARTS, free_port

SESSION_SECONDS: Final = 20
"""After how long a region server that was killed counts as dead; sooner when it was started again by then."""

REGION_SERVERS: Final = 3
THRIFT_SERVERS: Final = 2
NO_SETTINGS: Final[Mapping[str, str]] = {}

_ANSWER_SECONDS: Final = 5.0
_INITIALIZED: Final = b"Master has completed initialization"
_SERVING: Final = re.compile(rb"Serving as localhost,")


class ZooKeeper(JavaServer):
    """HBase's own program of one ZooKeeper server."""

    def __init__(self, folder: Path, settings: Mapping[str, str], port: int) -> None:
        super().__init__(folder, "org.apache.hadoop.hbase.zookeeper.HQuorumPeer", ("start",), "64m")
        self.port = port
        self.configure(settings)

    def start(self) -> None:
        """Start it, and return when it answers. Raises RuntimeError when it does not start."""
        self.launch(self._answers, THRIFT_READY_SECONDS)

    def _answers(self) -> bool:
        try:
            with socket.create_connection((ADDRESS, self.port), _ANSWER_SECONDS) as probe:
                probe.sendall(b"srvr")
                return probe.recv(64).startswith(b"Zookeeper version")
        except OSError:
            return False


class Master(JavaServer):
    """The master, which is ready when it has assigned the regions: so region servers must be starting."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        super().__init__(folder, "org.apache.hadoop.hbase.master.HMaster", ("start",), "256m")
        self.configure(settings)

    def start(self) -> None:
        """Start it, and return when it is initialized. Raises RuntimeError when it does not start."""
        self.begin()
        self.finish()

    def finish(self) -> None:
        """Return when it is initialized, after `begin`."""
        self.wait(lambda: _INITIALIZED in self.output.read_bytes(), READY_SECONDS)


class RegionServer(JavaServer):
    """One region server, always on the same port: the master takes one that comes again for a new one."""

    def __init__(self, folder: Path, settings: Mapping[str, str], port: int) -> None:
        arguments = (f"-Dhbase.regionserver.port={port}", "start")
        super().__init__(folder, "org.apache.hadoop.hbase.regionserver.HRegionServer", arguments, "256m")
        self.port = port
        self.configure(settings)

    def start(self) -> None:
        """Start it, and return when the master knows it. Raises RuntimeError when it does not start."""
        self.begin()
        self.finish()

    def finish(self) -> None:
        """Return when the master knows it, after `begin`."""
        self.wait(lambda: _SERVING.search(self.output.read_bytes()) is not None, READY_SECONDS)


class HbaseCluster:
    """Every process of one HBase; `hbase_cluster` starts and ends them."""

    def __init__(self, folder: Path, region_servers: int, thrift_servers: int, thrift: Mapping[str, str]) -> None:
        self._folder = folder
        self._counts = (region_servers, thrift_servers)
        self._thrift = thrift
        self._make()

    def _make(self) -> None:
        """Give every process its ports and settings."""
        region_servers, thrift_servers = self._counts
        self.zookeeper, master = free_port(), free_port()
        settings = _settings(self._folder, self.zookeeper, master, region_servers)
        self.keeper = ZooKeeper(self._folder / "keeper", settings, self.zookeeper)
        self.master = Master(self._folder / "master", settings)
        self.region_servers = [
            RegionServer(self._folder / f"region-server-{number}", settings, free_port())
            for number in range(region_servers)
        ]
        of_thrift = {**client_settings(self.zookeeper), **self._thrift}
        self.thrift_servers = [
            ThriftServer(self._folder / f"thrift-{number}", of_thrift, framed=False) for number in range(thrift_servers)
        ]

    @property
    def servers(self) -> list[JavaServer]:
        """All processes, each after those that it needs."""
        return [self.keeper, self.master, *self.region_servers, *self.thrift_servers]

    @property
    def places(self) -> str:
        """The addresses of the Thrift2 servers, as a URL has them."""
        return ",".join(each.place for each in self.thrift_servers)

    def start(self) -> None:
        """Start all, on other ports when one is taken meanwhile.

        Raises:
            RuntimeError: one did not start; with the end of what it said.
        """
        for left in reversed(range(STARTS)):
            try:
                _start(self.servers)
            except RuntimeError:
                self.kill()
                if not left:
                    raise
                self._make()
            else:
                return

    def revive(self) -> list[JavaServer]:
        """Start every process that has ended, on its port and data, and return them; those that are paused stay so.

        Raises:
            RuntimeError: one did not start; with the end of what it said.
        """
        ended = [each for each in self.servers if not each.is_running]
        _start(ended)
        return ended

    def kill(self) -> None:
        """End all at once."""
        for each in reversed(self.servers):
            each.kill()


def _start(servers: Sequence[JavaServer]) -> None:
    """Start servers, each kind once those are ready that it needs; a master and region servers need each other."""
    together = [each for each in servers if isinstance(each, (Master, RegionServer))]
    for each in servers:
        if isinstance(each, ZooKeeper):
            each.start()
    for begun in together:
        begun.begin()
    for begun in together:
        begun.finish()
    for each in servers:
        if isinstance(each, ThriftServer):
            each.start()


def _settings(folder: Path, zookeeper: int, master: int, region_servers: int) -> dict[str, str]:
    return {
        "hbase.cluster.distributed": "true",
        "hbase.unsafe.stream.capability.enforce": "false",
        "hbase.wal.provider": "filesystem",
        "hbase.rootdir": f"file://{folder}/data",
        "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "hbase.tmp.dir": str(folder / "tmp"),
        "hbase.use.dynamic.jars": "false",
        "hbase.client.retries.number": "15",
        "hbase.zookeeper.property.dataDir": str(folder / "zookeeper"),
        "hbase.zookeeper.quorum": ADDRESS,
        "hbase.zookeeper.property.clientPort": str(zookeeper),
        "hbase.zookeeper.property.clientPortAddress": ADDRESS,
        "hbase.zookeeper.property.tickTime": "500",
        "hbase.zookeeper.property.maxSessionTimeout": "60000",  # by default 20 ticks, which may be less than the next
        "zookeeper.session.timeout": str(SESSION_SECONDS * 1000),
        "hbase.master.hostname": "localhost",
        "hbase.master.ipc.address": ADDRESS,
        "hbase.master.port": str(master),
        "hbase.master.info.port": "-1",
        "hbase.regionserver.hostname": "localhost",
        "hbase.regionserver.ipc.address": ADDRESS,
        "hbase.regionserver.info.port": "-1",
        "hbase.regionserver.handler.count": "10",
        "hbase.master.wait.on.regionservers.mintostart": str(min(region_servers, 2)),
        "hbase.master.wait.on.regionservers.timeout": "1500",
        **SMALL_STORES,
    }


@contextmanager
def hbase_cluster(
    region_servers: int = REGION_SERVERS,
    thrift_servers: int = THRIFT_SERVERS,
    thrift_settings: Mapping[str, str] = NO_SETTINGS,
) -> Generator[HbaseCluster]:
    """Start an HBase of several processes and yield it; end them afterwards, and when this process is killed.

    Args:
        region_servers: how many; each takes some 200 MB of memory.
        thrift_servers: how many; each takes some 120 MB.
        thrift_settings: what to set of Thrift2 servers besides what tests need.

    Raises:
        FileNotFoundError: Java or the libraries are missing; the message says what installs them.
        RuntimeError: a process did not start; the message has the end of its log.
    """
    check_installed()
    with processes.temporary_folder("hbase") as folder:
        cluster = HbaseCluster(folder, region_servers, thrift_servers, thrift_settings)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.kill()
