"""Bulk writing: bounded batches, one transaction each; checkpoints; and what becomes of a refused change."""

import asyncio
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from oneread import (
    CREATED,
    GENERATED,
    UPDATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    add,
    by,
    connect,
    connect_async,
    count,
    newest,
    reference,
    shown,
)
from oneread.database._sync.database import Database
from oneread.errors import (
    AlreadyExists,
    Closed,
    Conflict,
    Corrupt,
    InvalidKey,
    InvalidValue,
    LimitExceeded,
    MissingReference,
    NotFound,
    NotUnique,
    StillReferenced,
    UsageError,
)
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import Cell, RowMutation
from oneread.testing.audit import Audit
from oneread.transactions.outbox import TASKS
from oneread.transfer.bulk import Tally, weight
from oneread.transfer.checkpoints import key_of, read_checkpoint
from oneread.transfer.load import DumpReader, parse_head
from tests.unit.database.faces import FACES
from tests.unit.database.shop import (
    SCHEMA,
    SHOP,
    Buyer,
    Customer,
    Product,
    Purchase,
    SalesOfBuyer,
    Sold,
    purchase,
)


class Named(Model[int]):
    number: Key[int]
    name: str


class Names(Index[Named]):
    unique = True

    name: str = by(Named.name)


class Held(Model[int]):
    number: Key[int]
    of: Ref[Named] = reference(on_delete="refuse")


def collecting(asked):
    return lambda request, _answer: asked.append(request)


UNIQUE = Schema(Named, Names, Held)
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def asked():
    return []


@pytest.fixture
def db(url, asked):
    def observe(request, _answer):
        asked.append(f"{type(request).__name__} {request.table}")

    opened = connect(url, SCHEMA, workers=0, observers=(observe,))
    opened.save(Customer(number=1, name="Ada"))
    opened.save(Product(code="A", name="Heart"))
    asked.clear()
    yield opened
    if opened.operations.spans_rows:
        Audit(opened._driver.engine, opened.operations).check()
    else:
        assert opened.verify().clean
    opened.close()


def lines(count, order="o"):
    return [Purchase(order=order, line=line, buyer=Buyer.of(1), product=Sold.of("A"), tags=[]) for line in range(count)]


def orders(db):
    return sum(len(page) for page in db.scan(Purchase))


class TestABatch:
    def test_is_one_transaction_however_many_changes(self, db, asked):
        with db.bulk(batch=10) as bulk:
            for each in lines(25):
                bulk.save(each)
        reads = asked.count("Read roots")
        assert reads == 3
        assert asked.count("Replace roots") == 3
        assert bulk.tally == Tally(stored=25, batches=3)
        assert orders(db) == 25
        assert db.get(SalesOfBuyer, 1).orders == 25

    def test_costs_what_save_all_costs(self, db, asked):
        db.save_all(lines(10))
        alone = list(asked)
        asked.clear()
        with db.bulk(batch=10) as bulk:
            for each in lines(10, "p"):
                bulk.save(each)
        assert asked == alone
        assert bulk.cost.requests == len(alone)

    def test_sees_its_own_changes(self, db):
        with db.bulk() as bulk:
            bulk.save(Customer(number=2, name="Bob"))
            bulk.patch(Customer, 2, name="Bea")
            bulk.save(purchase(buyer=2, sold="A"))
            bulk.patch(Customer, 2, name="Eve")
            bulk.delete(Customer, 99)
        assert db.get(Purchase, "o", 1).buyer.name == "Eve"

    def test_is_bounded_by_bytes_too(self, db):
        with db.bulk(batch_bytes=5_000) as bulk:
            for number in range(10):
                bulk.save(Customer(number=number, name=f"n{number}", country="c" * 2_000))
                assert bulk.tally.waiting <= 2
        assert bulk.tally.batches == 4

    def test_waits_no_longer_than_until_it_is_full(self, db):
        with db.bulk(batch=3) as bulk:
            for number in range(3):
                bulk.save(Customer(number=10 + number, name=f"n{number}"))
            assert db.exists(Customer, 12)
            bulk.save(Customer(number=20, name="m"))
            assert not db.exists(Customer, 20)
            bulk.flush()
            assert db.exists(Customer, 20)

    def test_is_not_stored_when_the_block_is_left_by_an_exception(self, db):
        with pytest.raises(ZeroDivisionError), db.bulk(batch=2) as bulk:  # noqa: PT012, RUF100 - what the block does fails
            for number in range(10, 13):
                bulk.save(Customer(number=number, name=f"n{number}"))
            1 / 0  # noqa: B018 - what the program did wrong
        assert db.exists(Customer, 11)
        assert not db.exists(Customer, 12)

    def test_reports_its_progress(self, db):
        reports = []
        with db.bulk(batch=2, progress=reports.append, total=5) as bulk:
            for number in range(10, 15):
                bulk.save(Customer(number=number, name=f"n{number}"))
        assert [(each.done, each.total) for each in reports] == [(2, 5), (4, 5), (5, 5)]


