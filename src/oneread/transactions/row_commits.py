"""The committer of stores that change one row at a time: intents in the root row, applied to the rows that follow.

What a commit needs is written before its commit point - marker, back-references, holds, claims - and what follows from
it after. Each step of an attempt is one round of requests that run at the same time. See rules 1-14 and 19 of the
commit protocol.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from oneread.errors import (
    Conflict,
    LimitExceeded,
    OnereadError,
    SchemaMismatch,
    Unsupported,
)
from oneread.plans.effects import Now, Random, Sleep, Together
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.store.keys import pointer_part, source_part
from oneread.store.limits import INLINE_HOLDERS
from oneread.store.requests import Mutate, Read, Request
from oneread.store.rows import Cell, Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.commit import Change, Commit, Decision, FollowChanges
from oneread.transactions.deltas import amounts_by_row, encode_amounts
from oneread.transactions.group_shards import GroupShards
from oneread.transactions.intents import (
    INTENTS,
    MARK,
    REMEMBERED,
    ChildRow,
    Intents,
    SeenRow,
    committed_cells,
    decode_version,
    fence_cells,
    put_mark,
    read_pending,
    read_root,
    root_row,
)
from oneread.transactions.known_commits import KnownCommit
from oneread.transactions.loading import still_referenced
from oneread.transactions.lost_answers import surely
from oneread.transactions.outbox import is_group_root
from oneread.transactions.root import BODY, VERSION, Root, next_version
from oneread.transactions.row_apply import (
    Committed,
    check_sums,
    group_tasks,
    left_tasks,
    new_commit,
    reserve,
    without_markers,
)
from oneread.transactions.row_feeds import FollowRows, NoFeeds, follow_feeds, noted
from oneread.transactions.row_holds import HeldRows, RecordedKeys
from oneread.transactions.row_pointers import put_pointers, refers, taken, taken_by
from oneread.transactions.row_recovery import PATIENCE
from oneread.transactions.row_shown_groups import ReadCounter, RowsAndGroups, has_extrema, no_counters, read_groups
from oneread.transactions.row_time import OPERATION
from oneread.transactions.unit_of_work import (
    ClaimFacts,
    no_claim_facts,
)

T = TypeVar("T")

_log = logging.getLogger(__name__)

INTENTS_BYTES: Final = 1_000_000
"""Bytes of the intents of one commit at most, so that they fit into a row of every store."""

LATER: Final = 1_000
"""Commits that wait to be applied, at most; with more, each is applied before it returns."""

SEVERAL: Final = "this store changes one row at a time: it cannot do this, which needs a transaction over several"

_POINTERS: Final = (outbox.BACK_REFERENCES, outbox.HOLDS)


class GroupPart(NamedTuple):
    """What a commit of an entity group writes beside its root's entity.

    `pointers` are the back-references and holds of children to their root, `counts` the cells of sequences.
    """

    children: Sequence[ChildRow] = ()
    pointers: Mapping[bytes, bytes] = MappingProxyType({})
    counts: Mapping[bytes, Cell] = MappingProxyType({})


class Ready(NamedTuple):
    """A decision that can be committed; `shards` are rows of `counts` that were read already."""

    seen: SeenRow
    decision: Decision
    used: Mapping[bytes, int]
    markers: Sequence[int]
    shards: Mapping[bytes, Row | None]
    group: GroupPart = GroupPart()
    known: KnownCommit | None = None


class Prepared(NamedTuple):
    """What a commit writes into its own row: `intents` are in `cells` too.

    `announced` is what is to be said before of the groups that it adds to.
    """

    root: Root
    intents: Intents
    cells: Row
    commit: bytes
    announced: Sequence[RowMutation] = ()


class LostRace(Exception):
    """Another commit of the same row, or one of a row that it depends on, came first: everything is read again."""


class Finished(LostRace):
    """The row had intents, which are applied now."""


class Unfollowed(Exception):
    """The entity has not followed deleted sources, and this attempt would move its back-references to them."""

    def __init__(self, pointers: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__(pointers)
        self.pointers = pointers


class RowCommitter(HeldRows):
    """Commits of one open database on a store that changes one row at a time: see `Committer`.

    With `applies_later` a commit returns at its commit point, and the worker applies it.
    """

    def __init__(
        self,
        name_of: Callable[[bytes], object],
        followers: FollowChanges,
        recorded: RecordedKeys,
        inline: int = INLINE_HOLDERS,
        claim_facts: ClaimFacts = no_claim_facts,
    ) -> None:
        super().__init__(name_of, recorded, claim_facts)
        self.feeds: FollowRows = NoFeeds()
        self.shards = GroupShards()
        self.read_counter: ReadCounter = no_counters
        self._followers = followers
        self._cells = followers.cells
        self._inline = inline
        self.applies_later = False
        self._later: deque[Committed] = deque()
        self._appliers: dict[object, float] = {}  # calls that take from these, and when they took last

    def apply_later(self) -> None:
        """Lets commits return at their commit point: the worker applies them."""
        self.applies_later = True

    def commit(self, commit: Commit) -> Plan[list[bytes]]:
        """Each change is a commit of its own."""
        if commit.beside or commit.basis is not None:
            raise Unsupported(SEVERAL)
        tasks: list[bytes] = []
        for change in commit.changes:
            tasks += yield from in_time(self._commit_one(commit, change), self.clock, OPERATION)
        for each in commit.swaps:
            yield from self.swap(each)
        return tasks

    def _commit_one(self, commit: Commit, change: Change) -> Plan[list[bytes]]:
        commit.is_deciding = True
        done = yield from self._until_won(partial(self._attempt, change, None), change.key)
        commit.is_deciding = False
        return [] if done is None else (yield from self._complete(done, [change]))

    def _until_won(self, attempt: Callable[[bool], Plan[Committed | None]], key: bytes) -> Plan[Committed | None]:
        has_caught_up = False
        has_learned = self.lease is None
        for number in range(ATTEMPTS):
            yield from self.renew_lease()
            try:
                return (yield from attempt(has_caught_up))
            except Finished:
                continue
            except LostRace:
                yield from Sleep(backoff(number, (yield from Random())))
            except Unfollowed as left:
                has_caught_up = True  # or is set aside
                for source, place in left.pointers:
                    yield from self.follow_pointer(source, place, 0)
            except SchemaMismatch:  # a row of a newer program, of which this one knows when the fence is read again
                if has_learned or self.lease is None:
                    raise
                has_learned = True
                yield from self.lease.learn()
        raise Conflict("others change this entity all the time; try again", key=self.name_of(key))

    def _commit_now(self, attempt: Callable[[bool], Plan[Committed | None]], key: bytes) -> Plan[bool]:
        """Commits, and applies it; whether there was something."""
        done = yield from self._until_won(attempt, key)
        if done is not None:
            yield from self._apply_now(done)
        return done is not None

    # Up to the commit point.

    def _attempt(self, change: Change, follows: bytes | None, has_caught_up: bool) -> Plan[Committed | None]:  # noqa: FBT001 - called by `_until_won` only
        """One attempt; None where nothing is to be done. With `follows` the change takes the values of that source."""
        key, now = change.key, (yield from Now())
        pointers = list(change.pointers(None))
        markers = [now] if change.likely_derives else []
        first: list[Request[Any]] = [Read("roots", [key], "dm"), *(put_mark(key, each) for each in markers)]
        if pointers:
            first.append(put_pointers(pointers, now))
        found = yield from Together([surely(each) for each in first])
        row = self.laid(key, found[0][0])
        seen = read_root(key, row)
        if seen.intents is not None:
            yield from self.finish(seen)
            raise Finished
        if follows is None and was_made(change, seen):
            return None
        version = next_version(now, seen.version, key)
        put = {*self._recorded.pointers(key, seen.root), *(pointers if version == now else ())}
        if follows is not None and not refers(put, follows):
            return None
        sources, shards = yield from self._sources(change, seen, put, version)
        sources.now = now
        sources[key] = root_row(row)
        if follows is not None and self._has_followed(change, follows, seen, sources):
            return None
        if follows is None and not has_caught_up:
            self._check_followed(change, seen, sources)
        decision = change.decide(seen.root, version, sources)
        if decision.unreferenced:
            assert decision.root is not None, "only a delete has holds on it"
            seen = yield from self._mark_going(seen, decision, {key: decision.root})
            version = next_version(now, seen.version, key)
            decision = change.decide(seen.root, version, sources)
        if decision.root is None:
            if follows is None or seen.root.body is None:
                return None
            decision = Decision(Root(version, seen.root.body, seen.root.emitted, seen.root.own))
        used = self._used(seen, decision.root, sources, taken_by([change], follows))
        ready = Ready(seen, decision, used, markers, shards, known=None if follows else change.known)
        return (yield from self._write(ready))

    def _sources(
        self, change: Change, seen: SeenRow, put: set[bytes], version: int
    ) -> Plan[tuple[RowsAndGroups, dict[bytes, Row | None]]]:
        """The root rows that a decision needs, read after the back-references to them are there, and likely sums.

        The numbers of groups that it needs as well: after its own row (rules R2 and R3).
        """
        lacking = [each for each in change.pointers(seen.root) if each not in put]
        if lacking:
            yield from surely(put_pointers(lacking, version))
        wanted = [key for key in dict.fromkeys([*change.hints(), *change.links(seen.root)]) if key != seen.key]
        groups = change.groups(seen.root)
        if not wanted:
            rows, shards = RowsAndGroups(), dict[bytes, "Row | None"]()
        else:
            sums = self.likely_shards(change, seen.key, (yield from Now()))
            rows, shards = yield from self.read_sources(wanted, sums)
        if groups:
            yield from read_groups(rows, change.key, groups, self.shards, self.read_counter)
        return rows, shards

    def likely_shards(self, change: Change, root: bytes, now: int) -> list[bytes]:
        """The rows of `counts` that the commit of a root row probably adds to."""
        return [self.shards.row_of(group, root) for group in change.likely_sums(now)]

    def read_sources(
        self, wanted: Sequence[bytes], sums: list[bytes] | None = None
    ) -> Plan[tuple[RowsAndGroups, dict[bytes, Row | None]]]:
        """Root rows that have back-references already, and sums; rows of children after those of their roots."""
        groups = {key: self._recorded.group(key) for key in wanted}
        children = [key for key, group in groups.items() if group != key]
        of_children = {groups[key] for key in children}
        rows, first = RowsAndGroups(), list(dict.fromkeys(groups.values()))
        reads = [Read("roots", first, "dm"), *([Read("counts", sums, "dm")] if sums else [])]
        found, *counted = yield from Together([surely(each) for each in reads])
        for key, row in zip(first, found, strict=True):
            source = read_root(key, row)
            if source.marked:  # its delete has begun, and must look again
                yield from self.fence(source, 0)
                raise LostRace
            rows[key] = root_row(row)
            if key in of_children:
                yield from self.finish(source)
        if children:
            rows.update(zip(children, map(root_row, (yield from Read("roots", children, "dm"))), strict=True))
        return rows, dict(zip(sums, counted[0], strict=True)) if sums else {}

    def laid(self, key: bytes, row: Row | None) -> Row | None:
        """A root row as it was read, with the newer values of its cells in its document."""
        return None if row is None else self._cells.lay(key, row)

    def _check_followed(self, change: Change, seen: SeenRow, sources: RowsAndGroups) -> None:
        """Raises Unfollowed where a back-reference to a source moves: it is under another selection of fields now.

        What follows the source may have seen neither place. Where a program of other declarations wrote the entity,
        this one takes all values of the source, by a commit before this one; and those of a deleted one, which no
        other change takes.
        """
        before, after = {*self._recorded.pointers(seen.key, seen.root)}, {*change.pointers(seen.root)}
        added = {source_part(each) for each in taken(seen.key, after - before)}
        moved = set() if change.takes_all else added & self._left(seen, before - after).keys()
        deleted = [each for each in added if (row := sources.get(each)) is not None and BODY not in row]
        moved.update(each for each in deleted if not self._has_seen_delete(change, each, seen, sources))
        left = [(source, place) for source in moved for place in before if refers([place], source)]
        if left:
            raise Unfollowed(left)

    def _has_followed(self, change: Change, source: bytes, seen: SeenRow, sources: Mapping[bytes, Row | None]) -> bool:
        """Whether a holder has the values that a source has now, and by the selections that this program declares."""
        return all(self._are_newest(change, source, seen, sources))

    def _has_seen_delete(
        self, change: Change, source: bytes, seen: SeenRow, sources: Mapping[bytes, Row | None]
    ) -> bool:
        """Whether a holder was committed with what a deleted source has left, by any selection.

        One that was made after the delete takes none of the last values of its source, whatever is declared later.
        """
        return any(self._are_newest(change, source, seen, sources))

    def _are_newest(
        self, change: Change, source: bytes, seen: SeenRow, sources: Mapping[bytes, Row | None]
    ) -> Iterable[bool]:
        """Of each back-reference to a source, whether the holder's values are of the version that the source has."""
        row = sources[source]
        if row is None:
            return [True]
        places = {*self._recorded.pointers(seen.key, seen.root), *change.pointers(seen.root)}
        found = [each for each in taken(seen.key, places) if source_part(each) == source]
        return [seen.used.get(each, -1) >= decode_version(row[VERSION].value) for each in found]

    def _left(self, seen: SeenRow, pointers: Iterable[bytes]) -> dict[bytes, int]:
        """The sources of back-references by selections that only other programs declare, with the versions used."""
        found = taken(seen.key, pointers)
        return {source_part(each): seen.used.get(each, 0) for each in found if not self._cells.declares(each, seen.key)}

    def _used(
        self, seen: SeenRow, root: Root | None, sources: RowsAndGroups, takes: Callable[[bytes, Row], bool]
    ) -> dict[bytes, int]:
        """The versions of the sources that an entity's copies were taken from, by source and selection.

        With them the changes of the groups that it shows. `takes` says of which sources the values were taken again
        though the reference is the same. A new reference takes those of its source; one that another program wrote
        under another selection keeps what it had.
        """
        assert root is not None, "a decision that changes nothing is not written"
        recorded = {*self._recorded.pointers(seen.key, seen.root)}, {*self._recorded.pointers(seen.key, root)}
        before, after = (taken(seen.key, each) for each in recorded)
        left = self._left(seen, recorded[0] - recorded[1])
        used: dict[bytes, int] = {}
        for each in after:
            source = source_part(each)
            row = sources.get(source)
            is_new = each not in before and source not in left
            if row is not None and (is_new or takes(source, row)):
                used[each] = decode_version(row[VERSION].value)
            else:
                used[each] = seen.used.get(each, left.get(source, 0))
        if root.body is not None:  # rule R4
            used |= {key: writes for key, writes in seen.used.items() if is_group_root(key)}
            used |= sources.shown.get(seen.key, {})
        return used

    def _prepare(self, ready: Ready) -> Plan[Prepared]:
        """What a decision that is not NO_CHANGE writes into its own row.

        Raises:
            LimitExceeded: more follows from it than a row can hold.
        """
        root, key = ready.decision.root, ready.seen.key
        assert root is not None, "a decision that changes nothing is not written"
        amounts = amounts_by_row(ready.decision.operations.deltas)
        added = {self.shards.row_of(group, key): encode_amounts(each) for group, each in amounts.items()}
        changed = [each.key for each in ready.decision.groups if each.key in amounts or has_extrema(each)]
        intents = noted(_intents(ready, added, changed), self.feeds)
        commit = (yield from new_commit()) if ready.known is None else ready.known.id
        cells = committed_cells(ready.seen, root, intents, ready.used, commit) | dict(ready.group.counts)
        size = len(cells[INTENTS].value)
        if size > INTENTS_BYTES:
            raise LimitExceeded(
                "too many rows follow from this entity", key=self.name_of(key), bytes=size, limit=INTENTS_BYTES
            )
        return Prepared(root, intents, cells, commit, self.shards.announce(amounts))

    def _write(self, ready: Ready) -> Plan[Committed]:
        """What must be there before the commit point, and the commit point."""
        seen, decision, markers, known = ready.seen, ready.decision, ready.markers, ready.shards
        key = seen.key
        root, intents, cells, commit, announced = yield from self._prepare(ready)
        claims = [self._claim(each, owner, root.version) for each, owner in decision.operations.claimed.items()]
        if claims:
            yield from Together(claims)
        before: list[Request[Any]] = []
        lacking = [each for each in intents.deltas if each not in known]
        if lacking:
            before.append(Read("counts", lacking, "dm"))
        may_lack = not is_group_root(key) and self._may_lack(seen.root, root)
        if root.version not in markers and (intents or may_lack):
            markers = [*markers, root.version]
            before.append(put_mark(key, root.version))
        if announced:
            before.append(Mutate("counts", list(announced)))
        found = (yield from Together([surely(each) for each in before])) if before else []
        self.shards.note_announced(announced)
        shards = {**known, **dict(zip(lacking, found[0], strict=True))} if lacking else known
        check_sums(intents.deltas, shards)
        yield from reserve(key, intents, markers)
        if not (yield from self._swap_root(seen, cells, commit)):
            raise LostRace
        return Committed(key, intents or Intents(root.version), shards, markers, root)

    def _may_lack(self, before: Root, after: Root) -> bool:
        """Whether the row may lack by this commit what a newer program declares: then it has a marker (rule F3)."""
        if before.body is None:
            return True
        if before.emitted == after.emitted:
            return False
        return self._recorded.covered(before) != self._recorded.covered(after)

    # A delete that others may forbid.

    def _mark_going(self, seen: SeenRow, decision: Decision, made: Mapping[bytes, Root]) -> Plan[SeenRow]:
        """Marks a row whose delete begins, and looks at every hold on it (rule 19).

        `made` are entities as the commit makes them: its own, or all of its group.

        Raises:
            StillReferenced: an entity refers to it.
        """
        assert decision.root is not None, "only a delete has holds on it"
        version = decision.root.version
        commit = yield from new_commit()
        cells = fence_cells(seen, version, commit)
        cells[MARK] = Cell(b"\x01", version)
        if not (yield from self._swap_root(seen, cells, commit)):
            raise LostRace
        (row,) = yield from Read("roots", [seen.key], "dm")
        marked = read_root(seen.key, row)
        if marked.version != version:
            raise LostRace
        for within in decision.unreferenced:
            holder = yield from self._living_holder(within, made)
            if holder is not None:
                yield from self.fence(marked, version)
                raise still_referenced(self.name_of(seen.key), self.name_of(holder))
        return marked

    # Unique values.

    def _has_expired(self, owner: bytes) -> Plan[bool]:
        """Lets an entity give up what has expired of it; whether there was something."""
        change = self._followers.of_expired(owner)
        if change is None:
            return False
        return (yield from self._commit_now(partial(self._attempt, change, None), change.key))

    # Behind the commit point.

    def _complete(self, done: Committed, changes: Sequence[Change]) -> Plan[list[bytes]]:
        """Applies a commit of these changes, at once or later; returns what is left to do, as tasks."""
        if self.applies_later and len(self._later) < LATER:
            self._later.append(done)
            return left_tasks(done)
        return (yield from self._settle(done, changes))

    def _settle(self, done: Committed, changes: Sequence[Change]) -> Plan[list[bytes]]:  # noqa: ARG002 - for totals
        """Applies a commit, and lets follow what follows from it; returns what is left to do, as tasks."""
        return self._apply_now(done)

    def _apply_now(self, *done: Committed) -> Plan[list[bytes]]:
        """Applies commits, and lets their holders follow where they are few; returns what is left to do, as tasks.

        Nothing raises here: the commits are made. What could not be applied is left to recovery.
        """
        tasks: list[bytes] = []
        try:
            yield from self.apply(*done)
            for each in done:
                for source in each.intents.sources(each.key):
                    tasks += yield from self._follow_few(source, each.intents.version)
                tasks += yield from follow_feeds(self.feeds, each, self._inline)
                tasks += group_tasks(each)
        except OnereadError as error:
            names = [self.name_of(each.key) for each in done]
            _log.warning("commits are not applied yet, which recovery will do: %s: %s", names, error)
            return [key for each in done for key in left_tasks(each)]
        return tasks

    def apply_waiting(self) -> Plan[int]:
        """Applies the commits that are acknowledged and that no other call is applying; returns how many."""
        applied, this_call = 0, object()
        try:
            for _ in range(len(self._later)):  # those that follow meanwhile are for the next call
                self._appliers[this_call] = self.clock()
                try:
                    done = self._later.popleft()
                except IndexError:  # another thread took the last one
                    break
                yield from in_time(self._apply_held(done), self.clock, OPERATION)
                applied += 1
        finally:
            self._appliers.pop(this_call, None)
        return applied

    @property
    def appliers(self) -> frozenset[object]:
        """The calls that are applying commits which were acknowledged before.

        One that takes longer is found in the journal, and so is one that was interrupted and did not end.
        """
        now = self.clock()
        return frozenset(call for call, since in list(self._appliers.items()) if now - since < PATIENCE)

    def _apply_held(self, done: Committed) -> Plan[None]:
        """Applies a commit whose row still has its intents: it may be applied for long, and its rows purged.

        Who applied it has left its marker; a drain would wait for that, until it is recovered.
        """
        (row,) = yield from surely(Read("roots", [done.key], "dm"))
        seen = read_root(done.key, row)
        if not done.intents or seen.intends(done.intents.version):
            yield from self._settle(done, ())
        elif markers := without_markers(done):
            yield from surely(Mutate("system", markers))

    def has_applied(self, pending: Collection[bytes]) -> Plan[bool]:
        """Whether the commits among these tasks are applied. One request for each."""
        for key, version in filter(None, map(read_pending, pending)):
            (row,) = yield from Read("roots", [key], "dm")
            seen = read_root(key, row)
            if seen.version == version and seen.intents is not None:
                return False
        return True

    def include(self, pending: Collection[bytes]) -> Plan[None]:
        """Applies the commits among these tasks that wait, of this process or of another one. One request for each."""
        for key, _version in filter(None, map(read_pending, pending)):
            yield from in_time(self._finished(key), self.clock, OPERATION)

    def _follow_few(self, source: bytes, version: int) -> Plan[list[bytes]]:
        """Lets the holders of a source follow at once, unless they are many; returns the task that is left."""
        yield from ()
        return [outbox.version_key(source, version)]

    def follow_pointer(self, source: bytes, place: bytes, stamp: int) -> Plan[list[bytes]]:
        """Lets the holder of a back-reference follow its source; who has no followers leaves it to the task."""
        raise NotImplementedError


def was_made(change: Change, seen: SeenRow) -> bool:
    """Whether a program before this one has made a change. Raises Conflict where that cannot be seen."""
    return change.known is not None and change.known.was_made(seen.history, REMEMBERED)


def _intents(ready: Ready, added: dict[bytes, bytes], groups: list[bytes]) -> Intents:
    """What follows from a decision, but for what is written before the commit point.

    With what is `added` to rows of `counts`, and the groups that changed and are shown.
    """
    decision, group = ready.decision, ready.group
    assert decision.root is not None, "a decision that changes nothing is not written"
    operations = decision.operations
    puts = {key: value for key, value in operations.puts.items() if pointer_part(key) not in _POINTERS}
    puts.update(group.pointers)
    children, version = list(group.children), decision.root.version
    return Intents(version, puts, operations.deletes, added, decision.fans_out, children=children, groups=groups)
