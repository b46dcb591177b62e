"""A proof by trying: a database and the oracle do the same steps and must show the same.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from copy import copy
from typing import Any, Final, Self, TypeAlias

from oneread.connect import connect
from oneread.errors import (
    AlreadyExists,
    MissingReference,
    NotFound,
    OnereadError,
    StillReferenced,
    UsageError,
)
from oneread.evolution.schema import Schema
from oneread.models.model import key_of
from oneread.store.requests import Read, Scan
from oneread.testing.audit import Audit
from oneread.testing.clock import Clock
from oneread.testing.comparison import Disagreement, check_same, check_waiting, compare, counts_in
from oneread.testing.naive import look
from oneread.testing.naive_entities import Place, written_at
from oneread.testing.oracle import Oracle
from oneread.testing.steps import (
    BATCH,
    NOT_TAKEN,
    DeleteStep,
    DrainStep,
    HistoryStep,
    LookStep,
    SaveAllStep,
    SweepStep,
    TickStep,
    TogetherStep,
    WriteStep,
)
from oneread.transactions import outbox
from oneread.transactions.root import BODY

REFUSALS: Final = (AlreadyExists, MissingReference, NotFound, StillReferenced)
"""Errors that the oracle raises as well."""

INLINE: Final = 2
"""Holders that follow within the commit: few, so that a small history leaves tasks."""

StepOutcome: TypeAlias = "list[Any] | OnereadError"
"""What a step came to."""


class Proof:
    """A database and the oracle, side by side.

    Arguments:
        schema: of both; more than `inline` holders of a source become a task, so that a few entities make some.
        url: an empty store; `memory://` by default.
        inline: in place of the schema's own bound.
    """

    def __init__(self, schema: Schema, url: str = "memory://", *, inline: int = INLINE) -> None:
        self.clock = Clock()
        self.database = connect(url, with_inline(schema, inline), clock=self.clock, workers=0)
        self.oracle = Oracle(*schema.models, *schema.views)
        self.oracle.waits = self._is_stored
        self.oracle.clock_of = self._written_at
        self.oracle.is_late = self._is_late
        self.oracle.one_by_one = self.database.operations.portable
        self.oracle.holds_last = None if self.database.operations.spans_rows else []
        self.refused: Counter[str] = Counter()
        """How often a step was refused, by the name of the error."""
        engine = self.database._driver.engine  # noqa: SLF001 - reads past everything that is under test
        self._audit = Audit(engine, self.database.operations)

    def do(self, step: HistoryStep) -> StepOutcome:
        """Does a step to both. Returns what the database returned, or the error by which it refused the step.

        Raises:
            Disagreement: one refuses a step that the other does, or they return different entities.
        """
        self.oracle.now = self.clock()
        self._audit.clock = max(self._audit.clock, self.clock())
        if isinstance(step, TickStep):
            self.clock.tick(step.seconds)
        elif isinstance(step, SweepStep):
            self.database.run(step.plan(self.database.operations))
            self.oracle.drop_swept(self._is_stored)
        elif isinstance(step, DrainStep):
            self.database.run(step.plan(self.database.operations))
            self.oracle.delete_with_sources()
        elif isinstance(step, LookStep):
            self.look()
        else:
            return self._write(step)
        return []

    def _is_stored(self, place: Place) -> bool:
        model, key = place
        (row,) = self.database.run(Read("roots", [self.database.operations.kind(model).key(key)]).__iter__())
        return row is not None and BODY in row

    def _is_late(self, view: type, place: Place) -> bool:
        key = self.database.operations.kind(place[0]).key(place[1])
        (row,) = self.database.run(Read("roots", [key], "dm").__iter__())
        return counts_in(self.database.operations, view, row)

    def _written_at(self, place: Place) -> int:
        """The clock of what a step that is refused writes at a place: it may have been written before the refusal."""
        model: Any = place[0]
        stored: Any = self.database.find(model, *place[1])
        return max(self.clock(), 0 if stored is None else written_at(stored, self.database.version(stored)))

    def _write(self, step: WriteStep) -> StepOutcome:
        if isinstance(step, DeleteStep):
            self._run_tasks()  # copies keep the values that reached them
        try:
            saved = self._call(step)
        except NOT_TAKEN as refusal:
            self.refused[type(refusal).__name__] += 1
            if isinstance(step, SaveAllStep):
                saved_before: Any = refusal.facts.get("saved", 0)
                self.oracle.save_all([(each, 0) for each in step.entities[:saved_before]])
            return refusal
        except REFUSALS as refusal:
            self.refused[type(refusal).__name__] += 1
            self._expect_refusal(step, refusal)
            return refusal
        except UsageError as refusal:
            if not isinstance(step, TogetherStep):  # of a portable schema, several entity groups
                raise
            return refusal
        try:
            wanted = step.expect(self.oracle, [written_at(each, self.database.version(each)) for each in saved])
        except UsageError as refusal:
            raise Disagreement(f"{step!r} must be refused: {refusal!r}") from refusal
        if isinstance(step, DeleteStep):
            self._run_tasks()
        if len(saved) == 1 and not self.has_tasks():  # a batch returns each entity as of its own place in it
            check_same(f"what {type(step).__name__} returns", look(wanted), look(saved))
        return saved

    def _call(self, step: WriteStep) -> list[Any]:
        return step.do(self.database)

    def _expect_refusal(self, step: WriteStep, refusal: UsageError) -> None:
        try:
            step.expect(self.oracle, [])
        except type(refusal):
            return
        except UsageError as other:
            raise Disagreement(f"{step!r} is refused by {refusal!r}, and should be by {other!r}") from other
        raise Disagreement(f"{step!r} is refused without a reason: {refusal!r}") from refusal

    def look(self) -> None:
        """Runs every task, then compares everything: entities, lists in their order, groups, and raw rows.

        Raises:
            Disagreement: the first difference.
            Offence: a raw row is missing, left over or different.
        """
        self._run_tasks()
        self.oracle.now = self.clock()
        self._audit.clock = max(self._audit.clock, self.clock())
        self.oracle.settle()  # of what is late, a sweep or a commit may have removed some
        compare(self.oracle, self._rows)
        for entity in [each for model in self.oracle.models for each in self.oracle.all(model)]:
            variant: Any = type(entity)
            found = self.database.find(variant, *key_of(entity))
            check_same(f"{variant.__name__}{key_of(entity)}", look(entity), look(found))
        self._audit.check()
        self._audit.check_totals()
        check_waiting(self.oracle, self._audit, self.database.operations)

    def look_swept(self) -> None:
        """Sweeps everything that has expired, and looks: then no group is late.

        Raises:
            Disagreement: the first difference.
            Offence: a raw row is missing, left over or different.
        """
        self._run_tasks()
        while (swept := self.database.sweep()).deleted or swept.removed:
            self._run_tasks()
        self.oracle.now = self.clock()
        self.oracle.drop_swept(self._is_stored)
        self.oracle.is_late = lambda _view, _place: False
        self.look()
        self.oracle.is_late = self._is_late

    def _rows(self, view: Any, equal: tuple[Any, ...]) -> list[Any]:
        return [row for page in self.database.scan(view, *equal, batch=3) for row in page]

    def _run_tasks(self) -> None:
        while self.database.run(self.database.operations.drain_step(BATCH)):
            pass
        self.oracle.delete_with_sources()

    def has_tasks(self) -> bool:
        """Whether something waits for a worker: copies and totals may then still follow."""
        ranges = outbox.TASKS, outbox.GROUP_TASKS
        return any(self.database.run(Scan("system", within, 1).__iter__()) for within in ranges)

    def close(self) -> None:
        self.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def prove(schema: Schema, history: Iterable[HistoryStep], url: str = "memory://") -> Counter[str]:
    """Does a history to a fresh database and to the oracle, and compares everything at its end.

    Returns how often a step was refused, by the name of the error: where nearly all are, the history proves little.

    Raises:
        Disagreement: the database shows something else than the oracle, or one refuses a step that the other does.
        Offence: a raw row is missing, left over or different.
    """
    with Proof(schema, url) as proof:
        for step in history:
            proof.do(step)
        proof.look()
        return proof.refused


def with_inline(schema: Schema, inline: int) -> Schema:
    """The same schema with another bound of holders that follow within the commit.

    Its classes are those of the schema, also those that it adds: a history has entities of them, as of `Home.marks`.
    """
    made = copy(schema)
    made.inline = inline
    return made
