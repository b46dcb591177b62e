"""Holders from whose copies nothing follows: what a change of their source costs, and what readers see of its cells."""

from types import SimpleNamespace

import pytest

from oneread import Copy, Index, Key, Model, Schema, by, within
from oneread.database.lists import listed
from oneread.database.pages import Query, page
from oneread.derivations import copies
from oneread.derivations.changes import Reemit
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.trace import Trace
from oneread.store import keys
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, Cell, RowMutation, RowRange
from oneread.testing.audit import Audit
from oneread.testing.steps import CIPHER
from oneread.transactions import outbox
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.intents import JOURNAL, USED, USED_BY_CELLS
from oneread.transactions.root import BODY
from tests.unit.transactions.test_journal_commits import Store

HOLDERS = 1_600


class Maker(Model[int]):
    number: Key[int]
    name: str
    land: str = "x"


class MadeBy(Copy[Maker]):
    name: str


class SoldBy(Copy[Maker]):
    land: str


class Thing(Model[int]):
    number: Key[int]
    maker: MadeBy | None = None
    seller: SoldBy | None = None
    size: int = 0


class ThingsOfLand(Index[Thing]):
    land: str | None = by(within(Thing.seller, SoldBy.land), none="last")


SCHEMA = Schema(Maker, Thing, ThingsOfLand)


@pytest.fixture
def store():
    made = Store(SCHEMA)
    for number in (1, 2):
        made.save(Maker(number=number, name="old"))
    return made


def things(store, holders, **references):
    store.run(store.operations.committer.completion.apply_waiting())
    for number in range(holders):
        store.save(Thing(number=number, **references))


def rename(store, number=1, **changes):
    """Renames with a task, and returns the requests of the task."""
    inline, store.operations.committer.views.inline = store.operations.committer.views.inline, 0
    store.patch(Maker, number, **changes)
    store.operations.committer.views.inline = inline
    made = []
    while store.run(store.operations.outbox.step(outbox.BATCH)):
        made += store.made
    return [each for _round, each in made + store.made]


def names(store, holders):
    return [store.find(Thing, number).maker.name for number in range(holders)]


def row_of(store, number):
    return store.engine.answer(Read("roots", [store.seen(Thing, number).key], "dm"))[0]


# What they cost.


def test_1600_holders_take_one_request_for_a_hundred(store):
    """Three for each page, of 200 and then of 800: the back-references, the source, the cells; and the batch's own.

    One more for the back-references, since those of a selection that has not changed are left out.
    """
    things(store, HOLDERS, maker=MadeBy.of(1))
    version = store.seen(Thing, 3).version
    made = rename(store, name="new")
    assert len(made) == 16 <= 0.01 * HOLDERS
    assert names(store, HOLDERS) == ["new"] * HOLDERS
    assert not [each for each in made if type(each) is CheckAndMutate and each.table == "roots"]
    assert store.seen(Thing, 3).version == version, "no holder was committed"


def test_of_a_large_page_no_more_than_a_batch_is_committed(store):
    things(store, 14, maker=MadeBy.of(1))
    for number in range(14, 20):
        store.save(Thing(number=number, seller=SoldBy.of(1)))
    store.operations.committer.views.inline = 0
    store.patch(Maker, 1, name="new", land="y")
    largest, committed = 0, []
    while store.run(store.operations.outbox.step(2)):
        asked = [each for _round, each in store.made]
        largest = max([largest, *(each.limit for each in asked if type(each) is Scan and each.table == "views")])
        committed.append(sum(type(each) is CheckAndMutate and each.table == "roots" for each in asked))
    assert (largest, max(committed), sum(committed)) == (10, 2, 6)
    assert names(store, 14) == ["new"] * 14
    assert [store.find(Thing, number).seller.land for number in range(14, 20)] == ["y"] * 6


def test_the_holders_of_a_rename_get_cells_before_it_returns(store):
    things(store, 100, maker=MadeBy.of(1))
    assert store.run(store.operations.patch(Maker, (1,), {"name": "new"}, None))[1] == []
    assert store.requests == 10
    assert names(store, 100) == ["new"] * 100
    assert store.rows("system", JOURNAL) == store.rows("system", outbox.TASKS) == []


