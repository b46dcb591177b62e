"""The share of a launched view on a store of single rows: what was decided by a former one is not committed."""

from contextlib import suppress
from itertools import count as counting

import pytest
from msgspec.structs import replace

from oneread import Index, Key, Model, Schema, by, connect, descending
from oneread.costs.budgets import budget
from oneread.derivations.emitted_record import decode_record
from oneread.derivations.schema_rows import fence, replace_schema, stored_schema
from oneread.errors import Unavailable
from oneread.evolution import backfill, writing_shares
from oneread.evolution.writing_shares import change_share
from oneread.plans.inside import run_plan
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell
from oneread.transactions.journal_recovery import LAUNCHED_LEASE_SECONDS, LEASE_SECONDS
from oneread.transactions.root import EMITTED, parse_root
from tests.stores import make_url
from tests.unit.evolution.test_leased_fence import Store
from tests.unit.verify.hands import put, stored_rows


class Event(Model[int]):
    number: Key[int]
    group: str
    score: int = 0


class Home(Index[Event]):
    group: str = by(Event.group)


class HomeByScore(Index[Event]):
    replaces = Home
    group: str = by(Event.group)
    score: int = descending(Event.score)


SCHEMA = Schema(Event, Home, HomeByScore)


@pytest.fixture
def store():
    return Store()


def share(db, percent):
    db.run(change_share(db.operations.committer, "HomeByScore", percent))
    db.run(db.operations.fence.refresh())


def names_view(db, number):
    key = db.operations.catalog.kinds[Event].key((number,))
    (row,) = db.run(Read("roots", [key], "dm").__iter__())
    (token,) = db.operations.catalog.views[HomeByScore].tokens
    return token in decode_record(parse_root(row).emitted)


@pytest.mark.parametrize("learns", ["at the end of its lease", "by another thread"])
@pytest.mark.parametrize("together", [False, True])
def test_what_was_decided_by_a_former_share_is_decided_again(store, learns, together):
    db, other = store.program(SCHEMA), store.program(SCHEMA)
    share(db, 0)

    def raise_share(request):
        if type(request) is Mutate and request.table == "system":
            store.before = lambda _request: None
            share(other, 100)
            if learns == "by another thread":
                db.run(db.operations.fence.refresh())
            else:
                store.pass_by(LEASE_SECONDS)

    store.before = raise_share
    events = [Event(number=number, group="a") for number in (1, 2)]
    if together:
        with db.bulk(batch=10) as bulk:
            for each in events:
                bulk.save(each)
    else:
        for each in events:
            db.save(each)
    assert [names_view(db, number) for number in (1, 2)] == [True, True]


def test_an_older_schema_row_that_is_read_late_changes_nothing(store):
    db = store.program(SCHEMA)
    older = store.run(stored_schema())
    share(db, 0)
    db.operations.catalog.learn(older)
    db.save(Event(number=1, group="a"))
    assert not names_view(db, 1)


@pytest.mark.parametrize("kind", ["memory", "lmdb"])
def test_a_share_of_a_transaction_that_is_undone_does_not_count(kind, tmp_path):
    with connect(make_url(kind, tmp_path), SCHEMA, workers=0) as db:

        def undone(inside):
            stored = run_plan(inside, stored_schema())
            views = stored.views | {"HomeByScore": replace(stored.views["HomeByScore"], writes=0.0, state="building")}
            changed = replace_schema(inside, replace(stored, views=views), inside.now())
            db.operations.fence.check_writable(inside, Cell(fence(changed), 1))
            assert db.operations.catalog.left_out(b"\x00\x01")
            raise Unavailable("no room")

        with pytest.raises(Unavailable):
            db.run(db.operations.committer.together(undone))
        db.save(Event(number=1, group="a"))
        assert names_view(db, 1)


