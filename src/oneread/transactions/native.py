"""Commits on engines whose transactions span rows: everything inline happens in one engine transaction.

`Change` is the seam for engines that write one row at a time: there the same change is asked for its links before its
back-references are put, and its decision's operations travel as an intent in the commit row. See the commit protocol,
rules 4, 5 and 13-17.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeAlias, TypeVar

import msgspec

from oneread.errors import Corrupt, OnereadError, StillReferenced
from oneread.plans.plan import Plan
from oneread.store.limits import INLINE_HOLDERS, PROBES
from oneread.store.rows import Row, RowRange
from oneread.transactions import outbox
from oneread.transactions.root import NO_ROOT, Root, encode_root, next_version, parse_root
from oneread.transactions.unit_of_work import DerivedWrites, HoldersRefused, RowCache, UnitOfWork

T = TypeVar("T")

_log = logging.getLogger(__name__)

CommittedRows: TypeAlias = RowCache
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
    operations: DerivedWrites = DerivedWrites()
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

    def decide(self, seen: Root, version: int, sources: CommittedRows) -> Decision:
        """The decision, from rows alone. `version` is what the row gets when it is written.

        May be asked again after a lost race.
        """
        ...

    def followed(self, root: Root) -> None:
        """The row that was decided on was committed again in the same transaction, because its source changed."""
        ...


Follow: TypeAlias = Callable[[bytes, bytes], Change]
"""(source key, carrier key) to the change that gives the carrier the source's new values."""


Refused: TypeAlias = Mapping[bytes, Exception]
"""Holders that are not asked again in this commit, each with its error."""


def commit(
    unit: UnitOfWork, changes: Sequence[Change], now: int, follow: Follow, inline: int = INLINE_HOLDERS
) -> Plan[None]:
    """Decides the changes one after the other on the unit, and lets every copy of what changed follow.

    Writes nothing yet: `unit.flush` does. Holders that cannot follow are set aside, and refuse nothing.

    Costs one read of all commit rows and hints together; one scan and one read for each source that fans out.
    """
    return Cascade(unit, now, follow, inline).commit(changes)


