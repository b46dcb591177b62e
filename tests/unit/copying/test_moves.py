"""A live store is moved: what programs write meanwhile is in the target, once, with its versions; writers wait."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from oneread import Key, Model, Schema, connect, move
from oneread.copying import move_comparison, move_follower
from oneread.errors import InvalidValue, NotUnique, StoreMoved, Unavailable, UsageError
from oneread.evolution import leased_fence
from oneread.plans.effects import Sleep
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import Clock
from oneread.transactions import move_gate
from oneread.transactions import moves as rules
from oneread.transactions.move_gate import MoveGate
from tests.stores import KINDS, forget, make_url
from tests.unit.transfer import moved
from tests.unit.transfer.moved import SCHEMA, Account, Author, Board, Home, Member, Membership, Post, Session


@pytest.fixture(params=KINDS)
def source(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def program(source, clock):
    """A program that writes to the source."""
    with opened(source, clock) as db:
        moved.fill(db, clock)
        clock.tick()
        yield db


def opened(url, clock, schema=SCHEMA):
    return connect(url, schema, workers=0, clock=clock, cache="memory://")


def moving(source, target, clock):
    return move(source, target, SCHEMA, clock=clock)


def write(db, clock, number=0, *, exchanges=True):
    """Writes of every kind."""
    tick = clock.tick
    tick()
    db.patch(Member, 0, name=f"renamed {number}")
    db.save(Member(number=100 + number, name="new"))
    db.patch(Member, 0, friend=Member.at(100 + number))
    tick()
    db.create(Post(board="a", to=Board.at("a"), author=Author.of(0), at=tick(), text=f"more {number}"))
    db.delete(Post, "b", 1 + number)
    db.save(Membership(member=3, board="a", of=Member.at(3), to=Board.at("a")))
    first, second = db.get(Account, 0).email, db.get(Account, 2).email
    if exchanges:
        exchange(db, first, second)
    entries = db.page(Home, 0).rows
    db.mark(Home, 0, read=entries[0], seen=entries[0])
    db.save(Session(number=3, member=Member.at(0), until=clock.now + moved.timedelta(days=1)))
    db.counter("votes").add(3, once=f"late {number}")
    db.counter("visits:b").add(1)
    db.counter(f"new {number}").add(1)
    db.cache_counter("views", chance_to_write=1).add(5)
    db.drain()


def exchange(db, first, second):
    """Gives two entities each other's unique value."""
    if not db.operations.portable:
        db.transact(lambda both: (both.patch(Account, 0, email=second), both.patch(Account, 2, email=first)))
        return
    for number, email in ((0, f"{first}?"), (2, first), (0, second)):  # one commit is of one entity
        db.patch(Account, number, email=email)


def check_equal(program, target, clock):
    """Both stores answer the same."""
    with opened(target, clock) as two:
        assert moved.lines(two) == moved.lines(program)
        assert moved.reads(two) == moved.reads(program)
        assert two.verify().clean


def test_what_is_written_meanwhile_is_in_the_target(program, source, target, clock):
    exchanges = "span=row" not in target
    with moving(source, target, clock) as it:
        assert it.status().state == "planned"
        assert it.start().state == "copying"
        write(program, clock, 0, exchanges=exchanges)
        assert it.copy().state == "following"
        write(program, clock, 1, exchanges=exchanges)
        it.follow(until_lag=0.0)
        assert it.status().lag == it.status().waiting == 0
        found = it.compare()
        assert (found.differ, found.faults, found.differences) == (0, 0, ())
        check_equal(program, target, clock)
        write(program, clock, 2, exchanges=exchanges)
        done = it.switch()
        assert (done.state, done.epoch, done.waiting) == ("switched", 2, 0)
        check_equal(program, target, clock)
        with pytest.raises(StoreMoved, match="open it at its new place"):
            program.patch(Member, 0, name="late")
        with pytest.raises(StoreMoved):
            program.counter("votes").add(1)
        assert program.get(Member, 0).name == "renamed 2"
        with opened(target, clock) as two:
            assert not two.counter("votes").add(3, once="late 2")
            two.patch(Member, 0, name="after")
        assert it.finish().state == "finished"
        assert it.status().state == "finished"
    with pytest.raises(StoreMoved):
        opened(source, clock)
    with opened(target, clock) as two:
        assert two.get(Member, 0).name == "after"
        assert two.verify().clean