def test_holders_in_a_view_are_committed_beside_them(store):
    things(store, 3, maker=MadeBy.of(1), seller=SoldBy.of(1))
    before = [store.seen(Thing, number).version for number in range(3)]
    store.patch(Maker, 1, name="new", land="y")
    found = [store.find(Thing, number) for number in range(3)]
    assert [(each.maker.name, each.seller.land) for each in found] == [("new", "y")] * 3
    assert all(store.seen(Thing, number).version > version for number, version in enumerate(before))


# What is written, and what readers see.


def test_the_cells_of_a_holder(store):
    things(store, 1, maker=MadeBy.of(1), seller=SoldBy.of(2))
    assert {USED, USED_BY_CELLS} <= row_of(store, 0).keys()
    rename(store, name="new")
    row, source = row_of(store, 0), store.seen(Maker, 1)
    ((column, cell),) = [each for each in row.items() if each[0].startswith(COPY_CELL)]
    assert column[:-4] == COPY_CELL + source.key
    assert (cell.stamp, cell.value) == (source.version, bytes.fromhex("93c2c281a46e616d65a36e6577"))
    assert b"old" in row[BODY].value
    store.patch(Thing, 0, size=3)
    row = row_of(store, 0)
    assert row[column] == cell, "never removed"
    assert b"new" in row[BODY].value
    assert source.version in store.seen(Thing, 0).used.values()


def test_a_model_without_such_copies_has_no_more_cells_than_before(store):
    things(store, 1, seller=SoldBy.of(1))
    assert USED_BY_CELLS not in row_of(store, 0)
    things(store, 1, maker=MadeBy.of(1))
    store.patch(Thing, 0, maker=None)
    assert row_of(store, 0)[USED_BY_CELLS].value == REMOVED


def test_the_version_of_an_entity_stays(store):
    things(store, 1, maker=MadeBy.of(1))
    _found, version = store.run(store.operations.find(Thing, (0,)))
    rename(store, name="new")
    found, then = store.run(store.operations.find(Thing, (0,)))
    assert (found.maker.name, then) == ("new", version)
    store.run(store.operations.patch(Thing, (0,), {"size": 2}, version))


def test_a_cell_that_comes_late_is_not_laid_over_newer_values(store):
    things(store, 1, maker=MadeBy.of(1))
    rename(store, name="new")
    late = {column: cell for column, cell in row_of(store, 0).items() if column.startswith(COPY_CELL)}
    store.patch(Thing, 0, maker=MadeBy.of(2))
    rename(store, name="newest")
    store.patch(Thing, 0, maker=MadeBy.of(1))
    store.engine.answer(Mutate("roots", [RowMutation(store.seen(Thing, 0).key, late)]))
    assert names(store, 1) == ["newest"]


def test_a_row_that_only_has_cells_is_not_an_entity(store):
    """An attempt that was not committed has left its back-reference."""
    things(store, 2, maker=MadeBy.of(1))
    column = next(iter(each for each in rename_row(store) if each.startswith(COPY_CELL)))
    key = store.operations.kind(Thing).key((5,))
    store.engine.answer(Mutate("roots", [RowMutation(key, {column: Cell(b"", 9)})]))
    assert store.find(Thing, 5) is None
    rows = store.run(page(listed(store.operations, Thing), Query(limit=3), CIPHER, Trace())).rows
    assert [each.number for each in rows] == [0, 1]
    Audit(store.engine, store.operations).check()
    store.save(Thing(number=5, maker=MadeBy.of(1)), "create")
    assert store.find(Thing, 5).maker.name == "new"


def rename_row(store):
    rename(store, name="new")
    return row_of(store, 0)


def test_the_cell_of_a_deleted_source_has_its_last_values(store):
    things(store, 1, maker=MadeBy.of(1))
    rename(store, name="new")
    version = store.seen(Thing, 0).version
    store.delete(Maker, 1)
    maker = store.find(Thing, 0).maker
    assert (maker.name, maker.deleted, store.seen(Thing, 0).version) == ("new", True, version)


