"""What the body of a transaction reads and decides on, before anything is written; one class for each kind of store."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias, TypeVar

from oneread.derivations.catalog import Catalog
from oneread.errors import Conflict
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Separately
from oneread.plans.plan import Plan
from oneread.store.rows import Cell, Row
from oneread.transactions.commit import Basis, Change
from oneread.transactions.intents import encode_version
from oneread.transactions.loading import check_unchanged
from oneread.transactions.native import NativeCommitter
from oneread.transactions.root import VERSION
from oneread.transactions.row_commits import LostRace
from oneread.transactions.row_groups import GroupCommitter, GroupDraft
from oneread.transactions.unit_of_work import UnitOfWork

T = TypeVar("T")

_MEANWHILE: Final = "the entity group that this transaction read was changed meanwhile"


class Overlay(Protocol):
    """Root rows with the changes of one attempt of a transaction.

    `is_lost` says that what was read is not of one moment: the attempt has met Conflict and begins again.
    """

    is_lost: bool

    def has(self, key: bytes) -> bool:
        """Whether a row was read or changed."""
        ...

    def read(self, key: bytes, now: int) -> Plan[Row | None]:
        """A row as the transaction has it."""
        ...

    def decide(self, change: Change, now: int) -> Plan[None]:
        """Decides a change; a refused one leaves everything as it was."""
        ...

    def basis(self, now: int) -> Basis:
        """What the commit compares."""
        ...

    def check(self, now: int) -> Plan[None]:
        """Raises Conflict unless everything that was read is unchanged, for a transaction that only read."""
        ...


class SpanningOverlay:
    """That of stores whose transactions span rows: any rows, each compared at the commit."""

    is_lost = False

    def __init__(self, committer: NativeCommitter, catalog: Catalog) -> None:
        self._committer = committer
        self._name_of = catalog.name_of
        self._unit = UnitOfWork(None, catalog.name_of, catalog.claim_facts)

    def _over(self, store: CountedStore) -> UnitOfWork:
        """The unit, which reads from this store until the verb ends."""
        self._unit.store = store
        return self._unit

    def has(self, key: bytes) -> bool:
        return key in self._unit.roots

    def read(self, key: bytes, now: int) -> Plan[Row | None]:  # noqa: ARG002 - part of the contract
        yield from Separately(lambda store: self._over(store).load("roots", [key]))
        return self._unit.get("roots", key)

    def decide(self, change: Change, now: int) -> Plan[None]:
        return Separately(partial(self._decide, change, now)).__iter__()

    def _decide(self, change: Change, now: int, store: CountedStore) -> None:
        unit = self._over(store)
        mark = unit.mark()
        try:
            self._committer.decide(unit, [change], now)
        except BaseException:  # the body may catch it and continue, and must not see what was refused
            unit.restore(mark)
            raise

    def basis(self, now: int) -> Basis:
        return Basis(now, self._unit.loaded, self._unit.only_followed)

    def check(self, now: int) -> Plan[None]:
        basis = self.basis(now)
        if len(basis.rows) > 1:  # a single row was read at one moment, and needs no check
            yield from Separately(lambda store: check_unchanged(UnitOfWork(store, self._name_of), basis))


class GroupOverlay:
    """That of stores that change one row at a time: one entity group, as of the version at which its root was read.

    Children of a later version show that the group was changed meanwhile; all others are what it held then. So the
    commit compares the root's version alone.
    """

    def __init__(self, committer: GroupCommitter) -> None:
        self.is_lost = False
        self._committer = committer
        self._draft: GroupDraft | None = None

    def has(self, key: bytes) -> bool:
        return self._draft is not None and key in self._draft.stored

    def _open(self, group: bytes, now: int) -> Plan[GroupDraft]:
        if self._draft is None:
            self._draft = yield from self._committer.open(group, now)
        return self._draft

    def _unless_lost(self, plan: Plan[T]) -> Plan[T]:
        try:
            return (yield from plan)
        except LostRace:
            self.is_lost = True
            raise Conflict(_MEANWHILE) from None

    def read(self, key: bytes, now: int) -> Plan[Row | None]:
        draft = yield from self._open(self._committer.group_of(key), now)
        yield from self._unless_lost(self._committer.read_children(draft, [key]))
        return draft.rows[key]

    def decide(self, change: Change, now: int) -> Plan[None]:
        draft = yield from self._open(self._committer.group(change), now)
        yield from self._unless_lost(self._committer.load(draft, [change], None))
        draft.decide(change)

    def basis(self, now: int) -> Basis:
        if self._draft is None:
            return Basis(now, {})
        seen = self._draft.seen
        return Basis(now, {seen.key: {VERSION: Cell(encode_version(seen.version), seen.version)}})

    def check(self, now: int) -> Plan[None]:  # noqa: ARG002 - part of the contract
        """What was read is of one moment, or the attempt is lost."""
        yield from ()


NewOverlay: TypeAlias = Callable[[], Overlay]
"""Begins an attempt of a transaction."""
