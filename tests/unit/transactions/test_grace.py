"""An operation that took too long writes nothing more: it is not committed, or recovery does the rest."""

import pytest

from benchmarks.workloads.shop_schema import SHOP, Customer, Product, Purchase
from oneread import Index, Key, Model, Schema, by, counter, rollup
from oneread.counters.rows import name_key
from oneread.database.group_overlay import GroupOverlay
from oneread.errors import Unavailable
from oneread.store.requests import Mutate, Read
from oneread.transactions.grace import CLOCK_ERROR, LATE, LEAST_GRACE, OPERATION
from oneread.transactions.intents import JOURNAL
from oneread.transactions.outbox import GROUP_TASKS
from tests.unit.transactions.test_journal_commits import Store, bought, is_commit
from tests.unit.transactions.test_total_follower import INDEXED, LISTED, Song, play


class Post(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"))


class Note(Model[int, int]):
    child_of = Post
    number: Key[int]
    place: Key[int]
    text: str


class PostsByViews(Index[Post]):
    views: int = by(Post.views)


POSTS = Schema(Post, Note, PostsByViews)


def timed(schema):
    """A store whose committers see a clock that the test sets."""
    store = Store(schema)
    store.clock = 0.0
    store.operations.committer.journal.clock = lambda: store.clock
    return store


@pytest.fixture
def shop():
    store = timed(SHOP)
    store.save(Customer(number=1, name="ada", country="at"))
    store.save(Product(code="a", name="p"))
    return store


def slow(store, matches, seconds=OPERATION + 1):
    """A request that takes long."""

    def wait(asked):
        if matches(asked):
            store.clock += seconds

    store.fail = wait


def is_read_of_sums(asked):
    return type(asked) is Read and asked.table == "counts"


def test_a_commit_that_took_too_long_is_not_made(shop):
    slow(shop, is_read_of_sums)
    with pytest.raises(Unavailable, match="took too long"):
        shop.save(bought(1))
    assert shop.find(Purchase, "o", 1) is None


def test_what_took_too_long_behind_its_commit_is_left_to_recovery(shop):
    slow(shop, is_commit)
    shop.patch(Customer, 1, name="new")
    assert shop.seen(Customer, 1).intents is not None
    shop.fail = None
    shop.settle()
    assert shop.rows("system", JOURNAL) == []
    assert shop.find(Customer, 1).name == "new"


def test_a_commit_in_time_is_made(shop):
    slow(shop, is_commit, OPERATION)
    shop.patch(Customer, 1, name="new")
    assert shop.seen(Customer, 1).intents is None


def unapplied(schema, *entities):
    """A store with a commit that its writer has not applied."""
    store = timed(schema)
    for each in entities[:-1]:
        store.save(each)
    slow(store, is_commit)
    store.save(entities[-1])
    store.made.clear()
    return store


def writes(store):
    return [asked.table for _round, asked in store.made if type(asked) is Mutate]


def is_read_of_roots(asked):
    return type(asked) is Read and asked.table == "roots"


def test_a_fresh_read_that_took_too_long_applies_nothing():
    store = unapplied(POSTS, Post(number=1), Note(number=1, place=1, text="a"))
    slow(store, is_read_of_roots)
    with pytest.raises(Unavailable, match="took too long"):
        store.run(store.operations.find(Note, (1, 1), fresh=True))
    assert writes(store) == []


def test_a_transaction_that_took_too_long_to_read_applies_nothing():
    store = unapplied(POSTS, Post(number=1), Note(number=1, place=1, text="a"))
    slow(store, is_read_of_roots)
    committer = store.operations.committer
    with pytest.raises(Unavailable, match="took too long"):
        store.run(GroupOverlay(committer).read(store.operations.root(Post, (1,)), store.now))
    assert writes(store) == []


def test_a_counter_that_took_too_long_to_copy_is_left_to_recovery():
    store = timed(POSTS)
    store.save(Post(number=1))
    (group,) = store.operations.catalog.counters.groups("views:1")
    counters = store.operations.counters
    store.run(counters.add(name_key("views:1"), counters.declared(None, None), 5, None))
    slow(store, is_commit)
    store.run(store.operations.committer.totals.show_counter(group))
    assert "views" not in writes(store)
    assert store.find(Post, 1).views == 5
    store.fail = None
    store.settle()
    assert store.rows("system", JOURNAL) == []


@pytest.mark.parametrize("schema", [INDEXED, LISTED])
def test_totals_that_took_too_long_to_show_are_left_to_recovery(schema):
    store = timed(schema)
    store.save(Song(number=1))
    committer = store.operations.committer
    committer.totals.apply_and_show = lambda done, _changes: committer.copies.apply_and_follow(*done)
    store.save(play(1))
    assert store.rows("system", GROUP_TASKS)
    slow(store, is_commit)
    store.run(store.operations.outbox.step(50))
    assert "views" not in writes(store)
    assert store.rows("system", JOURNAL)


def test_the_least_grace_is_that_of_rule_p2():
    assert LEAST_GRACE == 2 * (OPERATION + LATE) + 2 * CLOCK_ERROR == 840