class Cascade:
    """One commit: its changes, and the copies that follow them.

    Arguments:
        unit: what it is decided on.
        now: the clock.
        follow: makes the change that lets a holder follow.
        inline: holders that follow within the commit.
        refused: holders that are not asked again, because the commit could not be flushed with them, and why.
    """

    def __init__(
        self,
        unit: UnitOfWork,
        now: int,
        follow: Follow,
        inline: int = INLINE_HOLDERS,
        refused: Refused | None = None,
    ) -> None:
        self._unit = unit
        self._now = now
        self._make = follow
        self._left = inline
        self._probes = PROBES * inline
        self._refused = refused or {}
        self._told: deque[tuple[bytes, int]] = deque()
        self._guarded: list[tuple[bytes, RowRange]] = []
        unit.known("roots").now = now

    def commit(self, changes: Sequence[Change]) -> Plan[None]:
        """Decides what users want; whatever refuses it refuses the commit."""
        unit = self._unit
        yield from unit.load("roots", _wanted(changes))
        for change in changes:
            links = self._links(change)
            if links:
                yield from unit.load("roots", links)
            self._take(change.key, self._decided(change))
        yield from self._spread()

    def follow(self, source: bytes, holders: Sequence[bytes]) -> Plan[list[bytes]]:
        """Lets holders follow a source, and theirs follow them; returns those that could not."""
        refused = yield from self._follow(source, holders)
        yield from self._spread()
        return refused

    def _spread(self) -> Plan[None]:
        """Lets the holders of everything that changed follow, or leaves a task where they are too many."""
        unit = self._unit
        while self._told:
            source, version = self._told.popleft()
            within = outbox.holders_of(source)
            targets = (yield from unit.scan("views", within, self._left + 1)) if self._probes > 0 else []
            if len(targets) > self._left or self._probes <= 0:
                outbox.add_task(unit, source, version)
                self._probes -= len(targets)
                continue
            self._left -= len(targets)
            yield from self._follow(source, [key[len(within.start) :] for key, _row in targets])
        yield from _refuse_referenced(unit, self._guarded)

    def _follow(self, source: bytes, holders: Sequence[bytes]) -> Plan[list[bytes]]:
        unit, refused = self._unit, list[bytes]()
        changes = [self._make(source, holder) for holder in holders]
        try:
            yield from unit.load("roots", _wanted(changes))
        except Corrupt:
            _log.debug("each holder's rows are read by themselves, because some cannot be read")
        for change in changes:
            error = self._refused.get(change.key) or (yield from self._refusal(change))
            if error is None:
                unit.followed[change.key] = None
            else:
                refused.append(change.key)
                yield from outbox.set_aside(unit, source, change.key, error, self._now)
                names = _named(unit, change.key), _named(unit, source)
                if isinstance(error, OnereadError):  # it says all there is to say
                    _log.warning("%s cannot follow %s and is set aside: %s", *names, error)
                else:
                    _log.warning("%s cannot follow %s and is set aside", *names, exc_info=error)
        return refused

    def _refusal(self, change: Change) -> Plan[Exception | None]:
        """Decides a holder's change; what that raises leaves no trace of it in the unit, and is returned.

        Requests are made outside of `_tried`: what the store cannot do is not the holder's fault.
        """
        unit = self._unit
        try:
            if change.key not in unit.known("roots"):
                yield from unit.load("roots", _wanted([change]))
            found = self._tried(change)
            if isinstance(found, list):
                yield from unit.load("roots", found)
                found = self._tried(change)
        except Corrupt as unreadable:
            return unreadable
        if isinstance(found, Decision):
            self._take(change.key, found)
            return None
        assert isinstance(found, Exception), "the commit rows that a decision needs are asked for once"
        return found

    def _tried(self, change: Change) -> Decision | list[bytes] | Exception:
        """The decision, or the commit rows that it lacks, or the holder's error; then nothing of it is in the unit.

        An error that is not ours may have come from outside, as a signal handler's does: it is the holder's when the
        same step raises it again.
        """
        mark = self._unit.mark()
        try:
            return self._links(change) or self._decided(change)
        except OnereadError as error:
            self._unit.restore(mark)
            return error
        except MemoryError:
            raise
        except Exception as error:
            self._unit.restore(mark)
            try:
                self._decided(change)
            except Exception as again:
                self._unit.restore(mark)
                if type(again) is type(error):
                    return error
                raise
            raise

    def _links(self, change: Change) -> list[bytes]:
        """Commit rows that a change needs besides its own."""
        rows = self._unit.known("roots")
        return [key for key in change.links(_seen(rows[change.key])) if key not in rows]

    def _decided(self, change: Change) -> Decision:
        """Decides a change, and applies that to the unit."""
        unit = self._unit
        rows = unit.known("roots")
        seen = _seen(rows[change.key])
        decision = change.decide(seen, next_version(self._now, seen.version), rows)
        if decision.root is not None:
            unit.put("roots", change.key, encode_root(decision.root))
            unit.apply(decision.operations, decision.root.version, change.key)
        return decision

    def _take(self, key: bytes, decision: Decision) -> None:
        """Notes what follows from a decision that stands."""
        if decision.root is not None:
            if decision.fans_out:
                self._told.append((key, decision.root.version))
            self._guarded.extend([(key, within) for within in decision.unreferenced])


def asking_again(attempt: Callable[[Refused], Plan[T]]) -> Plan[T]:
    """Runs an attempt that flushes a unit; again without those holders with which it could not be flushed.

    It writes nothing before it is flushed, so that the same transaction can begin again.
    """
    refused: dict[bytes, Exception] = {}
    while True:
        try:
            return (yield from attempt(refused))
        except HoldersRefused as found:
            refused |= found.holders


def _named(unit: UnitOfWork, key: bytes) -> object:
    try:
        return unit.name_of(key)
    except OnereadError:
        return key.hex()


def _wanted(changes: Sequence[Change]) -> list[bytes]:
    wanted = [change.key for change in changes]
    for change in changes:
        wanted.extend(change.hints())
    return wanted


def _seen(row: Row | None) -> Root:
    return NO_ROOT if row is None else parse_root(row)


def report_followed(unit: UnitOfWork, changes: Iterable[Change]) -> None:
    """Tells changes whose rows were committed again, by following a source, how these stand now."""
    if unit.followed:
        for change in changes:
            if change.key in unit.followed:
                change.followed(parse_root(unit.get("roots", change.key)))


def _refuse_referenced(unit: UnitOfWork, guarded: list[tuple[bytes, RowRange]]) -> Plan[None]:
    for source, within in guarded:
        rows = yield from unit.scan("views", within, 1)
        if rows:
            holder = rows[0][0][len(within.start) :]
            raise StillReferenced(
                "others refer to this entity, and their declaration forbids its delete",
                key=unit.name_of(source),
                owner=unit.name_of(holder),
            )
