"""What a purge deletes, what it leaves, and what it costs."""

import pytest

from benchmarks.workloads.shop_schema import SHOP, Buyer, Customer, Product, Purchase
from oneread import CounterRules, Schema, connect
from oneread.database import purge as purging
from oneread.database.open import opened
from oneread.database.operations import Operations
from oneread.database.purge import Purge, purged_places
from oneread.derivations.emitted_record import RecordedPointers
from oneread.errors import Unavailable, UsageError
from oneread.plans.trace import Trace
from oneread.store.limits import GRACE
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, RowRange
from oneread.testing.clock import Clock
from oneread.transactions import outbox
from oneread.transactions.grace import LEAST_GRACE
from oneread.transactions.system_commits import RowSystem
from tests.unit.feeds.community import SCHEMA as COMMUNITY
from tests.unit.transactions.test_journal_commits import Store, bought, failing, is_commit
from tests.unit.transactions.test_pipeline import Author, Groups, Line, User

GRACE_MS = 1000 * LEAST_GRACE


@pytest.fixture
def shop():
    store = Store()
    for number in (1, 2):
        store.save(Customer(number=number, name="ada", country="at"))
    store.save(Product(code="a", name="p"))
    for line in range(4):
        store.save(bought(line))
    return store


def purge(store, later=GRACE_MS + 1000):
    """One pass at a later time; returns what it deleted, and its requests."""
    store.now += later
    one, made, more = Purge(store.operations.catalog, RecordedPointers(), LEAST_GRACE), [], True
    while more:
        more = store.run(one.step())
        made += [asked for _round, asked in store.made]
    return one.purged, made


def removed(store):
    return [key for key, row in store.rows("views") if row[VALUE].value == REMOVED]


def test_removed_rows_go_after_the_grace_and_root_rows_stay(shop):
    roots = len(shop.rows("roots"))
    shop.delete(Purchase, "o", 1)
    gone = len(removed(shop))
    assert gone > 0
    purge(shop, later=GRACE_MS - 1000)
    assert len(removed(shop)) == gone
    purge(shop, later=2000)
    assert removed(shop) == []
    assert len(shop.rows("roots")) == roots


def test_tokens_of_counters_are_kept_for_their_own_time():
    """It is another one than the grace, and they are of no root row."""
    clock = Clock()
    schema = Schema(User, counters=CounterRules(once_for=30 * 86_400))
    with connect("memory://?span=row", schema, workers=0, clock=clock) as db:
        assert db.counter("votes").add(1, once="a") is True
        clock.tick(7 * 86_400)
        one = Purge(db.operations.catalog, RecordedPointers(), LEAST_GRACE)
        while db.run(one.step()):
            pass
        assert db.counter("votes").add(1, once="a") is False
        assert db.counter("votes").read() == 1


def test_what_the_intents_of_a_group_are_about_to_put_keeps_its_back_references():
    """A child whose row is not there yet, because its writer died behind the commit, long ago."""
    store = Groups()
    for name in ("ada", "bob"):
        store.save(User(name=name))
    store.fail = failing(lambda asked: type(asked) is Mutate and asked.table == "roots", Unavailable, times=9)
    store.save(Line(name="ada", line=1, author=Author.of("bob")))
    store.fail = None
    before = pointers(store)
    assert before
    assert purge(store)[0] == 0
    store.settle()
    assert pointers(store) >= before
    assert store.find(Line, "ada", 1) is not None


def pointers(store):
    found = store.rows("views", RowRange.under(outbox.BACK_REFERENCES))
    return {key for key, row in found if row[VALUE].value != REMOVED}


def test_what_lives_stays_however_old_it_is(shop):
    before = shop.rows("views")
    purge(shop)
    assert shop.rows("views") == before


