import sys

import pytest

from oneread import Key, Model, Schema, connect
from oneread.engines.hbase import options_from_url
from oneread.errors import InvalidUrl, UsageError
from tests.failures.stores import child


class Note(Model[int]):
    number: Key[int]


def test_a_host_alone_has_the_usual_port_and_namespace():
    options = options_from_url("thrift.example", {})
    assert options.servers == (("thrift.example", 9090),)
    assert options.table("roots") == b"default:roots"


def test_every_option_is_taken():
    options = options_from_url(
        "a:1,[::1]:2,b/shop",
        {
            "prefix": "x_", "pool": "7", "timeout": "2.5", "transport": "framed", "tls": "/etc/ca.pem",
            "compression": "gz", "splits": "views:0002,0001;system:aa", "read_only": "true",
        },
    )  # fmt: skip
    assert options.servers == (("a", 1), ("::1", 2), ("b", 9090))
    assert options.table("views") == b"shop:x_views"
    assert (options.pool, options.timeout, options.transport, options.tls) == (7, 2.5, "framed", "/etc/ca.pem")
    assert (options.compression, options.read_only) == ("gz", True)
    assert options.splits == {"views": (b"\x00\x01", b"\x00\x02"), "system": (b"\xaa",)}


def test_removed_rows_stay_for_good_unless_the_operator_says_how_long():
    assert options_from_url("a", {}).grace is None
    assert options_from_url("a", {}, grace=5000).grace == 5000


@pytest.mark.parametrize(("given", "taken"), [(30.0, 30.0), (5, 5), (1e9, 30.0), (0, 0.1)])
def test_a_request_takes_no_longer_than_the_database_allows(given, taken):
    assert options_from_url("a", {}, timeout=given).timeout == taken
    assert options_from_url("a", {"timeout": "3"}, timeout=given).timeout == 3


@pytest.mark.parametrize(
    "url",
    [
        "hbase://",
        "hbase:///shop",
        "hbase://:9090",
        "hbase://a:",
        "hbase://a:0",
        "hbase://a:65536",
        "hbase://a:1234567",
        "hbase://a:x",
        "hbase://a:+1",
        "hbase://a:\u0661",
        "hbase://a,,b",
        "hbase://a,",
        "hbase://a b",
        "hbase://a/../b",
        "hbase://a/shop/two",
        "hbase://a/sh-op",
        "hbase://a/%00",
        "hbase://user:secret@a:1/shop",
        "hbase://a/" + "n" * 65,
        "hbase://a#part",
        "hbase://a?pool=0",
        "hbase://a?pool=1001",
        "hbase://a?pool=-1",
        "hbase://a?pool=",
        "hbase://a?timeout=0",
        "hbase://a?timeout=31",
        "hbase://a?timeout=nan",
        "hbase://a?timeout=1e1",
        "hbase://a?transport=http",
        "hbase://a?tls=ca.pem",
        "hbase://a?tls=/no/such/file",
        "hbase://a?tls=/dev/null",
        "hbase://a?compression=zip",
        "hbase://a?prefix=.x",
        "hbase://a?prefix=-",
        "hbase://a?prefix=x/y",
        "hbase://a?prefix=" + "x" * 65,
        "hbase://a?splits=roots",
        "hbase://a?splits=roots:",
        "hbase://a?splits=roots:0",
        "hbase://a?splits=roots:00;roots:01",
        "hbase://a?splits=tables:00",
        "hbase://a?grace_s=1",
        "hbase://a?grace_s=x",
        "hbase://a?depth=1",
        "hbase://a?read_only=1",
        "hbase://a?pool=1&pool=2",
    ],
)
def test_a_wrong_url_is_refused_before_anything_is_asked(url):
    with pytest.raises(InvalidUrl):
        connect(url, Schema(Note))


def test_a_secret_in_a_url_is_not_shown():
    with pytest.raises(InvalidUrl) as refusal:
        connect("hbase://user:hidden@a:1/shop", Schema(Note))
    assert "hidden" not in str(refusal.value)


def test_without_the_client_the_error_says_what_to_install(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("oneread.engines.hbase")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "thriftpy2.parser", None)
    with pytest.raises(UsageError, match=r"pip install 'oneread\[hbase\]'"):
        connect("hbase://a", Schema(Note))


def test_importing_the_library_loads_no_client():
    loads = (
        "import sys, oneread; sys.exit(any(each.startswith(('thriftpy2', 'oneread.engines')) for each in sys.modules))"
    )
    with child(loads) as process:
        assert process.wait(60) == 0
