"""`oneread counter --cache-first`."""

import msgspec
import pytest

from oneread import connect
from tests.cli import notes
from tools.servers.memcached import memcached_server


class Shown(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    stored: int
    chance_to_write: float
    lost_on_average: float
    lost_at_most: float
    shards: list[dict[str, int]]
    value: int | None = None
    unsaved: int | None = None
    seconds: float = 0.0
    added_per_second: float = 0.0


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    stored: int
    chance_to_write: float


@pytest.fixture
def server():
    with memcached_server() as started:
        yield started


@pytest.fixture
def counted(url, server):
    with connect(url, notes.NOTES, workers=0, cache=server.url) as db:
        db.cache_counter("views:7", chance_to_write=1e-6, shards=1).add(30)
        db.cache_counter("views:7", chance_to_write=1e-6).add(12)
        db.cache_counter("views:8", chance_to_write=0.5).add()
        db.counter("views:7").add(1000)


@pytest.mark.usefixtures("counted")
def test_a_counter_is_shown_with_what_is_stored(oneread):
    ran = oneread("counter", "views:7", "--cache-first", "--seconds", "0")
    assert ran.code == 0
    assert ran.out.startswith("views:7: 30 stored; --cache URL shows")
    shown = oneread("counter", "views:7", "--cache-first", "--seconds", "0", "--json").document(Shown)
    assert (shown.stored, shown.chance_to_write, shown.shards) == (30, 1e-6, [{"number": 0, "value": 30}])
    assert shown.value is None


@pytest.mark.usefixtures("counted")
def test_with_its_cache_the_value_is_shown(oneread, server):
    ran = oneread("counter", "views:7", "--cache", server.url, "--seconds", "0.01")
    assert ran.out.startswith("views:7: 42, of which 30 are stored\n")
    assert "loses 999,999.0 adds on average, 6,907,751.0 at most in 999 of 1,000 losses" in ran.out
    assert "0.0 added a second, over 0.0 s" in ran.out
    shown = oneread("counter", "views:7", "--cache", server.url, "--json", "--seconds", "0").document(Shown)
    assert (shown.value, shown.stored, shown.unsaved) == (42, 30, 12)


@pytest.mark.usefixtures("counted")
def test_counters_are_listed(oneread):
    listed = oneread("counter", "--cache-first", "--json").document(list[Listed])
    assert [(each.name, each.stored, each.chance_to_write) for each in listed] == [
        ("views:7", 30, 1e-6),
        ("views:8", 1, 0.5),
    ]
    ran = oneread("counter", "--cache-first", "--prefix", "views:8")
    assert [line.split() for line in ran.out.splitlines()][-1] == ["views:8", "1", "0.5"]
    assert "--limit" in oneread("counter", "--cache-first", "--limit", "1").err
    assert "no value" in oneread("counter", "--cache-first", "--prefix", "x").err


@pytest.mark.usefixtures("counted")
def test_a_counter_is_deleted_when_the_user_agrees(oneread, server, url):
    for given, reason in (
        (("views:7", "--cache", server.url), "give --yes as well"),
        (("views:7", "--cache-first", "--yes"), "needs --cache URL"),
        (("--cache", server.url, "--yes"), "needs the name of a counter"),
        (("views:9", "--cache", server.url, "--yes"), "no value of this cache-first counter is stored"),
    ):
        ran = oneread("counter", "--delete", *given)
        assert ran.code == 2
        assert reason in " ".join(ran.err.split())
    ran = oneread("counter", "views:7", "--cache", server.url, "--delete", "--yes")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "views:7: 42, of which 30 are stored")
    assert ran.out.splitlines()[-1] == "views:7 deleted"
    shown = oneread("counter", "views:8", "--cache", server.url, "--delete", "--yes", "--json").document(Shown)
    assert shown.stored == 1
    with connect(url, notes.NOTES, workers=0, cache=server.url) as db:
        assert db.cache_counters() == []
        assert db.cache_counter("views:7").read() == 0
        assert db.counter("views:7").read() == 1000
        assert db.verify().clean


@pytest.mark.usefixtures("counted")
def test_wrong_use_is_refused(oneread, server):
    failed = oneread("counter", "views:9", "--cache-first", "--json")
    assert failed.code == 2
    assert "no value of this cache-first counter is stored" in failed.failure().message
    assert oneread("counter", "views:7", "--cache-first", "--shards", "3").code == 2
    assert oneread("counter", "views:7", "--cache", "ftp://x").code == 2
    server.kill()
    failed = oneread("counter", "views:7", "--cache", server.url, "--json")
    assert failed.code not in (0, 2)
    assert "memcached does not answer" in failed.failure().message
    assert oneread("verify").code == 0
    assert "cache-first counters" in oneread("stat").out
