"""A proof whose writes are held against their bounds."""

from contextlib import suppress

from oneread.costs.budgets import budget
from oneread.errors import OnereadError, Unsupported
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.comparison import Disagreement
from oneread.testing.proof import Proof
from oneread.testing.steps import (
    DeleteStep,
    DrainStep,
    LookStep,
    PatchStep,
    SaveAllStep,
    SaveStep,
    SweepStep,
    UpsertStep,
)

VERBS = {"save": "save", "create": "create", "keep": "get_or_create"}
COSTS = ("requests", "rows", "bytes", "rounds")
LEFT = 4
"""Requests for each hold that a refused write on a store of one row may have left, and that a delete removes."""
GIVING = 12
"""Rows of items and memberships that one write changes at most, and that an entry that was trimmed is read for."""
ENTRY = 2_000
"""Bytes of an entry."""


class PricedProof(Proof):
    """Each save, patch and delete that is done costs no more than its declarations say."""

    def __init__(self, schema, url, *, inline):
        super().__init__(schema, url, inline=inline)
        self.database.operations.fence.clock = lambda: 0.0  # its lease never ends, and no bound has its renewal
        self._costs = self.database.explain.costs
        self._written = -1
        self._refused = 0
        views = self.database.operations.catalog.views.values()
        self._trimmed = [each for each in views if getattr(each, "at_most", None)]

    def do(self, step):
        if isinstance(step, SweepStep | DrainStep) or (isinstance(step, LookStep) and self.has_tasks()):
            self._written = max(self._written, self.clock())
        return super().do(step)

    def _call(self, step):
        bound = self._bound(step)
        # What is written again before the clock has moved, or after it was put back, may cost more.
        is_held = bound is not None and self.clock() > self._written
        self._written = max(self._written, self.clock())
        entries = sum(len(self.database.run(every_row(each))) for each in self._trimmed)
        with budget() as spent:
            try:
                saved = step.do(self.database)
            except OnereadError:
                self._refused += 10  # references that the refused entity may have had
                raise
        if is_held:
            more = LEFT * self._refused if isinstance(step, DeleteStep) else 0
            self._hold(step, bound, spent, {
                "requests": more, "rows": more + GIVING * entries, "bytes": GIVING * entries * ENTRY, "rounds": more,
            })  # fmt: skip
        return saved

    def _hold(self, step, bound, spent, more):
        for name in COSTS:
            allowed = getattr(bound, name) + more[name]
            if getattr(spent, name) > allowed:
                raise Disagreement(f"{step} costs {getattr(spent, name)} {name}, {allowed} at most: {bound}")

    def _bound(self, step):
        """What a step may cost; None for one without a bound."""
        with suppress(Unsupported):  # a delete of what goes with itself, without end
            return self._bound_of(step)

    def _bound_of(self, step):
        costs = self._costs
        if isinstance(step, SaveStep):
            return getattr(costs, VERBS[step.mode])(type(step.entity))
        if isinstance(step, UpsertStep):
            return costs.upsert(type(step.entity))
        if isinstance(step, PatchStep):
            return costs.patch(step.model, *step.changes)
        if isinstance(step, DeleteStep):
            return costs.delete(step.model)
        if isinstance(step, SaveAllStep) and step.entities and not self.database.operations.portable:
            return costs.transact([costs.save(type(each)) for each in step.entities])
        return None


def every_row(view):
    """All rows of a view, past what is under test."""
    yield from ()
    return (yield from Scan("views", RowRange.under(view.prefix), 1 << 20, families="dm"))
