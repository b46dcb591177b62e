"""What expires, as a program meets it: left out by every verb, and deleted by a sweep."""

import csv
import io
import time
from datetime import datetime

import pytest

from oneread import (
    Aggregate,
    Copy,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    by,
    connect,
    count,
    counter,
    expires,
    reference,
    rollup,
)
from oneread.costs.budgets import budget
from oneread.costs.declared import of as costs_of
from oneread.database.expiry_sweep import PAUSE_SECONDS, BackgroundSweeper, Swept
from oneread.errors import AlreadyExists, Conflict, MissingReference, NotFound, NotUnique, StillReferenced, UsageError
from oneread.store.requests import Read, Replace, Scan
from oneread.testing.clock import Clock
from tests.properties.test_dump_round_trip import dumped, load
from tests.unit.database.expiring import (
    SCHEMA,
    Lock,
    Maybe,
    Nick,
    Note,
    OldestPosts,
    Post,
    RecentPosts,
    Session,
    SessionsOf,
    SessionsOfUser,
    Trace,
    User,
    WebSession,
    Who,
    at,
    session,
)
from tests.unit.database.faces import FACES

MEASURES = {
    Read: lambda request, _answer: len(request.keys),
    Scan: lambda _request, answer: len(answer),
    Replace: lambda request, _answer: len(request.rows),
}


class Expiring:
    """A store with a user and a clock, which writes down what is asked of it when `observed`."""

    def __init__(self, face, url, *, observed=False):
        self.clock = Clock()
        self.asked = []
        observers = (self.observe,) if observed else ()
        self.db = face(url, SCHEMA, workers=0, clock=self.clock, observers=observers)
        self.db.save(User(number=1, name="Ada"))
        self.asked.clear()

    def observe(self, request, answer):
        self.asked.append(f"{type(request).__name__} {request.table} {MEASURES[type(request)](request, answer)}")

    def tokens(self, **options):
        return [row.token for row in self.db.page(SessionsOf, 1, **options)]


@pytest.fixture(params=FACES.values(), ids=FACES)
def store(request, url):
    store = Expiring(request.param, url)
    yield store
    store.db.close()


@pytest.fixture
def observed(url):
    store = Expiring(FACES["sync"], url, observed=True)
    yield store
    store.db.close()


def test_every_read_leaves_out_what_has_expired(store):
    db = store.db
    db.save_all([session("a", nick="ann"), session("b", 20, nick="bob"), session("c", None)])
    store.clock.tick(9.999)
    assert db.get(Session, "a").nick == "ann"
    assert db.get(Nick, "ann").source == Session.at("a")
    store.clock.tick(0.001)
    with pytest.raises(NotFound):
        db.get(Session, "a")
    assert db.find(Session, "a") is None
    assert not db.exists(Session, "a")
    assert [each and each.token for each in db.get_many(Session, [("a",), ("b",)])] == [None, "b"]
    assert db.find(Nick, "ann") is None
    assert db.get_many(Nick, [("ann",), ("bob",)])[0] is None
    assert [each.token for each in db.page(Session)] == ["b", "c"]
    assert store.tokens() == ["b", "c"]
    assert store.tokens(backward=True) == ["b", "c"]
    assert [row.token for row in db.page(SessionsOf, any_of(1, 2), limit=1)] == ["b"]
    assert [row.token for page in db.pages(SessionsOf, batch=1) for row in page] == ["b", "c"]
    assert db.find(WebSession, "a") is None
    assert db.transact([("find", (Session, "a"), {}), ("find", (Session, "a"), {"unchecked": True})]) == [None, None]
    assert db.get(SessionsOfUser, 1).sessions == 3  # until the sweep
    assert db.verify().faults == ()


