"""Each process of a private cluster is killed, paused and started again by itself; `revive` starts all that ended."""

from uuid import uuid4

import pytest

from oneread import Key, Model, Schema, connect
from tests.servers import need
from tools.servers import hbase as servers
from tools.servers.hbase_cluster import hbase_cluster


class Entry(Model[int]):
    number: Key[int]


def test_without_java_the_error_says_how_to_install_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(servers, "JAVA", "no-such-java")
    with pytest.raises(FileNotFoundError, match=r"apt-get install .*openjdk"), hbase_cluster():
        pytest.fail("Java was found where none is")


def test_without_the_libraries_the_error_says_how_to_fetch_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"python -m tools\.servers\.hbase install"), hbase_cluster():
        pytest.fail("libraries were found where none are")


def test_what_was_acknowledged_outlives_the_death_of_every_process():
    """The data is in the log of a region server that is killed, and in no other place: nothing was flushed."""
    with need("hbase", lambda: hbase_cluster(1, 1)) as cluster:
        url = f"hbase://{cluster.places}/default?prefix=c{uuid4().hex[:8]}_"
        with connect(url, Schema(Entry), workers=0, timeout=60) as db:
            assert cluster.revive() == []
            db.save(Entry(number=1))
            cluster.kill()
            assert not any(each.is_running for each in cluster.servers)
            assert cluster.revive() == cluster.servers
            assert all(each.is_running for each in cluster.servers)
            (paused,), (thrift,) = cluster.region_servers, cluster.thrift_servers
            paused.pause()
            thrift.kill()
            assert cluster.revive() == [thrift], "a paused process has not ended"
            paused.resume()
            db.save(Entry(number=2))
            assert [each.number for page in db.scan(Entry) for each in page] == [1, 2]
