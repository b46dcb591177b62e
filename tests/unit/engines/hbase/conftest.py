"""A store of this worker in the shared HBase, and engines on it that come through proxies."""

from itertools import count

import msgspec
import pytest

from oneread.engines.hbase import HbaseEngine, options_from_url
from tests.failures.proxy import proxy
from tests.rooms import RoomOfKeys


@pytest.fixture(scope="session")
def hbase_options(hbase, worker_id):
    """Where a store of this worker is, whose tables are there."""
    options = options_from_url(f"{hbase.place}/default", {"prefix": f"unit_{worker_id}_", "timeout": "30"})
    HbaseEngine(options).close()
    return options


@pytest.fixture
def engine(hbase_options):
    opened = HbaseEngine(hbase_options)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def numbers():
    return count()


@pytest.fixture
def room(engine, numbers):
    """An empty store: keys of its own in the worker's tables."""
    return RoomOfKeys(engine, b"room" + next(numbers).to_bytes(4, "big"))


@pytest.fixture
def proxies(hbase):
    """Two proxies before the Thrift2 server, as if it were two."""
    with proxy(hbase.place) as first, proxy(hbase.place) as second:
        yield first, second


@pytest.fixture
def through(hbase_options, proxies, numbers):
    """Opens an empty store through the first proxy, or several of them; `timeout` is of requests after that."""
    opened = []

    def open_through(*used, timeout=30.0, **changed):
        options = options_from_url(",".join(each.place for each in (used or proxies[:1])), {})
        given = {"servers": options.servers, **changed}
        engine = HbaseEngine(msgspec.structs.replace(hbase_options, **given))
        opened.append(engine)
        engine._pool.timeout = timeout
        return RoomOfKeys(engine, b"room" + next(numbers).to_bytes(4, "big"))

    yield open_through
    for engine in opened:
        engine.close()
