"""A store is copied into one of any kind: all reads are equal, what was counted counts once, a kill loses nothing."""

from datetime import timedelta

import msgspec
import pytest

from oneread import GENERATED, Index, Key, Model, Schema, ascending, by, connect, shown
from oneread.copying import store_copy
from oneread.copying.comparison import StoreComparison
from oneread.copying.copies import compare_stores, copy_store
from oneread.copying.pairs import Pairs, Stores
from oneread.errors import InvalidCursor, InvalidUrl, InvalidValue, NotUnique, SchemaMismatch, Unavailable, UsageError
from oneread.testing.clock import Clock
from tests.stores import KINDS, forget, make_url
from tests.unit.transfer import moved
from tests.unit.transfer.moved import DECLARED, SCHEMA, Account, Author, Board, Home, Member, Post, PostsOfAuthor


@pytest.fixture(params=KINDS)
def target(request, tmp_path):
    made = make_url(request.param, tmp_path)
    yield made
    forget(made)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def source(url, clock):
    with opened(url, clock) as db:
        moved.fill(db, clock)
    clock.tick()
    return url


def opened(url, clock, schema=SCHEMA):
    return connect(url, schema, workers=0, clock=clock, cache="memory://")


def copied(source, target, clock, **options):
    return copy_store(source, target, SCHEMA, clock=clock, **options)


def test_every_read_answers_the_same_and_what_was_counted_counts_once(source, target, clock):
    seen = []
    found = copied(source, target, clock, progress=seen.append)
    assert (found.entities, found.deleted, found.counters, found.tokens) == (19, 3 - is_purged(source), 5, 6)
    assert found.compared.differ == found.resumed == 0
    assert found.compared.differences == found.left == ()
    assert found.compared.entities == found.entities + found.deleted
    assert {each.phase for each in seen} == {"copying", "comparing"}
    with opened(source, clock) as one, opened(target, clock) as two:
        assert moved.lines(two) == moved.lines(one)
        assert moved.reads(two) == moved.reads(one)
        assert moved.retry(two) == moved.retry(one) == ([False] * 6, 0, [4, 4])
        assert two.verify().clean


def test_cursors_of_the_source_are_continued_in_the_target(source, target, clock):
    with opened(source, clock) as one:
        page = one.page(Post, limit=2)
        feed = one.page(Home, 0, limit=2)
        rest = list(one.page(Post, cursor=page.next))
        older = [each.source for each in one.page(Home, 0, cursor=feed.next)]
    copied(source, target, clock)
    with opened(target, clock) as two:
        assert list(two.page(Post, cursor=page.next)) == rest
        assert [each.source for each in two.page(Home, 0, cursor=feed.next)] == older
    with opened(target, clock) as again:  # its schema row has the key
        assert list(again.page(Post, cursor=page.next)) == rest


def is_purged(url):
    """Whether the history has purged a tombstone."""
    return "span=row" not in url


class AccountsByEmail(Index[Account]):
    email: str = ascending(Account.email)
    number: int = shown(Account.number)


def test_a_target_may_have_other_views_and_has_cursors_of_its_own(source, target, clock):
    other = Schema(*DECLARED, AccountsByEmail, inline=0)
    with opened(source, clock) as one:
        cursor = one.page(Post, limit=2).next
    found = copied(source, target, clock, target_schema=other)
    assert (found.compared.differ, "cursors" in found.left[0]) == (0, True)
    with opened(target, clock, other) as two:
        assert [each.number for each in two.page(AccountsByEmail)] == [0, 2]
        assert two.verify().clean
        with pytest.raises(InvalidCursor):
            two.page(Post, cursor=cursor)


def test_what_differs_is_counted_and_named(source, target, clock):
    copied(source, target, clock, compare=False)
    assert compare_stores(source, target, SCHEMA, clock=clock).differ == 0
    clock.tick()
    with opened(target, clock) as two:
        two.patch(Member, 1, name="other")
        two.save(Member(number=9, name="more"))
        two.counter("votes").add(1)
        two.counter("more").add(1)
    found = compare_stores(source, target, SCHEMA, clock=clock)
    assert set(found.differences) == {
        "Member(1)",
        "1 entities that only the target has",
        "counter votes",
        "counter more",
    }
    assert found.differ == 4
    back = compare_stores(target, source, SCHEMA, clock=clock)
    assert ("Member(9)" in back.differences, back.differ) == (True, 4)


class Killed(BaseException):
    pass


