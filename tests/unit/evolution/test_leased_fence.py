"""The fence on a store that changes one row at a time: when it is read, what it refuses, how long a change waits."""

from contextlib import suppress
from itertools import cycle
from threading import Event, Thread
from time import sleep

import pytest

from oneread import Index, Key, Model, Schema, by
from oneread.database._sync.database import Database
from oneread.database.migration import Migration
from oneread.database.open import opened
from oneread.database.worker import Worker
from oneread.derivations import schema_rows
from oneread.derivations.schema_rows import stored_schema
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import NotReady, OutcomeUnknown, SchemaMismatch, Unavailable, Unsupported
from oneread.evolution.backfill_position import position
from oneread.models.versions import StoredSchema
from oneread.plans.effects import Sleep
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.keys import view_part
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import RowRange
from oneread.testing.audit import Audit
from oneread.transactions.intents import JOURNAL
from oneread.transactions.journal import Journal
from oneread.transactions.journal_recovery import END_SECONDS, LEASE_SECONDS
from oneread.transactions.outbox import SET_ASIDE
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.system_rows import SCHEMA_ROW
from tests.failures.stores import until
from tests.unit.evolution.growing import (
    ADDED,
    MODELS,
    NEW,
    OLD,
    Buyer,
    Country,
    Customer,
    CustomerOfEmail,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfGiver,
)

START = 1_700_000_000_000
ALL = RowRange(b"", b"")
WAIT = round(END_SECONDS, 6)


class Store:
    """One store, and programs that open it; a sleep and `pass_by` are all that takes time."""

    def __init__(self):
        self.engine, self.seconds, self.slept, self.made = OneRowMemoryEngine(), 1000.0, [], []
        self.before = self.after = lambda _request: None
        self.asleep = lambda: None

    def answer(self, request):
        self.made.append(request)
        self.before(request)
        answer = self.engine.answer(request)
        self.after(request)
        return answer

    def close(self):
        pass

    @property
    def capabilities(self):
        return self.engine.capabilities

    def statistics(self):
        return self.engine.statistics()

    def cursor_key(self):
        return self.engine.cursor_key()

    def clock(self):
        return self.seconds

    def pass_by(self, seconds):
        self.seconds += seconds

    def program(self, schema):
        driver = Driver(self)
        return Database(driver, driver.run(self.opening(schema), Trace()))

    def opening(self, schema):
        return opened(schema, read_only=False, committer=RowSystem(Journal(clock=self.clock)))

    def migration(self, schema):
        return Migration(Driver(self), schema, may_write=True, committer=RowSystem(Journal(clock=self.clock)))

    def run(self, plan):
        return Driver(self).run(plan, Trace())

    def asked(self, do):
        """The kinds of requests that a call makes, with the keys of those to `system`."""
        self.made.clear()
        do()
        return [type(each) for each in self.made]

    @property
    def fence_reads(self):
        return sum(type(each) is Read and each.keys == [SCHEMA_ROW] for each in self.made)

    def audited(self, database):
        Audit(self.engine, database.operations).check()

    def prefixes(self):
        """Of all rows of views and groups, removed ones too."""
        tables = [self.engine.answer(Scan(each, ALL, 1 << 30, families="dm")) for each in ("views", "counts")]
        return {view_part(key) for rows in tables for key, _row in rows}


class Driver(SyncDriver):
    def __init__(self, store):
        super().__init__(store, lambda: START + round(store.seconds * 1000))
        self.store = store

    def _perform(self, asked, trace):
        if type(asked) is not Sleep:
            return super()._perform(asked, trace)
        self.store.slept.append(round(asked.seconds, 6))
        self.store.asleep()
        self.store.pass_by(asked.seconds)
        return None


@pytest.fixture
def store():
    return Store()


def fill(database):
    for code in "abc":
        database.save(Country(code=code, area=ord(code)))
    for number in (1, 2, 3):
        database.save(Customer(number=number, name=f"c{number}", email=f"{number}@x", country=Country.at("a")))
    for number in range(6):
        giver = Customer.at(1 + number % 3) if number % 2 else None
        database.save(Purchase(number=number, buyer=Buyer.of(1 + number % 2), giver=giver, quantity=number))
    database.delete(Country, "c")
    database.delete(Customer, 3)
    database.delete(Purchase, 5)


@pytest.fixture
def old(store):
    database = store.program(OLD)
    fill(database)
    return database


