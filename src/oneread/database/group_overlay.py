"""What a transaction reads and decides on, on a store that changes one row at a time: one entity group."""

from __future__ import annotations

from typing import TypeVar

from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.rows import Cell, Row
from oneread.transactions.commit import Basis, Change
from oneread.transactions.drafts import GroupDraft, LostRace
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import encode_version
from oneread.transactions.journal_commits import RowCommitter
from oneread.transactions.root import VERSION

T = TypeVar("T")


class GroupOverlay:
    """That of stores that change one row at a time: one entity group, as of the version at which its root was read.

    Children of a later version show that the group was changed meanwhile; all others are what it held then. So the
    commit compares the root's version alone.
    """

    def __init__(self, committer: RowCommitter) -> None:
        self.is_lost = False
        self._pipeline = committer.pipeline
        self._draft: GroupDraft | None = None

    def has(self, key: bytes) -> bool:
        return self._draft is not None and key in self._draft.stored

    def _open(self, group: bytes, now: int) -> Plan[GroupDraft]:
        if self._draft is None:
            self._draft = yield from self._in_time(self._pipeline.open(group, now))
        return self._draft

    def _in_time(self, plan: Plan[T]) -> Plan[T]:
        """A plan that may finish commits which it meets (rule P1)."""
        return in_time(plan, self._pipeline.journal.clock, OPERATION)

    def _unless_lost(self, draft: GroupDraft, plan: Plan[T]) -> Plan[T]:
        try:
            return (yield from self._in_time(plan))
        except LostRace:
            self.is_lost = True
            raise self._pipeline.changed_meanwhile(draft.seen.key) from None

    def read(self, key: bytes, now: int) -> Plan[Row | None]:
        draft = yield from self._open(self._pipeline.recorded.group(key), now)
        yield from self._unless_lost(draft, self._pipeline.read_children(draft, [key]))
        return draft.rows[key]

    def decide(self, change: Change, now: int) -> Plan[None]:
        draft = yield from self._open(self._pipeline.group(change), now)
        yield from self._unless_lost(draft, self._pipeline.load(draft, [change]))
        draft.decide(change)

    def basis(self, now: int) -> Basis:
        if self._draft is None:
            return Basis(now, {})
        seen = self._draft.seen
        return Basis(now, {seen.key: {VERSION: Cell(encode_version(seen.version), seen.version)}})

    def check(self, now: int) -> Plan[None]:  # noqa: ARG002 - part of the contract
        """What was read is of one moment, or the attempt is lost."""
        yield from ()