def test_a_page_is_full_in_spite_of_what_expired_in_front_of_it(store):
    store.db.save_all([session(f"{number:03}", number) for number in range(1, 151)])
    store.clock.tick(50)
    page = store.db.page(SessionsOf, 1, limit=10)
    assert [row.token for row in page] == [f"{number:03}" for number in range(51, 61)]
    assert page.cost.skipped == 50
    assert not page.truncated
    before = store.db.page(SessionsOf, 1, limit=10, cursor=page.previous) if page.previous else None
    assert before is None
    store.clock.tick(80)
    page = store.db.page(SessionsOf, 1, limit=5)  # 130 have expired, and the budget is 100
    assert (page.rows, page.truncated) == ([], True)
    assert [row.token for row in store.db.page(SessionsOf, 1, limit=5, cursor=page.next)] == [
        f"{number:03}" for number in range(131, 136)
    ]
    assert store.tokens(limit=5, budget=200) == [f"{number:03}" for number in range(131, 136)]


def test_a_write_never_brings_back_what_has_expired(store):
    db = store.db
    first = db.save(session("a"))
    store.clock.tick(10)
    with pytest.raises(NotFound):
        db.patch(Session, "a", until=None)
    with pytest.raises(Conflict):
        db.save(session("a", 50), if_version=db.version(first))
    with pytest.raises(Conflict):
        db.delete(Session, "a", if_version=db.version(first))
    db.delete(Session, "a")
    saved = db.create(session("a", 50))
    assert saved.made_at == at(10)
    store.clock.tick(60)
    assert db.get_or_create(session("a", 200))[1]
    store.clock.tick(200)
    assert db.upsert(session("a", 900, nick="new"), nick="patched").nick == "new"
    store.clock.tick(1000)
    other = WebSession(token="a", who=Who.of(1), agent="curl", until=at(5000))
    assert db.save(other, if_version=0).agent == "curl"
    with pytest.raises(AlreadyExists):
        db.save(session("a", 6000))
    assert db.verify().faults == ()


def test_an_update_moves_the_expiry(store):
    db = store.db
    db.save(session("a"))
    store.clock.tick(5)
    db.patch(Session, "a", until=at(100))
    store.clock.tick(50)
    assert store.tokens() == ["a"]
    assert db.sweep() == Swept()
    db.patch(Session, "a", until=at(55))
    assert store.tokens() == []
    assert db.find(Session, "a") is None
    assert db.sweep() == Swept(deleted=1)


def test_the_unique_value_of_what_expired_is_free(store):
    db = store.db
    db.save(session("a", nick="ann"))
    with pytest.raises(NotUnique):
        db.save(session("b", 20, nick="ann"))
    store.clock.tick(10)
    db.save(session("b", 20, nick="ann"))
    assert db.get(Nick, "ann").source == Session.at("b")
    assert db.get(SessionsOfUser, 1).sessions == 2  # the expired one waits for its sweep
    with pytest.raises(NotUnique):
        db.save(session("c", 30, nick="ann"))
    store.clock.tick(10)
    assert db.transact([("save", (session("c", 30, nick="ann"),), {})])[0].nick == "ann"
    assert db.verify().faults == ()
    assert db.sweep().deleted == 2
    assert db.get(Nick, "ann").source == Session.at("c")
    assert db.verify().faults == ()


def test_bulk_takes_the_unique_value_of_what_expired(url):
    clock = Clock()
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(User(number=1))
        db.save(session("a", nick="ann"))
        clock.tick(10)
        with db.bulk() as bulk:
            bulk.save(session("b", 20, nick="ann"))
            bulk.save(session("c", 20, nick="cid"))
        assert db.get(Nick, "ann").source == Session.at("b")
        assert db.get(Nick, "cid").source == Session.at("c")


def test_references_to_what_expired(store):
    db = store.db
    db.save(session("a"))
    db.save(Note(number=1, session=Session.at("a")))
    db.save(Trace(number=1, session=Session.at("a")))
    store.clock.tick(10)
    with pytest.raises(MissingReference):
        db.save(Note(number=2, session=Session.at("a")))
    db.save(Maybe(number=1, session=Session.at("a")))
    assert db.save(Note(number=1, session=Session.at("a"))).session == Session.at("a")  # it had that before
    assert db.exists(Trace, 1)  # on_delete applies at the sweep
    assert db.sweep().deleted == 1
    assert not db.exists(Trace, 1)
    assert db.verify().faults == ()


