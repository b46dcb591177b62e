"""Commits on engines whose transactions span rows: everything inline happens in one engine transaction.

Knows commit rows, changes and their decisions. Must not know models: what a change means is decided by the change,
purely, from rows. `Change` is the seam for engines that write one row at a time: there the same change is asked for its
links before its back-references are put, and its decision's operations travel as an intent in the commit row. The law
is the commit protocol, rules 4, 5 and 13-17.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from oneread.errors import StillReferenced
from oneread.plans.plan import Plan
from oneread.store.rows import RowRange
from oneread.transactions import outbox
from oneread.transactions.root import NOTHING, Root, next_version, parse, row_of
from oneread.transactions.unit import Operations, Rows, Unit

INLINE_TARGETS: Final = 1000
"""Carriers that are re-copied within the commit of their source; more become a task."""

_PROBES: Final = 4
"""Times the inline bound of back-references that one commit reads to find out which sources fan out too far."""

Sources: TypeAlias = Rows
"""Commit rows by key: those that the change named as hints or links are there."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """What one commit does, as data.

    Arguments:
        root: the commit row as it shall stand; None leaves it as it is.
        operations: the derived operations.
        fans_out: others hold copies of this row and must be told.
        unreferenced: ranges of `views` that must be empty at the end, else StillReferenced.
    """

    root: Root | None
    operations: Operations = Operations()
    fans_out: bool = False
    unreferenced: Sequence[RowRange] = ()


NO_CHANGE: Final = Decision(None)


class Change(Protocol):
    """One wanted change of one commit row."""

    @property
    def key(self) -> bytes:
        """The commit row's key."""
        ...

    def hints(self) -> Iterable[bytes]:
        """Commit rows that will probably be needed, known before anything is read."""
        ...

    def links(self, seen: Root) -> Iterable[bytes]:
        """Commit rows that the decision needs, now that the row has been seen."""
        ...

    def decide(self, seen: Root, version: int, sources: Sources) -> Decision:
        """The decision, from rows alone. `version` is what the row gets when it is written.

        May be asked again after a lost race.
        """
        ...

    def followed(self, root: Root) -> None:
        """The row that was decided on was committed again in the same transaction, because its source changed."""
        ...


Follow: TypeAlias = Callable[[bytes, bytes], Change]
"""(source key, carrier key) to the change that gives the carrier the source's new values."""


def commit(unit: Unit, changes: Sequence[Change], now: int, follow: Follow, inline: int = INLINE_TARGETS) -> Plan[None]:
    """Decides the changes one after the other on the unit, and lets every copy of what changed follow.

    Writes nothing yet: `unit.flush` does.

    Costs one read of all commit rows and hints together; one scan and one read for each source that fans out.
    """
    told: deque[tuple[bytes, int]] = deque()
    guarded: list[tuple[bytes, RowRange]] = []
    yield from _decide(unit, changes, now, told, guarded)
    left, probes = inline, _PROBES * inline
    while told:
        source, version = told.popleft()
        carriers = outbox.carriers_of(source)
        targets = (yield from unit.scan("views", carriers, left + 1)) if probes > 0 else []
        if len(targets) > left or probes <= 0:
            outbox.put(unit, source, version)
            probes -= len(targets)
            continue
        left -= len(targets)
        follows = [follow(source, key[len(carriers.start) :]) for key, _row in targets]
        yield from _decide(unit, follows, now, told, guarded)
        unit.followed.update([(each.key, None) for each in follows])
    yield from _refuse_referenced(unit, guarded)


def tell_followed(unit: Unit, changes: Iterable[Change]) -> None:
    """Tells changes whose rows were committed again, by following a source, how these stand now."""
    if unit.followed:
        for change in changes:
            if change.key in unit.followed:
                change.followed(parse(unit.get("roots", change.key)))


def _refuse_referenced(unit: Unit, guarded: list[tuple[bytes, RowRange]]) -> Plan[None]:
    for source, within in guarded:
        rows = yield from unit.scan("views", within, 1)
        if rows:
            carrier = rows[0][0][len(within.start) :]
            raise StillReferenced(
                "others refer to this entity, and their declaration forbids its delete",
                key=unit.name_of(source),
                owner=unit.name_of(carrier),
            )


def _decide(
    unit: Unit,
    changes: Sequence[Change],
    now: int,
    told: deque[tuple[bytes, int]],
    guarded: list[tuple[bytes, RowRange]],
) -> Plan[None]:
    wanted = [change.key for change in changes]
    for change in changes:
        wanted.extend(change.hints())
    yield from unit.load("roots", wanted)
    rows = unit.known("roots")
    for change in changes:
        row = rows[change.key]
        seen = NOTHING if row is None else parse(row)
        links = [key for key in change.links(seen) if key not in rows]
        if links:
            yield from unit.load("roots", links)
        decision = change.decide(seen, next_version(now, seen.version), rows)
        if decision.root is None:
            continue
        unit.put("roots", change.key, row_of(decision.root))
        unit.apply(decision.operations, decision.root.version)
        if decision.fans_out:
            told.append((change.key, decision.root.version))
        guarded.extend([(change.key, within) for within in decision.unreferenced])