class TestARefusedChange:
    def test_ends_the_work_and_what_was_given_before_it_is_stored(self, db):
        with pytest.raises(MissingReference) as caught, db.bulk(batch=10) as bulk:  # noqa: PT012, RUF100 - what the block does fails
            for each in lines(25):
                bulk.save(each if each.line != 14 else purchase(buyer=404, sold="A"))
        assert bulk.tally == Tally(stored=14, batches=2)
        assert orders(db) == 14
        assert "14 changes given before this one are stored" in caught.value.__notes__[0]

    def test_is_left_out_alone_and_reported(self, db):
        refusals = []
        with db.bulk(batch=10, on_refused=refusals.append) as bulk:
            for each in lines(25):
                bulk.save(purchase(each.line, buyer=404, sold="A") if each.line in {0, 9, 10, 24} else each)
        assert [each.given[0][1].line for each in refusals] == [0, 9, 10, 24]
        assert {type(each.error) for each in refusals} == {MissingReference}
        assert bulk.tally.stored == orders(db) == db.get(SalesOfBuyer, 1).orders == 21
        assert bulk.tally.refused == 4

    def test_may_be_any_of_the_refusals(self, db):
        db.save_all(lines(1))
        db.save(Customer(number=5, name="Unique", country="x"))
        refusals = []
        with db.bulk(on_refused=refusals.append) as bulk:
            bulk.create(Customer(number=1, name="taken"))
            bulk.patch(Customer, 404, name="nobody")
            bulk.patch(Customer, 1, nonsense=1)
            bulk.delete(Product, "A")
            bulk.save(Customer(number="one", name="x"))
            bulk.save(Customer(number=7, name=7))
            bulk.save("no entity")
            bulk.save(Customer(number=8, name="z", country="x" * 2_000_000))
            bulk.save(Customer(number=6, name="fine"))
        kinds = [type(each.error) for each in refusals]
        assert kinds[:4] == [AlreadyExists, NotFound, InvalidValue, StillReferenced]
        assert kinds[5:] == [InvalidValue, UsageError, LimitExceeded]
        assert issubclass(kinds[4], UsageError)
        assert bulk.tally.stored == 1
        assert db.exists(Customer, 6)

    def test_costs_a_few_transactions_and_never_one_for_each_of_the_others(self, db, asked):
        with db.bulk(batch=1000, on_refused=lambda _refusal: None) as bulk:
            for each in lines(1000):
                bulk.save(each if each.line != 700 else purchase(buyer=404, sold="A"))
        assert asked.count("Replace roots") == 1
        assert bulk.tally.batches == 1

    def test_costs_the_same_however_many_are_refused(self, url):
        """Three transactions: one that is refused, one that finds what is, and the commit of the others."""
        costs = {}
        for refused in (1, 20, 100, 199):
            asked = []
            with connect(url, SCHEMA, workers=0, observers=(collecting(asked),)) as db:
                db.save(Customer(number=1, name="Ada"))
                db.save(Product(code="A", name="Heart"))
                asked.clear()
                with db.bulk(batch=200, on_refused=lambda _refusal: None) as bulk:
                    for each in lines(200, f"of {refused}"):
                        bad = each.line * refused // 200 != (each.line + 1) * refused // 200
                        bulk.save(purchase(each.line, order=each.order, buyer=404, sold="A") if bad else each)
                assert bulk.tally == Tally(stored=200 - refused, refused=refused, batches=1)
                kinds = [f"{type(each).__name__} {each.table}" for each in asked]
                costs[refused] = kinds.count("Read roots"), kinds.count("Replace roots")
        assert set(costs.values()) == {(3, 1)}

    def test_is_found_among_values_that_are_taken(self, url):
        with connect(url, UNIQUE, workers=0) as db:
            db.save(Named(number=0, name="zero"))
            refusals = []
            with db.bulk(on_refused=refusals.append) as bulk:
                for number, name in enumerate(["zero", "one", "one", "two", "zero", "one", "three"], 1):
                    bulk.save(Named(number=number, name=name), position=number)
            assert [(each.position, type(each.error), each.error.facts["owner"]) for each in refusals] == [
                (1, NotUnique, "Named(0)"),
                (3, NotUnique, "Named(2)"),
                (5, NotUnique, "Named(0)"),
                (6, NotUnique, "Named(2)"),
            ]
            assert [each.number for each in db.page(Named)] == [0, 2, 4, 7]
            Audit(db._driver.engine, db.operations).check()

    def test_is_found_among_deletes_and_sums(self, url):
        with connect(url, UNIQUE, workers=0) as db:
            db.save(Named(number=0, name="zero"))
            db.save(Held(number=1, of=Named.at(0)))
            refusals = []
            with db.bulk(on_refused=refusals.append) as bulk:
                bulk.delete(Named, 0, position=1)
                bulk.patch(Named, 0, name="renamed")
                bulk.reached(2)
                bulk.save(Named(number=3, name="zero"), position=3)
            assert [(each.position, type(each.error)) for each in refusals] == [(1, StillReferenced)]
            assert [each.name for each in db.page(Named)] == ["renamed", "zero"]

    @pytest.mark.parametrize("batch", [1, 2, 7, 64])
    def test_takes_only_itself_along_wherever_it_stands(self, new_url, batch):
        for bad in range(1, 128, 3):
            with connect(new_url(), SCHEMA) as db:
                db.save(Product(code="A", name="Heart"))
                db.save(Customer(number=1, name="Ada"))
                seven = lines(7)
                refusals = []
                with db.bulk(batch=batch, on_refused=refusals.append) as bulk:
                    for place, each in enumerate(seven):
                        bulk.save(purchase(each.line, buyer=404, sold="A") if bad >> place & 1 else each)
                refused = [place for place in range(7) if bad >> place & 1]
                assert [each.given[0][1].line for each in refusals] == refused
                assert orders(db) == 7 - len(refused)

    def test_may_show_only_when_all_is_settled(self, db):
        unique = [Product(code=f"P{number}", name=f"name {number}") for number in range(20)]
        refusals = []
        with db.bulk(on_refused=refusals.append) as bulk:
            for each in unique:
                bulk.save(each)
            bulk.delete(Product, "A")
            bulk.save(purchase(sold="A"))
        assert [type(each.error) for each in refusals] == [MissingReference]
        assert not db.exists(Product, "A")

    def test_leaves_a_writer_that_gave_up_unusable(self, db):
        with pytest.raises(MissingReference), db.bulk(batch=1) as bulk:  # noqa: PT012, RUF100 - what the block does fails
            bulk.save(purchase(buyer=404, sold="A"))
        with pytest.raises(UsageError, match="is closed"):
            bulk.save(Customer(number=3, name="n"))
        with db.bulk(batch=1) as bulk:
            with pytest.raises(MissingReference):
                bulk.save(purchase(buyer=404, sold="A"))
            with pytest.raises(UsageError, match="cannot be reused"):
                bulk.save(Customer(number=3, name="n"))
            bulk._state = "open"