@pytest.fixture(params=["lmdb", "row"])
def two(request, tmp_path):
    """A target, one of each kind of transaction."""
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def following(program, source, two, clock):
    """A move that follows."""
    assert program.get(Member, 0)
    with moving(source, two, clock) as it:
        it.start()
        it.copy()
        it.follow(until_lag=0.0)
        yield it


def test_cursors_are_continued_after_the_switch(program, source, target, clock):
    page, feed = program.page(Post, limit=2), program.page(Home, 0, limit=2)
    rest, older = list(program.page(Post, cursor=page.next)), list(program.page(Home, 0, cursor=feed.next))
    with moving(source, target, clock) as it:
        it.start()
        it.copy()
        it.compare()
        it.switch()
    with opened(target, clock) as other:
        assert list(other.page(Post, cursor=page.next)) == rest
        assert [each.source for each in other.page(Home, 0, cursor=feed.next)] == [each.source for each in older]


def test_a_follower_that_comes_before_the_start_makes_no_target(program, source, target, clock):
    page = program.page(Post, limit=2)
    rest = list(program.page(Post, cursor=page.next))
    with moving(source, target, clock) as early, moving(source, target, clock) as it:
        with pytest.raises(UsageError, match="is not moved"):
            early.follow()
        it.start()
        it.copy()
        it.close()
        early.switch(force=True)
    with opened(target, clock) as other:
        assert list(other.page(Post, cursor=page.next)) == rest


@pytest.mark.usefixtures("program")
def test_a_target_that_was_made_already_is_refused(source, target, clock):
    opened(target, clock).close()
    with moving(source, target, clock) as it, pytest.raises(UsageError, match="has a schema already"):
        it.start()


def test_a_program_writes_to_the_target_only_after_the_switch(following, two, clock):
    with opened(two, clock) as other:
        for write_early in (lambda: other.save(Member(number=9, name="early")), lambda: other.counter("votes").add(1)):
            with pytest.raises(StoreMoved, match="a move into this store is under way"):
                write_early()
        following.switch(force=True)
        other.save(Member(number=9, name="late"))
        assert other.counter("votes").add(1)


def test_a_switch_asks_for_a_comparison_of_the_last_day(following, clock):
    with pytest.raises(UsageError, match="not compared within a day"):
        following.switch()
    assert following.compare().equal
    clock.tick(25 * 3600)
    with pytest.raises(UsageError, match="not compared within a day"):
        following.switch()
    assert following.compare().equal
    assert following.status().compared.differ == 0
    assert following.switch().state == "switched"


def test_a_target_that_is_behind_is_not_switched_to(following, program, clock):
    program.patch(Member, 0, name="late")
    clock.tick(6)
    with pytest.raises(UsageError, match="too far behind"):
        following.switch(force=True)
    following.follow(until_lag=0.0)
    assert following.switch(force=True).state == "switched"


def test_what_differs_is_named_and_not_switched(following, two, clock, monkeypatch):
    monkeypatch.setattr(rules, "_note", lambda *_given: None)  # what writes to the target behind the follower's back
    monkeypatch.setattr(MoveGate, "enter", lambda *_given: iter(()))
    with opened(two, clock) as other:
        other.patch(Member, 1, name="other")
        other.save(Member(number=9, name="more"))
        other.counter("votes").add(1)
    monkeypatch.undo()
    found = following.compare()
    assert [each.name for each in found.differences] == ["Member(1)", "Member(9)", "counter votes"]
    assert (found.differ, found.equal) == (3, False)
    with pytest.raises(UsageError, match="the stores differed"):
        following.switch()


