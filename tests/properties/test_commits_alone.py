"""A commit of one change is, to the request, to the row and to the text of its error, what a unit of work makes of it.

Each commit of a history is made twice: by a unit of work on a store that keeps nothing, and as programs make it.
"""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings

from examples.shop.schema import SHOP
from oneread import GENERATED, Aggregate, Index, Key, Model, Schema, by, connect, total
from oneread.errors import OnereadError
from oneread.plans.counted import CountedStore
from oneread.plans.trace import Trace
from oneread.store.rows import VALUE, row_of_root, rows_of_values
from oneread.testing import strategies
from oneread.testing.clock import Clock
from oneread.testing.proof import Proof
from oneread.transactions import native
from oneread.transactions.native import NativeCommitter
from tests.properties.forum import FORUM
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.schema_of_feeds import FEED_SCHEMA, GIVEN


class Quiet(Model[int]):
    number: Key[int]
    title: str | None = None
    note: str = ""


class Titles(Index[Quiet]):
    watched = timedelta(hours=1)

    title: str = by(Quiet.title)


class Notes(Index[Quiet]):
    note: str = by(Quiet.note)


class Loud(Model[int]):
    logged = timedelta(hours=1)

    number: Key[int]
    note: str = ""


LOGS = Schema(Quiet, Titles, Notes, Loud)
"""Commits of which some are logged."""

SCHEMAS = {"logs": LOGS, "shop": SHOP, "forum": FORUM, "everything": Schema(*EVERYTHING), "feeds": FEED_SCHEMA}
SOME = settings(max_examples=max(5, settings().max_examples // 4), deadline=None)


class Recorder:
    """The rows of a store, and what was asked of them; `keeps` says whether they are changed."""

    def __init__(self, store, *, keeps):
        self.store = store
        self.keeps = keeps
        self.asked = []

    def read(self, table, keys, families="d"):
        found = self.store.read(table, keys, families)
        self.asked.append(("read", table, list(keys), families, found))
        return found

    def read_roots(self, keys):
        found = self.store.read_roots(keys)
        rows = [row_of_root(each) for each in found]
        self.asked.append(("read", "roots", list(keys), "dm", rows))
        return found

    def replace_roots(self, roots):
        self.asked.append(("replace", "roots", [(key, row_of_root(root)) for key, root in roots.items()]))
        if self.keeps:
            self.store.replace_roots(roots)

    def read_values(self, table, keys):
        found = self.store.read_values(table, keys)
        rows = [None if cell is None else {VALUE: cell} for cell in found]
        self.asked.append(("read", table, list(keys), "dm", rows))
        return found

    def scan(self, table, within, limit, *, reverse=False, families="d"):
        found = self.store.scan(table, within, limit, reverse=reverse, families=families)
        self.asked.append(("scan", table, within, limit, reverse, families, found))
        return found

    def replace(self, table, rows):
        self.asked.append(("replace", table, list(rows.items())))
        if self.keeps:
            self.store.replace(table, rows)

    def replace_values(self, table, values, stamp):
        self.asked.append(("replace", table, list(rows_of_values(values, stamp).items())))
        if self.keeps:
            self.store.replace_values(table, values, stamp)


def outcome_of(commit, work, store, *, keeps):
    """What a commit comes to, in every way that a program or a store can see; and its error."""
    rows, trace, error, result = Recorder(store, keeps=keeps), Trace(), None, None
    try:
        result = work(CountedStore(rows, store.now, store.chance, trace))
    except OnereadError as failure:
        error = failure
    told = [(repr(each.written.entity), each.written.version, each.written.created) for each in commit.changes]
    refusal = (type(error), str(error), error and error.facts)
    return (result, refusal, commit.is_deciding, told if error is None else (), rows.asked, trace.cost), error


def by_unit(committer, store, commit):
    return committer._attempt(store, commit, commit.changes, {})


@pytest.fixture(scope="module")
def ways():
    """While it lasts, each commit is made in both ways and compared; what was written without a unit of work."""
    found = []
    commit_in, writes_alone = NativeCommitter._commit_in, native.writes_alone

    def compared(self, store, commit):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(NativeCommitter, "_attempt_first", by_unit)
            expected, _error = outcome_of(commit, lambda rows: commit_in(self, rows, commit), store, keeps=False)
        given, error = outcome_of(commit, lambda rows: commit_in(self, rows, commit), store, keeps=True)
        assert given == expected
        if error is not None:
            raise error
        return given[0]

    def noted(*given):
        writes = writes_alone(*given)
        found.append(writes)
        return writes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NativeCommitter, "_commit_in", compared)
        patch.setattr(native, "writes_alone", noted)
        yield found


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.timeout(900)
def test_it_equals_a_unit_of_work_after_any_history(name, ways):
    schema = SCHEMAS[name]
    del ways[:]

    @SOME
    @given(strategies.histories(schema, GIVEN if name == "feeds" else None))
    def holds(history):
        with Proof(schema) as proof:
            for step in history:
                proof.do(step)
            proof.look()

    holds()
    assert any(each.roots for each in ways) == (name != "feeds")  # entries of feeds follow from views


class Thread(Model[str]):
    name: Key[str]
    title: str


class Reply(Model[str, int]):
    child_of = Thread
    name: Key[str]
    number: Key[int] = GENERATED
    worth: Decimal = Decimal(0)


class Worth(Aggregate[Reply]):
    name: str = by(Reply.name)
    worth: Decimal = total(Reply.worth)


def test_a_root_keeps_its_sequences_and_a_sum_that_stays_is_not_read(ways):
    with connect("memory://", Schema(Thread, Reply, Worth), clock=Clock(), workers=0) as db:
        db.save(Thread(name="h", title="Hearts"))
        db.create(Reply(name="h", worth=Decimal("1.0")))
        del ways[:]
        db.patch(Thread, "h", title="White hearts")
        db.patch(Reply, "h", 1, worth=Decimal("1.00"))
        db.patch(Reply, "h", 1, worth=Decimal("2.5"))
        assert [len(each.sums) for each in ways] == [0, 0, 1]
        assert db.create(Reply(name="h")).number == 2
        assert db.verify().clean