def test_a_repaired_record_names_what_is_written(url, monkeypatch):
    monkeypatch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)
    with connect(url, SCHEMA, workers=0) as db:
        share(db, 0)
        db.save(Event(number=1, group="a"))
        key = db.operations.catalog.kinds[Event].key((1,))
        ((_key, row),) = stored_rows(db, "roots", key)
        put(db, "roots", key, {**row, EMITTED: Cell(b"\xc1", row[EMITTED].stamp)})
        db.repair()
        assert not names_view(db, 1)
        share(db, 100)
        assert db.backfill(fence=True, quiet=0, wait=0).done
        assert db.verify().clean
        assert [row.group for row in db.page(HomeByScore, "a")] == ["a"]


def test_passes_of_a_backfill_begin_again_when_a_share_was_changed(url, monkeypatch):
    with connect(url, Schema(Event, Home), workers=0) as older:
        for number in range(20):
            older.save(Event(number=number, group="a"))
    monkeypatch.setattr(backfill, "BATCH", 5)
    monkeypatch.setattr(backfill, "_UNSAVED", 1)
    with connect(url, SCHEMA, workers=0) as db:
        assert not db.backfill(quiet=1000, wait=0).done
        closed = iter([False, True])

        def stop(progress):
            if progress.phase == "checking once more, older programs are fenced off" and next(closed):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            db.backfill(fence=True, progress=stop)
        share(db, 0)
        db.save(Event(number=1, group="b"))
        share(db, 100)
        assert not names_view(db, 1)
        assert db.backfill(fence=True, quiet=0, wait=0).done
        assert names_view(db, 1)
        assert db.verify().clean


def test_a_change_that_ends_at_any_request_is_made_again():
    for place in counting():
        store = Store()
        db, left = store.program(SCHEMA), iter([None] * place)
        db.save(Event(number=1, group="a"))

        def die(_request, left=left):
            if next(left, "over") == "over":
                raise Unavailable("killed")

        store.before = die
        with suppress(Unavailable):
            db.run(change_share(db.operations.committer, "HomeByScore", 0))
        store.before = lambda _request: None
        view = store.run(stored_schema()).views["HomeByScore"]
        assert (view.state, view.writes) in [("readable", 100), ("building", 100), ("building", 0)]
        share(db, 0)
        db.save(Event(number=1, group="b"))
        assert not names_view(db, 1)
        share(db, 100)
        assert db.backfill(fence=True).done
        store.audited(db)
        if next(left, "over") != "over":
            assert place == 5  # two reads and two swaps
            return


def test_a_program_follows_when_half_of_its_lease_is_over(store):
    db, other = store.program(SCHEMA), store.program(SCHEMA)
    share(other, 99.99)
    db.save(Event(number=1, group="a"))
    share(other, 0)
    db.save(Event(number=1, group="b"))
    assert names_view(db, 1)
    store.pass_by(LAUNCHED_LEASE_SECONDS / 2)
    db.save(Event(number=1, group="c"))
    assert not names_view(db, 1)


@pytest.mark.parametrize(("schema", "looks"), [(Schema(Event, Home), 6), (SCHEMA, 20)], ids=["none", "launched"])
def test_what_a_launch_costs_a_program_that_writes_every_second(store, schema, looks):
    db = store.program(schema)
    save = Event(number=1, group="a")
    db.save(save)
    with budget() as spent:
        db.save(save)
    each = spent.cost.requests
    with budget() as spent:
        for _ in range(60):
            store.pass_by(1.0)
            db.save(save)
    assert spent.cost.requests - 60 * each == looks


def test_a_view_that_was_readable_is_not_read_before_it_is_not_written(store):
    db = store.program(SCHEMA)
    seen = []

    def look():
        view = store.run(stored_schema()).views["HomeByScore"]
        seen.append((view.state, view.writes))

    store.asleep = look
    store.slept.clear()
    share(db, 10)
    assert (store.slept, seen) == ([5.0], [("building", 100.0)])
    store.slept.clear()
    share(db, 20)
    share(db, 100)
    assert store.slept == []
