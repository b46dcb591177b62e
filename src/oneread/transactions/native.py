"""The committer of engines whose transactions span rows: a commit is one engine transaction.

It needs no intents, no markers, and no tombstones but those of root rows. See rules 4, 5 and 13-17 of the commit
protocol, and docs/decisions/0004-native-keeps-no-history.md.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

from oneread.errors import Corrupt, NotUnique, OnereadError, StillReferenced
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically
from oneread.plans.plan import Plan
from oneread.store.keys import holder_part
from oneread.store.limits import INLINE_HOLDERS, PROBES
from oneread.store.rows import VALUE, RowRange
from oneread.transactions import outbox
from oneread.transactions.alone import is_alone, load_alone, spelled_out, writes_alone
from oneread.transactions.commit import Change, Commit, Decision, FollowChanges, WriteFence
from oneread.transactions.loading import check_unchanged, load_rows, refuse_referenced, wanted_rows
from oneread.transactions.outbox import SetAside
from oneread.transactions.root import BODY, Root, encode_root, next_version, parse_root
from oneread.transactions.sequences import keep_sequences, last_number, raised
from oneread.transactions.system_rows import FENCE_ROW, NativeSystem, Swap, swap
from oneread.transactions.unit_of_work import (
    Group,
    HoldersRefused,
    UnitOfWork,
    group_keys,
    is_refusal,
)

T = TypeVar("T")

_log = logging.getLogger(__name__)


RefusedHolders: TypeAlias = Mapping[bytes, Exception]
"""Holders that are set aside without another try in this attempt, each with its error."""


class NativeCommitter(NativeSystem):
    """Commits of one open database: see `Committer`."""

    def __init__(
        self,
        name_of: Callable[[bytes], object],
        fence: WriteFence,
        followers: FollowChanges,
        inline: int = INLINE_HOLDERS,
        new_unit: Callable[[CountedStore], UnitOfWork] = UnitOfWork,
    ) -> None:
        self.name_of = name_of
        self.new_unit = new_unit
        self._fence = fence
        self._followers = followers
        self._inline = inline
        self._is_plain = followers.of_views is None and not followers.logs  # only indexes show what views hold

    def commit(self, commit: Commit) -> Plan[list[bytes]]:
        """One transaction. Costs what its changes do, and one request for the fence and the swapped rows together."""
        return Atomically(lambda store: self._commit_in(store, commit)).__iter__()

    def _commit_in(self, store: CountedStore, commit: Commit) -> list[bytes]:
        """An attempt; again without the holders with which it could not be written (`_until_written`).

        Again, too, when an entity that has expired had a unique value, which it gives up before.
        """
        freeing: dict[bytes, Change] = {}
        refused: dict[bytes, Exception] = {}
        is_first = len(commit.changes) == 1 and commit.basis is None and not commit.swaps
        while True:
            try:
                if is_first and commit.changes[0].sequence is None:
                    is_first = False
                    return self._attempt_one(store, commit)
                return self._attempt(store, commit, [*freeing.values(), *commit.changes], refused)
            except HoldersRefused as found:
                refused |= found.holders
            except NotUnique as error:
                if not self._frees(error, freeing):
                    raise

    def _frees(self, error: NotUnique, freeing: dict[bytes, Change]) -> bool:
        """Adds the change by which the owner of a taken value may give it up; whether there is another one."""
        change = None if error.holder in freeing else self._followers.of_expired(error.holder)
        if change is not None:
            freeing[error.holder] = change
        return change is not None

    def _attempt(
        self, store: CountedStore, commit: Commit, changes: Sequence[Change], refused: RefusedHolders
    ) -> list[bytes]:
        commit.is_deciding = False
        unit = self.new_unit(store)
        keys = [each.key for each in commit.swaps] if commit.swaps else []
        if FENCE_ROW not in keys:  # a commit that swaps the fence row has checked it
            if keys:  # in one request with the fence
                unit.load("system", [FENCE_ROW, *keys])
            self.check_writable(unit)
        basis = commit.basis
        now = store.now() if basis is None else basis.now
        if keys:
            swap(unit, now, commit.swaps)
        if basis is not None:
            check_unchanged(unit, basis)
        commit.is_deciding = True
        if basis is None:
            self.cascade(unit, now, refused).commit(changes)
        else:
            going: dict[bytes, dict[bytes, None]] = {}
            unit.roots.going = going
            load_rows(unit, changes)
            for change in changes:  # one of them may make the source again whose delete comes before
                self.cascade(unit, now, refused).commit([change])
            unit.roots.going = None
            self.cascade(unit, now, refused).let_go(going)
        return self._write(unit, commit, now)

    def _attempt_one(self, store: CountedStore, commit: Commit) -> list[bytes]:
        """The first attempt at a commit of one change.

        Where nothing follows from it but rows of its own, they are written at once: by a unit of work they are the
        same rows, by the same requests. Else a unit takes what was read and decided.
        """
        commit.is_deciding = False
        change, fence = commit.changes[0], store.read_values("system", [FENCE_ROW])[0]
        self._fence.check_writable(store, fence)
        now = store.now()
        commit.is_deciding = True
        seen, rows = load_alone(store, change, now)
        decision = None if change.groups(seen) else change.decide(seen, next_version(now, seen.version), rows)
        if decision is not None and self._is_plain and is_alone(decision):
            writes = writes_alone(store, change.key, decision, rows)
            commit.is_deciding = False
            writes.write(store)
            for run in commit.beside:
                run(store)
            return []
        unit = self.new_unit(store)
        unit.adopt(spelled_out(rows))
        unit.known("system")[FENCE_ROW] = None if fence is None else {VALUE: fence}
        cascade = self.cascade(unit, now)
        if decision is None:
            cascade.commit(commit.changes)
        else:
            cascade.commit_decided(change.key, decision)
        return self._write(unit, commit, now)

    def _write(self, unit: UnitOfWork, commit: Commit, now: int) -> list[bytes]:
        """Settles and writes a unit on which a commit was decided; returns the tasks that it leaves."""
        unit.unfollowed = commit.unfollowed
        if unit.followed or unit.showing:
            _report_followed(unit, commit.changes)
        unit.settle(now)
        commit.is_deciding = False
        unit.write(now)
        for run in commit.beside:
            run(unit.store)
        return outbox.left_by(unit)

    def step(self, run: Callable[[TaskStep], None]) -> Plan[None]:
        """Runs one step of a task in one transaction; again without the holders with which it cannot be written."""

        def attempt(store: CountedStore, refused: RefusedHolders) -> None:
            step = TaskStep(self, store, refused)
            run(step)
            step.unit.flush(step.now)

        return Atomically(lambda store: _until_written(partial(attempt, store))).__iter__()

    def decide(self, unit: UnitOfWork, changes: Sequence[Change], now: int) -> None:
        """Costs one read of all root rows and hints together; one scan and one read for each source that fans out.

        For each rank of groups: one read of their holders, one of the groups, and one scan for each extremum.
        """
        unit.roots.going = {}  # a change that follows may make their source again
        _until_written(partial(self._overlay, unit, now, changes))

    def refusals(self, items: Sequence[Sequence[Change]]) -> Plan[dict[int, OnereadError]]:
        """One transaction that writes nothing. Costs what its changes do, and a read more for each item with claims."""

        def run(store: CountedStore) -> dict[int, OnereadError]:
            unit = self.new_unit(store)
            now = store.now()
            unit.load("roots", wanted_rows([change for item in items for change in item]))
            refused: dict[int, OnereadError] = {}
            for place, item in enumerate(items):
                error = self._refusal(unit, now, item)
                if error is not None:
                    refused[place] = error
            return refused

        return Atomically(run).__iter__()

    def _refusal(self, unit: UnitOfWork, now: int, item: Sequence[Change]) -> OnereadError | None:
        """Decides an item on a unit; returns why it is refused, and then the unit is as before."""
        freeing: dict[bytes, Change] = {}
        while True:
            mark = unit.mark()
            changes = [*freeing.values(), *item]
            try:
                _until_written(partial(self._overlay, unit, now, changes, checked=True))
            except OnereadError as error:
                if not is_refusal(error):
                    raise
                unit.restore(mark)
                if not (isinstance(error, NotUnique) and self._frees(error, freeing)):
                    return error
            else:
                return None

    def _overlay(
        self, unit: UnitOfWork, now: int, changes: Sequence[Change], refused: RefusedHolders, *, checked: bool = False
    ) -> None:
        """Decides changes on a unit, which is as before when holders are refused.

        With `checked`, claims and sums are looked at as if the unit were settled.
        """
        mark = unit.mark()
        try:
            self.cascade(unit, now, refused).commit(changes)
            if checked:
                unit.check_since(mark)
        except HoldersRefused:
            unit.restore(mark)
            raise

    def follow(self, store: CountedStore, source: bytes, holder: bytes) -> SetAside | None:
        """One unit of work, written when the holder followed."""

        def attempt(refused: RefusedHolders) -> SetAside | None:
            unit = self.new_unit(store)
            now = store.now()
            key = outbox.aside_key(source, holder)
            if holder in self.cascade(unit, now, refused).follow(source, [holder]):
                return outbox.read_aside((key, unit.get("system", key) or {})).shown
            unit.remove("system", key)
            unit.flush(now)
            return None

        return _until_written(attempt)

    def follow_rows(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """One unit of work, which writes these rows again."""
        yield from self.together(partial(self._write_again, keys=keys), swaps)

    def _write_again(self, store: CountedStore, keys: Sequence[bytes]) -> None:
        unit, now = self.new_unit(store), store.now()
        unit.load("views", keys)
        for key in keys:
            row = unit.get("views", key)
            if row is not None:
                unit.put("views", key, row)
        unit.flush(now)

    def show_groups(self, store: CountedStore, groups: Sequence[Group]) -> None:
        """One unit of work."""
        unit, now = self.new_unit(store), store.now()
        self.cascade(unit, now).show_groups(groups)
        unit.flush(now)

    def cascade(self, unit: UnitOfWork, now: int, refused: RefusedHolders | None = None) -> Cascade:
        """Decides changes on a unit of work, and the copies that follow."""
        return Cascade(unit, now, self._followers, self._inline, refused)

    def check_writable(self, unit: UnitOfWork) -> None:
        """Raises SchemaMismatch unless this program may still write."""
        row = unit.load_one("system", FENCE_ROW)
        self._fence.check_writable(unit.store, None if row is None else row.get(VALUE))


class TaskStep:
    """One attempt at a step of a task, and its unit of work, which `NativeCommitter.step` writes."""

    def __init__(self, committer: NativeCommitter, store: CountedStore, refused: RefusedHolders) -> None:
        self.unit = committer.new_unit(store)
        self.now = 0
        self._committer = committer
        self._refused = refused
        self._cascade: Cascade | None = None

    def begin(self) -> None:
        """Checks that this program may still write, and reads the clock; before anything is decided."""
        self._committer.check_writable(self.unit)
        self.now = self.unit.store.now()
        self._cascade = self._committer.cascade(self.unit, self.now, self._refused)

    def follow(self, source: bytes, holders: Sequence[bytes]) -> list[bytes]:
        """Lets holders follow a source, and theirs follow them; returns those that could not."""
        assert self._cascade is not None, "a step begins before it decides"
        return self._cascade.follow(source, holders)

    def show_groups(self, groups: Sequence[Group]) -> None:
        """Lets the entities that show these groups follow them, and what follows from that."""
        assert self._cascade is not None, "a step begins before it decides"
        self._cascade.show_groups(groups)


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
                change.take_number(last_number(rows[change.sequence.root], change.sequence, unit.name_of) + 1)
                unit.load_new([change.key])
            seen = parse_root(rows[change.key])
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
            if parse_root(rows[source]).body is None:
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
        living = {key: shown for key, shown in showing.items() if (row := rows[key]) is not None and BODY in row}
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
        for change in changes:
            error = self._refused.get(change.key) or self._refusal(change)
            if error is None:
                unit.followed[change.key] = None
            else:
                refused.append(change.key)
                outbox.set_aside(unit, source, change.key, error, self._now)
                names = _named(unit, change.key), _named(unit, source)
                if isinstance(error, OnereadError):  # its message says enough; of others the traceback is needed
                    _log.warning("could not update the copies in %s from %s; set aside: %s", *names, error)
                else:
                    _log.warning("could not update the copies in %s from %s; set aside", *names, exc_info=error)
        return refused

    def _refusal(self, change: Change) -> Exception | None:
        """Decides a change that follows; returns the error that refuses it, and then the unit is as before.

        Requests are made outside of `_try`: an error of the store is not the holder's.
        """
        unit = self._unit
        try:
            if change.key not in unit.roots:
                unit.load_followers(wanted_rows([change]))
            seen = parse_root(unit.roots[change.key])
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
        except MemoryError:
            raise
        except Exception as error:
            self._unit.restore(mark)
            try:
                self._decide(change, seen)
            except Exception as again:
                self._unit.restore(mark)
                if type(again) is type(error):
                    return error
                raise
            raise

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
        return [key for key in change.links(seen) if key not in rows]

    def _decide(self, change: Change, seen: Root) -> Decision:
        """Decides a change of this root row and applies the decision to the unit."""
        decision = change.decide(seen, next_version(self._now, seen.version), self._unit.roots)
        self._apply(change.key, decision)
        return decision

    def _apply(self, key: bytes, decision: Decision) -> None:
        """Applies a decision about a root row to the unit."""
        unit = self._unit
        rows = unit.roots
        if decision.root is not None:
            new, before = encode_root(decision.root), rows[key]
            unit.put("roots", key, new if before is None else keep_sequences(new, before))
            unit.apply(decision.operations, decision.root.version, key)
        if decision.taken is not None:
            group = decision.taken.sequence.root
            row = rows[group]
            assert row is not None, "a child is refused without its root"
            counted = raised(row, decision.taken, self._now)
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


def _until_written(attempt: Callable[[RefusedHolders], T]) -> T:
    """Runs an attempt that writes a unit of work; again without the holders with which it could not be written.

    An attempt writes nothing before its unit is settled, so that the same transaction can begin again.
    """
    refused: dict[bytes, Exception] = {}
    while True:
        try:
            return attempt(refused)
        except HoldersRefused as found:
            refused |= found.holders


def _named(unit: UnitOfWork, key: bytes) -> object:
    try:
        return unit.name_of(key)
    except OnereadError:
        return key.hex()


def _report_followed(unit: UnitOfWork, changes: Iterable[Change]) -> None:
    """Gives changes whose rows were committed again, because a source of theirs changed, the rows as they are now."""
    for change in changes:
        if change.key in unit.followed or change.key in unit.showing:
            change.followed(parse_root(unit.get("roots", change.key)))
