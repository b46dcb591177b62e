"""Ends: whether a store that came to rest shows what the oracle shows, and whether a reader saw one moment.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from oneread.database.lists import listed
from oneread.database.operations import Operations
from oneread.database.pages import Query, page
from oneread.errors import OnereadError
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.testing.acts import CIPHER
from oneread.testing.audit import Audit, Offence, own
from oneread.testing.naive import listed as in_order
from oneread.testing.naive import look
from oneread.testing.oracle import Oracle

_BATCHES: Final = 1_000


def drain(audit: Audit, driver: SyncDriver, operations: Operations) -> None:
    """Does every task of the outbox: each ends, and what it leaves is right or set aside; raises Offence otherwise."""
    for _ in range(_BATCHES):
        try:
            if not driver.run(operations.drain_step(2), Trace()):
                break
        except OnereadError as failure:
            raise Offence(f"after the faults a task fails: {failure!r}") from failure
        audit.boundary()
    else:
        raise Offence("the outbox does not come to an end")
    if audit.pending:
        raise Offence("tasks are left in the outbox, and nothing is done about them")


def rewrite(oracle: Oracle, audit: Audit, driver: SyncDriver, operations: Operations) -> None:
    """Writes every entity once more, as it is; raises Offence for the first that cannot be written."""
    for entity in list(audit.entities().values()):
        try:
            driver.run(operations.save(entity), Trace())
            oracle.save(oracle.get(type(entity), *entity.ref().key), driver.now())
        except OnereadError as refusal:
            raise Offence(f"after the faults {entity!r} cannot be written: {refusal!r}") from refusal
    audit.boundary()


def agrees(oracle: Oracle, audit: Audit, driver: SyncDriver, operations: Operations, *, blurred: bool) -> None:
    """Everything that users can read is what the oracle says; raises Offence for the first thing that is not.

    Arguments:
        oracle: what is right.
        audit: has looked at the store.
        driver: reads pages.
        operations: of the store.
        blurred: a source was deleted before all its copies had followed its last change, so nobody can say which of its
            values they keep: then only what is an entity's own is compared.
    """
    stored, expected = _named(oracle, audit, operations)
    shape = _own if blurred else look
    _same("entities", {name: shape(each) for name, each in expected.items()}, {k: shape(v) for k, v in stored.items()})
    if not blurred:
        for view in oracle.views:
            found = everything(driver, operations, view)
            _same(view.__name__, in_order(view, oracle.listing(view)), in_order(view, found))


def _named(oracle: Oracle, audit: Audit, operations: Operations) -> tuple[dict[str, Any], dict[str, Any]]:
    """The living entities of store and oracle by what a person calls them."""
    catalog = operations.catalog
    expected: dict[str, Any] = {}
    for held in oracle.held.values():
        kind = catalog.type_of(held.entity).kind
        expected[catalog.name_of(kind.key(kind.parts(held.entity)))] = held.entity
    return {catalog.name_of(key): entity for key, entity in audit.entities().items()}, expected


def lags(oracle: Oracle, audit: Audit, operations: Operations, model: Any, key: tuple[Any, ...]) -> bool:
    """Whether a copy of this source has not followed its last change, or is held out of sight where nobody can tell."""
    stored, expected = _named(oracle, audit, operations)
    source = operations.kind(model).key(key)
    for name, entity in expected.items():
        for each in operations.catalog.type_of(entity).references:
            if source not in each.keys(entity):
                continue
            if each.hidden or look(getattr(entity, each.name)) != look(getattr(stored[name], each.name)):
                return True
    return False


def everything(driver: SyncDriver, operations: Operations, view: Any) -> list[Any]:
    """All rows of a list, page by page."""
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        found = driver.run(page(listed(operations, view), Query(limit=20, cursor=cursor), CIPHER, Trace()), Trace())
        rows.extend(found.rows)
        cursor = found.next
        if cursor is None:
            return rows


def stood(found: Any, moments: Sequence[Any]) -> bool:
    """Whether what was read is what stood at one moment.

    The least and greatest of a group are read beside its sums, in requests of their own: each field of one row may be
    of its own moment.
    """
    if found in moments:
        return True
    if not isinstance(found, tuple):
        return False
    _name, fields = found
    seen = [moment[1] for moment in moments if isinstance(moment, tuple)]
    return all(any(moment.get(name) == value for moment in seen) for name, value in fields.items())


def _own(entity: Any) -> Any:
    """What is an entity's own, as plain data: a list that is empty by default may be a tuple."""
    return look(own(entity))


def _same(what: str, expected: Any, found: Any) -> None:
    if expected != found:
        if isinstance(expected, dict) and isinstance(found, dict):
            apart = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
            expected, found = ({name: each.get(name) for name in apart} for each in (expected, found))
        raise Offence(f"{what}: expected {expected!r}, found {found!r}")
