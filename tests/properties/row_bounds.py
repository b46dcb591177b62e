"""Writes to a store that changes one row at a time, held against their bounds: what the tests of bounds there share."""

from hypothesis import Phase, given, settings

from oneread import Schema, connect
from oneread.costs import declared
from oneread.costs.budgets import budget
from oneread.errors import OnereadError
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing import strategies
from oneread.testing.clock import Clock
from oneread.testing.steps import (
    CountStep,
    DeleteCounterStep,
    DrainStep,
    PatchStep,
    SaveAllStep,
    SweepStep,
    TickStep,
    WriteStep,
)

FEW = settings(
    max_examples=settings().max_examples // 5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
PATCHED = {"PatchStep": "patch", "UpsertStep": "upsert", "DeleteStep": "delete"}
MODES = {"save": "save", "create": "create", "keep": "get_or_create"}
LEFT = 4
"""Requests that end an attempt which was refused, and remove a hold that it has put."""


MOST_GIVING = 12
"""Rows of items and memberships that one write changes, and that are given up, at most."""
ENTRY = 2_000
"""Bytes of an entry of these tests."""


def all_rows(view):
    yield from ()
    return (yield from Scan("views", RowRange.under(view.prefix), 1 << 20, families="dm"))


class Priced:
    """A store whose writes are held against their bounds."""

    def __init__(self, schema, inline):
        schema = Schema(*schema.models, *schema.views, inline=inline)
        self.clock = Clock()
        self.db = connect("memory://?span=row", schema, clock=self.clock, workers=0)
        self.db.operations.fence.clock = lambda: 0.0  # on a slow machine its lease ends, and no bound has its renewal
        self.costs = declared.of(schema, span="row")
        self.holds = 0
        self.trimmed = [each for each in self.db.operations.catalog.views.values() if getattr(each, "at_most", None)]

    def bound(self, step):
        if isinstance(step, SaveAllStep):
            bounds = [self.costs.save(type(each)) for each in step.entities]
        elif isinstance(step, PatchStep):
            bounds = [self.costs.patch(step.model, *dict(step.changes))]
        else:
            name = PATCHED.get(type(step).__name__) or MODES[step.mode]
            bounds = [getattr(self.costs, name)(step.model if hasattr(step, "model") else type(step.entity))]
        return [sum(getattr(each, name) for each in bounds) for name in ("requests", "rows", "bytes", "rounds")]

    def do(self, step):
        self.clock.tick(0.05)  # an entity that is changed before its last version costs more
        if isinstance(step, TickStep):
            self.clock.tick(abs(step.seconds))
        elif isinstance(step, DrainStep | CountStep | DeleteCounterStep):
            self.db.run(step.plan(self.db.operations))
        elif isinstance(step, WriteStep):
            entries = sum(len(self.db.run(each)) for each in map(all_rows, self.trimmed))
            with budget() as spent:
                try:
                    step.do(self.db)
                except OnereadError:
                    self.holds += 10  # references that the refused entity may have had
                    return
            self.hold(step, spent, entries)

    def hold(self, step, spent, entries):
        requests, rows, size, rounds = self.bound(step)
        left = LEFT * self.holds if type(step).__name__ == "DeleteStep" else 0
        assert spent.requests <= requests + left, step
        # Each entry that was trimmed, or whose item was removed, is read once more for each row that gives entries.
        assert spent.rows <= rows + left + MOST_GIVING * entries, step
        assert spent.bytes <= size + MOST_GIVING * entries * ENTRY, step
        assert spent.rounds <= rounds + left, step

    def hold_pages(self):
        """Those of models, indexes and aggregates, from the beginning."""
        catalog = self.db.operations.catalog
        feeds = {cls for cls, view in catalog.views.items() if hasattr(view, "large")}
        for each in (*catalog.models, *(catalog.views.keys() - feeds)):
            with budget() as spent:
                self.db.page(each, limit=2)
            bound = self.costs.page(each, limit=2)
            for name in ("requests", "rows", "bytes", "rounds"):
                assert getattr(spent, name) <= getattr(bound, name), (each, name)


def holds(schema, inline, effort=FEW, given_values=None):
    @effort
    @given(strategies.histories(schema, given_values))
    def is_within(history):
        priced = Priced(schema, inline)
        for step in history:
            if not isinstance(step, SweepStep):
                priced.do(step)
        priced.hold_pages()
        priced.db.close()

    is_within()
