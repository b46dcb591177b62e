"""A view added to live data is complete when it is read; whoever stands in the way is named; old code is told."""

import contextlib
import logging
import threading

import pytest
from msgspec.structs import replace

from oneread import Index, Key, Model, Schema, ascending, by, connect, descending, field
from oneread.database.worker import Worker
from oneread.derivations.emitted_record import LAST_VALUES, ROWS, SUMS, UNIQUE, form_of
from oneread.derivations.schema_rows import replace_schema, stored_schema
from oneread.encoding.ranges import prefix_range
from oneread.errors import (
    AlreadyExists,
    Corrupt,
    LimitExceeded,
    NotReady,
    Outdated,
    SchemaMismatch,
    StoreError,
    UsageError,
)
from oneread.evolution.backfill import Backfilled, BackfillOptions
from oneread.evolution.backfill_position import position
from oneread.models.versions import Retired
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically, Now, Sleep
from oneread.plans.inside import run_plan
from oneread.plans.plan import drive
from oneread.plans.trace import Trace
from oneread.store.requests import Mutate, Read, Request, Scan
from oneread.store.rows import Cell, RowMutation, RowRange
from oneread.transactions.outbox import TASKS
from oneread.transactions.root import BODY, VERSION, parse_root
from oneread.transactions.system_rows import BACKFILL_ROW
from tests.unit.evolution.growing import (
    ADDED,
    MODELS,
    NEW,
    OLD,
    START,
    Buyer,
    Country,
    Customer,
    CustomerOfEmail,
    Gift,
    GiftsOfCard,
    Purchase,
    PurchasesOfArea,
    PurchasesOfBuyer,
    PurchasesOfGiver,
    SalesOfBuyer,
    Store,
    fill,
)
from tests.unit.evolution.stores import only_read


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def old(store):
    database = store.program(OLD)
    fill(database)
    return database


@pytest.fixture
def new(store, old):
    assert old.find(Customer, 1)
    return store.program(NEW)


def keys(page):
    return [row.source.key[0] for row in page]


class TestAView:
    def test_is_not_served_before_it_is_built(self, new):
        for view in ADDED:
            with pytest.raises(NotReady) as refusal:
                new.page(view)
            assert refusal.value.retryable
        for view, *key in ((SalesOfBuyer, 1), (CustomerOfEmail, "1@x")):
            with pytest.raises(NotReady):
                new.get(view, *key)
        assert len(new.page(PurchasesOfBuyer)) == 9

    def test_holds_all_that_was_there_before_once_it_is_built(self, store, new):
        result = new.backfill(fence=True)
        assert (result.done, result.refused, result.passes) == (True, 0, 2)
        assert new.get(SalesOfBuyer, 1) == SalesOfBuyer(
            buyer=Buyer.of(1), purchases=3, quantity=9, smallest=0, largest=6
        )
        assert new.get(CustomerOfEmail, "2@x").source == Customer.at(2)
        assert new.find(CustomerOfEmail, "4@x") is None
        assert keys(new.page(PurchasesOfGiver, "c2")) == [1, 5]
        assert keys(new.page(PurchasesOfGiver, None)) == [0, 3, 4, 7, 8]
        assert keys(new.page(PurchasesOfArea)) == [
            1,
            5,
            0,
            2,
            3,
            4,
            6,
            7,
            8,
        ]  # of a source that was deleted before, nothing is known
        assert keys(new.page(GiftsOfCard, "card 0")) == [0, 6]
        store.audited(new)
        assert new.run(stored_schema()).unfinished is False
        assert new.run(position()) is None

    def test_is_found_readable_by_a_program_that_was_refused_before(self, store, new):
        other = store.program(NEW)
        with pytest.raises(NotReady):
            other.get(SalesOfBuyer, 1)
        new.backfill(fence=True)
        assert other.get(SalesOfBuyer, 1).purchases == 3
        assert len(other.page(PurchasesOfGiver)) == 9

    def test_follows_its_sources_afterwards(self, store, new):
        new.backfill(fence=True)
        new.patch(Customer, 2, name="renamed")
        new.patch(Country, "b", area=0)
        new.drain()
        assert keys(new.page(PurchasesOfGiver, "renamed")) == [1, 5]
        assert keys(new.page(PurchasesOfArea))[:2] == [1, 5]
        store.audited(new)

    def test_is_as_complete_when_old_code_wrote_all_the_while(self, store, old, new):
        steps = [
            lambda: old.patch(Purchase, 1, quantity=50),
            lambda: old.patch(Customer, 2, name="by old code", email="old@x"),
            lambda: old.save(Purchase(number=20, buyer=Buyer.of(2), giver=Customer.at(1))),
            lambda: old.delete(Purchase, 0),
            lambda: old.patch(Country, "a", area=7),
        ]

        def write(_progress):
            if steps:
                steps.pop(0)()

        assert new.backfill(quiet=0, progress=write).done
        assert len(steps) < 4
        assert keys(new.page(PurchasesOfGiver, "c2")) == []
        assert new.get(SalesOfBuyer, 2).largest == 50
        new.drain()
        store.audited(new)