class TestACheckpoint:
    def test_is_committed_with_its_batch_and_says_where_to_go_on(self, db):
        with pytest.raises(ZeroDivisionError), db.bulk(batch=10, checkpoint="import") as bulk:  # noqa: PT012, RUF100 - what the block does fails
            assert bulk.position is None
            for each in lines(25):
                bulk.save(each, position=each.line)
            1 / 0  # noqa: B018 - what the program did wrong
        assert bulk.position == 19
        with db.bulk(batch=10, checkpoint="import") as bulk:
            assert bulk.position == 19
            assert not bulk.finished
            for each in lines(25)[bulk.position + 1 :]:
                bulk.save(each, position=each.line)
        assert orders(db) == 25
        with db.bulk(checkpoint="import") as bulk:
            assert (bulk.position, bulk.finished) == (24, True)

    def test_costs_one_row_more_each_batch(self, db, asked):
        with db.bulk(batch=5, checkpoint="import") as bulk:
            for each in lines(10):
                bulk.save(each, position=each.line)
        assert asked.count("Replace roots") == 2
        assert asked.count("Replace system") == 3  # each batch, and the end

    def test_keeps_what_lies_between_two_positions_together(self, db):
        with pytest.raises(ZeroDivisionError), db.bulk(batch=5, checkpoint="import") as bulk:  # noqa: PT012, RUF100 - what the block does fails
            for number in range(10, 20):
                bulk.save(Customer(number=number, name=f"n{number}"))
                bulk.patch(Customer, 1, name=f"after {number}")
                bulk.reached(number)
                assert (db.get(Customer, 1).name == "Ada") == (bulk.position is None)
                if bulk.position is not None:
                    assert db.get(Customer, 1).name == f"after {bulk.position}"
            1 / 0  # noqa: B018 - what the program did wrong
        assert bulk.position == 17

    def test_refuses_together_what_lies_between_two_positions(self, db):
        refusals = []
        with db.bulk(checkpoint="import", on_refused=refusals.append) as bulk:
            bulk.save(Customer(number=10, name="n"))
            bulk.save(purchase(buyer=404, sold="A"), position=1)
            bulk.save(Customer(number=11, name="n11"), position=2)
        assert [(each.position, len(each.given)) for each in refusals] == [(1, 2)]
        assert not db.exists(Customer, 10)
        assert db.exists(Customer, 11)

    def test_moves_over_what_was_refused_at_the_end(self, db):
        with db.bulk(batch=2, checkpoint="import", on_refused=lambda _refusal: None) as bulk:
            bulk.save(Customer(number=10, name="n"), position="a")
            bulk.save(purchase(buyer=404, sold="A"), position="b")
            assert bulk.position == "b"
            bulk._state = "open"
        with db.bulk(checkpoint="import") as bulk:
            assert bulk.position == "b"

    def test_can_be_begun_again(self, db):
        with db.bulk(checkpoint="import") as bulk:
            bulk.save(Customer(number=10, name="n"), position=7)
        with db.bulk(checkpoint="import", restart=True) as bulk:
            assert bulk.position is None
            bulk.save(Customer(number=10, name="n"), position=1)
        with db.bulk(checkpoint="import") as bulk:
            assert bulk.position == 1

    def test_is_one_programs_at_a_time(self, db):
        with db.bulk(checkpoint="import", batch=1) as one:
            one.save(Customer(number=10, name="n"), position=1)
            with pytest.raises(Conflict, match="another program"), db.bulk(checkpoint="import", batch=1) as other:  # noqa: PT012, RUF100 - what the block does fails
                one.save(Customer(number=11, name="n11"), position=2)
                other.save(Customer(number=12, name="n12"), position=2)
        assert not db.exists(Customer, 12)

    def test_does_not_hold_more_than_a_batch_between_two_positions(self, db):
        with pytest.raises(UsageError, match="between two positions"), db.bulk(checkpoint="import", batch=3) as bulk:  # noqa: PT012, RUF100 - what the block does fails
            for number in range(10, 20):
                bulk.save(Customer(number=number, name=f"n{number}"))

    @pytest.mark.parametrize("name", ["", "x" * 201, 7, "é" * 101])
    def test_has_a_short_name(self, db, name):
        with pytest.raises(InvalidValue, match="name"):
            db.bulk(checkpoint=name)

    @pytest.mark.parametrize("position", [1.5, 1 << 63, "x" * 1001, b"x", True])
    def test_holds_a_position_of_a_plain_kind(self, db, position):
        with pytest.raises(InvalidValue, match="position"), db.bulk(checkpoint="import") as bulk:  # noqa: PT012, RUF100 - what the block does fails
            bulk.save(Customer(number=10, name="n"), position=position)

    def test_that_is_damaged_says_so(self, db):
        db._driver.engine.answer(Mutate("system", [RowMutation(key_of("import"), {b"d:b": Cell(b"\xc1", 1)})]))
        with pytest.raises(Corrupt, match="checkpoint"), db.bulk(checkpoint="import"):  # noqa: PT012, RUF100 - what the block does fails
            pass


