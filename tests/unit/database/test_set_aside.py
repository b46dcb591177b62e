"""A holder that cannot follow its source is set aside by name: it refuses nothing, and holds up no other."""

from contextlib import ExitStack

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, field, total, within
from oneread.errors import InvalidValue, LimitExceeded, StaleCopies, Unavailable
from oneread.plans.effects import Atomically
from oneread.store.requests import CheckAndMutate, Mutate, Scan
from oneread.store.rows import Cell, RowMutation, RowRange
from oneread.transactions import outbox

LONG = "n" * 180


class Maker(Model[int]):
    id: Key[int]
    name: str
    size: int = 0


class MadeBy(Copy[Maker]):
    name: str
    size: int


class Product(Model[int]):
    id: Key[int]
    maker: MadeBy
    title: str = ""
    note: str = ""
    mood: str = ""

    def check(self):
        if self.mood == "picky" and self.maker.name != "old":
            raise ValueError("only the old name will do")
        if self.mood == "broken" and self.maker.name != "old":
            raise ZeroDivisionError("a mistake in a user's own check")
        if self.mood == "deep" and self.maker.name != "old":
            raise Strange


class Strange(Exception):
    """An error that cannot even be printed."""

    def __str__(self):
        raise RuntimeError("no text")


class Products(Index[Product]):
    maker: str = by(within(Product.maker, MadeBy.name))
    title: str = by(Product.title)


class TitlesOfSecond(Index[Product]):
    """Unique among the products of a maker of this name: a product comes in when its maker is renamed."""

    unique = True
    where = field(within(Product.maker, MadeBy.name)) == "second"

    title: str = by(Product.title)


class SizeOfTitle(Aggregate[Product]):
    title: str = by(Product.title)
    products: int = count()
    size: int = total(within(Product.maker, MadeBy.size))


class Shelf(Model[int]):
    id: Key[int]
    about: "Shown"


class Shown(Copy[Product]):
    title: str
    made_by: str = within(Product.maker, MadeBy.name)  # a second hop


class Shelves(Index[Shelf]):
    made_by: str = by(within(Shelf.about, Shown.made_by))
    title: str = by(within(Shelf.about, Shown.title))


MODELS = (Maker, Product, Shelf, Products, TitlesOfSecond, SizeOfTitle, Shelves)
BOUNDS = pytest.mark.parametrize("inline", [1000, 0], ids=["within the bound", "as a task"])


@pytest.fixture
def opened(url):
    with ExitStack() as stack:

        def opens(inline, **options):
            return stack.enter_context(connect(url, Schema(*MODELS, inline=inline), workers=0, **options))

        yield opens


@pytest.fixture
def filled(opened):
    """Makers 1 and 2; products 1, 2, ... of maker 1 in the order of their keys, the stubborn ones between others."""

    def fills(inline, *stubborn, others=2):
        db = opened(inline)
        db.save_all([Maker(id=1, name="old"), Maker(id=2, name="second")])
        db.save(Product(id=1, maker=MadeBy.of(1), title="first"))
        for number, fields in enumerate(stubborn, 2):
            db.save(Product(id=number, maker=MadeBy.of(1), **{"title": f"t{number}", **fields}))
        db.save_all([Product(id=100 + n, maker=MadeBy.of(1), title=f"o{n}") for n in range(others)])
        db.drain()
        return db

    return fills


def spans_rows(db):
    return db._driver.engine.capabilities.spans_rows


STUBBORN = {
    "too large": ({"note": "x" * 999_900}, LONG, "LimitExceeded"),
    "a key too long together": ({"title": "t" * 150}, LONG, "InvalidKey"),
    "its own check": ({"mood": "picky"}, "new", "InvalidValue"),
    "a mistake in its check": ({"mood": "broken"}, "new", "ZeroDivisionError"),
    "an error that has no text": ({"mood": "deep"}, "new", "Strange"),
}
FIXES = {"note": "", "title": "short", "mood": ""}


