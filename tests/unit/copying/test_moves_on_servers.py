"""A store is moved to a server and from one while it is written: reads are equal, what was counted counts once."""

import pytest

from oneread import LaunchOptions, connect, move
from oneread.errors import StoreMoved
from oneread.evolution import leased_fence
from oneread.testing.clock import Clock
from oneread.transactions import journal_recovery
from tests.stores import SERVERS, forget, make_url, open_rooms
from tests.unit.copying.test_moves import check_equal, opened, write
from tests.unit.database.test_launches import until
from tests.unit.transfer import moved
from tests.unit.transfer.moved import SCHEMA, Member


@pytest.fixture(autouse=True)
def leases(monkeypatch):
    """Long enough for a server's answer."""
    for module, name, seconds in (
        (leased_fence, "LEASE_SECONDS", 1.0),
        (journal_recovery, "END_SECONDS", 1.1),
        (leased_fence, "MOVING_LEASE_SECONDS", 0.5),
        (journal_recovery, "MOVING_END_SECONDS", 0.6),
    ):
        monkeypatch.setattr(module, name, seconds)


@pytest.fixture(params=SERVERS)
def target(request, tmp_path, monkeypatch):
    if request.param == "bigtable":
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
    else:
        open_rooms(monkeypatch, request.getfixturevalue("hbase_tables"))
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


def check_resumed(it):
    """Compares a share, and then all, interrupted where the target is verified."""
    some = it.compare(sample=0.5)
    assert (some.equal, some.whole, some.compared > 0) == (True, False, True)

    def stop(progress):
        if progress.phase != "comparing":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        it.compare(progress=stop)
    found = it.compare(resume=True)
    assert (found.equal, found.whole, found.compared > some.compared) == (True, True, True)


def check_shadowed(it, source, target, clock):
    """A program that knows both places reads both, also what is not followed yet."""
    name = it.shadow(100).launch
    it._opened().states.source.launches.set(name, options=LaunchOptions(guard=None))
    with connect(source, SCHEMA, workers=0, clock=clock, next=target) as program:
        assert program.get(Member, 0) == program.page(Member, limit=1)[0]
        tally = program.launches.keeper.track(name).tally
        until(lambda: tally.compared == 2)
        clock.tick()
        program.patch(Member, 0, name="shadowed")
        assert program.get(Member, 0).name == "shadowed"
        until(lambda: sum(tally.new.dark) == 3)  # the first look
        it.follow(until_lag=0.0)
        until(lambda: tally.compared == 3)
        assert (tally.differing, tally.settled, tally.late, tally.dropped) == (0, 1, 0, 0)
    assert it.shadow(0).shadowed == 3


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
            check_resumed(it)
            check_shadowed(it, source, target, clock)
            write(program, clock, 2, exchanges=False)
            assert it.switch().state == "switched"
            check_equal(program, target, clock)
            with opened(target, clock) as there:
                write(there, clock, 3)
                it.follow(until_lag=0.0)
                assert it.compare().equal
                write(there, clock, 4)
                assert it.back().state == "following"
            check_equal(program, target, clock)
            it.switch(force=True)
            it.finish()


def test_a_server_is_moved_while_it_is_written(target, tmp_path):
    clock, place = Clock(), make_url("lmdb", tmp_path)
    with opened(target, clock) as program:
        moved.fill(program, clock)
        clock.tick()
        with move(target, place, SCHEMA, clock=clock) as it:
            it.start()
            write(program, clock, 0)
            it.copy()
            write(program, clock, 1)
            it.follow(until_lag=0.0)
            check_resumed(it)
            check_shadowed(it, target, place, clock)
            write(program, clock, 2)
            assert it.switch().state == "switched"
            check_equal(program, place, clock)
            with pytest.raises(StoreMoved):
                program.patch(Member, 0, name="late")
            it.finish()