def test_a_back_reference_of_an_attempt_that_was_not_committed_goes(shop):
    shop.fail = failing(is_commit, Unavailable)
    with pytest.raises(Unavailable):
        shop.save(bought(9, buyer=2))
    shop.fail = None
    within = outbox.holders_of(shop.seen(Customer, 2).key)
    assert len(shop.rows("views", within)) == 1
    purge(shop, later=GRACE_MS - 1000)
    assert len(shop.rows("views", within)) == 1
    purge(shop, later=2000)
    assert shop.rows("views", within) == []


def test_a_back_reference_whose_holder_has_intents_stays(shop):
    shop.fail = failing(
        lambda asked: type(asked) is Mutate and asked.table == "views" and not first(asked), Unavailable
    )
    shop.patch(Purchase, "o", 1, buyer=Buyer.of(2))
    assert shop.seen(Purchase, "o", 1).intents is not None
    within = outbox.holders_of(shop.seen(Customer, 1).key)
    purge(shop)
    assert len(shop.rows("views", within)) == 4


def first(asked):
    """Whether a put is that of back-references, before the commit."""
    return all(row.puts[VALUE].value == outbox.PRESENT for row in asked.rows)


def test_the_costs_of_a_pass(shop, monkeypatch):
    """A scan of each place and page; a read of the holders of old back-references."""
    places = len(list(purged_places(shop.operations.catalog)))
    purge(shop)
    _purged, made = purge(shop)
    assert [len([each for each in made if type(each) is kind]) for kind in (Scan, Read, Mutate)] == [places, 1, 0]
    monkeypatch.setattr(purging, "PAGE", 4)
    _purged, made = purge(shop)
    pages = sum(len(shop.rows(table, within)) // 4 for table, within in purged_places(shop.operations.catalog))
    assert len([each for each in made if type(each) is Scan]) == places + pages


def test_a_grace_that_is_too_short_is_refused(shop):
    with pytest.raises(UsageError, match="late write"):
        Purge(shop.operations.catalog, RecordedPointers(), LEAST_GRACE - 1)


def test_the_items_and_memberships_of_feeds_stay():
    """Who leaves a group, or deletes an item, finds by them what is to be removed (rule P4)."""
    with connect("memory://", COMMUNITY) as db:
        catalog = db.operations.catalog
    parts = {part for view in catalog.views.values() for part in view.parts}
    kept = [view.prefix for view in catalog.views.values() if view.cls in parts]
    assert len(kept) == len(parts) > 0
    starts = [within.start for _table, within in purged_places(catalog)]
    assert not any(start in kept for start in starts)


def chores_of(url):
    """How long removed rows stay, and the chores."""
    with connect(url, SHOP, workers=0) as db:
        operations: Operations = db.operations
        return operations.grace, [each.name for each, _lease in operations.chores._chores]


def test_workers_purge_stores_that_change_one_row_at_a_time():
    assert chores_of("memory://?span=row") == (GRACE, ["tokens", "expired", "launches", "purge", "erasures"])
    assert chores_of("memory://?span=row&grace_s=1000") == (
        1000,
        ["tokens", "expired", "launches", "purge", "erasures"],
    )
    assert "purge" not in chores_of("memory://")[1]


def test_a_server_whose_operator_states_no_grace_is_not_purged():
    """It is not known how long a request may be held up between a program and its row."""
    store = Store()
    plan = opened(SHOP, read_only=False, committer=RowSystem(), grace=None)
    silent = store.driver.run(plan, Trace())
    assert [each.name for each, _lease in silent.chores._chores] == ["tokens", "expired", "launches", "erasures"]


def test_a_chore_purges_a_page_at_a_time_and_then_rests(shop, monkeypatch):
    monkeypatch.setattr(purging, "PAGE", 4)
    shop.delete(Purchase, "o", 1)
    shop.now += 1000 * GRACE + 1000
    steps = 0
    while shop.driver.run(shop.operations.chores.step(), Trace()):
        steps += 1
    assert steps > 8
    assert removed(shop) == []
    shop.delete(Purchase, "o", 2)
    shop.now += 1000 * GRACE + 1000
    assert shop.driver.run(shop.operations.chores.step(), Trace()) is False
    assert removed(shop) != []
