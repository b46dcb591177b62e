"""Commits of entity groups on stores that change one row at a time: a root and its children, in one commit of the root.

The rows of children ride in the intents of their root, at its version. So a decision reads the root first, then the
children: one above the root's version means that another commit came between. See rules G1 to G3 of the commit
protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final

from oneread.errors import Conflict, NotUnique, Unsupported, UsageError
from oneread.plans.effects import Now, Together
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.keys import source_part
from oneread.store.requests import Read, Request
from oneread.store.rows import Cell, EntityRow, Row
from oneread.transactions import outbox
from oneread.transactions.commit import Basis, Change, Commit, Decision
from oneread.transactions.intents import (
    ChildRow,
    SeenRow,
    decode_version,
    encode_version,
    put_mark,
    read_root,
    root_row,
)
from oneread.transactions.lost_answers import surely
from oneread.transactions.root import NO_ROOT, VERSION, Root, encode_root, next_version
from oneread.transactions.row_apply import Committed
from oneread.transactions.row_commits import (
    SEVERAL,
    Finished,
    GroupPart,
    LostRace,
    Ready,
    was_made,
)
from oneread.transactions.row_followers import FollowingCommitter
from oneread.transactions.row_pointers import put_pointers, refers, taken_by
from oneread.transactions.row_shown_groups import RowsAndGroups, read_groups
from oneread.transactions.row_time import OPERATION
from oneread.transactions.sequences import counted, keep_sequences, last_number
from oneread.transactions.unit_of_work import DerivedWrites

_TWO_GROUPS: Final = "a store that changes one row at a time commits one entity group at a time, and these are two"
_TAKEN: Final = "this value is declared unique, and two entities of this commit want it"


class GroupDraft:
    """An entity group as one commit would make it: its rows as they were read, and what was decided on them.

    `rows` are all root rows that decisions may need, those of sources outside of the group too, as they are by now;
    `made` is what those of the group hold by now. `stored` are the rows of the group as they were read.
    """

    def __init__(self, seen: SeenRow, row: Row | None, clock: int, now: int) -> None:
        self.seen = seen
        self.version = next_version(now, seen.version, seen.key)
        self.rows = RowsAndGroups()
        self.rows.now = clock
        self.stored: dict[bytes, SeenRow] = {}
        self.made: dict[bytes, Root] = {}
        self.counts: Row = {}
        self.decided: list[tuple[bytes, Decision]] = []
        self._places: dict[bytes, tuple[int, int]] = {}
        """Of each row, which decision on it was the first and which the last."""
        self._found: dict[bytes, Row | None] = {}
        self._add(seen, root_row(row))

    def _add(self, seen: SeenRow, row: Row | None) -> None:
        self.stored[seen.key], self.made[seen.key] = seen, seen.root
        self._found[seen.key] = self.rows[seen.key] = row

    def add_child(self, key: bytes, row: Row | None) -> None:
        """A child as it was read, after the root.

        Raises:
            LostRace: it is of a later commit than the root.
        """
        child = read_root(key, row)
        if child.version > self.seen.version:
            raise LostRace
        self._add(child, root_row(row))

    def take_numbers(self, changes: Iterable[Change], name_of: Callable[[bytes], object]) -> None:
        """Gives the changes that wait for one the next numbers. No row was ever put there: none is read."""
        last: dict[bytes, int] = {}
        for change in changes:
            sequence = change.sequence
            if sequence is not None:
                if sequence.kind not in last:
                    last[sequence.kind] = last_number(self.rows[sequence.root], sequence, name_of)
                last[sequence.kind] += 1
                change.take_number(last[sequence.kind])
                if change.key not in self.stored:
                    self.add_child(change.key, None)

    def root_of(self, change: Change) -> Root:
        """What the row of a change holds by now."""
        return self.made.get(change.key, NO_ROOT)

    def decide(self, change: Change) -> None:
        """Decides a change; the next one finds what it makes."""
        decision = change.decide(self.root_of(change), self.version, self.rows)
        if decision.root is not None:
            self._note(change.key, decision, decision.root)
        row = self.rows[self.seen.key]
        if decision.taken is not None and row is not None:
            cells = counted(row, decision.taken, self.version)
            self.rows[self.seen.key] = row | cells
            self.counts.update(cells)

    def write_again(self, key: bytes) -> None:
        """Decides to commit an entity as it is: it ends attempts that have taken other values of its sources."""
        held = self.made[key]
        root = Root(self.version, held.body, held.emitted, held.own)
        self._note(key, Decision(root), root)

    def _note(self, key: bytes, decision: Decision, root: Root) -> None:
        place = len(self.decided)
        self._places[key] = (self._places.get(key, (place, place))[0], place)
        self.decided.append((key, decision))
        self.rows.changed.add(key)
        row, before = encode_root(root), self.rows[key]
        self.made[key] = root
        self.rows[key] = row if before is None else keep_sequences(row, before)
        self.rows.made.pop(key, None)

    def is_decided_since(self, key: bytes, other: bytes) -> bool:
        """Whether another row was decided after the first decision on this one; it itself was, too."""
        return key in self._places and other in self._places and self._places[key][0] <= self._places[other][1]

    def over(self, marked: SeenRow, now: int) -> GroupDraft:
        """The group's rows with nothing decided, over the root as a delete that begins has marked it.

        The mark has ended this attempt to others (rules 3 and 14): sources and groups are read again, where something
        is made of them, behind back-references of the version that is next.
        """
        again = GroupDraft(marked, None, self.rows.now, now)
        if all(self.made[key].body is None for key, _decision in self.decided):
            again.rows.update(self.rows)
            again.rows.groups, again.rows.shown = self.rows.groups, self.rows.shown
        for key, seen in self.stored.items():
            again._add(seen, self._found[key])
        row = self._found[marked.key]
        version = Cell(encode_version(marked.version), marked.version)
        again._add(marked, None if row is None else row | {VERSION: version})
        return again

    def close(self) -> Root:
        """What the root's row holds after this commit, which raises its version, whichever rows of the group change."""
        key, held = self.seen.key, self.made[self.seen.key]
        root = held if held.version == self.version else Root(self.version, held.body, held.emitted, held.own)
        row = self.rows[key]
        if row is not None:
            self.rows[key] = row | {VERSION: Cell(encode_version(self.version), self.version)}
        return root

    def operations(self) -> DerivedWrites:
        """What all decisions together write. Raises NotUnique where two entities want one unique value."""
        views: dict[bytes, bytes | None] = {}
        whole = DerivedWrites({}, [], [], {}, {})
        for _key, decision in self.decided:
            made = decision.operations
            views.update(dict.fromkeys(made.deletes))
            views.update(made.puts)
            whole.deltas.extend(made.deltas)
            for claim, owner in made.released.items():
                if whole.claimed.get(claim) == owner:
                    del whole.claimed[claim]
            for claim, owner in made.claimed.items():
                if whole.claimed.setdefault(claim, owner) != owner:
                    error = NotUnique(_TAKEN)
                    error.holder = whole.claimed[claim]
                    raise error
        for key, value in views.items():
            if value is None:
                whole.deletes.append(key)
            else:
                whole.puts[key] = value
        return whole