def writes(database):
    buyers = cycle((1, 2))
    return {
        "save": lambda: database.save(Country(code="z", area=database.find(Country, "a").area)),
        "patch": lambda: database.patch(Purchase, 1, quantity=database.get(Purchase, 1).quantity + 1),
        "re-point": lambda: database.patch(Purchase, 1, buyer=Buyer.of(next(buyers))),
        "upsert": lambda: database.upsert(Country(code="a"), area=7),
    }


class TestALease:
    @pytest.mark.parametrize("name", ["save", "patch", "re-point", "upsert"])
    def test_costs_a_commit_nothing_and_one_request_after_half_of_it(self, store, old, name):
        write = writes(old)[name]
        write()
        store.pass_by(LEASE_SECONDS / 2 - store.seconds + 1000 - 0.1)
        asked = store.asked(write)
        assert store.fence_reads == 0
        store.pass_by(0.1)
        assert len(store.asked(write)) == len(asked) + 1
        assert store.fence_reads == 1
        assert len(store.asked(write)) == len(asked)

    def test_is_counted_from_the_beginning_of_the_read(self, store, old):
        store.pass_by(LEASE_SECONDS)

        def take_long(request):
            if type(request) is Read and request.keys == [SCHEMA_ROW]:
                store.pass_by(LEASE_SECONDS / 2)

        store.after = take_long
        old.save(Country(code="z"))
        store.after = lambda _request: None
        store.asked(lambda: old.save(Country(code="y")))
        assert store.fence_reads == 1

    def test_is_looked_at_again_directly_before_the_commit(self, store, old):
        def late(request):
            if type(request) is Mutate and request.table == "system":
                store.pass_by(LEASE_SECONDS)

        store.before = late
        asked = store.asked(lambda: old.save(Country(code="z")))
        commit = asked.index(CheckAndMutate)
        assert store.made[commit - 1] == Read("system", [SCHEMA_ROW])

    def test_keeps_the_newer_of_two_answers_that_threads_have_at_once(self, store, old, monkeypatch):
        older = store.engine.answer(Read("system", [SCHEMA_ROW]))
        assert store.program(NEW).backfill(fence=True).done
        newer = store.engine.answer(Read("system", [SCHEMA_ROW]))
        fence, learning = old.operations.fence, Event()
        monkeypatch.setattr(fence, "_seen", schema_rows.fence(StoredSchema()))
        update = fence._update

        def update_slowly(stored):
            if not learning.is_set():
                learning.set()
                sleep(0.2)
            update(stored)

        monkeypatch.setattr(fence, "_update", update_slowly)
        plans = [fence.refresh_with([]) for _ in range(2)]
        for plan in plans:
            next(plan)

        def learn(plan, answer):
            with suppress(StopIteration):
                plan.send(answer)

        slow = Thread(target=learn, args=(plans[0], older))
        slow.start()
        assert learning.wait(30)
        learn(plans[1], newer)
        slow.join()
        with pytest.raises(SchemaMismatch):
            old.save(Country(code="y", area=1))

    def test_is_taken_by_the_worker_too(self, store, old):
        store.pass_by(LEASE_SECONDS)
        store.asked(old.drain)
        assert store.fence_reads == 1
        store.asked(lambda: old.run(old.operations.refresh()))
        assert store.made == [Read("system", [SCHEMA_ROW])]


@pytest.fixture
def closed(store, old):
    """A program whose schema another one has replaced, and which still has its lease."""
    new = store.program(NEW)
    assert new.backfill(fence=True).done
    return old