def test_a_comparison_with_a_pace_waits_where_it_is_ahead(following, monkeypatch):
    waits = []
    monkeypatch.setattr(move_comparison, "Sleep", lambda seconds: waits.append(seconds) or Sleep(0))
    monkeypatch.setattr(move_comparison, "elapsed", lambda: 0.0)
    assert following.compare(pace=10_000).equal
    there, back = waits[: len(waits) // 2], waits[len(waits) // 2 :]
    assert there == sorted(there)
    assert 15 / 10_000 < there[-1] == back[-1] < 30 / 10_000, "for each entity, both ways"
    with pytest.raises(InvalidValue, match="pace: expected a number of entities a second"):
        following.compare(pace=0)


def test_writers_wait_while_the_store_is_switched_and_go_on_when_that_is_given_up(following, program):
    states = following._opened().states
    epoch = states.close(10)
    with ThreadPoolExecutor() as pool:
        several = [
            pool.submit(program.patch, Member, 0, name="held"),
            pool.submit(program.counter("votes").add, 1),
        ]
        assert not any(each.done() for each in several)
        states.decide(epoch, "following")
        states.carry_out()
        assert several[0].result(30).name == "held"
        assert several[1].result(30)
    following.follow(until_lag=0.0)
    assert following.compare().equal


def test_writers_that_wait_are_refused_after_the_switch(following, program):
    following._opened().states.close(10)
    with ThreadPoolExecutor() as pool:
        held = pool.submit(program.patch, Member, 0, name="held")
        assert following.switch().state == "switched"
        with pytest.raises(StoreMoved):
            held.result(30)


def test_writers_do_not_wait_for_ever(following, program, monkeypatch):
    for module in (rules, move_gate):
        monkeypatch.setattr(module, "HOLD_SECONDS", 0.1)
    following._opened().states.close(10)
    with pytest.raises(Unavailable, match="is being switched"):
        program.patch(Member, 0, name="held")


def test_a_switch_that_does_not_end_in_time_is_given_up(program, source, clock):
    target = make_url("row", None)
    with moving(source, target, clock) as it:
        it.start()
        it.copy()
        emails = program.get(Account, 0).email, program.get(Account, 2).email
        exchange(program, *emails)
        with pytest.raises(Unavailable, match="did not end in time") as refused:
            it.switch(hold=0.1, force=True)
        assert isinstance(refused.value.__cause__, NotUnique)
        assert (it.status().state, it.status().epoch) == ("following", 2)
        program.patch(Account, 0, email="another")  # as docs/how-to/move-a-live-store.md says
        assert it.switch(force=True).epoch == 3
        check_equal(program, target, clock)
    forget(target)


def test_a_move_that_is_cancelled_leaves_the_source_as_it_was(following, program, source, two, clock):
    assert following.cancel().state == "planned"
    program.patch(Member, 0, name="after")
    assert program.verify().clean
    assert not program.run(Scan("system", RowRange.under(b"log:move:"), 1).__iter__())
    assert program.run(Read("system", [b"move", b"compared"]).__iter__()) == [None, None]
    with opened(two, clock) as other, pytest.raises(StoreMoved):
        other.save(Member(number=9, name="early"))
    with moving(source, two, clock) as again, pytest.raises(UsageError, match="another move"):
        again.start()


def test_a_move_that_was_switched_is_not_cancelled(following):
    following.switch(force=True)
    with pytest.raises(UsageError, match="cannot be cancelled"):
        following.cancel()
    following.finish()


def test_after_the_end_nothing_of_the_move_is_left_in_the_target(following, program, source, two, clock):
    following.switch(force=True)
    following.finish()
    following.finish()
    following.close()
    program.close()
    with opened(two, clock) as other:
        assert other.run(Read("system", [b"move"]).__iter__()) == [None]
        other.save(Member(number=9, name="late"))
        assert other.verify().clean
    with moving(source, two, clock) as again:
        assert again.status().state == "finished"
        again.finish()
    with opened(f"{source}{'&' if '?' in source else '?'}read_only=true", clock) as old:
        assert old.get(Member, 0).name == "M0"


@pytest.mark.usefixtures("program")
def test_steps_come_in_their_order(source, two, clock):
    with moving(source, two, clock) as it:
        for early in (it.copy, it.follow, it.compare, it.switch, it.finish, it.cancel):
            with pytest.raises(UsageError, match="is not moved"):
                early()
        it.start()
        it.start()
        for early in (it.follow, it.compare, it.switch):
            with pytest.raises(UsageError, match="copy is not complete"):
                early()
        with pytest.raises(UsageError, match="was not switched"):
            it.finish()
        with pytest.raises(UsageError, match="hold"):
            it.switch(hold=11)


def test_a_target_in_use_is_refused(program, source, target, clock):
    with opened(target, clock) as other:
        other.save(Member(number=1, name="here"))
    with moving(source, target, clock) as it, pytest.raises(UsageError, match="not empty"):
        it.start()
    program.patch(Member, 0, name="goes on")


@pytest.mark.usefixtures("program")
def test_a_plan_counts_and_names_what_to_know(source, target, clock):
    with moving(source, target, clock) as it:
        found = it.plan()
    entities = 22 if "span=row" in source else 21  # the root row of what expired stays
    assert (found.entities, found.counters, found.blocked) == (entities, 5, False)
    assert [each.declared for each in found.problems] == (["unique"] if "span=row" in target else [])


def test_one_follower_at_a_time(following, program, source, two, clock):
    with moving(source, two, clock) as other:
        program.patch(Member, 0, name="late")
        looks = iter(range(3))
        assert other.follow(stop=lambda: next(looks, None) is None).waiting == 1
        following.close()
        assert other.follow(until_lag=0.0).waiting == 0


def test_a_slow_target_follows_in_short_steps(following, program, monkeypatch):
    """A lease is renewed between them, and writers are held no longer than they last."""
    time, seconds = 0.0, 9.0

    def tick():
        nonlocal time
        time += seconds
        return time

    flow = following._opened()
    program.save_all([Member(number=number, name="new") for number in range(100, 300)], batch=1)
    with flow.turn():
        monkeypatch.setattr(move_follower, "elapsed", tick)
        many = [flow.copier.step()[0] for _ in range(3)]
        seconds = 0.1
        many += [flow.copier.step()[0] for _ in range(3)]
    assert many == [64, 32, 16, 8, 16, 32]


def test_an_entity_of_another_variant_takes_the_place_of_a_deleted_one(new_url, clock):
    class Shape(Model[int]):
        number: Key[int]

    class Circle(Shape):
        radius: int

    class Square(Shape):
        side: int

    schema = Schema(Shape, Circle, Square)
    source, target = new_url(), new_url()
    with connect(source, schema, workers=0, clock=clock) as db:
        db.save(Circle(number=1, radius=2))
        with move(source, target, schema, clock=clock) as it:
            it.start()
            it.copy()
            clock.tick()
            db.delete(Shape, 1)
            db.save(Square(number=1, side=3))
            it.follow(until_lag=0.0)
            assert it.compare().equal
            it.switch()
    with connect(target, schema, workers=0, clock=clock) as other:
        assert other.get(Shape, 1) == Square(number=1, side=3)


def test_a_move_is_taken_back_and_nothing_is_lost(following, program, source, two, clock):
    exchanges = "span=row" not in source
    following.switch(force=True)
    with opened(two, clock) as other:
        write(other, clock, 3, exchanges=exchanges)
        assert following.status().waiting > 0
        following.follow(until_lag=0.0)
        with pytest.raises(UsageError, match="not compared within a day"):
            following.back()
        assert following.compare().equal
        write(other, clock, 4, exchanges=exchanges)
        assert following.back().state == "following"
        with pytest.raises(StoreMoved, match="a move into this store is under way"):
            other.patch(Member, 0, name="late")
        assert moved.reads(program) == moved.reads(other)
    assert program.verify().clean
    program.patch(Member, 0, name="again")
    following.follow(until_lag=0.0)
    assert (following.back().state, following.switch(force=True).state) == ("following", "switched")
    following.finish()
    with opened(two, clock) as other:
        assert other.get(Member, 0).name == "again"
        assert not other.run(Scan("system", RowRange.under(b"log:move:"), 1).__iter__())


def test_a_way_back_whose_controller_has_died_is_given_up(following, two, clock):
    following.switch(force=True)
    following._opened().states.close(10, back=True)
    assert following.status().state == "closing"
    clock.tick(60)
    following.follow(until_lag=0.0)
    assert (following.status().state, following.status().epoch) == ("switched", 3)
    with opened(two, clock) as other:
        other.patch(Member, 0, name="goes on")


def test_a_change_of_a_moved_store_of_one_row_costs_a_mark_more(clock, two, monkeypatch):
    """Within a lease; elsewhere the log is not counted."""
    source, asked = make_url("row", None), []
    verbs = (
        lambda db: db.patch(Member, 1, name=f"at {clock.tick()}"),
        lambda db: db.counter("visits", shards=1).add(1),
        lambda db: db.counter("votes", shards=1).add(1, once=f"at {clock.tick()}"),
    )

    def requests(db):
        counts = []
        for verb in verbs:
            asked.clear()
            verb(db)
            counts.append(len(asked))
        return counts

    for lease in ("LEASE_SECONDS", "MOVING_LEASE_SECONDS"):
        monkeypatch.setattr(leased_fence, lease, 1000.0)
    observers = (lambda request, _answer: asked.append(request),)
    with connect(source, SCHEMA, workers=0, clock=clock, observers=observers) as db:
        db.save(Member(number=1, name="first"))
        requests(db)
        at_rest = requests(db)
        with moving(source, two, clock) as it:
            it.start()
            db.run(db.operations.fence.refresh())
            assert requests(db) == [each + 1 for each in at_rest]
            asked.clear()
            db.patch(Member, 1, name="once more")
            marks = [
                row.key
                for each in asked
                if isinstance(each, Mutate)
                for row in each.rows
                if row.key.startswith(b"log:move:")
            ]
            assert len(marks) == 1
    forget(source)