def test_a_fan_out_too_big_for_its_commit_does_not_pile_up(url):
    schema = Schema(*SHOP, inline=0)
    with connect(url, schema, workers=0) as db:
        db.save_all([Customer(number=number, name=f"n{number}") for number in range(20)])
        db.save(Product(code="A", name="Heart"))
        db.save_all([purchase(number, buyer=number, sold="A") for number in range(20)])
        most = 0
        with db.bulk(batch=4, max_tasks=3) as bulk:
            for number in range(20):
                bulk.patch(Customer, number, name=f"new{number}")
                left = db._driver.engine.answer(Scan("system", TASKS, 100))
                most = max(most, len(left))
        assert most == 3
        db.drain()
        assert db.get(Purchase, "o", 19).buyer.name == "new19"


@pytest.mark.parametrize("bound", ["batch", "batch_bytes", "max_tasks"])
@pytest.mark.parametrize("given", [-1, 1.5, True, "many", None])
def test_a_bound_is_a_whole_number(db, bound, given):
    with pytest.raises(UsageError, match="bound"):
        db.bulk(**{bound: given})


def test_a_writer_is_used_once_and_inside_its_block(db):
    bulk = db.bulk()
    with pytest.raises(UsageError, match="with block"):
        bulk.save(Customer(number=3, name="n"))
    with bulk:
        pass
    with pytest.raises(UsageError, match="used once"), bulk:
        pass