class TestAProgramThatIsOvertaken:
    @pytest.mark.parametrize("name", ["save", "patch", "re-point", "upsert"])
    def test_is_refused_and_writes_nothing(self, store, closed, name):
        write = writes(closed)[name]
        store.made.clear()
        with pytest.raises(SchemaMismatch, match="nothing was written"):
            write()
        assert {type(each) for each in store.made} == {Read}
        with pytest.raises(SchemaMismatch):
            write()
        assert store.fence_reads == 2

    def test_does_no_tasks(self, closed):
        with pytest.raises(SchemaMismatch):
            closed.drain()

    def test_reads_what_it_knows(self, closed):
        assert closed.get(Purchase, 1).buyer.name == "c2"
        assert len(closed.page(PurchasesOfBuyer, Buyer.of(1))) == 3

    def test_does_not_know_what_became_of_a_commit_without_an_answer(self, store, old):
        sent = []

        def lose(request):
            if type(request) is CheckAndMutate and request.table == "roots" and not sent:
                sent.append(request)
                store.before = lambda _request: None
                store.asleep = kill
                with pytest.raises(Unavailable):
                    store.program(Schema(*MODELS, *ADDED, _sorted(), inline=2))
                store.pass_by(LEASE_SECONDS)
                raise OutcomeUnknown("lost")

        store.before = lose
        with pytest.raises(OutcomeUnknown):
            old.save(Country(code="z"))
        assert store.engine.answer(sent[0]) is True, "older programs are still waited for"

    def test_knows_that_a_commit_without_an_answer_is_ended(self, store, old):
        sent = []

        def lose(request):
            if type(request) is CheckAndMutate and request.table == "roots" and not sent:
                sent.append(request)
                store.before = lambda _request: None
                assert store.program(NEW).backfill(fence=True).done
                raise OutcomeUnknown("lost")

        store.before = lose
        with pytest.raises(SchemaMismatch, match="nothing was written"):
            old.save(Country(code="z"))
        assert store.engine.answer(sent[0]) is False, "the journal had its marker"

    def test_does_not_set_holders_aside(self, store, old):
        """They follow under the newer program."""

        def overtake(request):
            if type(request) is CheckAndMutate and request.table == "roots" and request.mutation.key[:2] == b"\x00\x02":
                store.before = lambda _request: None
                answer = store.engine.answer(request)
                assert answer is True
                assert store.program(NEW).backfill(fence=True).done
                raise OutcomeUnknown("lost")

        store.before = overtake
        old.patch(Customer, 1, name="new")
        assert store.engine.answer(Scan("system", SET_ASIDE, 9)) == []
        new = store.program(NEW)
        new.drain()
        assert new.get(Purchase, 0).buyer.name == "new"


class TestAnOlderProgram:
    def test_reads_the_fence_again_when_it_meets_a_row_of_a_newer_one(self, store):
        """Under its lease, and continues: it keeps what it does not know."""
        first, then = _note(), _note(colour="grey")
        old, new = store.program(Schema(first)), store.program(Schema(then))
        assert store.slept == []
        new.save(then(number=1, size=2, colour="red"))
        store.asked(lambda: old.patch(first, 1, size=3))
        assert store.fence_reads == 1
        assert new.get(then, 1) == then(number=1, size=3, colour="red")
        store.asked(lambda: old.patch(first, 1, size=4))
        assert store.fence_reads == 0

    def test_may_write_again_when_the_fence_is_lowered(self, store, old):
        store.asleep = kill
        with pytest.raises(Unavailable):
            store.program(Schema(*MODELS, *ADDED, _sorted(), inline=2))
        store.asleep = lambda: None
        store.pass_by(LEASE_SECONDS)
        with pytest.raises(SchemaMismatch):
            old.save(Country(code="z"))
        with store.migration(OLD) as migration:
            migration.rollback()
        old.save(Country(code="z"))

    def test_has_a_worker_that_works_again_when_the_fence_is_lowered(self, store, old, caplog):
        worker = Worker(old.operations, old._driver)
        before = store.engine.answer(Read("system", [SCHEMA_ROW]))
        store.asleep = kill
        with pytest.raises(Unavailable):
            store.program(Schema(*MODELS, *ADDED, _sorted(), inline=2))
        store.asleep = lambda: None
        store.pass_by(LEASE_SECONDS)
        worker.wake()
        until(lambda: worker._overtaken)
        with store.migration(OLD) as migration:
            migration.rollback()
        assert before != store.engine.answer(Read("system", [SCHEMA_ROW]))
        worker.wake()
        until(lambda: not worker._overtaken)
        worker.stop()
        assert caplog.text.count("upgraded this store") == 1


