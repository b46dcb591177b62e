"""Whether a store shows what the oracle shows, and whether a reader saw one moment.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from oneread.database.lists import listed
from oneread.database.operations import Operations
from oneread.database.pages import Query, page
from oneread.derivations.emitted_record import decode_record
from oneread.derivations.views import Feed
from oneread.errors import OnereadError
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.rows import Row
from oneread.testing import naive
from oneread.testing.audit import Audit, Offence, own
from oneread.testing.naive import look
from oneread.testing.oracle import Oracle
from oneread.testing.steps import CIPHER
from oneread.transactions.root import NO_ROOT, parse_root

ReadRows: TypeAlias = Callable[[Any, tuple[Any, ...]], list[Any]]
"""All rows of a model or view that begin with some values, as the store shows them."""

_BATCHES: Final = 1_000


class Disagreement(AssertionError):
    """The database shows something else than the oracle."""


def compare(oracle: Oracle, read_rows: ReadRows, *, blurred: bool = False) -> None:
    """Compares every entity and every row of every view; raises Disagreement for the first difference.

    With `blurred` only the entities' own fields are compared: a source was deleted before all its copies had followed
    its last change, so the oracle does not know which of its values they keep.
    """
    for model in oracle.models:
        expected, found = oracle.all(model), read_rows(model, ())
        if blurred:
            expected, found = [own(each) for each in expected], [own(each) for each in found]
        check_same(model.__name__, look(expected), look(found))
    for view in () if blurred else oracle.views:
        for equal in oracle.lists(view):
            expected, found = oracle.listing(view, *equal), read_rows(view, equal)
            if issubclass(view, Feed):
                expected = oracle.listed.must_have(view, equal, expected, found)
            check_same(view.__name__, naive.listed(view, expected), naive.listed(view, found))


def check_same(what: str, expected: object, found: object) -> None:
    """Raises Disagreement unless both are equal; of lists it shows the first rows that differ."""
    __tracebackhide__ = True
    if expected == found:
        return
    if isinstance(expected, list) and isinstance(found, list):
        for place, (each, other) in enumerate(zip(expected, found, strict=False)):
            if each != other:
                raise Disagreement(f"{what}, row {place}: should be {each!r}, is {other!r}")
        more, word = (expected, "missing") if len(expected) > len(found) else (found, "too many")
        raise Disagreement(f"{what}: {word}: {more[min(len(expected), len(found)) :]!r}")
    raise Disagreement(f"{what}: should be {expected!r}, is {found!r}")


def run_tasks(audit: Audit, driver: SyncDriver, operations: Operations) -> None:
    """Runs the outbox until it is empty, and audits the store after each batch; raises Offence otherwise."""
    for _ in range(_BATCHES):
        try:
            if not driver.run(operations.drain_step(2), Trace()):
                break
        except OnereadError as failure:
            raise Offence(f"after the faults a task fails: {failure!r}") from failure
        audit.check()
    else:
        raise Offence(f"the outbox is not empty after {_BATCHES} batches")
    if audit.pending:
        raise Offence("tasks are left in the outbox, and the worker does nothing about them")


def counts_in(operations: Operations, view: type, row: Row | None) -> bool:
    """Whether an entity counts in groups of an aggregate, as its root row says."""
    root = NO_ROOT if row is None else parse_root(row)
    return bool(decode_record(root.emitted).get(operations.catalog.views[view].tokens[0]))


def check_waiting(oracle: Oracle, audit: Audit, operations: Operations) -> None:
    """Checks that an entity whose source is deleted stays only where it is set aside; raises Offence otherwise."""
    aside = {holder for _source, holder in audit.set_aside()}
    for model, parts in oracle.waiting():
        if operations.kind(model).key(parts) not in aside:
            raise Offence(f"{model.__name__}{parts} was not deleted with its source, and is not set aside")


def rewrite_all(oracle: Oracle, audit: Audit, driver: SyncDriver, operations: Operations) -> None:
    """Saves every entity that writers find once more, unchanged; raises Offence for the first that cannot be saved."""
    for entity in list(audit.entities().values()):
        if oracle.is_absent(entity):
            continue
        try:
            driver.run(operations.save(entity), Trace())
            known: Any = oracle.get(type(entity), *entity.ref().key)
            oracle.save(known, driver.now())
        except OnereadError as refusal:
            raise Offence(f"after the faults {entity!r} cannot be written: {refusal!r}") from refusal
    audit.check()


def has_stale_copy(oracle: Oracle, audit: Audit, operations: Operations, model: Any, key: tuple[Any, ...]) -> bool:
    """Whether a copy of this source has not followed its last change, or is hidden, where it cannot be compared."""
    catalog = operations.catalog
    source, stored = operations.kind(model).key(key), audit.entities()
    for held in oracle.held.values():
        entity_type = catalog.type_of(held.entity)
        found = stored[entity_type.kind.key(entity_type.kind.parts(held.entity))]
        for each in entity_type.references:
            if source in each.keys(held.entity) and (
                each.hidden or look(getattr(held.entity, each.name)) != look(getattr(found, each.name))
            ):
                return True
    return False


def read_all(driver: SyncDriver, operations: Operations, view: Any, equal: tuple[Any, ...] = ()) -> list[Any]:
    """All rows of a list, page by page."""
    rows: list[Any] = []
    cursor: str | None = None
    while True:
        found = driver.run(
            page(listed(operations, view), Query(equal, limit=20, cursor=cursor), CIPHER, Trace()), Trace()
        )
        rows.extend(found.rows)
        cursor = found.next
        if cursor is None:
            return rows


def is_one_moment(found: object, moments: Sequence[Any]) -> bool:
    """Whether a reader saw what the store held at one moment.

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
