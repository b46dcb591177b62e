"""URLs of Bigtable stores: what they mean, and hostile ones, which never reach a server."""

import sys

import pytest

from oneread import Key, Model, Schema, connect
from oneread.engines.bigtable.options import LONGEST_SECONDS, BigtableOptions, options_from_url
from oneread.engines.bigtable.servers import emulated
from oneread.errors import InvalidUrl, UsageError
from oneread.transactions.grace import LATE


class Thing(Model[int]):
    number: Key[int]


def test_a_place_is_a_project_and_an_instance():
    options = options_from_url("my-project/my-instance", {}, 30.0)
    assert options == BigtableOptions("my-project", "my-instance", timeout=10.0)
    assert options.table_name("roots") == "projects/my-project/instances/my-instance/tables/roots"
    assert options_from_url("example.com:my-project/i/", {}, 30.0).project == "example.com:my-project"


def test_every_option():
    query = {"profile": "single.c-1", "prefix": "shop_", "pool": "7", "timeout": "2.5", "read_only": "true"}
    options = options_from_url("p/i", query, 30.0)
    assert options == BigtableOptions("p", "i", "single.c-1", "shop_", 7, 2.5, read_only=True)
    assert options.table_name("views").endswith("/tables/shop_views")


@pytest.mark.parametrize(("patience", "seconds"), [(30.0, 10.0), (4.0, 4.0), (0, 1.0), (10**9, 10.0)])
def test_a_request_takes_no_longer_than_its_call_may(patience, seconds):
    assert options_from_url("p/i", {}, patience).timeout == seconds


def test_no_request_is_later_than_purging_relies_on():
    assert LONGEST_SECONDS == LATE


@pytest.mark.parametrize(
    "place",
    ["", "/", "p", "p/", "/i", "p/i/t", "p//i", "../i", "p/..", "P/i", "p/I", "p/i?", "p i/i", "p/i\n", "p\x00/i",
     "1p/i", "p/" + "i" * 64, "a:b:c/i", "é/i", "p/i%2F", "[::1]/i", "user@p/i"],
)  # fmt: skip
def test_other_places_are_refused(place):
    with pytest.raises(InvalidUrl, match="a project and an instance"):
        options_from_url(place, {}, 30.0)


@pytest.mark.parametrize(
    ("option", "value"),
    [("pool", "0"), ("pool", "257"), ("pool", "-1"), ("pool", "1e1"), ("pool", "٣"), ("pool", ""),
     ("timeout", "0"), ("timeout", "61"), ("timeout", "nan"), ("timeout", "-1"), ("timeout", "1e1"), ("timeout", ""),
     ("prefix", "-a"), ("prefix", ".a"), ("prefix", "a/b"), ("prefix", "a b"), ("prefix", "a" * 41), ("prefix", "a\n"),
     ("profile", ""), ("profile", "a&table_name=b"), ("profile", "a" * 51), ("profile", "-a"), ("profile", "a\n"),
     ("read_only", "1"), ("read_only", "TRUE"), ("map_size", "1G"), ("", "")],
)  # fmt: skip
def test_other_options_are_refused_by_name(option, value):
    with pytest.raises(InvalidUrl) as refused:
        options_from_url("p/i", {option: value}, 30.0)
    assert refused.value.facts["option"] == option


@pytest.mark.parametrize(
    "url",
    ["bigtable://p", "bigtable://p/i?pool=0", "bigtable://p/i?pool=1&pool=2", "bigtable://p/i#f",
     "bigtable://p/i?host=evil.example", "bigtable:///i", "bigtable://p/i?profile="],
)  # fmt: skip
def test_a_wrong_url_is_refused_before_anything_is_asked(monkeypatch, url):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1")
    with pytest.raises(InvalidUrl):
        connect(url, Schema(Thing))


@pytest.mark.parametrize("host", ["localhost", "http://localhost:1", "a b:1", "a:b", ":1", "localhost:1/x", "a:1\n"])
def test_a_wrong_host_of_an_emulator_is_refused(monkeypatch, host):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", host)
    with pytest.raises(InvalidUrl, match="BIGTABLE_EMULATOR_HOST"):
        connect("bigtable://p/i", Schema(Thing))


@pytest.mark.parametrize("host", ["localhost:8086", "127.0.0.1:1", "[::1]:8086", "emulator_1.test:80"])
def test_hosts_of_an_emulator(host):
    assert emulated(host) == (host, host, None)


@pytest.mark.parametrize("missing", ["grpc", "google.protobuf.descriptor_pb2"])
def test_without_the_clients_the_error_names_what_installs_them(monkeypatch, missing):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", "127.0.0.1:1")
    forget_engine(monkeypatch)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=r"pip install 'oneread\[bigtable\]'"):
        connect("bigtable://p/i", Schema(Thing))


def forget_engine(monkeypatch):
    """Lets the engine be imported again, and puts it back after the test."""
    for name in [each for each in sys.modules if each.startswith("oneread.engines.bigtable")]:
        monkeypatch.delitem(sys.modules, name)