def test_a_closed_database_ends_it(url):
    db = connect(url, SCHEMA)
    with pytest.raises(Closed), db.bulk(on_refused=lambda _refusal: None) as bulk:  # noqa: PT012 - the end of the block raises
        bulk.save(Customer(number=3, name="n"))
        db.close()


def test_the_store_failing_is_nobodys_refusal(tmp_path):
    with connect(f"lmdb://{tmp_path}/store?map_size=1M&durability=none", SCHEMA) as db:
        refusals = []
        with pytest.raises(LimitExceeded, match="map_size"), db.bulk(batch=10, on_refused=refusals.append) as bulk:  # noqa: PT012, RUF100 - what the block does fails
            for number in range(10_000):
                bulk.save(Customer(number=number, name=f"n{number}", country="c" * 1000))
        assert not refusals
        assert bulk.tally.stored > 0
        assert db.exists(Customer, bulk.tally.stored - 1)
        assert not db.exists(Customer, bulk.tally.stored)


def test_the_asynchronous_face_does_the_same(url):
    async def work():
        async with connect_async(url, SCHEMA) as db:
            await db.save(Product(code="A", name="Heart"))
            await db.save(Customer(number=1, name="Ada"))
            refusals = []
            async with db.bulk(batch=10, checkpoint="import", on_refused=refusals.append) as bulk:
                for each in lines(25):
                    await bulk.save(each, position=each.line)
                await bulk.patch(Purchase, "o", 3, quantity=add(2))
                await bulk.reached(25)
                await bulk.create(Customer(number=1, name="Ada"), position=26)
                await bulk.delete(Purchase, "o", 4, position=27)
                await bulk.flush()
            assert [each.position for each in refusals] == [26]
            assert (bulk.position, bulk.finished, bulk.tally.stored) == (27, True, 27)
            found = await db.get(SalesOfBuyer, 1)
            assert found.orders == 24

            async def two(bulk, first):
                for number in range(10):
                    await bulk.save(Customer(number=first + number, name=f"n{first + number}"))

            with pytest.raises(UsageError, match="another task"):
                async with db.bulk(batch=2) as bulk:
                    await asyncio.gather(two(bulk, 100), two(bulk, 200))

    asyncio.run(work())