def test_what_is_held_waits_for_its_holders(store):
    db = store.db
    db.save_all([session("a"), session("b"), Lock(number=1, session=Session.at("a"))])
    store.clock.tick(11)
    swept = db.sweep()
    assert (swept.deleted, swept.held) == (1, 1)
    assert "Session('a')" in swept.refused[0]
    assert db.find(Session, "a") is None
    assert db.survey().unswept == {"Session": 1.0}
    db.delete(Lock, 1)
    assert db.sweep() == Swept(deleted=1)
    assert db.survey().unswept == {}


def test_rows_leave_an_index_and_their_entities_stay(store):
    db = store.db
    db.save(Post(number=1))
    store.clock.tick(86_400)
    db.save(Post(number=2))
    store.clock.tick(6 * 86_400)
    assert [row.source for row in db.page(RecentPosts)] == [Post.at(2)]
    assert [each.number for each in db.page(Post)] == [1, 2]
    assert len(db.page(OldestPosts)) == 2
    assert db.verify().faults == ()
    version = db.version(db.get(Post, 1))
    assert db.sweep() == Swept(removed=1)
    assert db.sweep() == Swept()
    assert db.version(db.get(Post, 1)) == version
    assert [row.source for row in db.page(RecentPosts)] == [Post.at(2)]
    assert db.verify().faults == ()


def test_a_sweep_is_bounded_and_continues(store):
    db = store.db
    db.save_all([session(f"{number:02}", number) for number in range(1, 31)])
    store.clock.tick(20)
    assert db.sweep(limit=7) == Swept(deleted=7)
    assert db.survey().unswept == {"Session": 12.0}
    seen = []
    assert db.sweep(batch=5, progress=lambda progress: seen.append(progress.done)) == Swept(deleted=13)
    assert seen == [5, 10, 13]
    assert store.tokens() == [f"{number:02}" for number in range(21, 31)]
    assert db.get(SessionsOfUser, 1).sessions == 10


@pytest.mark.parametrize(
    "options",
    [{"batch": 0}, {"batch": 1001}, {"batch": "5"}, {"batch": True}, {"limit": 0}, {"limit": -1}, {"limit": 2.5}],
)
def test_wrong_options_of_a_sweep_are_refused(store, options):
    with pytest.raises(UsageError, match="whole number of entities"):
        store.db.sweep(**options)


def test_a_sweep_looks_again_before_it_deletes(url):
    clock = Clock()
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(User(number=1))
        db.save_all([session("a"), session("b")])
        clock.tick(10)
        sweep = db.operations.begin_sweep(10)
        commit = sweep._expired._commit

        def prolong_first(changes):
            clock.tick(-5)
            db.patch(Session, "a", until=at(100))
            clock.tick(5)
            return (yield from commit(changes))

        sweep._expired._commit = prolong_first
        while db.run(sweep.step()):
            pass
        assert sweep.swept == Swept(deleted=1)
        assert [each.token for each in db.page(Session)] == ["a"]
        assert db.verify().faults == ()


def test_two_sweeps_at_a_time_do_no_harm(url):
    clock = Clock()
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(User(number=1))
        db.save_all([session(f"{number:02}", 1) for number in range(10)])
        clock.tick(1)
        one, other = db.operations.begin_sweep(3), db.operations.begin_sweep(2)
        more = True
        while more:
            more = any([db.run(one.step()), db.run(other.step())])
        assert one.swept.deleted + other.swept.deleted == 10
        assert db.verify().faults == ()


def test_a_clock_that_is_behind_still_sees_it_until_the_sweep(url):
    clock = Clock()
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(User(number=1))
        db.save(session("a", nick="ann"))
        clock.tick(10)
        assert db.find(Session, "a") is None
        clock.tick(-5)
        assert db.exists(Session, "a")
        clock.tick(5)
        db.sweep()
        clock.tick(-5)
        assert db.find(Session, "a") is None


