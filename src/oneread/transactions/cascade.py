"""What follows from changes on a unit of work: holders of copies, entities that show groups, and so on.

`transactions/native.py` runs it inside one engine transaction. See rules 13 and 14 of the commit protocol and
docs/decisions/0030-holders-are-set-aside.md.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from oneread.errors import Corrupt, OnereadError, StillReferenced
from oneread.store.keys import holder_part
from oneread.store.limits import INLINE_HOLDERS, PROBES
from oneread.store.rows import RowRange
from oneread.transactions import outbox
from oneread.transactions.commit import Change, Decision, FollowChanges, PlainFollowers
from oneread.transactions.derived_writes import Group, group_keys
from oneread.transactions.loading import load_rows, refuse_referenced, wanted_rows
from oneread.transactions.refusals import raises_again
from oneread.transactions.root import Root, encode_root, next_version
from oneread.transactions.sequences import keep_sequences, last_number, raised
from oneread.transactions.unit_of_work import HoldersRefused, UnitOfWork

_log = logging.getLogger(__name__)


RefusedHolders: TypeAlias = Mapping[bytes, Exception]
"""Holders that are set aside without another try in this attempt, each with its error."""


class Cascade:
    """One decision on a unit of work: of changes, and of everything that follows from them.

    Nothing is written before the unit is flushed. Up to `inline` holders of copies follow here, more become a task;
    `refused` ones are set aside, because the unit could not be written with them.

    Copies follow first; then the groups of the lowest rank settle and the entities that show them follow, whose copies
    follow, and so on. So an entity is written once for each rank at which something of it changes.
    """

    def __init__(
        self,
        unit: UnitOfWork,
        now: int,
        followers: FollowChanges,
        inline: int = INLINE_HOLDERS,
        refused: RefusedHolders | None = None,
    ) -> None:
        self._unit = unit
        self._now = now
        self._followers = followers
        self._room = inline
        self._probes = PROBES * inline
        self._refused = refused or {}
        self._changed: deque[tuple[bytes, int, Sequence[bytes]]] = deque()
        self._unreferenced: list[tuple[bytes, RowRange]] = []
        self._groups: dict[int, dict[bytes, Group]] = {}
        self._causes: dict[bytes, dict[bytes, None]] = {}  # group to entities that changed it, entity to its groups
        unit.roots.now = now

    def commit(self, changes: Sequence[Change]) -> None:
        """Decides changes one after the other; an error of any of them refuses the commit."""
        unit = self._unit
        load_rows(unit, changes)
        rows = unit.roots
        for change in changes:
            if change.sequence is not None:
                change.take_number(last_number(rows.row(change.sequence.root), change.sequence, unit.name_of) + 1)
                unit.load_new([change.key])
            seen = rows.root(change.key)
            links = list(change.links(seen))
            if links:
                unit.load("roots", links)
            self._read_groups(change, seen)
            self._note(change.key, self._decide(change, seen))
        self._follow_changes()

    def commit_decided(self, key: bytes, decision: Decision) -> None:
        """`commit` of one change that was decided on the rows of the unit."""
        self._apply(key, decision)
        self._note(key, decision)
        self._follow_changes()

    def _follow_changes(self) -> None:
        """Lets everything follow from changes that were decided, unless one of them is refused."""
        unit = self._unit
        if self._unreferenced:
            unreferenced, self._unreferenced = self._unreferenced, []
            refuse_referenced(unit, unreferenced)
        if self._changed or self._groups:
            self._spread()

    def follow(self, source: bytes, holders: Sequence[bytes]) -> list[bytes]:
        """Lets holders follow a source, and theirs follow them; returns those that could not."""
        refused = self._follow(source, holders)
        self._spread()
        return refused

    def let_go(self, going: Mapping[bytes, Iterable[bytes]]) -> None:
        """Deletes holders with their sources, which are the keys, but for those of a source that was made again."""
        rows = self._unit.roots
        for source, holders in going.items():
            if rows.root(source).body is None:
                targets = list(holders)
                self._room = max(0, self._room - len(targets))
                self._follow(source, targets)
        self._spread()

    def show_groups(self, groups: Sequence[Group]) -> None:
        """Lets the entities that show these groups follow them, and what follows from that."""
        self._follow_groups(groups)
        self._spread()

    def _spread(self) -> None:
        """Lets everything follow, in the order of ranks."""
        if self._changed:
            self._spread_copies()
        while self._groups:
            self._follow_groups(list(self._groups.pop(min(self._groups)).values()))
            self._spread_copies()
        if self._unreferenced:
            self._set_held_aside()

    def _spread_copies(self) -> None:
        """Lets the holders of all changed sources follow; leaves a task for a source with too many.

        Breadth first, since a holder that changed is a source itself. `PROBES` bounds what is scanned in vain.
        """
        unit = self._unit
        while self._changed:
            source, version, unchanged = self._changed.popleft()
            targets = self._targets(source, unchanged) if self._probes > 0 else []
            if len(targets) > self._room or self._probes <= 0:
                if unchanged:
                    unit.load("system", [outbox.task_key(source)])
                outbox.add_task(unit, source, version, unchanged)
                self._probes -= len(targets)
                continue
            self._room -= len(targets)
            self._follow(source, list(dict.fromkeys(targets)))

    def _set_held_aside(self) -> None:
        """Refuses holders that were deleted with their source, and to which others refer with `on_delete="refuse"`."""
        refused: dict[bytes, Exception] = {}
        for holder, within in self._unreferenced:
            try:
                refuse_referenced(self._unit, [(holder, within)])
            except StillReferenced as error:
                refused[holder] = error
        if refused:
            raise HoldersRefused(refused)

    def _follow_groups(self, groups: Sequence[Group]) -> None:
        """Lets the living entities that show these groups follow their new numbers."""
        unit = self._unit
        showing: dict[bytes, list[Group]] = {}
        for group in groups:
            for holder in group.holders:
                showing.setdefault(holder, []).append(group)
        unit.load_followers(showing)
        rows = unit.roots
        living = {key: shown for key, shown in showing.items() if rows.is_living(key)}
        unit.load("counts", group_keys([each for shown in living.values() for each in shown]))
        for holder, shown in living.items():
            self._causes.setdefault(holder, {}).update(dict.fromkeys([each.key for each in shown]))
            error = self._refusal(self._followers.of_groups(holder, shown))
            if error is not None:
                raise self._blamed(error, holder)
            unit.showing.add(holder)

    def _blamed(self, error: Exception, holder: bytes) -> Exception:
        """The error of an entity that cannot show new numbers: it refuses the holders of copies that changed them.

        If no such holder did, it refuses the whole commit.
        """
        found: dict[bytes, None] = {holder: None}
        waiting = [holder]
        while waiting:
            causes = [key for key in self._causes.get(waiting.pop(), ()) if key not in found]
            found.update(dict.fromkeys(causes))
            waiting += causes
        holders = [key for key in found if key in self._unit.followed]
        return HoldersRefused(dict.fromkeys(holders, error)) if holders else error

    def _targets(self, source: bytes, unchanged: Sequence[bytes]) -> list[bytes]:
        """The holders that must follow a source, one for each back-reference; one more than there is room for, at most.

        One scan, and at most one more for each unchanged selection.
        """
        whole = outbox.holders_of(source)
        targets: list[bytes] = []
        for within in outbox.without_selections(whole, unchanged):
            rows = self._unit.scan("views", within, self._room + 1 - len(targets))
            targets.extend([holder_part(key[len(whole.start) :]) for key, _row in rows])
            if len(targets) > self._room:
                break
        return targets

    def _follow(self, source: bytes, holders: Sequence[bytes]) -> list[bytes]:
        unit, refused = self._unit, list[bytes]()
        changes = [self._followers.of_source(source, holder) for holder in holders]
        try:
            unit.load_followers(wanted_rows(changes))
        except Corrupt:
            _log.debug("a root row of a batch of holders is unreadable; reading each holder's rows separately")
        plain = self._plain(source)
        for change in changes:
            error = self._refused.get(change.key)
            if error is None and (plain is None or not self._follow_plainly(plain, change)):
                error = self._refusal(change)
            if error is None:
                unit.followed[change.key] = None
            else:
                refused.append(change.key)
                outbox.set_aside(unit, source, change.key, error, self._now)
                outbox.warn_of_aside(unit.name_of, source, change.key, error)
        return refused

    def _plain(self, source: bytes) -> PlainFollowers | None:
        """What decides for the plain holders of a source; None if its row cannot be read."""
        try:
            return self._followers.plain(source, self._unit.roots)
        except OnereadError:
            return None  # each holder finds out

    def _follow_plainly(self, plain: PlainFollowers, change: Change) -> bool:
        """Lets a plain holder follow without its change; whether it did. What is raised, the change has to raise."""
        rows, holder = self._unit.roots, change.key
        if not rows.has(holder):
            return False
        try:
            seen = rows.root(holder)
            decision = plain.decide(holder, seen, next_version(self._now, seen.version, holder))
        except OnereadError:
            return False
        except MemoryError:
            raise
        except Exception:
            if self._refusal(change) is None:
                raise  # it came from outside
            return False
        if decision is not None:
            self._apply(holder, decision)
        return decision is not None

    def _refusal(self, change: Change) -> Exception | None:
        """Decides a change that follows; returns the error that refuses it, and then the unit is as before.

        Requests are made outside of `_try`: an error of the store is not the holder's.
        """
        unit = self._unit
        try:
            if not unit.roots.has(change.key):
                unit.load_followers(wanted_rows([change]))
            seen = unit.roots.root(change.key)
            self._read_groups(change, seen)
            found = self._try(change, seen)
            if isinstance(found, list):
                unit.load_followers(found)
                found = self._try(change, seen)
        except Corrupt as unreadable:
            return unreadable
        if isinstance(found, Decision):
            self._note(change.key, found)
            return None
        assert isinstance(found, Exception), "the root rows that a decision needs are loaded once"
        return found

    def _try(self, change: Change, seen: Root) -> Decision | list[bytes] | Exception:
        """The decision, or the root rows that it lacks, or the holder's error, and then the unit is as before.

        An error of another library may come from outside, as one that a signal handler raises: it is the holder's when
        the same step raises it again.
        """
        mark = self._unit.mark()
        try:
            return self._links(change, seen) or self._decide(change, seen)
        except OnereadError as error:
            self._unit.restore(mark)
            return error
        except Exception as error:
            self._unit.restore(mark)
            if not raises_again(lambda: self._decide(change, seen), error):
                raise
            self._unit.restore(mark)
            return error

    def _read_groups(self, change: Change, seen: Root) -> None:
        """Reads the groups that a change of this root row needs; forgets those of the change before."""
        rows = self._unit.roots
        if rows.groups:
            rows.groups = {}
        groups = change.groups(seen)
        if groups:
            self._unit.read_groups(groups, self._now)

    def _links(self, change: Change, seen: Root) -> list[bytes]:
        """Root rows that a change needs and that were not read yet."""
        rows = self._unit.roots
        return [key for key in change.links(seen) if not rows.has(key)]

    def _decide(self, change: Change, seen: Root) -> Decision:
        """Decides a change of this root row and applies the decision to the unit."""
        decision = change.decide(seen, next_version(self._now, seen.version, change.key), self._unit.roots)
        self._apply(change.key, decision)
        return decision

    def _apply(self, key: bytes, decision: Decision) -> None:
        """Applies a decision about a root row to the unit."""
        unit = self._unit
        rows = unit.roots
        if decision.root is not None:
            if rows.going is not None:
                rows.changed.add(key)
            before = rows.get(key)
            if before is None or key in rows.plain:
                unit.put_root(key, decision.root)
            else:
                unit.put("roots", key, keep_sequences(encode_root(decision.root), before))
            unit.apply(decision.operations, decision.root.version, key)
        for taken in decision.taken:
            group = taken.sequence.root
            row = rows.row(group)
            assert row is not None, "a child is refused without its root"
            counted = raised(row, taken, self._now)
            if counted is not None:
                unit.put("roots", group, counted)

    def _note(self, key: bytes, decision: Decision) -> None:
        """Notes what follows from a decision that was applied."""
        if decision.root is not None:
            if decision.fans_out:
                self._changed.append((key, decision.root.version, decision.unchanged))
            if decision.unreferenced:
                self._unreferenced.extend([(key, within) for within in decision.unreferenced])
            for group in decision.groups:
                self._unit.note_indexed(group)
                if group.holders:
                    self._groups.setdefault(group.rank, {})[group.key] = group
                    self._causes.setdefault(group.key, {})[key] = None