class TestAViewOfNothing:
    def test_is_readable_at_once_and_old_code_cannot_make_it_incomplete(self, store):
        old = store.program(OLD)
        old.save(Country(code="a"))
        new = store.program(NEW)
        assert new.page(SalesOfBuyer).rows == []
        with pytest.raises(SchemaMismatch):
            old.save(Customer(number=1, name="c1"))


class TestOldCode:
    def test_writes_until_the_fence_is_raised_and_then_has_an_error(self, store, old, new):
        old.save(Country(code="z"))
        new.backfill(fence=True)
        before = store.engine.answer(Read("roots", [old.operations.kind(Country).key(("z",))]))
        for write in (
            lambda: old.patch(Country, "z", area=9),
            lambda: old.save_all([Country(code="y")]),
            lambda: old.delete(Country, "z"),
            lambda: old.transact(lambda work: work.save(Country(code="y"))),
        ):
            with pytest.raises(Outdated) as refusal:
                write()
            assert refusal.value.facts == {"version": 1, "store": 2}
            assert refusal.value.retryable
        assert store.engine.answer(Read("roots", [old.operations.kind(Country).key(("z",))])) == before
        assert old.find(Country, "y") is None
        assert old.get(Country, "z").area == 0

    def test_has_an_error_also_when_it_has_looked_before(self, old, new):
        new.backfill(fence=True)
        old.run(old.operations.refresh())
        for _ in range(2):
            with pytest.raises(SchemaMismatch):
                old.save(Country(code="y"))
        assert old.get(Country, "a").area == 97

    def test_that_wrote_a_moment_ago_is_waited_for_and_named(self, store, old, new):
        store.now += 60_000
        old.patch(Purchase, 3, quantity=4)
        store.now += 3_000
        result = new.backfill(wait=0)
        assert not result.done
        assert result.old_code == "Purchase(3)"
        assert result.old_code_at.timestamp() * 1000 == START + 60_000
        with pytest.raises(NotReady):
            new.get(SalesOfBuyer, 1)
        old.patch(Purchase, 3, quantity=5)
        assert new.backfill(wait=30).done
        assert any(10 <= seconds < 11 for seconds in store.slept)

    def test_that_lasts_is_waited_for_no_longer_than_asked(self, store, old, new):
        store.now += 60_000
        waited = store.now

        def write(progress):
            if progress.phase.startswith("waiting"):
                store.now += 1
            old.patch(Purchase, 3, quantity=progress.done)

        result = new.backfill(wait=25, progress=write)
        assert (result.done, result.old_code) == (False, "Purchase(3)")
        assert 10_000 <= store.now - waited <= 26_000

    def test_does_not_wait_for_who_is_quiet(self, store, new):
        store.now += 11_000
        assert new.backfill().done
        assert set(store.slept) == {0.0}

    @pytest.mark.parametrize("ahead", [3_600_000, 10 * 365 * 86_400_000, 1 << 62])
    def test_that_wrote_under_a_clock_far_ahead_is_not_waited_for_until_then(self, store, old, new, ahead):
        key = old.operations.kind(Purchase).key((3,))
        (row,) = old.run(Read("roots", [key], "dm").__iter__())
        late = {column: Cell(cell.value, ahead) for column, cell in row.items()}
        late[VERSION] = Cell(ahead.to_bytes(8, "big"), ahead)
        store.engine.transaction(lambda inside: inside.replace("roots", {key: late}), 1.0)
        began = store.now
        assert new.backfill(wait=25).done
        assert store.now - began < 25_000
        store.audited(new)

    def test_may_not_backfill(self, old, new):
        with pytest.raises(SchemaMismatch) as refusal:
            old.backfill()
        assert refusal.value.facts == {"version": 1, "store": 2}
        assert new.backfill(fence=True).done

    def test_leaves_its_tasks_to_the_new_code(self, store, old, new, caplog):
        new.backfill(fence=True)
        new.patch(Customer, 1, name="renamed")
        assert new.run(Scan("system", TASKS, 9).__iter__())
        with caplog.at_level(logging.WARNING):
            worker = Worker(old.operations, old._driver)
            worker.wake()
            thread = worker._thread
            until(lambda: "upgraded this store" in caplog.text)
            worker.stop()
            thread.join(10)
        assert caplog.text.count("upgraded this store") == 1
        assert new.drain()
        store.audited(new)