@BOUNDS
@pytest.mark.parametrize("kind", STUBBORN)
def test_it_is_named_and_the_others_follow(filled, inline, kind):
    fields, name, error = STUBBORN[kind]
    db = filled(inline, fields)
    left = db.tasks(db.patch(Maker, 1, name=name))
    db.drain()
    assert db.get(Maker, 1).name == name
    assert {number: db.get(Product, number).maker.name for number in (1, 2, 100, 101)} == {
        **dict.fromkeys((1, 100, 101), name),
        2: "old",
    }
    (named,) = db.set_aside()
    assert (named.source, named.holder, named.error, named.tries) == ("Maker(1)", "Product(2)", error, 1)
    assert not named.changed
    assert db.survey().set_aside == 1
    assert db.survey().tasks == 0
    with pytest.raises(StaleCopies, match=r"Product\(2\)"):
        left.wait()
    assert db.drain() == 0
    found = db.verify()
    assert [(fault.view, fault.entity) for fault in found.faults] == [("copy", "Product(2)")]
    repaired = db.repair()
    assert not repaired.clean
    assert len(repaired.reasons) == 1
    assert "cannot follow" in repaired.reasons[0]
    assert error in repaired.reasons[0]
    assert db.set_aside()[0].tries == 1


@BOUNDS
@pytest.mark.parametrize("kind", STUBBORN)
def test_it_follows_when_it_has_been_changed(filled, inline, kind):
    fields, name, _error = STUBBORN[kind]
    db = filled(inline, fields)
    db.patch(Maker, 1, name=name)
    db.drain()
    db.patch(Product, 2, **{field: FIXES[field] for field in fields})
    assert [each.changed for each in db.set_aside()] == [True]
    assert db.drain() > 0
    assert db.set_aside() == []
    assert db.get(Product, 2).maker.name == name
    assert db.verify().clean


@BOUNDS
@pytest.mark.parametrize("kind", STUBBORN)
def test_it_follows_when_its_source_has_been_changed(filled, inline, kind):
    fields, name, _error = STUBBORN[kind]
    db = filled(inline, fields)
    db.patch(Maker, 1, name=name)
    db.drain()
    left = db.tasks(db.patch(Maker, 1, name="old", size=3))
    db.drain()
    left.wait()
    assert db.get(Product, 2).maker.size == 3
    assert db.set_aside() == []
    assert db.verify().clean


@BOUNDS
@pytest.mark.parametrize("away", ["deleted", "of another source"])
def test_it_is_dropped_when_it_has_nothing_to_follow(filled, inline, away):
    db = filled(inline, {"mood": "picky"})
    db.patch(Maker, 1, name="new")
    db.drain()
    if away == "deleted":
        db.delete(Product, 2)
    else:
        db.patch(Product, 2, maker=MadeBy.of(2), mood="")
    db.drain()
    assert db.set_aside() == []
    assert db.verify().clean


@BOUNDS
def test_it_is_tried_again_on_request(filled, inline):
    db = filled(inline, {"mood": "picky"})
    db.patch(Maker, 1, name="new")
    db.drain()
    since = db.set_aside()[0].since
    db.drain(retry=True)
    assert [(each.tries, each.since) for each in db.set_aside()] == [(2, since)]


@BOUNDS
def test_a_whole_transaction_with_it_goes_through(filled, inline):
    db = filled(inline, {"mood": "picky"})

    def both(work):
        work.patch(Maker, 1, name="new")
        if spans_rows(db):
            work.save(Maker(id=3, name="third"))

    db.transact(both)
    db.save_all([Maker(id=1, name="newer"), Maker(id=3, name="fourth")])
    db.drain()
    assert db.get(Maker, 3).name == "fourth"
    assert [each.holder for each in db.set_aside()] == ["Product(2)"]


@BOUNDS
def test_a_unique_value_that_another_one_has_taken(filled, inline):
    """Found out when the unit is settled against the store, after every holder was decided."""
    db = filled(inline, {"title": "same"})
    db.save(Product(id=50, maker=MadeBy.of(2), title="same"))
    db.patch(Maker, 1, name="second")
    db.drain()
    (named,) = db.set_aside()
    assert (named.holder, named.error) == ("Product(2)", "NotUnique")
    assert {db.get(Product, number).maker.name for number in (1, 100, 101)} == {"second"}
    assert db.get(TitlesOfSecond, "same").title == "same"
    db.delete(Product, 50)  # neither the source nor the holder
    db.drain()
    assert [each.tries for each in db.set_aside()] == [1]
    db.drain(retry=True)
    assert db.set_aside() == []
    assert db.verify().clean


