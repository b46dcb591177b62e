"""A store of each kind, servers included, is copied into one of each kind: reads are equal, and counts count once."""

import pytest

from oneread import connect
from oneread.copying.copies import copy_store
from oneread.testing.clock import Clock
from tests.stores import KINDS, SERVERS, forget, make_url, open_rooms
from tests.unit.transfer import moved
from tests.unit.transfer.moved import SCHEMA


@pytest.fixture(params=[*KINDS, *SERVERS])
def target(request, tmp_path, monkeypatch):
    if request.param == "bigtable":
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
    elif request.param == "hbase":
        open_rooms(monkeypatch, request.getfixturevalue("hbase_tables"))
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


def test_every_read_answers_the_same_and_what_was_counted_counts_once(url, target):
    clock = Clock()

    def opened(place):
        return connect(place, SCHEMA, workers=0, clock=clock, cache="memory://")

    with opened(url) as db:
        moved.fill(db, clock)
    clock.tick()
    found = copy_store(url, target, SCHEMA, clock=clock)
    assert (found.entities, found.counters, found.tokens, found.compared.differ) == (19, 5, 6, 0)
    with opened(url) as one, opened(target) as two:
        assert moved.lines(two) == moved.lines(one)
        assert moved.reads(two) == moved.reads(one)
        assert moved.retry(two) == moved.retry(one) == ([False] * 6, 0, [4, 4])
        assert two.verify().clean