def test_rows_that_a_wrong_clock_removed_are_faults_and_repaired(url):
    clock = Clock()
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(Post(number=1))
        clock.tick(7 * 86_400 + 1)
        assert db.sweep() == Swept(removed=1)
        clock.tick(-30)
        assert db.verify().faults == ()  # clocks may be half a minute apart
        clock.tick(-86_400)
        assert db.verify().found
        db.repair()
        assert db.verify().faults == ()
        assert [row.source for row in db.page(RecentPosts)] == [Post.at(1)]


def test_a_saved_entity_may_have_expired_before(store):
    saved = store.db.save(session("a", -1, nick="ann"))
    assert saved.nick == "ann"
    assert store.db.find(Session, "a") is None
    assert store.db.verify().faults == ()
    store.db.save(session("b", 5, nick="ann"))
    assert store.db.sweep() == Swept(deleted=1)
    assert store.db.verify().faults == ()


def test_a_dump_holds_what_has_expired_as_it_is_stored(new_url):
    """So holders load, stay masked where they were, and the sweep of the copy does what that of its source does."""
    clock = Clock()
    with connect(new_url(), HELD, workers=0, clock=clock) as db:
        db.save(Holder(number=1))
        db.counter("hits:a").add(3)
        db.save_all([Ticket(token="a", holder=Holder.at(1), until=at(10)), Ticket(token="b", holder=Holder.at(1))])
        db.save_all([Keeper(number=1, ticket=Kept.of("a")), Goer(number=1, ticket=Going.of("a"))])
        db.drain()
        clock.tick(10)
        lines, rows = dumped(db), io.StringIO()
        db.dump_csv(lambda data: rows.write(data.decode()), Ticket)
        assert [row[0] for row in csv.reader(io.StringIO(rows.getvalue()))] == ["token", "b"]
        with connect(new_url(), HELD, workers=0, clock=clock) as copy:
            load(copy, lines)
            assert dumped(copy) == lines
            assert copy.find(Ticket, "a") is None
            assert [each.token for each in copy.page(Ticket)] == ["b"]
            assert copy.get(Holder, 1).tickets == 2
            assert copy.get(Keeper, 1).ticket.hits == 3
            assert copy.verify().faults == ()
            for each in (db, copy):
                assert each.sweep() == Swept(deleted=1)
                assert each.find(Goer, 1) is None
                assert each.get(Keeper, 1).ticket.hits == 3
                assert each.get(Holder, 1).tickets == 1
                assert each.verify().faults == ()
            assert dumped(copy) == dumped(db)


@pytest.mark.parametrize("swept", [False, True])
def test_a_successor_takes_over_the_holders_that_are_there(store, swept):
    """As of one that is deleted and saved in a transaction; what the sweep has deleted is not there."""
    db = store.db
    db.save_all([session("a"), Note(number=1, session=Session.at("a")), Trace(number=1, session=Session.at("a"))])
    store.clock.tick(10)
    if swept:
        assert db.sweep() == Swept(deleted=1)
    db.save(session("a", None))
    assert db.sweep() == Swept()
    assert db.get(Note, 1).session == Session.at("a")
    assert db.exists(Trace, 1) == (not swept)
    db.delete(Session, "a")
    assert not db.exists(Trace, 1)
    assert db.verify().faults == ()


def test_a_successor_is_held_by_what_held_what_expired(store):
    db = store.db
    db.save_all([session("a"), Lock(number=1, session=Session.at("a"))])
    store.clock.tick(10)
    assert db.sweep().held == 1
    db.save(session("a", None))
    assert db.sweep() == Swept()
    with pytest.raises(StillReferenced):
        db.delete(Session, "a")