def test_weights_follow_what_takes_room():
    assert weight("x" * 100) == 100
    assert weight(1 << 8000) > 1000
    assert weight({"a": ["x" * 500]}) > 500
    assert weight(Decimal(1)) == weight(None)


CHILD = """
import os, sys
from oneread import add, connect
from tests.unit.database.shop import SCHEMA, Buyer, Customer, Product, Purchase, Sold
with connect(sys.argv[1], SCHEMA) as db:
    with db.bulk(batch=7, checkpoint="import") as bulk:
        for line in range(0 if bulk.position is None else bulk.position + 1, 400):
            bulk.save(Purchase(order="o", line=line, buyer=Buyer.of(1), product=Sold.of("A"), tags=[]))
            bulk.patch(Product, "B", note="x" * (line % 5))
            bulk.patch(Purchase, "count", 1, quantity=add(1))
            bulk.reached(line)
            if bulk.tally.batches:
                os.write(1, b".")
"""


def test_a_killed_import_resumes_and_does_every_line_once(url):
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Customer(number=1, name="Ada"))
        db.save_all([Product(code="A", name="Heart"), Product(code="B", name="Star")])
        db.save(purchase(order="count", quantity=0, sold="A"))
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    kills, position = 0, None
    while position != 399:
        child = subprocess.Popen([sys.executable, "-c", CHILD, url], stdout=subprocess.PIPE, env=environment)
        child.stdout.read(30 + 11 * kills)  # a moment after its first batches
        child.send_signal(signal.SIGKILL)
        child.communicate()
        kills += child.returncode == -signal.SIGKILL
        with connect(url, SCHEMA, workers=0) as db:
            position = db.run(read_checkpoint(key_of("import"))).position
            done = 0 if position is None else position + 1
            assert orders(db) == 1 + done
            assert db.get(Purchase, "count", 1).quantity == done
    assert kills >= 3
    with connect(url, SCHEMA, workers=0) as db:
        assert db.get(SalesOfBuyer, 1).orders == 401
        Audit(db._driver.engine, db.operations).check()


# --- As stored -------------------------------------------------------------------------------------------------------


class Topic(Model[int]):
    topic: Key[int]
    title: str


class Titled(Copy[Topic]):
    title: str


class Remark(Model[int, int]):
    child_of = Topic

    topic: Key[int]
    number: Key[int] = GENERATED
    about: Titled
    text: str
    made_at: datetime = CREATED
    changed_at: datetime = UPDATED


class RemarksByTime(Index[Remark]):
    made_at: datetime = newest(Remark.made_at)
    about: Titled = shown(Remark.about)