@pytest.mark.parametrize("batch", [1, 4])
def test_a_copy_that_was_killed_is_resumed(source, target, clock, batch):
    kills = []

    def kill_at(many):
        def report(progress):
            kills.append(progress.done)
            if len(kills) % many == 0:
                raise Killed

        return report

    with pytest.raises(Killed):
        copied(source, target, clock, batch=batch, progress=kill_at(2))
    with pytest.raises(UsageError, match="was not finished"):
        copied(source, target, clock)
    with pytest.raises(UsageError, match="itself the target"):
        copied(target, source, clock)
    for _ in range(30):
        try:
            found = copied(source, target, clock, batch=batch, resume=True, progress=kill_at(2))
            break
        except Killed:
            continue
    else:
        found = copied(source, target, clock, batch=batch, resume=True)
    assert (found.resumed > 0, found.compared.differ) == (True, 0)
    with opened(source, clock) as one, opened(target, clock) as two:
        assert moved.lines(two) == moved.lines(one)
        assert moved.retry(two) == ([False] * 6, 0, [4, 4])
        assert two.verify().clean


def test_a_copy_that_was_killed_while_it_compared_is_compared(source, target, clock, monkeypatch):
    def kill(_comparison):
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(StoreComparison, "run", kill)
        with pytest.raises(Killed):
            copied(source, target, clock)
    with opened(target, clock) as two:
        two.counter("votes").add(5)
    found = copied(source, target, clock, resume=True)
    assert (found.entities, found.counters, found.tokens) == (19, 5, 6)
    assert (found.resumed, found.compared.entities) == (22 - is_purged(source),) * 2
    assert found.compared.differences == ("counter votes",), "what was counted since stays"


def test_a_finished_copy_is_not_continued_from_a_source_that_has_more(source, target, clock):
    assert copied(source, target, clock).compared.differ == 0
    with opened(source, clock) as one:
        one.save(Member(number=4711, name="late"))
    with pytest.raises(UsageError, match="changed since this copy began"):
        copied(source, target, clock, resume=True)
    with opened(target, clock) as two:
        assert two.find(Member, 4711) is None


def test_what_was_copied_is_not_stored_again(source, target, clock):
    seen = []

    def kill(progress):
        if progress.done >= 8:
            raise Killed

    with pytest.raises(Killed):
        copied(source, target, clock, batch=4, progress=kill)
    found = copied(source, target, clock, batch=4, resume=True, progress=seen.append)
    assert 0 < found.resumed < min(each.done for each in seen if each.phase == "copying")


def test_a_copy_is_not_resumed_from_a_source_that_has_changed(source, target, clock):
    def kill(progress):
        if progress.done >= 8:
            raise Killed

    with pytest.raises(Killed):
        copied(source, target, clock, batch=2, progress=kill)
    clock.tick()
    with opened(source, clock) as one:
        one.patch(Account, 0, email="changed@x")  # the first model in a dump
    with pytest.raises(UsageError, match="changed since this copy began"):
        copied(source, target, clock, resume=True)


def test_counters_that_were_copied_before_a_kill_are_copied_again(source, target, clock, monkeypatch):
    made = []
    restore = store_copy.StoreCopy._restore

    def fail(copy, line):
        restore(copy, line)
        made.append(line)
        if len(made) == 3:
            raise Unavailable("the server is gone")

    monkeypatch.setattr(store_copy.StoreCopy, "_restore", fail)
    with pytest.raises(Unavailable):
        copied(source, target, clock)
    assert copied(source, target, clock, resume=True).compared.differ == 0
    with opened(target, clock) as two:
        assert moved.retry(two) == ([False] * 6, 0, [4, 4])


def test_a_target_in_use_is_refused(source, target, clock):
    with opened(target, clock) as two:
        two.save(Member(number=1, name="here"))
    with pytest.raises(UsageError, match="not empty"):
        copied(source, target, clock)
    with pytest.raises(UsageError, match="no copy to resume"):
        copied(source, target, clock, resume=True)


def test_a_target_with_a_counter_is_refused(source, target, clock):
    with opened(target, clock) as two:
        two.counter("votes").add(1)
    with pytest.raises(UsageError, match="not empty"):
        copied(source, target, clock)


def test_the_source_is_not_a_target(source, clock):
    for verb in (copy_store, compare_stores):
        with pytest.raises(UsageError, match="the target is the source"):
            verb(source, source, SCHEMA)
    with pytest.raises(InvalidUrl):
        copied(source, "nowhere://x", clock)


def test_models_that_differ_are_refused_and_nothing_is_stored(source, target, clock):
    other = Schema(*[each for each in DECLARED if each is not Account and each.__name__ != "Emails"])
    with pytest.raises(SchemaMismatch, match="models of the two schemas differ"):
        copied(source, target, clock, target_schema=other)
    with opened(target, clock, other) as two:
        assert not two.page(Member)


@pytest.mark.parametrize("pace", [0, -1, True, "5", float("nan")])
def test_a_pace_that_is_none_is_refused(source, target, clock, pace):
    with pytest.raises(InvalidValue, match="pace"):
        copied(source, target, clock, pace=pace)


