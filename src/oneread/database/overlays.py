"""What the body of a transaction reads and decides on, before anything is written.

`group_overlay` has that of stores that change one row at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeAlias, TypeVar

from oneread.derivations.catalog import Catalog
from oneread.errors import NotUnique
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Separately
from oneread.plans.plan import Plan
from oneread.store.rows import Row
from oneread.transactions.claims import TAKEN
from oneread.transactions.commit import Basis, Change
from oneread.transactions.loading import check_unchanged
from oneread.transactions.native import NativeCommitter
from oneread.transactions.unit_of_work import UnitOfWork

T = TypeVar("T")


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
        """What the commit compares. Raises NotUnique for a value that may not pass on, or leaves that to the commit."""
        ...

    def check(self, now: int) -> Plan[None]:
        """Raises Conflict unless everything that was read is unchanged, for a transaction that only read."""
        ...


class SpanningOverlay:
    """That of stores whose transactions span rows: any rows, each compared at the commit."""

    is_lost = False

    def __init__(self, committer: NativeCommitter, catalog: Catalog, *, portable: bool = False) -> None:
        self._committer = committer
        self._portable = portable
        self._name_of, self._claim_facts = catalog.name_of, catalog.claim_facts
        self._unit = UnitOfWork(None, catalog.name_of, catalog.claim_facts)

    def _over(self, store: CountedStore) -> UnitOfWork:
        """The unit, which reads from this store until the verb ends."""
        self._unit.store = store
        return self._unit

    def has(self, key: bytes) -> bool:
        return self._unit.roots.has(key)

    def read(self, key: bytes, now: int) -> Plan[Row | None]:  # noqa: ARG002 - part of the contract
        yield from Separately(lambda store: self._over(store).load("roots", [key]))
        return self._unit.roots.row(key)

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
        for value, owner in self._unit.claims.passed_values() if self._portable else ():
            raise NotUnique(TAKEN, **self._claim_facts(value), owner=self._name_of(owner))
        return Basis(now, self._unit.loaded, self._unit.only_followed)

    def check(self, now: int) -> Plan[None]:
        basis = self.basis(now)
        if len(basis.rows) > 1:  # a single row was read at one moment, and needs no check
            yield from Separately(lambda store: check_unchanged(UnitOfWork(store, self._name_of), basis))


NewOverlay: TypeAlias = Callable[[], Overlay]
"""Begins an attempt of a transaction."""