class GroupCommitter(FollowingCommitter):
    """Commits of one open database whose entities are in groups: changes of one group are one commit of its root."""

    def commit(self, commit: Commit) -> Plan[list[bytes]]:
        """The changes of each entity group are a commit of their own; a transaction's are of one.

        Those with swaps beside them are batches of single changes: each is a commit of its own.

        Raises:
            UsageError: the changes of a transaction are of two groups. Nothing is written.
        """
        groups: dict[bytes, list[Change]] = {}
        for change in commit.changes:
            groups.setdefault(self.group(change), []).append(change)
        if commit.basis is None and (commit.swaps or all(len(each) == 1 for each in groups.values())):
            return (yield from super().commit(commit))
        if commit.beside or commit.swaps:
            raise Unsupported(SEVERAL)
        if commit.basis is not None and len(groups) > 1:
            first, second, *_others = map(self.name_of, groups)
            raise UsageError(_TWO_GROUPS, group=first, given=second)
        tasks: list[bytes] = []
        for group, changes in groups.items():
            tasks += yield from in_time(self._commit_group(commit, group, changes), self.clock, OPERATION)
        return tasks

    def _commit_group(self, commit: Commit, group: bytes, changes: Sequence[Change]) -> Plan[list[bytes]]:
        commit.is_deciding = True
        attempt = partial(self._attempt_group, group, changes, commit.basis, None)
        done = yield from self._until_won(attempt, changes[0].key)
        commit.is_deciding = False
        return [] if done is None else (yield from self._complete(done, changes))

    def group(self, change: Change) -> bytes:
        """The root row of the entity group that a change is in."""
        return self.group_of(change.key) if change.sequence is None else change.sequence.root

    def group_of(self, key: bytes) -> bytes:
        """The root row of the entity group that an entity is in."""
        return self._recorded.group(key)

    def _attempt(self, change: Change, follows: bytes | None, has_caught_up: bool) -> Plan[Committed | None]:  # noqa: FBT001 - as in the base class
        group = self.group(change)
        if group == change.key:
            return super()._attempt(change, follows, has_caught_up)
        return self._attempt_group(group, [change], None, follows, has_caught_up)

    def open(self, group: bytes, clock: int) -> Plan[GroupDraft]:
        """A group with nothing changed, at a version whose intents are applied."""
        while True:
            (found,) = yield from Read("roots", [group], "dm")
            row = self.laid(group, found)
            seen = read_root(group, row)
            if seen.intents is None:
                return GroupDraft(seen, row, clock, clock)
            yield from self.finish(seen)

    def _attempt_group(
        self,
        group: bytes,
        changes: Sequence[Change],
        basis: Basis | None,
        follows: bytes | None,
        has_caught_up: bool,  # noqa: FBT001 - called by `_until_won` only
    ) -> Plan[Committed | None]:
        """One attempt; None where nothing is to be done. With `follows` one child takes the values of that source."""
        now = (yield from Now()) if basis is None else basis.now
        pointers = [each for change in changes if change.sequence is None for each in change.pointers(None)]
        pointers = [each for each in pointers if not _is_own(each, group)]
        markers = [now] if any(change.likely_derives for change in changes) else []
        first: list[Request[Any]] = [Read("roots", [group], "dm"), *(put_mark(group, each) for each in markers)]
        if pointers:
            first.append(put_pointers(pointers, now))
        found = yield from Together([surely(each) for each in first])
        row = self.laid(group, found[0][0])
        seen = read_root(group, row)
        if seen.intents is not None:
            yield from self.finish(seen)
            raise Finished
        if basis is not None and seen.version != _version_of(basis, group):
            raise self.changed_meanwhile(group)
        if follows is None:
            changes = [each for each in changes if not was_made(each, seen)]
            if not changes:
                return None
        draft = GroupDraft(seen, row, now, now)
        put = set(pointers if draft.version == now else ())
        shards = yield from self.load(draft, _first_of_each(changes), put)
        if follows is not None and self._need_not_follow(draft, changes[0], follows):
            return None
        has_caught_up = has_caught_up or follows is not None
        yield from self._decide_all(draft, changes, put, has_caught_up=has_caught_up)
        marked = yield from self._mark_group(draft)
        if marked is not None:
            draft = draft.over(marked, now)
            yield from self._decide_all(draft, changes, set(), has_caught_up=has_caught_up)
        if not draft.decided:
            if follows is None or draft.root_of(changes[0]).body is None:
                return None
            draft.write_again(changes[0].key)
        ready = self._ready(draft, taken_by(changes, follows), markers)
        known = changes[-1].known if follows is None else None
        return (yield from self._write(ready._replace(shards=shards, known=known)))

    def changed_meanwhile(self, group: bytes) -> Conflict:
        """The error of a transaction whose group has another version than the one that it read."""
        return Conflict("the entity group that this transaction read was changed meanwhile", key=self.name_of(group))

    def load(
        self, draft: GroupDraft, changes: Sequence[Change], put: set[bytes] | None
    ) -> Plan[dict[bytes, Row | None]]:
        """Reads what changes need and the draft lacks; returns sums that were read with it.

        Back-references and holds that entities outside of the group need are put before, unless they are in `put`;
        with None, none are: nothing is committed then.

        Raises:
            LostRace: the group was changed meanwhile.
        """
        draft.take_numbers(changes, self.name_of)
        sums: dict[bytes, Row | None] = {}
        yield from self._point(draft, [each for each in changes if each.key in draft.stored], put)
        wanted = [*(each.key for each in changes), *(key for each in changes for key in each.hints())]
        children = self._children(draft, wanted)
        if children:
            root, now = draft.seen.key, draft.rows.now
            likely = [] if put is None else [key for each in changes for key in self.likely_shards(each, root, now)]
            reads = [Read("roots", children, "dm"), *([Read("counts", likely, "dm")] if likely else [])]
            found, *counts = yield from Together([surely(each) for each in reads])
            for key, row in zip(children, found, strict=True):
                draft.add_child(key, self.laid(key, row))
            if counts:
                sums = dict(zip(likely, counts[0], strict=True))
            yield from self._point(draft, changes, put)
        wanted += [key for each in changes for key in each.links(draft.root_of(each))]
        yield from self.read_children(draft, wanted)
        sources = [key for key in dict.fromkeys(wanted) if key not in draft.rows]
        if sources:
            draft.rows.update((yield from self.read_sources(sources))[0])
        for each in changes:
            groups = each.groups(draft.root_of(each))
            if not draft.rows.have_shown(each.key, groups):
                yield from read_groups(draft.rows, each.key, groups, self.shards, self.read_counter)
        return sums

    def read_children(self, draft: GroupDraft, wanted: Iterable[bytes]) -> Plan[None]:
        """Reads the children among these root rows that a draft lacks; raises LostRace as `load`."""
        children = self._children(draft, wanted)
        if children:
            for key, row in zip(children, (yield from Read("roots", children, "dm")), strict=True):
                draft.add_child(key, self.laid(key, row))

    def _children(self, draft: GroupDraft, wanted: Iterable[bytes]) -> list[bytes]:
        lacking = dict.fromkeys(key for key in wanted if key not in draft.stored)
        return [key for key in lacking if self._recorded.group(key) == draft.seen.key]

    def _point(self, draft: GroupDraft, changes: Iterable[Change], put: set[bytes] | None) -> Plan[None]:
        """Puts back-references and holds that are not there yet, but for those of children to their own root.

        Those are put with the row of the child: who looks for them has finished the root.
        """
        if put is None:
            return
        lacking: list[bytes] = []
        for change in changes:
            stored = draft.stored[change.key]
            there = {*put, *self._recorded.pointers(change.key, stored.root)}
            pointers = [each for each in change.pointers(draft.root_of(change)) if each not in there]
            lacking += [each for each in pointers if not _is_own(each, draft.seen.key)]
        if lacking:
            yield from surely(put_pointers(lacking, draft.version))
            put.update(lacking)

    def _need_not_follow(self, draft: GroupDraft, change: Change, source: bytes) -> bool:
        child = draft.stored[change.key]
        if not refers(self._recorded.pointers(change.key, child.root), source):
            return True
        return self._has_followed(change, source, child, draft.rows)

    def _decide_all(
        self, draft: GroupDraft, changes: Iterable[Change], put: set[bytes], *, has_caught_up: bool
    ) -> Plan[None]:
        """Decides changes, each over what those before it made."""
        for change in changes:
            yield from self.load(draft, [change], put)
            if not has_caught_up:
                self._check_followed(change, draft.stored[change.key], draft.rows)
            draft.decide(change)

    def _mark_group(self, draft: GroupDraft) -> Plan[SeenRow | None]:
        """Lets deletes that others may forbid look at the holds (rule 19); the root as it is marked then."""
        within = [each for _key, decision in draft.decided for each in decision.unreferenced]
        if not within:
            return None
        going = Decision(draft.close(), unreferenced=within)
        return (yield from self._mark_going(draft.seen, going, draft.made))

    def _ready(self, draft: GroupDraft, takes: Callable[[bytes, Row], bool], markers: Sequence[int]) -> Ready:
        group, root = draft.seen.key, draft.close()
        fanning = {key for key, decision in draft.decided if decision.fans_out}
        children: list[ChildRow] = []
        for key in dict.fromkeys(key for key, _decision in draft.decided if key != group):
            held = draft.made[key]
            used = self._used_by(draft, key, held, takes)
            children.append(ChildRow(key, held.body, held.emitted or b"", held.own, used, key in fanning))
        operations = draft.operations()
        pointers = {key: value for key, value in operations.puts.items() if _is_own(key, group)}
        shown = list(dict.fromkeys(each for _key, decision in draft.decided for each in decision.groups))
        decision = Decision(root, operations, group in fanning, groups=shown)
        used = self._used_by(draft, group, root, takes)
        return Ready(draft.seen, decision, used, markers, {}, GroupPart(children, pointers, draft.counts))

    def _used_by(
        self, draft: GroupDraft, key: bytes, root: Root, takes: Callable[[bytes, Row], bool]
    ) -> dict[bytes, int]:
        """As `_used`; of a source that was decided later, and of the entity itself, the version that it had before.

        Values of another version than the newest are taken when the entity follows its source, as after any commit.
        """
        used = self._used(draft.stored[key], root, draft.rows, takes)
        for each, version in used.items():
            source = source_part(each)
            if draft.is_decided_since(key, source):
                used[each] = min(version, draft.stored[source].version)
        return used


def _first_of_each(changes: Iterable[Change]) -> list[Change]:
    """The first change of each row; those after it need not find what is stored."""
    first: dict[bytes, Change] = {}
    numbered: list[Change] = []
    for change in changes:
        if change.sequence is None:
            first.setdefault(change.key, change)
        else:
            numbered.append(change)
    return [*numbered, *first.values()]


def _is_own(pointer: bytes, group: bytes) -> bool:
    """Whether a back-reference or hold is one to the root of the group."""
    return pointer.startswith((outbox.holders_of(group).start, outbox.holds_on(group).start))


def _version_of(basis: Basis, group: bytes) -> int:
    row = basis.rows[group]
    assert not isinstance(row, EntityRow), "the basis of a group has cells"
    return 0 if row is None else decode_version(row[VERSION].value)