@BOUNDS
def test_of_two_that_want_one_unique_value_one_has_it(opened, inline):
    db = opened(inline)
    db.save_all([Maker(id=1, name="one"), Maker(id=2, name="two")])
    db.save_all([Product(id=n, maker=MadeBy.of(n), title="same") for n in (1, 2)])
    db.save_all([Maker(id=1, name="second"), Maker(id=2, name="second")])
    db.drain()
    assert [each.error for each in db.set_aside()] == ["NotUnique"]
    assert sum(db.get(Product, n).maker.name == "second" for n in (1, 2)) == 1
    assert db.verify().found == {"copy": {"different": 1}}


def test_unique_values_that_change_hands_among_holders_are_settled_together(opened):
    db = opened(1000)
    db.save_all([Maker(id=1, name="one"), Maker(id=2, name="second")])
    db.save_all([Product(id=n, maker=MadeBy.of(n), title="same") for n in (1, 2)])
    db.save_all([Maker(id=1, name="second"), Maker(id=2, name="two")])
    if not spans_rows(db):  # one commit after the other: the second one frees what the first one's holder wanted
        assert [each.error for each in db.set_aside()] == ["NotUnique"]
        db.drain(retry=True)
    assert db.set_aside() == []
    assert db.get(Product, 1).maker.name == "second"
    assert db.verify().clean


@BOUNDS
def test_what_the_user_writes_himself_is_refused_as_ever(filled, inline):
    db = filled(inline, {"mood": "picky"})
    with pytest.raises(InvalidValue):
        db.save(Product(id=3, maker=MadeBy.of(2), mood="picky"))
    with pytest.raises(LimitExceeded):
        db.patch(Product, 1, note="x" * 1_000_001)
    assert db.set_aside() == []


@BOUNDS
@pytest.mark.parametrize("holders", [0, 1, 3])
def test_a_value_that_no_holder_could_hold_is_refused_at_the_source(opened, inline, holders):
    db = opened(inline)
    db.save(Maker(id=1, name="old"))
    db.save_all([Product(id=n, maker=MadeBy.of(1), title=str(n)) for n in range(holders)])
    with pytest.raises(InvalidValue, match="cannot hold the new value"):
        db.patch(Maker, 1, name="n" * 201)
    assert db.get(Maker, 1).name == "old"
    assert db.drain() == 0
    assert db.set_aside() == []


@BOUNDS
def test_one_on_the_second_hop_is_named_with_the_source_it_did_not_follow(filled, inline):
    db = filled(inline, {"title": "t" * 140})
    db.save(Shelf(id=1, about=Shown.of(2)))
    db.patch(Maker, 1, name="n" * 155)  # the product can hold it, and the shelf
    db.drain()
    assert db.set_aside() == []
    db.patch(Maker, 1, name="n" * 165)  # neither: the product first
    db.drain()
    assert [(each.source, each.holder) for each in db.set_aside()] == [("Maker(1)", "Product(2)")]
    assert db.get(Shelf, 1).about.made_by == "n" * 155


def test_a_refused_holder_leaves_nothing_of_itself_in_the_commit(filled):
    db = filled(1000, {"title": "t" * 150})
    before = {table: rows_of(db, table) for table in ("roots", "views", "counts")}
    of_holder = db.operations.kind(Product).key((2,))
    db.patch(Maker, 1, name=LONG, size=7)
    after = {table: rows_of(db, table) for table in ("roots", "views", "counts")}
    assert after["roots"][of_holder] == before["roots"][of_holder]
    assert {key for key in before["views"] if key.endswith(of_holder[2:])} == {
        key for key in after["views"] if key.endswith(of_holder[2:])
    }
    assert db.get(SizeOfTitle, "t" * 150).size == 0
    assert db.get(SizeOfTitle, "first").size == 7


def rows_of(db, table):
    return dict(db.run(Scan(table, RowRange(b"", b""), 10_000, families="dm").__iter__()))


def plant(db, table, key, row):
    """Puts a row where the library never would."""
    stored = rows_of(db, table)[key]
    cells = {column: Cell(value, stored[column].stamp) for column, value in row.items()}
    db.run(Mutate(table, [RowMutation(key, cells)]).__iter__())