def test_a_copy_keeps_its_pace(source, target, clock, monkeypatch):
    waited = []
    monkeypatch.setattr(store_copy.StoreCopy, "_wait", lambda _copy, seconds: waited.append(seconds))
    copied(source, target, clock, pace=10.0)
    assert 0.1 < max(waited) < 5


def test_entities_that_refer_to_later_ones_come_in_the_next_round(url, target, clock):
    with opened(url, clock) as one:
        one.save_all([Member(number=number, name=f"{number}") for number in range(20)])
        for number in range(19):
            one.patch(Member, number, friend=Member.at(number + 1))
    clock.tick()
    found = copied(url, target, clock, batch=3)
    assert (found.entities, found.compared.differ) == (20, 0)
    with opened(url, clock) as one, opened(target, clock) as two:
        assert moved.lines(two) == moved.lines(one)
        assert two.verify().clean


class UniqueNames(Index[Member]):
    unique = True
    name: str = by(Member.name)


def test_what_the_target_refuses_is_named_and_all_else_is_stored(url, target, clock):
    with opened(url, clock) as one:
        one.save_all([Member(number=number, name="same" if number in (3, 5) else f"{number}") for number in range(9)])
    clock.tick()
    other = Schema(*DECLARED, UniqueNames)
    for resume in (False, True):
        with pytest.raises(NotUnique) as refused:
            copied(url, target, clock, target_schema=other, batch=4, resume=resume)
        assert refused.value.__notes__[-1] == "copy: the target refuses 1 entities; all others are stored"
    with opened(target, clock, other) as two:
        assert [each.number for each in two.page(Member)] == [0, 1, 2, 3, 4, 6, 7, 8]
    with opened(url, clock) as one:
        one.patch(Member, 5, name="other")
    with pytest.raises(UsageError, match="has changed"):
        copied(url, target, clock, target_schema=other, resume=True)


def test_a_source_in_which_tasks_wait_is_refused(url, target, clock):
    schema = Schema(*DECLARED, inline=0)
    with opened(url, clock, schema) as one:
        one.save_all([Member(number=1, name="a"), Board(board="a")])
        one.create(Post(board="a", to=Board.at("a"), author=Author.of(1), at=moved.EARLY))
        clock.tick()
        one.patch(Member, 1, name="b")
        assert sum(each.waiting for each in one.run(one.operations.lag()).values()) == 1
    with pytest.raises(UsageError, match="tasks or commits that wait"):
        copy_store(url, target, schema, clock=clock)
    with opened(url, clock, schema) as one:
        one.drain()
    assert copy_store(url, target, schema, clock=clock).compared.differ == 0


def test_stores_of_one_folder_are_copied_into_each_other(tmp_path, clock):
    one, two = (f"lmdb://{tmp_path}/store?prefix={each}&durability=none" for each in "ab")
    with opened(one, clock) as db:
        moved.fill(db, clock)
    clock.tick()
    assert copied(one, two, clock).compared.differ == 0
    assert compare_stores(one, two, SCHEMA, clock=clock).differ == 0


def test_results_are_documents(source, target, clock):
    found = copied(source, target, clock)
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found
    assert PostsOfAuthor in SCHEMA.views


class Swapped(Model[int]):
    """Stored under one number in one store, and under another in the other."""

    number: Key[int]
    text: str = ""


class Other(Model[int]):
    """Declared before or behind it, with the same fields."""

    number: Key[int]
    text: str = ""


class Numbered(Model[int, int]):
    child_of = Swapped

    number: Key[int]
    place: Key[int] = GENERATED


@pytest.mark.parametrize("order", [(Swapped, Other), (Other, Swapped)], ids=["as numbered", "otherwise numbered"])
def test_rows_of_the_same_bytes_are_not_dumped_where_both_stores_number_alike(url, target, clock, order):
    """Else the same bytes may be another entity."""
    given, began = [], clock.now
    stores = opened(url, clock, Schema(Swapped, Other, Numbered)), opened(target, clock, Schema(*order, Numbered))
    with stores[0] as one, stores[1] as two:
        for db in stores:
            clock.set(began + timedelta(days=1))
            db.save_all([Swapped(number=each, text="as it was") for each in range(5)])
            db.save_all([Other(number=each, text="another") for each in range(5)])
            clock.tick()
            db.create(Numbered(number=1))
            db.delete(Swapped, 4)
        two.patch(Swapped, 0, text="changed")
        two.create(Numbered(number=2))
        two.delete(Swapped, 3)
        two.delete(Other, 2)
        pairs = Pairs(Stores(one, two, ()))
        positions = [*pairs.walk(given.append)]
        differ = {pair.name for pair in given if pair.differs}
        assert (pairs.count, pairs.met, len(positions)) == (11, 11, 3)
        assert differ == {"Swapped(0)", "Swapped(2)", "Swapped(3)", "Other(2)"}
        assert len(given) == (4 if order[0] is Swapped else 9)  # not the tombstone, nor what is numbered