class TestOpening:
    def test_counts_its_requests(self, store, old):
        assert store.asked(lambda: store.program(OLD)) == [Read]
        kinds = len(MODELS) - 1
        asked = store.asked(lambda: store.program(NEW))
        assert asked == [Read, *[Scan] * kinds, Read, *[Scan] * kinds, CheckAndMutate]
        assert store.slept == []
        assert old.save(Country(code="z"))

    def test_with_a_view_of_what_is_empty_waits_for_older_programs(self, store):
        store.program(OLD)
        new = store.program(NEW)
        assert store.slept == [WAIT]
        assert LEASE_SECONDS < END_SECONDS < LEASE_SECONDS * 1.03
        for view in ADDED:
            assert len(new.page(view)) == 0
        new.save(Customer(number=1, name="a", email="1@x"))
        store.audited(new)

    @pytest.mark.parametrize("during", [False, True])
    def test_ends_attempts_of_before_the_wait_and_within_it(self, store, during):
        old, late = store.program(OLD), []

        def send():
            store.asleep = lambda: None
            late.append(sent_late(store, old))

        if during:
            store.asleep = send
        else:
            send()
        new = store.program(NEW)
        assert store.slept.count(WAIT) == 1
        assert store.engine.answer(late[0]) is False
        store.audited(new)

    def test_looks_after_the_wait(self, store):
        """What an older program made under its lease is there: the views are built then, and it may go on."""
        old = store.program(OLD)

        def make():
            store.asleep = lambda: None
            old.save(Customer(number=1, name="a", email="1@x"))

        store.asleep = make
        new = store.program(NEW)
        with pytest.raises(NotReady):
            new.get(CustomerOfEmail, "1@x")
        assert new.backfill(fence=True).done
        store.audited(new)

    def test_that_is_refused_after_the_wait_lowers_the_fence(self, store):
        class Customer(Model[int]):
            number: Key[int]
            name: str
            born: int

        older = Schema(_customer(), inline=2)
        old = store.program(older)

        def make():
            store.asleep = lambda: None
            old.save(older.named()["Customer"](number=1, name="a"))

        store.asleep = make
        with pytest.raises(SchemaMismatch):
            store.program(Schema(Customer, inline=2))
        stored = store.run(stored_schema())
        assert (stored.oldest_writer, stored.version) == (0, 1)
        old.save(older.named()["Customer"](number=2, name="b"))

    def test_that_is_killed_is_done_again_or_rolled_back(self, store, old):
        changed = Schema(*MODELS, *ADDED, _sorted(), inline=2)

        store.asleep = kill
        with pytest.raises(Unavailable):
            store.program(changed)
        store.asleep = lambda: None
        with pytest.raises(SchemaMismatch, match="rollback"):
            store.program(OLD)
        with store.migration(OLD) as migration:
            migration.rollback()
        store.program(OLD).save(Country(code="y"))
        new = store.program(changed)
        assert new.backfill().done
        store.audited(new)
        with pytest.raises(SchemaMismatch):
            old.save(Country(code="z"))

    @pytest.mark.usefixtures("old")
    def test_of_two_programs_at_the_same_time_is_one_change(self, store):
        changed = Schema(*MODELS, *ADDED, _sorted(), inline=2)
        other = []

        def open_another():
            store.asleep = lambda: None
            other.append(store.program(changed))

        store.asleep = open_another
        first = store.program(changed)
        assert store.slept == [WAIT] * 2
        assert store.run(stored_schema()).version == 2
        for each in (first, *other):
            each.save(Country(code="z"))


def sent_late(store, database):
    """A commit that was sent under a lease, and is not done yet; its program has given up."""
    late = []

    def keep(request):
        if type(request) is CheckAndMutate and request.table == "roots" and not late:
            late.append(request)
            raise OutcomeUnknown("late")
        if late and type(request) is Read and request.table == "roots":
            raise Unavailable("killed")

    store.before = keep
    with pytest.raises(OutcomeUnknown):
        database.upsert(Country(code="z"), area=3)
    store.before = lambda _request: None
    return late[0]


def kill():
    raise Unavailable("killed")


def _note(**added):
    class Note(Model[int]):
        number: Key[int]
        size: int = 0
        if added:
            colour: str = added["colour"]

    return Note


def _customer():
    class Customer(Model[int]):
        number: Key[int]
        name: str

    return Customer


def _sorted():
    class PurchasesOfBuyer(Index[Purchase]):
        buyer: Buyer = by(Purchase.buyer)
        quantity: int = by(Purchase.quantity)

    return PurchasesOfBuyer