class TestDamage:
    @BOUNDS
    def test_of_a_group_sets_aside_those_that_count_in_it(self, filled, inline):
        db = filled(inline, {"title": "damaged"})
        group = db.operations.catalog.views[SizeOfTitle]
        key = group.prefix + group.key.codec.encode(("damaged",))
        assert key in rows_of(db, "counts")
        plant(db, "counts", key, {b"d:b": b"\xc1 torn"})
        db.patch(Maker, 1, name="new", size=4)
        db.drain()
        assert [(each.holder, each.error) for each in db.set_aside()] == [("Product(2)", "Corrupt")]
        assert {db.get(Product, number).maker.size for number in (1, 100, 101)} == {4}

    @BOUNDS
    def test_of_a_holder_is_written_down_with_it(self, filled, inline):
        db = filled(inline, {})
        plant(db, "roots", db.operations.kind(Product).key((2,)), {b"d:b": b"\x00\x00 torn"})
        db.patch(Maker, 1, name="new")
        db.drain()
        assert [(each.holder, each.error) for each in db.set_aside()] == [("Product(2)", "Corrupt")]
        assert {db.get(Product, number).maker.name for number in (1, 100, 101)} == {"new"}

    def test_of_a_source_sets_its_task_aside_once_for_all_holders(self, filled):
        db = filled(0, {}, others=300)
        db.patch(Maker, 1, name="new")
        key = db.operations.kind(Maker).key((1,))
        whole = rows_of(db, "roots")[key]
        plant(db, "roots", key, {b"d:b": b"\x00\x00 torn"})
        db.patch(Maker, 2, name="2nd")
        db.drain()
        (named,) = db.set_aside()
        assert (named.source, named.holder, named.error) == ("Maker(1)", "", "Corrupt")
        assert "task" in db.verify().found
        db.run(whole_again(db, key, whole))
        db.drain()
        assert db.set_aside() == []
        assert db.get(Product, 250 + 1).maker.name == "new"
        assert db.verify().clean

    def test_of_an_entry_is_named_and_removed_by_repair(self, filled):
        db = filled(0, {"mood": "picky"})
        db.patch(Maker, 1, name="new")
        db.drain()
        (key,) = [key for key in rows_of(db, "system") if key.startswith(outbox.SET_ASIDE.start)]
        plant(db, "system", key, {b"d:b": b"torn"})
        assert db.drain() == 0
        assert db.set_aside()[0].error == "Corrupt"
        assert db.verify().found["task"] == {"unreadable": 1}
        db.repair()
        assert db.set_aside() == []


def whole_again(db, key, row):
    if spans_rows(db):
        return Atomically(lambda store: store.replace("roots", {key: row})).__iter__()
    return Mutate("roots", [RowMutation(key, {b"d:b": row[b"d:b"]})]).__iter__()


def failing(db, error):
    """Lets the store refuse what changes entities; returns what it was asked, and what undoes that."""
    engine, asked = db._driver.engine, []
    name = "transaction" if spans_rows(db) else "answer"
    working = getattr(engine, name)

    def fail(request, *given):
        if not spans_rows(db) and not isinstance(request, CheckAndMutate):
            return working(request, *given)
        asked.append(request)
        raise error

    setattr(engine, name, fail)
    return asked, lambda: setattr(engine, name, working)


def test_a_store_that_cannot_answer_is_nobodys_fault(filled):
    """It ends the drain, and nothing is set aside for it."""
    db = filled(0, {})
    db.patch(Maker, 1, name="new")
    _asked, work_again = failing(db, Unavailable("simulated: the store does not answer"))
    with pytest.raises(Unavailable):
        db.drain()
    work_again()
    assert db.set_aside() == []
    assert db.survey().tasks == 1
    db.drain()
    assert db.verify().clean


def test_a_full_store_ends_the_drain_and_sets_nothing_aside(filled):
    db = filled(0, {})
    db.patch(Maker, 1, name="new")
    asked, work_again = failing(db, LimitExceeded("simulated: the disk is full"))
    with pytest.raises(LimitExceeded):
        db.drain()
    work_again()
    assert len(asked) == (2 if spans_rows(db) else 1)  # the batch, then one holder; the lease
    assert db.set_aside() == []
    db.drain()
    assert db.verify().clean


