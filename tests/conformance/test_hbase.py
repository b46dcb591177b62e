"""The contract of engines, on HBase."""

from itertools import count

import pytest
from hypothesis import settings

from oneread.engines.hbase import HbaseEngine, options_from_url
from oneread.testing.conformance import EngineConformance
from tests.rooms import RoomOfKeys


@pytest.fixture(scope="session")
def options(hbase, worker_id):
    return options_from_url(f"{hbase.place}/default", {"prefix": f"conformance_{worker_id}_"})


@pytest.fixture(scope="session")
def store(options):
    engine = HbaseEngine(options)
    numbers = count()
    yield lambda: RoomOfKeys(engine, next(numbers).to_bytes(4, "big"))
    engine.close()


class TestHbase(EngineConformance):
    examples = max(1, settings().max_examples // 4)

    @pytest.fixture
    def open_engine(self, store):
        return store

    @pytest.fixture
    def reopen_engine(self, options):
        opened = []

        def reopen_engine(room):
            opened.append(HbaseEngine(options))
            return RoomOfKeys(opened[-1], room._prefix)

        yield reopen_engine
        for engine in opened:
            engine.close()