def until(holds):
    pause = threading.Event()
    for _ in range(3000):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it never came")


class TestWhatCannotBeInAView:
    @pytest.fixture
    def crowded(self, store):
        old = store.program(OLD)
        fill(old)
        old.save_all([Purchase(number=number, buyer=Buyer.of(1)) for number in range(100, 700) if number != 500])
        old.patch(Customer, 3, email="1@x")
        old.save(Gift(number=500, buyer=Buyer.of(1), card="x" * 300))
        return old

    def test_is_left_as_it_is_and_named_and_the_rest_continues(self, store, crowded):
        new = store.program(NEW)
        result = new.backfill(fence=True)
        assert (result.done, result.refused, result.looked) == (False, 2, 617)
        assert [each.entity for each in result.refusals] == ["Customer(3)", "Purchase(500)"]
        assert "NotUnique" in result.refusals[0].reason
        assert "Customer(1)" in result.refusals[0].reason
        assert "InvalidKey" in result.refusals[1].reason
        with pytest.raises(NotReady):
            new.page(SalesOfBuyer)
        assert crowded.patch(Purchase, 100, quantity=2)

    @pytest.mark.usefixtures("crowded")
    def test_is_in_it_once_it_is_mended(self, store):
        new = store.program(NEW)
        assert not new.backfill(fence=True).done
        new.patch(Customer, 3, email="3@x")
        assert new.backfill(fence=True).refused == 1
        new.patch(Gift, 500, card="short")
        assert new.backfill(fence=True).done
        assert keys(new.page(GiftsOfCard, "short")) == [500]
        store.audited(new)

    @pytest.mark.usefixtures("crowded")
    def test_is_refused_to_its_own_changes_and_never_to_a_holder_that_follows(self, store):
        new = store.program(NEW)
        new.backfill(fence=True)
        with pytest.raises(AlreadyExists):
            new.patch(Customer, 3, name="still twice")
        new.patch(Customer, 1, name="renamed")
        assert new.drain()
        assert new.get(Purchase, 500).buyer.name == "renamed"

    def test_of_many_is_shown_up_to_twenty(self, store):
        old = store.program(OLD)
        old.save_all([Customer(number=number, name="c", email="same") for number in range(50)])
        result = store.program(NEW).backfill(fence=True)
        assert (result.refused, len(result.refusals)) == (49, 20)

    @pytest.mark.usefixtures("old")
    def test_includes_a_row_that_cannot_be_read(self, store, new):
        key = new.operations.kind(Purchase).key((2,))
        store.engine.answer(Mutate("roots", [RowMutation(key, {b"m:e": Cell(b"\xc1", START * 2)})]))
        result = new.backfill(fence=True)
        assert [(each.entity, each.reason[:7]) for each in result.refusals] == [("Purchase(2)", "Corrupt")]

    def test_is_not_what_a_full_store_refuses(self, store, new):
        store.engine.is_full = True
        with pytest.raises(LimitExceeded):
            new.backfill()
        store.engine.is_full = False
        assert new.backfill(fence=True).done