class TestABackfill:
    def test_builds_what_was_added(self, store, old):
        new = store.program(NEW)
        with pytest.raises(NotReady):
            new.page(ADDED[0])
        old.save(Purchase(number=9, buyer=Buyer.of(1), quantity=9))
        done = new.backfill(fence=True)
        assert (done.done, done.passes) == (True, 2)
        assert store.slept.count(WAIT) == 1
        store.audited(new)
        assert store.run(position()) is None
        assert new.backfill().done

    def test_commits_pages_of_rows(self, store, old):
        """A row is a request, and pages of a hundred share all others."""
        for number in range(20, 220):
            old.save(Purchase(number=number, buyer=Buyer.of(1 + number % 2), quantity=number))
        new = store.program(Schema(*MODELS, PurchasesOfBuyer, PurchasesOfGiver))
        store.made.clear()
        done = new.backfill(fence=True)
        assert done.done
        assert 200 < done.recommitted <= len(store.made) <= 1.5 * done.recommitted
        store.audited(new)

    def test_names_what_cannot_be_in_a_view_and_builds_the_rest_of_its_page(self, store, old):
        old.save(Customer(number=7, name="c7", email="1@x"))
        for number in range(20, 40):
            old.save(Customer(number=number, name="n", email=f"{number}@x"))
        new = store.program(NEW)
        done = new.backfill(fence=True)
        assert (done.done, done.refused, len(done.refusals)) == (False, 1, 1)
        new.patch(Customer, 7, email="7@x")
        assert new.backfill(fence=True).done
        store.audited(new)

    @pytest.mark.usefixtures("old")
    def test_that_is_killed_continues_and_waits_again(self, store):
        for point in range(1, 400, 23):
            left = [point]

            def kill(request, left=left):
                if type(request) is not Read:
                    left[0] -= 1
                    if left[0] == 0:
                        raise Unavailable("killed")

            new = store.program(NEW)
            store.before = kill
            try:
                done = new.backfill(fence=True)
            except Unavailable:
                continue
            finally:
                store.before = lambda _request: None
            assert done.done
            break
        assert WAIT in store.slept
        new.drain()
        store.audited(new)
        assert store.engine.answer(Scan("system", JOURNAL, 1)) == []

    @pytest.mark.usefixtures("old")
    def test_removes_the_rows_of_earlier_generations(self, store):
        stored = store.run(stored_schema())
        before = stored.views["PurchasesOfBuyer"].prefix
        assert before in store.prefixes()
        new = store.program(Schema(*MODELS, *ADDED, _sorted(), inline=2))
        assert new.backfill().done
        assert before not in store.prefixes()
        store.audited(new)

    @pytest.mark.parametrize("over_a_fence", [False, True])
    def test_ends_attempts_that_are_in_the_journal(self, store, old, over_a_fence):
        """Of an entity that an older program makes, also where no more than a fence was: each has a marker."""
        if over_a_fence:
            committer = old.operations.committer
            seen = old.run(committer.journal.finished(old.operations.root(Country, ("z",))))
            assert old.run(committer.journal.fence(seen, 5))
        late = sent_late(store, old)
        new = store.program(NEW)
        assert new.backfill(fence=True).done
        assert store.engine.answer(late) is False
        store.audited(new)


class TestAMigration:
    def test_drops_a_view(self, store, old):
        new = Schema(*MODELS, inline=2)
        before = store.run(stored_schema()).views["PurchasesOfBuyer"].prefix
        with store.migration(new) as migration:
            assert migration.plan(drop=["PurchasesOfBuyer"]).cuts_off == (1,)
            migration.apply(drop=["PurchasesOfBuyer"])
            assert migration.status().retired
        assert store.slept == [WAIT]
        with pytest.raises(SchemaMismatch):
            old.save(Country(code="z"))
        assert store.program(new).backfill().done
        assert before not in store.prefixes()

    def test_drops_a_view_without_refusing_programs_that_do_not_declare_it(self, store, old):
        new = Schema(*MODELS, inline=2)
        running = store.program(new)
        seen = []

        def write():
            store.asleep = lambda: None
            seen.append(store.run(stored_schema()).raised)
            running.save(Country(code="y"))
            with pytest.raises(SchemaMismatch):
                old.save(Country(code="z"))

        store.pass_by(LEASE_SECONDS)
        store.asleep = write
        with store.migration(new) as migration:
            assert migration.plan(drop=["PurchasesOfBuyer"]).cuts_off == (1,)
            migration.apply(drop=["PurchasesOfBuyer"])
        assert (store.slept, seen) == ([WAIT], [2])
        running.save(Country(code="x"))
        last = store.program(new)
        assert last.backfill(fence=True).done
        store.audited(last)

    @pytest.mark.usefixtures("old")
    def test_does_not_drop_a_model_that_had_entities(self, store):
        class Other(Model[int]):
            number: Key[int]

        database = store.program(Schema(*MODELS, Other, PurchasesOfBuyer, inline=2))
        database.save(Other(number=1))
        database.delete(Other, 1)
        with store.migration(OLD) as migration, pytest.raises(Unsupported, match="not removed"):
            migration.apply(drop=["Other"])

    @pytest.mark.usefixtures("old")
    def test_drops_a_model_that_never_had_one(self, store):
        class Other(Model[int]):
            number: Key[int]

        store.program(Schema(*MODELS, Other, PurchasesOfBuyer, inline=2))
        with store.migration(OLD) as migration:
            migration.apply(drop=["Other"])
        assert "Other" not in store.run(stored_schema()).kinds
        assert WAIT in store.slept