def test_ints_beyond_64_bits_are_in_cells(store):
    class Tall(Model[int]):
        number: Key[int]
        height: int = 0

    class Height(Copy[Tall]):
        height: int

    class Tree(Model[int]):
        number: Key[int]
        like: Height

    store = Store(Schema(Tall, Tree))
    store.save(Tall(number=1))
    store.save(Tree(number=1, like=Height.of(1)))
    version = store.seen(Tree, 1).version
    store.patch(Tall, 1, height=2**70)
    assert (store.find(Tree, 1).like.height, store.seen(Tree, 1).version) == (2**70, version)
    store.patch(Tall, 1, height=3)
    assert store.find(Tree, 1).like.height == 3


# Programs of several releases.


def release(*, has_view):
    """The declarations of a program; the newer one has a view of what is copied."""

    class Shop(Model[int]):
        number: Key[int]
        name: str

    class SoldIn(Copy[Shop]):
        name: str

    class Sale(Model[int]):
        number: Key[int]
        shop: SoldIn
        size: int = 0

    class SalesOfName(Index[Sale]):
        name: str = by(within(Sale.shop, SoldIn.name))

    schema = Schema(Shop, Sale, SalesOfName) if has_view else Schema(Shop, Sale)
    return SimpleNamespace(schema=schema, Shop=Shop, SoldIn=SoldIn, Sale=Sale)


@pytest.fixture
def programs():
    """The view of the newer one is being built, so that the older one may still write."""
    engine, old, new = OneRowMemoryEngine("hide"), release(has_view=False), release(has_view=True)
    old.store = Store(old.schema, engine=engine)
    old.store.save(old.Shop(number=1, name="a"))
    old.store.save(old.Sale(number=2, shop=old.SoldIn.of(1)))
    new.store = Store(new.schema, engine=engine)
    return {"old": old, "new": new}


@pytest.mark.parametrize("renamed_by", ["old", "new"])
@pytest.mark.parametrize("saved_by", ["old", "new"])
def test_programs_that_differ_in_what_follows_from_a_copy(programs, saved_by, renamed_by):
    """Each commits a holder of the other one, of which it does not know what follows."""
    saver, renamer = programs[saved_by], programs[renamed_by]
    saver.store.save(saver.Sale(number=1, shop=saver.SoldIn.of(1)))
    for name in ("b", "c"):
        renamer.store.patch(renamer.Shop, 1, name=name)
        for each in programs.values():
            assert each.store.find(each.Sale, 1).shop.name == name
    for each in (saver, renamer, saver):
        each.store.patch(each.Sale, 1, size=each.store.now % 7)
        assert each.store.find(each.Sale, 1).shop.name == "c"
    new = programs["new"]
    for model, number in ((new.Shop, 1), (new.Sale, 1), (new.Sale, 2)):
        key = new.store.seen(model, number).key
        new.store.run(new.store.operations.commit([Reemit(new.store.operations.catalog, key)]))
    Audit(new.store.engine, new.store.operations).check()


def names_shown(programs):
    """What the view of the newer program shows, by the older program's commit removed until it is emitted again."""
    new = programs["new"].store
    prefix = next(iter(new.operations.catalog.views.values())).prefix
    rows = new.engine.answer(Scan("views", RowRange.under(prefix), 100))
    return [key for key, _row in rows]


def test_an_older_program_does_not_leave_a_view_with_the_values_before(programs):
    """What it takes for a copy from which nothing follows is under another selection than the newer one's holder."""
    new, old = programs["new"], programs["old"]
    new.store.save(new.Sale(number=3, shop=new.SoldIn.of(1)))
    assert len(names_shown(programs)) == 1
    old.store.patch(old.Shop, 1, name="b")
    assert new.store.find(new.Sale, 3).shop.name == "b"
    assert names_shown(programs) == []


def test_without_the_bit_in_the_selection_a_view_is_left_behind(monkeypatch, request):
    monkeypatch.setattr(copies, "row_selection", lambda name, **_given: keys.row_selection(name, in_cell=True))
    programs = request.getfixturevalue("programs")
    with pytest.raises(AssertionError):
        test_an_older_program_does_not_leave_a_view_with_the_values_before(programs)
