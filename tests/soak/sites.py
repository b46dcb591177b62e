"""The servers of a soak, behind proxies, and what may happen to each of them.

A site has `kills` and `pauses`: names of faults with their shares; `strike(name)` makes one happen, and `heal` ends
what has not ended by itself. Only what a real installation survives is done: the emulator of Bigtable keeps nothing
when it is killed, so it is stopped with all its connections cut, as a program sees a server that is replaced.
"""

import time
from contextlib import ExitStack, contextmanager
from typing import ClassVar
from uuid import uuid4

from tests.failures.proxy import Proxy
from tests.hbase_admin import administrator
from tools.servers.bigtable import bigtable_emulator
from tools.servers.hbase_cluster import SESSION_SECONDS, hbase_cluster

LONGEST_PAUSE = 4.0
"""Seconds of a pause that ends: far less than a session of ZooKeeper, also on a machine that has other work.

HBase counts on HDFS to refuse what a region server writes to its log that comes back after its session: a local disk
takes it, after the log was read by others, and acknowledged writes are lost. So one that was away so long is killed.
"""

SPLITS = "roots:0002,0006;views:0002,0004;counts:0004"
"""Keys that begin with the number of a model or view: the tables are on all region servers."""


class BigtableSite:
    """The emulator."""

    kills: ClassVar = {"emulator stopped and cut off": 3, "all connections cut": 1}
    pauses: ClassVar = {"emulator paused": 1}
    timeout = 20.0
    deadline = 120.0

    def __init__(self, emulator, weather, chance):
        self._emulator = emulator
        self._chance = chance
        self._proxy = Proxy(("127.0.0.1", emulator.port))
        self._proxy.on_answer = weather.on_answer
        self._instance = uuid4().hex
        self.url = f"bigtable://test/i{self._instance}?timeout=10"
        self.own_url = self.url
        self.environment = {"BIGTABLE_EMULATOR_HOST": self._proxy.place}
        self.own_environment = {"BIGTABLE_EMULATOR_HOST": emulator.host}

    def strike(self, name):
        """Make it happen, and return when it is over: what was sent before is still done by the emulator afterwards."""
        if name != "all connections cut":
            self._emulator.pause()
        if name != "emulator paused":
            self._proxy.cut()
        if name != "all connections cut":
            time.sleep(self._chance.uniform(0.1, 3.0))
            self._emulator.resume()

    def heal(self):
        """Nothing: every fault has ended."""

    def close(self):
        self._proxy.close()


class HbaseSite:
    """HBase as processes, and a proxy before each Thrift2 server."""

    kills: ClassVar = {
        "region server with rows": 30,
        "region server with views": 25,
        "region server with meta": 15,
        "Thrift server": 25,
        "master": 3,
        "ZooKeeper": 2,
    }
    pauses: ClassVar = {
        "Thrift server paused": 3,
        "region server paused": 2,
        "region server paused and fenced": 1,
    }
    timeout = 30.0
    deadline = 300.0

    def __init__(self, cluster, weather, chance):
        self._cluster = cluster
        self._chance = chance
        self._proxies = [Proxy(("127.0.0.1", each.port)) for each in cluster.thrift_servers]
        for each in self._proxies:
            each.on_answer = weather.on_answer
        prefix = f"k{uuid4().hex[:8]}_"
        self._table = f"default:{prefix}".encode()
        options = f"/default?prefix={prefix}&timeout=20&splits={SPLITS}"
        self.url = f"hbase://{','.join(each.place for each in self._proxies)}{options}"
        self.own_url = f"hbase://{cluster.places}{options}"
        self.environment = self.own_environment = {}
        self._paused = []

    def strike(self, name):
        """Make it happen. A killed server stays away until `heal`, which half of the time is now."""
        server = self._server(name)
        if "fenced" in name:
            server.pause()
            time.sleep(SESSION_SECONDS * 1.2)
            server.kill()
        elif "paused" in name:
            server.pause()
            time.sleep(self._chance.uniform(0.5, LONGEST_PAUSE))
            server.resume()
        else:
            server.kill()
            if self._chance.random() < 0.5:
                self.heal()

    def heal(self):
        """Start again what was killed, or ended by itself since its ZooKeeper session did."""
        self._cluster.revive()

    def _server(self, name):
        """A server of the kind, which runs: of several that fit, any."""
        cluster = self._cluster
        if name == "master":
            return self._running([cluster.master])
        if name == "ZooKeeper":
            return self._running([cluster.keeper])
        if name.startswith("Thrift"):
            return self._running(cluster.thrift_servers)
        tables = {"rows": self._table + b"roots", "views": self._table + b"views", "meta": b"hbase:meta"}
        table = next((table for kind, table in tables.items() if name.endswith(kind)), self._table + b"roots")
        ports = self._ports_of(table)
        return self._running([each for each in cluster.region_servers if each.port in ports])

    def _running(self, servers):
        if not any(each.is_running for each in servers):
            self.heal()
        return self._chance.choice([each for each in servers if each.is_running])

    def _ports_of(self, table):
        """The ports of the region servers that have regions of a table; all where HBase cannot say now."""
        everywhere = {each.port for each in self._cluster.region_servers}
        for _ in range(3):
            for thrift in self._cluster.thrift_servers:
                if not thrift.is_running:
                    continue
                try:
                    with administrator(thrift.place) as client:
                        ports = {each.serverName.port for each in client.getAllRegionLocations(table)} & everywhere
                except Exception:  # noqa: BLE001 - HBase is on its way back
                    continue
                if any(each.is_running and each.port in ports for each in self._cluster.region_servers):
                    return ports
            self.heal()
        return everywhere

    def close(self):
        for each in self._proxies:
            each.close()


@contextmanager
def site(engine, weather, chance):
    """The servers of an engine, which end afterwards."""
    with ExitStack() as stack:
        if engine == "hbase":
            made = HbaseSite(stack.enter_context(hbase_cluster()), weather, chance)
        else:
            made = BigtableSite(stack.enter_context(bigtable_emulator()), weather, chance)
        stack.callback(made.close)
        yield made