class TestRowsOfOlderCode:
    """Before the backfill comes by, the new code must mend what it touches."""

    @pytest.mark.usefixtures("old")
    def test_are_completed_by_a_patch(self, new):
        new.patch(Purchase, 1, quantity=11)
        new.patch(Customer, 2, name="renamed")
        new.drain()
        used = new.operations.catalog.state(*seen(new, Purchase, 1)).used
        assert dict(used) == {"giver.name": "renamed", "giver.country.area": 98}

    def test_are_completed_when_they_are_deleted(self, new):
        new.delete(Customer, 2)
        record = new.operations.catalog.state(*seen(new, Customer, 2)).record
        assert record[LAST_VALUES].items() >= {"country.area": 98, "name": "c2"}.items()

    def test_that_follow_add_nothing_to_a_view_without_them(self, new):
        new.patch(Customer, 2, name="renamed")
        new.drain()
        record = new.operations.catalog.state(*seen(new, Purchase, 1)).record
        assert new.get(Purchase, 1).buyer.name == "renamed"
        assert len([token for token in record if form_of(token) in (ROWS, SUMS, UNIQUE)]) == 1


def seen(database, model, *key):
    place = database.operations.kind(model).key(key)
    (row,) = database._driver.engine.answer(Read("roots", [place], "dm"))
    return place, parse_root(row)


class TestARun:
    def test_with_nothing_to_do_is_done_at_once(self, store, new):
        assert new.backfill(fence=True).done
        asked = []
        again = store.program(NEW, observers=(lambda request, _answer: asked.append(request),))
        assert again.backfill() == Backfilled(done=True)
        assert [type(each).__name__ for each in asked] == ["Read"] * 2  # the schema, and the fence once more

    @pytest.mark.usefixtures("old")
    def test_costs_one_transaction_a_step_and_in_the_last_pass_none(self, store):
        asked = []
        new = store.program(NEW, observers=(lambda *both: asked.append(counted(*both)),))
        assert new.backfill(fence=True).recommitted == 17
        first = asked[asked.index("Scan roots 3") :]
        assert first[:5] == ["Scan roots 3", "Read system 2", "Read roots 3", "Scan views 0", "Scan views 0"]
        closed = asked.index("Replace system 2")
        assert [each for each in asked[closed:] if "roots" in each][:6] == [
            *("Scan roots 3", "Scan roots 0", "Scan roots 4", "Scan roots 0", "Scan roots 10", "Scan roots 0"),
        ]

    def test_keeps_to_its_pace(self, store, old, new):
        old.save_all([Purchase(number=number, buyer=Buyer.of(1)) for number in range(100, 700)])
        new.backfill(fence=True, pace=100)
        assert store.slept.count(2.0) == 6  # 200 rows a step, three steps a pass
        assert sum(store.slept) == pytest.approx(617 * 2 / 100)

    @pytest.mark.usefixtures("old")
    def test_reports_its_progress(self, new):
        told = []
        new.backfill(fence=True, progress=told.append)
        assert [(each.phase.split()[0].rstrip(","), each.done, each.total) for each in told] == [
            *(("building", done, None) for done in (3, 7, 17)),
            ("checking", 0, 17),
            *(("checking", done, 17) for done in (3, 7, 17)),
            ("finishing", 17, 17),
        ]

    def test_killed_at_any_request_resumes_where_it_was(self):
        for requests in range(1, 200, 2):  # and by one more each time that it dies
            store = Store()
            fill(store.program(OLD))
            new = store.program(NEW)
            for more in range(20):
                with contextlib.suppress(Killed):
                    assert killed(store, new, requests + more).done
                    break
            assert new.backfill(fence=True).done
            store.audited(new)
            if not more:
                return
        raise AssertionError("a backfill of 17 entities never ends")

    def test_counts_what_all_runs_together_did(self, store, new):
        with pytest.raises(Killed):
            killed(store, new, 12)
        assert 0 < new.run(position()).recommitted < 17
        assert new.backfill(fence=True).recommitted == 17

    def test_that_is_overtaken_resumes_from_there(self, store, old, new):
        old.save_all([Purchase(number=number, buyer=Buyer.of(1)) for number in range(100, 900)])
        one, other = (
            new.operations.backfill(BackfillOptions(fence=True, progress=lambda _: None)).run() for _ in range(2)
        )
        results = interleaved(store, one, other)
        assert [each.done for each in results] == [True, True]
        store.audited(new)

    def test_of_a_schema_that_was_replaced_starts_again(self, store, new):
        with pytest.raises(Killed):
            killed(store, new, 12)
        newest = store.program(Schema(*NEW.models, *NEW.views, PurchasesByNumber, inline=2))
        assert newest.backfill(fence=True).recommitted == 17 - 3  # the countries know nothing of purchases
        with pytest.raises(SchemaMismatch):
            new.backfill()
        store.audited(newest)

    def test_meets_a_torn_position(self, store, new):
        store.engine.answer(Mutate("system", [RowMutation(BACKFILL_ROW, {b"d:b": Cell(b"\xc1", START)})]))
        with pytest.raises(Corrupt):
            new.backfill()

    @pytest.mark.parametrize(
        "option",
        [
            *({"pace": given} for given in (0, -1, "fast", float("nan"), float("inf"), True)),
            *({"wait": given} for given in (-1, None, "long")),
            {"quiet": -1},
            {"progress": 5},
        ],
        ids=str,
    )
    def test_takes_no_nonsense(self, new, option):
        with pytest.raises(UsageError):
            new.backfill(**option)

    def test_needs_a_store_that_can_be_written(self, url):
        with connect(url, OLD, workers=0) as database:
            fill(database)
        connect(url, NEW, workers=0).close()
        with connect(only_read(url), NEW) as database, pytest.raises(StoreError):
            database.backfill()


