"""A `timeout` bounds a whole verify, repair or dump; what was done by then is kept, and said."""

import asyncio

import pytest

from oneread import connect, connect_async
from oneread.engines import one_row_memory
from oneread.engines.one_row_memory import NoFaults
from oneread.errors import Unavailable, UsageError
from oneread.plans import in_time
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.verify import looks
from tests.unit.database import shop
from tests.unit.verify.damaged import SCHEMA, Damaged
from tests.unit.verify.damaged_rows import DamagedRows
from tests.unit.verify.faults import PLANTED
from tests.unit.verify.hands import STORES, url_of


@pytest.fixture
def asked(monkeypatch):
    """A clock that shows how often it was read, so that a timeout is a number of requests."""
    reads = [0]

    def elapsed():
        reads[0] += 1
        return float(reads[0])

    monkeypatch.setattr(in_time, "elapsed", elapsed)
    monkeypatch.setattr(looks, "APART", 0.0)
    return reads


@pytest.fixture(params=STORES)
def store(request, tmp_path):
    made = DamagedRows() if request.param == "one row" else Damaged(url_of(request.param, tmp_path))
    yield made
    made.close()


def test_a_verification_ends_with_what_it_has_and_continues(store, asked):
    whole = store.db.verify()
    found, entities_seen = store.db.verify(timeout=12), 0
    assert 12 <= asked[0] <= 12 + 2 * len(found.skipped) + 4  # one that is refused for each part that is left
    while found.skipped:
        assert not found.clean
        assert found.entities >= entities_seen
        entities_seen = found.entities
        found = store.db.verify(resume=found.cursor, timeout=100)
    assert (found.clean, found.entities, found.cursor) == (True, whole.entities, "")


@pytest.mark.usefixtures("asked")
def test_what_a_repair_mended_in_time_is_mended(store):
    PLANTED[0](store)
    assert store.db.verify().faults
    done, timeout = store.db.repair(timeout=20), 20
    while not done.clean:
        timeout *= 2
        done = store.db.repair(timeout=timeout)
    assert timeout > 20
    assert store.db.verify().clean


@pytest.mark.usefixtures("asked")
def test_a_dump_that_is_not_done_raises(store):
    lines = []
    with pytest.raises(Unavailable, match="not done within its timeout"):
        store.db.dump(lines.append, timeout=3)
    assert not lines or b'"end"' not in lines[-1]
    assert store.db.dump(lines.append, timeout=1000).end


@pytest.mark.parametrize("timeout", [0, -1, "1", float("nan"), True])
def test_a_timeout_is_a_number_of_seconds(timeout):
    with connect("memory://", shop.SCHEMA) as db:
        for call in (db.verify, db.repair, lambda timeout: db.dump(print, timeout=timeout)):
            with pytest.raises(UsageError):
                call(timeout=timeout)


@pytest.mark.usefixtures("asked")
def test_on_an_event_loop():
    async def main():
        async with connect_async("memory://", shop.SCHEMA) as db:
            assert (await db.verify(timeout=3)).skipped
            assert (await db.verify(timeout=1000)).clean
            assert (await db.repair(timeout=1000)).clean

    asyncio.run(main())


class Absent(NoFaults):
    """A server that answers reads, and no write."""

    def __init__(self):
        self.writes = 0

    def before(self, request, _written):
        if type(request) in (Mutate, CheckAndMutate):
            self.writes += 1
            raise Unavailable("the server does not answer")


def test_a_repair_of_a_store_that_does_not_answer_ends_soon(monkeypatch):
    monkeypatch.setattr(looks, "APART", 0.0)
    one_row_memory.forget("absent")
    store = DamagedRows("memory://absent?span=row")
    try:
        for key in list(store.rows("views", store.index(SCHEMA.views[0])))[:20]:
            store.set("views", key, None)
        faults = len(store.db.verify().faults)
        absent = store.engine._faults = Absent()
        with pytest.raises(Unavailable):
            store.db.repair()
        assert 0 < absent.writes < 3 * faults
        store.engine._faults = NoFaults()
        assert store.db.repair().clean
    finally:
        store.close()