class Counted(Aggregate[Remark]):
    about: Titled = by(Remark.about)
    remarks: int = count()


TOPICS = Schema(Topic, Remark, RemarksByTime, Counted)
BEGIN = 1_600_000_000_000


def remarks(db):
    return [each for page in db.scan(Remark) for each in page]


@pytest.fixture
def written(new_url):
    """Remarks of another store: the second was deleted, the third was changed later."""
    now = BEGIN
    with connect(new_url(), TOPICS, workers=0, clock=lambda: now) as db:
        db.save(Topic(topic=1, title="old"))
        for text in "abc":
            now += 60_000
            db.create(Remark(topic=1, about=Titled.of(1), text=text))
        db.delete(Remark, 1, 2)
        now += 60_000
        db.patch(Remark, 1, 3, text="d")
        yield remarks(db)


def copied(face, every, **options):
    """Gives entities to a bulk writer of either face."""

    async def copy():
        async with face.db.bulk() as bulk:
            for each in every:
                await bulk.save(each, **options)

    if isinstance(face.db, Database):
        with face.db.bulk() as bulk:
            for each in every:
                bulk.save(each, **options)
    else:
        face.runner.run(copy())


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_what_is_copied_from_another_store_keeps_its_numbers_and_stamps(face, url, written):
    db = face(url, TOPICS, workers=0, clock=lambda: BEGIN + 10**9)
    try:
        db.save(Topic(topic=1, title="new"))
        with pytest.raises(InvalidKey, match="the database gives the number"):
            copied(db, written)
        for _ in range(2):  # again: what is stored is replaced by the same
            copied(db, written, as_stored=True)
            found = [db.get(Remark, 1, number) for number in (1, 3)]
            assert [(each.made_at, each.changed_at, each.text) for each in found] == [
                (each.made_at, each.changed_at, each.text) for each in written
            ]
            assert {each.about.title for each in found} == {"new"}, "copies follow from this store"
            assert db.get(Counted, 1).remarks == 2
        assert found[0].made_at == datetime.fromtimestamp(BEGIN / 1000 + 60, UTC)
        made = db.create(Remark(topic=1, about=Titled.of(1), text="e"))
        assert made.number == 4, "above all numbers that were brought"
        copied(db, [Remark(topic=1, about=Titled.of(1), text="f")], as_stored=True)
        last = db.get(Remark, 1, 5)
        assert last.made_at == last.changed_at == made.made_at, "stamps that it lacks are the clock"
        db.drain()
        assert db.verify().clean
    finally:
        db.close()


def test_what_is_stored_as_it_was_is_refused_as_any_other(url, written):
    refused = []
    with connect(url, TOPICS, workers=0) as db:
        with db.bulk(on_refused=refused.append) as bulk:
            for each in written:
                bulk.save(each, as_stored=True)
        assert [type(each.error) for each in refused] == [MissingReference, MissingReference]
        assert remarks(db) == []
        with pytest.raises(UsageError), db.bulk() as bulk:
            bulk.save(Titled.of(1), as_stored=True)


def test_a_copy_continues_after_a_stop(new_url, url, written):
    with connect(url, TOPICS, workers=0) as db:
        db.save(Topic(topic=1, title="new"))
        for _ in range(2):
            with db.bulk(batch=1, checkpoint="copy") as bulk:
                for place, each in enumerate(written):
                    if bulk.position is None or place > bulk.position:
                        bulk.save(each, as_stored=True, position=place)
        assert [each.number for each in remarks(db)] == [1, 3]
        lines = []
        db.dump(lines.append)
    with connect(new_url(), TOPICS, workers=0) as other:
        reader = DumpReader(other.operations.catalog, parse_head(lines[0]))
        with other.bulk() as bulk:
            for line in lines[1:-1]:
                bulk.apply(reader.change(line), len(line))
        assert [(each.made_at, each.changed_at) for each in remarks(other)] == [
            (each.made_at, each.changed_at) for each in written
        ]