@pytest.mark.parametrize("swept", [False, True])
def test_an_expected_version_of_what_expired_is_a_conflict(store, swept):
    db = store.db
    version = db.version(db.save(session("a")))
    store.clock.tick(10)
    if swept:
        db.sweep()
    for expected in (version, 5):
        with pytest.raises(Conflict):
            db.patch(Session, "a", until=None, if_version=expected)
        with pytest.raises(Conflict):
            db.delete(Session, "a", if_version=expected)
    with pytest.raises(NotFound):
        db.patch(Session, "a", until=None, if_version=0)
    db.delete(Session, "a", if_version=0)


def test_children_of_a_group_hold_their_root_and_are_dumped_with_it(new_url):
    clock = Clock()
    with connect(new_url(), GROUPS, workers=0, clock=clock) as db:
        db.save(Room(name="r", until=at(10)))
        db.save(Message(name="r", number=1))
        clock.tick(10)
        with pytest.raises(MissingReference):
            db.save(Message(name="r", number=2))
        assert db.sweep().held == 1
        lines = dumped(db)
        with connect(new_url(), GROUPS, workers=0, clock=clock) as again:
            load(again, lines)
            assert again.find(Room, "r") is None
            assert again.exists(Message, "r", 1)
        db.delete(Message, "r", 1)
        assert db.sweep() == Swept(deleted=1)
        assert db.verify().faults == ()


class Room(Model[str]):
    name: Key[str]
    until: datetime | None = None
    ttl = expires("until")


class Message(Model[str, int]):
    child_of = Room
    name: Key[str]
    number: Key[int]
    text: str = ""


GROUPS = Schema(Room, Message)


def test_children_outlive_an_expired_root_until_they_are_deleted(url):
    clock = Clock()
    with connect(url, GROUPS, workers=0, clock=clock) as db:
        db.save(Room(name="r", until=at(10)))
        db.save(Message(name="r", number=1))
        clock.tick(10)
        assert db.patch(Message, "r", 1, text="still here").text == "still here"
        assert [each.number for each in db.page(Message)] == [1]
        with pytest.raises(MissingReference):
            db.save(Message(name="r", number=2))
        db.delete(Room, "r")
        assert db.get(Message, "r", 1).text == "still here"
        db.delete(Room, "r", children="delete")
        assert not db.exists(Message, "r", 1)
        assert db.sweep() == Swept(deleted=1)
        assert db.verify().faults == ()


class Holder(Model[int]):
    number: Key[int]
    name: str = ""
    tickets: int = rollup(lambda: TicketsOf.tickets)


class Ticket(Model[str]):
    token: Key[str]
    holder: Ref[Holder] = reference(missing_ok=False)
    hits: int = rollup(counter("hits:{token}"), every=1)
    until: datetime | None = None
    ttl = expires("until")


class TicketsOf(Aggregate[Ticket]):
    holder: Ref[Holder] = by(Ticket.holder)
    tickets: int = count()


class Kept(Copy[Ticket]):
    hits: int


class Keeper(Model[int]):
    number: Key[int]
    ticket: Kept


class Going(Copy[Ticket]):
    on_delete = "delete"
    hits: int


class Goer(Model[int]):
    number: Key[int]
    ticket: Going


HELD = Schema(Holder, Ticket, TicketsOf, Keeper, Goer)


def test_the_background_sweeper_waits_between_sweeps(url):
    clock, seconds = Clock(), [0.0]
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(User(number=1))
        db.save_all([session("a"), session("b", 20)])
        sweeper = BackgroundSweeper(db.operations.begin_sweep, lambda: seconds[0])
        clock.tick(10)
        while db.run(sweeper.step()):
            pass
        assert db.get(SessionsOfUser, 1).sessions == 1
        clock.tick(10)
        assert not db.run(sweeper.step())
        assert db.get(SessionsOfUser, 1).sessions == 1
        seconds[0] += PAUSE_SECONDS
        while db.run(sweeper.step()):
            pass
        assert db.get(SessionsOfUser, 1).sessions == 0


