"""A proof by trying: a database and the oracle do the same steps, and must show the same.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final, Self

from oneread.connect import connect
from oneread.errors import (
    AlreadyExists,
    InvalidKey,
    InvalidValue,
    LimitExceeded,
    MissingReference,
    NotFound,
    StillReferenced,
    UsageError,
)
from oneread.evolution.schema import Schema
from oneread.models.model import key_of
from oneread.models.registry import root_model
from oneread.store.requests import Scan
from oneread.testing.audit import Audit
from oneread.testing.clock import Clock
from oneread.testing.naive import listed, look
from oneread.testing.oracle import Oracle, written_at
from oneread.testing.steps import DeleteStep, Drain, HistoryStep, Look, Tick, Write
from oneread.transactions import outbox

REFUSALS: Final = (AlreadyExists, MissingReference, NotFound, StillReferenced)
"""What the oracle refuses as well."""

NOT_TAKEN: Final = (InvalidValue, InvalidKey, LimitExceeded)
"""What only the database refuses: the oracle knows nothing of constraints, of `check` and of how long a key may be."""

INLINE: Final = 2
"""Carriers that follow within the commit: few, so that a small history leaves tasks."""

_BATCH: Final = 2


class Disagreement(AssertionError):
    """The database shows something else than the oracle."""


class Proof:
    """A database and the oracle, side by side.

    Arguments:
        schema: of both; copies of more than `inline` carriers become tasks, so that a few entities make some.
        url: an empty store; `memory://` by default.
        inline: in place of the schema's own number.
    """

    def __init__(self, schema: Schema, url: str = "memory://", *, inline: int = INLINE) -> None:
        self.clock = Clock()
        self.database = connect(url, with_inline(schema, inline), clock=self.clock, workers=0)
        self.oracle = Oracle(*schema.models, *schema.views)
        self.refused: Counter[str] = Counter()
        """How often a step was refused, by the name of the error."""
        self._schema = schema
        self._audit = Audit(self.database._driver.engine, self.database.operations)  # noqa: SLF001 - reads past everything that is under test

    def do(self, step: HistoryStep) -> None:
        """Does a step to both.

        Raises:
            Disagreement: one refuses what the other does, or another thing is returned.
        """
        if isinstance(step, Tick):
            self.clock.tick(step.seconds)
        elif isinstance(step, Drain):
            self.database.run(self.database.operations.drain_step(_BATCH))
        elif isinstance(step, Look):
            self.look()
        else:
            self._write(step)

    def _write(self, step: Write) -> None:
        if isinstance(step, DeleteStep):
            self._finish()  # what is kept of a source is what it told last
        try:
            saved = step.do(self.database)
        except NOT_TAKEN as refusal:
            self.refused[type(refusal).__name__] += 1
            return
        except REFUSALS as refusal:
            self.refused[type(refusal).__name__] += 1
            self._refused_too(step, refusal)
            return
        try:
            wanted = step.tell(self.oracle, [written_at(each, self.database.version(each)) for each in saved])
        except UsageError as refusal:
            raise Disagreement(f"{step} must be refused: {refusal!r}") from refusal
        if isinstance(step, DeleteStep):
            self._finish()
        if len(saved) == 1 and not self._pending():  # a batch returns its entities as of their own turn in it
            _same(f"what {type(step).__name__} returns", look(wanted), look(saved))

    def _refused_too(self, step: Write, refusal: UsageError) -> None:
        try:
            step.tell(self.oracle, [])
        except type(refusal):
            return
        except UsageError as other:
            raise Disagreement(f"{step} is refused by {refusal!r}, and should be by {other!r}") from other
        raise Disagreement(f"{step} is refused without a reason: {refusal!r}") from refusal

    def look(self) -> None:
        """Lets every task be done, then compares everything: entities, lists in their order, groups, and raw rows.

        Raises:
            Disagreement: something is different; says what.
            Offence: a raw row is missing, left over or different.
        """
        self._finish()
        for model in self._schema.models:
            _same(model.__name__, look(self.oracle.all(model)), look(self._rows(model)))
            for entity in self.oracle.all(model):
                variant: Any = type(entity)
                found = self.database.find(variant, *key_of(entity))
                _same(f"{root_model(model).__name__}{key_of(entity)}", look(entity), look(found))
        for view in self.oracle.views:
            _same(view.__name__, listed(view, self.oracle.listing(view)), listed(view, self._rows(view)))
        self._audit.boundary()

    def _rows(self, view: Any) -> list[Any]:
        return [row for page in self.database.scan(view, batch=3) for row in page]

    def _finish(self) -> None:
        while self.database.run(self.database.operations.drain_step(_BATCH)):
            pass

    def _pending(self) -> bool:
        return bool(self.database.run(Scan("system", outbox.TASKS, 1).__iter__()))

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
        Disagreement: the database shows something else than the oracle, or one refuses what the other does.
        Offence: a raw row is missing, left over or different.
    """
    with Proof(schema, url) as proof:
        for step in history:
            proof.do(step)
        proof.look()
        return proof.refused


@lru_cache(maxsize=32)
def with_inline(schema: Schema, inline: int) -> Schema:
    """The same declarations with another number of carriers that follow at once."""
    return Schema(*schema.models, *schema.views, inline=inline)


def _same(what: str, wanted: Any, found: Any) -> None:
    __tracebackhide__ = True
    if wanted == found:
        return
    if isinstance(wanted, list) and isinstance(found, list):
        for place, (each, other) in enumerate(zip(wanted, found, strict=False)):
            if each != other:
                raise Disagreement(f"{what}, row {place}: should be {each!r}, is {other!r}")
        more, word = (wanted, "missing") if len(wanted) > len(found) else (found, "too many")
        raise Disagreement(f"{what}: {word}: {more[min(len(wanted), len(found)) :]!r}")
    raise Disagreement(f"{what}: should be {wanted!r}, is {found!r}")