class PurchasesByNumber(Index[Purchase]):
    number: int = by(Purchase.number)


class TestAGenerationThatIsGone:
    @pytest.mark.usefixtures("new")
    def test_is_not_read_by_a_program_that_does_not_know(self, store, old):
        assert len(old.page(PurchasesOfBuyer)) == 9
        dropped(store, PurchasesOfBuyer)
        old.run(old.operations.refresh())
        for _ in range(2):
            with pytest.raises(SchemaMismatch):
                old.page(PurchasesOfBuyer)

    @pytest.mark.usefixtures("new")
    def test_leaves_no_row(self, store, old):
        dropped(store, PurchasesOfBuyer)
        prefix = old.operations.catalog.views[PurchasesOfBuyer].prefix
        stray = RowMutation(prefix + b"nobody remembers", {b"d:b": Cell(b"\x90", START)})
        store.engine.answer(Mutate("views", [stray]))
        newest = store.program(Schema(*MODELS, *ADDED, inline=2))
        assert newest.backfill(fence=True).done
        store.audited(newest)
        assert newest.run(stored_schema()).retired == ()


class LargePurchases(Index[Purchase]):
    """`PurchasesOfBuyer` in the release after next."""

    stored_as = "PurchasesOfBuyer"
    where = field(Purchase.quantity) > 4

    buyer: Buyer = by(Purchase.buyer)
    quantity: int = descending(Purchase.quantity)


class TestAChangedView:
    def test_is_a_generation_of_its_own_and_cuts_older_programs_off(self, store, old):
        newest = store.program(Schema(*MODELS, LargePurchases, inline=2))
        with pytest.raises(SchemaMismatch):
            old.save(Country(code="y"))
        with pytest.raises(NotReady):
            newest.page(LargePurchases)
        result = newest.backfill()
        assert (result.done, result.passes, result.recommitted) == (True, 1, 10)
        assert [row.quantity for row in newest.page(LargePurchases, 3)] == [8, 5]
        before = old.operations.catalog.views[PurchasesOfBuyer].prefix
        start, stop = prefix_range(before)
        assert newest.run(Scan("views", RowRange(start, stop), 9).__iter__()) == []
        store.audited(newest)
        old.run(old.operations.refresh())
        with pytest.raises(SchemaMismatch):
            old.page(PurchasesOfBuyer)

    def test_may_change_again_before_it_is_built(self, store, old):
        store.program(Schema(*MODELS, LargePurchases, inline=2))
        again = store.program(OLD2)
        assert again.backfill(fence=True).done
        assert len(again.page(AllPurchases)) == len(old.page(Purchase))
        store.audited(again)


