"""The files of an HBase after an erasure: a major compaction and the removal of old files leave no byte of a person.

The servers of this test do at once what an HBase does within days: flush, roll logs, compact, remove. A server that is
started again has read its logs and needs them no more.
"""

from time import monotonic, sleep
from uuid import uuid4

import pytest

from oneread import connect
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.testing.clock import Clock
from oneread.transactions.grace import LEAST_GRACE
from tests.servers import need
from tests.unit.database.test_erasing import SECRETS, SHOP, Customer, fill
from tools.servers.hbase import hbase_server, thrift_server

AT_ONCE = {
    "hbase.regionserver.flush.check.period": "500",
    "hbase.regionserver.optionalcacheflushinterval": "1000",
    "hbase.regionserver.periodicmemstoreflusher.rangeofdelayseconds": "1",
    "hbase.regionserver.logroll.period": "2000",
    "hbase.regionserver.compaction.check.period": "500",
    "hbase.server.compactchecker.interval.multiplier": "1",
    "hbase.hregion.majorcompaction": "1000",
    "hbase.hregion.majorcompaction.jitter": "0",
    "hbase.hfile.compaction.discharger.interval": "500",
    "hbase.master.cleaner.interval": "500",
    "hbase.master.hfilecleaner.ttl": "500",
    "hbase.master.logcleaner.ttl": "500",
}
PATIENCE = 180


def files_with_a_secret(folder):
    """The files that have a value of the person, among those that are there while this looks."""
    found = []
    for path in folder.rglob("*"):
        try:
            content = path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            continue
        if any(each in content for each in SECRETS):
            found.append(str(path.relative_to(folder)))
    return found


def until(condition):
    end = monotonic() + PATIENCE
    while not condition() and monotonic() < end:
        sleep(0.5)
    return condition()


@pytest.mark.timeout(900)
def test_no_file_of_hbase_has_a_byte_of_an_erased_one():
    clock = Clock()
    with (
        need("hbase", lambda: hbase_server(settings=AT_ONCE)) as server,
        thrift_server(server.zookeeper) as thrift,
        connect(
            f"hbase://{thrift.place}/default?prefix=e{uuid4().hex[:8]}_&compression=none", SHOP, workers=0, clock=clock
        ) as db,
    ):
        fill(db)
        assert until(lambda: any(each.startswith("data/") for each in files_with_a_secret(server.data)))
        db.erase(Customer, 7)
        clock.tick(2 * 86_400)
        db.sweep()
        purge = Purge(db.operations.catalog, RecordedPointers(), LEAST_GRACE)
        while db.run(purge.step()):
            pass
        logs = "WALs/"  # of a server: kept until its own tables are flushed as well, each five minutes
        tables = lambda: [each for each in files_with_a_secret(server.data) if not each.startswith(logs)]  # noqa: E731
        assert until(lambda: tables() == []), tables()
        server.kill()
        server.start()
        assert until(lambda: files_with_a_secret(server.data) == []), files_with_a_secret(server.data)
