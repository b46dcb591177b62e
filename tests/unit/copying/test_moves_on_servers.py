"""A store is moved to a server while it is written: reads are equal, and what was counted counts once."""

import pytest

from oneread import connect, move
from oneread.testing.clock import Clock
from tests.stores import SERVERS, forget, make_url, open_rooms
from tests.unit.copying.test_moves import check_equal, write
from tests.unit.transfer import moved
from tests.unit.transfer.moved import SCHEMA


@pytest.fixture(params=SERVERS)
def target(request, tmp_path, monkeypatch):
    if request.param == "bigtable":
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
    else:
        open_rooms(monkeypatch, request.getfixturevalue("hbase_tables"))
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


def test_what_is_written_meanwhile_is_in_the_target(target, tmp_path):
    clock, source = Clock(), make_url("lmdb", tmp_path)
    with connect(source, SCHEMA, workers=0, clock=clock, cache="memory://") as program:
        moved.fill(program, clock)
        clock.tick()
        with move(source, target, SCHEMA, clock=clock) as it:
            it.start()
            write(program, clock, 0, exchanges=False)
            it.copy()
            write(program, clock, 1, exchanges=False)
            it.follow(until_lag=0.0)
            assert it.compare().equal
            write(program, clock, 2, exchanges=False)
            assert it.switch().state == "switched"
            check_equal(program, target, clock)
            it.finish()