def test_a_worker_sweeps(url):
    """By the machine's clock."""
    with connect(url, SCHEMA, workers=1) as db:
        db.save_all([User(number=1), Session(token="a", who=Who.of(1), until=at(0))])
        db.operations.sweeper.pause = 0.0
        assert db._worker is not None
        db._worker.wake()
        ended = time.monotonic() + 30
        while db.get(SessionsOfUser, 1).sessions and time.monotonic() < ended:
            time.sleep(0.01)
        assert db.get(SessionsOfUser, 1).sessions == 0


# What it costs.


def test_reads_cost_what_they_cost_without_a_ttl(observed):
    db = observed.db
    db.save_all([session("a", nick="ann"), session("b", 20, nick="bob")])
    observed.clock.tick(10)
    for read, expected in (
        (lambda: db.find(Session, "a"), ["Read roots 1"]),
        (lambda: db.get_many(Session, [("a",), ("b",)]), ["Read roots 2"]),
        (lambda: db.find(Nick, "ann"), ["Scan views 1"]),
        (lambda: db.page(SessionsOf, 1), ["Scan views 2"]),
        (lambda: db.page(Session), ["Scan roots 2"]),
    ):
        observed.asked.clear()
        read()
        assert observed.asked == expected


def test_bounds_hold_for_what_expires(url):
    clock, costs = Clock(), costs_of(SCHEMA)
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(User(number=1, name="x" * 20))
        for number in range(150):
            with budget() as spent:
                db.save(session(f"{number:03}", number, nick=f"nick {number}"))
            assert not exceeded(spent.cost, costs.save(Session))
        clock.tick(120)
        with budget() as spent:
            db.patch(Session, "149", until=at(130))
        assert not exceeded(spent.cost, costs.patch(Session, "until"))
        for given in ((SessionsOf, 1), (Session,)):
            with budget() as spent:
                db.page(*given, limit=10)
            assert not exceeded(spent.cost, costs.page(given[0], limit=10))


def test_the_bound_of_any_patch_covers_rows_that_have_expired(url):
    clock = Clock()
    with connect(url, SCHEMA, workers=0, clock=clock) as db:
        db.save(Post(number=1))
        clock.tick(8 * 24 * 3600)
        with budget() as spent:
            db.patch(Post, 1, text="edited")
        assert not exceeded(spent.cost, db.explain.costs.patch(Post, "text"))
        assert db.verify().clean


def exceeded(cost, bound):
    return [name for name in ("requests", "rows", "bytes") if getattr(cost, name) > getattr(bound, name)]


def test_an_entity_that_expires_costs_one_row_more(observed):
    observed.db.save(Post(number=1))
    assert observed.asked == ["Read system 1", "Read roots 1", "Replace roots 1", "Replace views 3"]
    observed.asked.clear()
    observed.db.save(session("a"))
    assert observed.asked[-2:] == ["Replace views 3", "Replace counts 1"]  # back-reference, row and expiry


def test_a_sweep_costs_a_scan_and_a_commit_for_each_batch(observed):
    observed.db.save_all([session(f"{number}", 1) for number in range(4)])
    observed.clock.tick(5)
    observed.asked.clear()
    assert observed.db.sweep(batch=3) == Swept(deleted=4)
    scans = [each for each in observed.asked if each.startswith("Scan views")]
    assert observed.asked[0] == "Scan views 3"
    assert [each for each in observed.asked if each.startswith("Replace")] == [
        "Replace roots 3", "Replace views 9", "Replace counts 1", "Replace roots 1", "Replace views 3",
        "Replace counts 1",
    ]  # fmt: skip
    assert scans[-1] == "Scan views 0"
    observed.asked.clear()
    assert observed.db.sweep() == Swept()
    # The last two look for change logs and for launches.
    assert observed.asked == ["Scan views 0", "Scan views 0", "Scan system 0", "Scan system 0"]
    observed.asked.clear()
    observed.db.run(observed.db.operations._begin_background_sweep().step())
    assert observed.asked == ["Scan views 0", "Scan views 0"]  # a worker does not: no view of the schema is watched