class AllPurchases(Index[Purchase]):
    stored_as = "PurchasesOfBuyer"

    quantity: int = ascending(Purchase.quantity)


OLD2 = Schema(*MODELS, AllPurchases, inline=2)


class Before(Model[int]):
    stored_as = "Thing"

    number: Key[int]
    name: str


class After(Model[int]):
    stored_as = "Thing"

    number: Key[int]
    name: str
    size: int = 7


def test_documents_of_an_older_layout_are_written_again(store):
    old = store.program(Schema(Before))
    old.save_all([Before(number=number, name="x") for number in range(3)])
    old.delete(Before, 1)
    new = store.program(Schema(After))
    assert new.get(After, 2).size == 7
    assert new.backfill().recommitted == 2
    stored = new.run(stored_schema())
    assert not stored.unfinished
    layout = stored.layouts["Thing"].number.to_bytes(2, "big")
    rows = store.engine.answer(Scan("roots", RowRange(b"", b""), 9))
    assert [row[BODY].value[:2] for _key, row in rows if BODY in row] == [layout] * 2
    store.audited(new)


def dropped(store, view):
    """What dropping a view comes to."""

    def dropping(inside):
        stored = run_plan(inside, stored_schema())
        name = view.__name__
        gone = Retired(name, stored.views[name].number, stored.views[name].generation)
        views = {other: each for other, each in stored.views.items() if other != name}
        changed = replace(stored, version=stored.version + 1, views=views, retired=(gone,))
        replace_schema(inside, changed, START)

    store.program(NEW).run(Atomically(dropping).__iter__())


class Killed(Exception):
    """The process is dead."""


class Dying(CountedStore):
    """Meets what may kill the process at each request."""

    def __init__(self, rows, now, meet):
        super().__init__(rows, now, lambda: 0.5, Trace())
        self.meet = meet

    def read(self, *asked, **options):
        self.meet()
        return super().read(*asked, **options)

    def scan(self, *asked, **options):
        self.meet()
        return super().scan(*asked, **options)

    def replace(self, *asked):
        self.meet()
        super().replace(*asked)


def killed(store, database, requests):
    """Runs a backfill that dies at a request, its transaction undone."""
    left = [requests]

    def perform(asked):
        if type(asked) is Sleep:
            return None
        if type(asked) is Atomically:
            return store.engine.transaction(lambda rows: asked.run(Dying(rows, lambda: store.now, meet)), 1.0)
        if type(asked) is Now:
            return store.now
        assert isinstance(asked, Request)
        meet()
        return store.engine.answer(asked)

    def meet():
        left[0] -= 1
        if left[0] < 0:
            raise Killed

    plan = database.operations.backfill(BackfillOptions(fence=True)).run()
    return drive(plan, perform)


def interleaved(store, *plans):
    """Both plans, a request or transaction at a time in turn."""
    driver = store.program(NEW)._driver
    results, asked = [None] * len(plans), [None] * len(plans)
    answers, living = [None] * len(plans), set(range(len(plans)))
    while living:
        for place in sorted(living):
            try:
                asked[place] = plans[place].send(answers[place])
                answers[place], failure = None, True
                while failure:
                    try:
                        answers[place], failure = driver.run(asking(asked[place]), Trace()), None
                    except StoreError as error:
                        asked[place] = plans[place].throw(error)
            except StopIteration as stop:
                results[place] = stop.value
                living.discard(place)
    return results


def asking(asked):
    return (yield asked)


def counted(request, answer):
    rows = {"Scan": lambda: len(answer), "Read": lambda: len(request.keys)}
    name = type(request).__name__
    return f"{name} {request.table} {rows.get(name, lambda: len(request.rows))()}"