class TestTurns:
    """No task holds up another, however many holders it has."""

    def test_a_large_fan_out_and_a_small_one_take_turns(self, filled):
        db = filled(0, others=40)
        db.save_all([Product(id=1000 + n, maker=MadeBy.of(2), title=f"x{n}") for n in range(2)])
        db.patch(Maker, 1, name="new")
        db.patch(Maker, 2, name="2nd")
        for _ in range(4):  # each has had two turns at most
            db.run(db.operations.drain_step(5))
        assert db.get(Product, 1000).maker.name == "2nd"
        done = [db.get(Product, 100 + n).maker.name for n in range(40)].count("new")
        assert 0 < done < 40

    def test_one_that_the_store_refuses_lets_the_others_go_first(self, filled, monkeypatch):
        db = filled(0)
        db.save(Product(id=1000, maker=MadeBy.of(2), title="x"))
        db.patch(Maker, 1, name="new")
        db.patch(Maker, 2, name="2nd")
        first = outbox.task_key(db.operations.kind(Maker).key((1,)))
        second = outbox.task_key(db.operations.kind(Maker).key((2,)))
        bad, good = sorted((first, second))
        runner, name = type(db.operations.outbox), "task_batch" if spans_rows(db) else "_advance"
        working = getattr(runner, name)

        def fail(self, task, *given):
            if (task if spans_rows(db) else task[0]).startswith(bad):
                raise LimitExceeded("simulated: too many pages")
            return working(self, task, *given)

        monkeypatch.setattr(runner, name, fail)
        with pytest.raises(LimitExceeded):
            db.drain()
        with pytest.raises(LimitExceeded):
            db.drain()
        number, name = (1000, "2nd") if good == second else (1, "new")
        assert db.get(Product, number).maker.name == name


def test_an_error_that_does_not_come_back_is_not_the_holders(filled):
    """What a signal handler raises in the middle of a holder's decision goes to the caller, and nothing is written."""
    db = filled(1000, {})
    raised = []
    check = Product.check

    def interrupted(self):
        if self.maker.name == "new" and not raised:
            raised.append(self)
            raise TimeoutError("an alarm went off")
        check(self)

    Product.check = interrupted
    try:
        with pytest.raises(TimeoutError):
            db.patch(Maker, 1, name="new")
    finally:
        Product.check = check
    assert db.get(Maker, 1).name == ("old" if spans_rows(db) else "new")  # committed before its holders follow
    assert db.set_aside() == []
    db.patch(Maker, 1, name="new")
    db.drain()
    assert db.verify().clean


def test_the_worker_does_what_is_not_set_aside(url):
    with connect(url, Schema(*MODELS, inline=0), workers=1) as db:
        db.save(Maker(id=1, name="old"))
        db.save_all(
            [Product(id=n, maker=MadeBy.of(1), title=str(n), mood="broken" if n == 3 else "") for n in range(6)]
        )
        with pytest.raises(StaleCopies):
            db.tasks(db.patch(Maker, 1, name="new")).wait(60)
        assert [each.holder for each in db.set_aside()] == ["Product(3)"]
        assert {db.get(Product, n).maker.name for n in (0, 1, 2, 4, 5)} == {"new"}


def test_a_holder_set_aside_is_a_fault_although_a_task_of_its_source_waits(filled):
    db = filled(0, {"mood": "picky"})
    db.patch(Maker, 1, name="new")
    db.drain()
    db.patch(Maker, 1, name="newer")
    assert [fault.entity for fault in db.verify().faults] == ["Product(2)"]


def test_what_is_set_aside_survives_the_process(url):
    for_all = Schema(*MODELS, inline=0)
    with connect(url, for_all, workers=0) as db:
        db.save(Maker(id=1, name="old"))
        db.save(Product(id=1, maker=MadeBy.of(1), mood="picky"))
        db.patch(Maker, 1, name="new")
        db.drain()
    with connect(url, for_all, workers=0) as db:
        assert [each.holder for each in db.set_aside()] == ["Product(1)"]
        db.patch(Product, 1, mood="")
        db.drain()
        assert db.verify().clean


def test_many_that_are_set_aside_are_listed_up_to_a_limit(filled):
    db = filled(1000, *[{"mood": "picky"}] * 230, others=0)
    db.patch(Maker, 1, name="new")
    db.drain()  # one row at a time, so many follow in a task
    assert len(db.set_aside()) == 230
    assert len(db.set_aside(3)) == 3
    db.save_all([Product(id=n, maker=MadeBy.of(1), title=f"t{n}") for n in range(2, 232)])
    db.drain()
    assert db.set_aside() == []


def test_the_outbox_row_of_a_version_before_is_read():
    """A task as the release before wrote it."""
    assert outbox.read_task({b"d:b": Cell(b"\x93\xc4\x02ab\xc4\x00\x00", 1)}) == outbox.Task(b"ab")
