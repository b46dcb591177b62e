"""A task takes the place of older ones of its source, whichever request its worker dies at (rule 16b)."""

from typing import NamedTuple

import pytest

from oneread import Schema
from oneread.database.open import opened
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import Cell, RowMutation
from oneread.transactions import outbox, versioned_tasks
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.outbox import TASKS
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.versioned_tasks import PageSizes, RowTaskRunner
from tests.simulation.row_mutations import edit
from tests.unit.transactions.two_selections import ByCity, ByName, Maker, Shop, Thing

HOLDERS = 3
AFTER_ALL = 99


class Died(BaseException):
    """A worker ends, wherever it is."""


class Store:
    """Two changes of one source wait, each of what other holders take; requests are counted."""

    def __init__(self):
        self.engine, self.now, self.left = OneRowMemoryEngine("hide"), 1_700_000_000_000, None
        self.capabilities = self.engine.capabilities
        self.driver = SyncDriver(self, lambda: self.now, lambda: 0.5)
        schema = Schema(Maker, Thing, Shop, inline=0)
        self.operations = self.run(opened(schema, read_only=False, committer=RowSystem()))
        self.run(self.operations.save(Maker(number=1, name="old", city="old"), "save"))
        for number in range(HOLDERS):
            self.run(self.operations.save(Thing(number=number, maker=ByName.of(1)), "save"))
            self.run(self.operations.save(Shop(number=number, maker=ByCity.of(1)), "save"))

    def answer(self, request):
        if self.left is not None:
            if not self.left:
                raise Died
            self.left -= 1
        return self.engine.answer(request)

    def run(self, plan):
        return self.driver.run(plan, Trace())

    def change(self, **fields):
        self.now += 1
        self.run(self.operations.patch(Maker, (1,), fields, None))

    def delete(self, found):
        key, row = found
        deletes = {column: cell.stamp for column, cell in row.items()}
        self.engine.answer(Mutate("system", [RowMutation(key, deletes=deletes)]))

    def put(self, found):
        """Above what `delete` hides."""
        key, row = found
        cells = {column: Cell(cell.value, cell.stamp + 1) for column, cell in row.items()}
        self.engine.answer(Mutate("system", [RowMutation(key, cells)]))

    def work(self, name, left=None, steps=1):
        leases = LeaseHolder(10, lambda: self.now / 1000, lambda: name)
        runner = RowTaskRunner(self.operations.committer, leases, sizes=PageSizes(1, 1))
        self.left = left
        try:
            for _ in range(steps):
                self.run(runner.step(1))
        except Died:
            return True
        finally:
            self.left = None
        return False

    def has_old(self):
        """Whether nothing waits, and some holder has what was there before."""
        assert not self.engine.answer(Scan("system", TASKS, 9))
        held = [(Thing, "name"), (Shop, "city")]
        found = [
            getattr(self.run(self.operations.find(cls, (number,)))[0].maker, field)
            for cls, field in held
            for number in range(HOLDERS)
        ]
        return "old" in found


class History(NamedTuple):
    """Which of two changes come first, and which one a worker has begun before the older one's task is there."""

    first: str
    second: str
    begun: str


HISTORIES = [
    History(first, second, begun)
    for first, second in (("name", "city"), ("city", "name"))
    for begun in ("neither", "first", "second")
]


def died_at(left, history):
    """A worker dies behind so many requests, and another one does the rest.

    Returns whether holders were left behind, and whether the worker lived.
    """
    store = Store()
    store.change(**{history.first: "new"})
    if history.begun == "first":
        store.work("first")
    (older,) = store.engine.answer(Scan("system", TASKS, 1, families="dm"))
    store.change(**{history.second: "new"})
    if history.begun == "second":  # the writer of the older one had died, and its commit is recovered later
        store.delete(older)
        store.work("second")
        store.put(older)
    store.now += 20_000
    has_died = store.work("dies", left, steps=2)
    store.now += 20_000
    store.work("last", steps=30)
    return store.has_old(), not has_died


def is_left_behind(history):
    for left in range(AFTER_ALL):
        has_old, has_lived = died_at(left, history)
        if has_old:
            return True
        if has_lived:
            return False
    raise AssertionError("a worker makes so many requests")


@pytest.mark.parametrize("history", HISTORIES, ids=" ".join)
def test_no_holder_is_left_behind(history):
    assert not is_left_behind(history)


def what_older_ones_do_is_left_out(patch):
    patch.setattr(versioned_tasks, "_left_out_by_all", lambda row, _older: set(outbox.selections_left_out(row)))


def the_cursor_stays_where_the_narrower_task_was(patch):
    edit(patch, RowTaskRunner, "_advance", ("None if is_wider else held", "held"))


def older_ones_are_deleted_first(patch):
    edit(patch, RowTaskRunner, "_advance", (OLDER, ""), (WIDER, OLDER + WIDER))


WIDER = "    if is_wider:\n"
OLDER = (
    "    if older:\n"
    '        yield from Mutate("system", [RowMutation(place, deletes=_stamps(each)) for place, each in older])\n'
)


@pytest.mark.parametrize(
    "mutation",
    [what_older_ones_do_is_left_out, the_cursor_stays_where_the_narrower_task_was, older_ones_are_deleted_first],
)
def test_each_broken_part_of_the_rule_is_found(mutation, monkeypatch):
    mutation(monkeypatch)
    assert any(map(is_left_behind, HISTORIES))
