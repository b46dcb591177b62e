"""How a change is committed on stores that change one row at a time: attempts, each of one entity group.

An attempt reads the group's root row, then what its changes need, decides, puts what must be there before the commit
point - marker, back-references, holds, claims -, and replaces the root row by a compare-and-set, with all that follows
as intents in it. An entity without children is a group of one, and a single change a list of one. Each step is one
round of requests that run at the same time. See rules 1-4, 14, 19 and G1 to G3 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec

from oneread.errors import Conflict, LimitExceeded, SchemaMismatch, StoreError
from oneread.plans.effects import Now, Random, Sleep, Together
from oneread.plans.plan import Plan
from oneread.plans.retry import ATTEMPTS, backoff
from oneread.store.keys import pointer_part, source_part
from oneread.store.limits import INLINE_HOLDERS
from oneread.store.requests import Mutate, Read, Request
from oneread.store.rows import Cell, EntityRow, Row
from oneread.transactions import outbox
from oneread.transactions.back_references import TakenValues, Unfollowed, put_pointers, refers, taken_by
from oneread.transactions.claims import ClaimFacts, no_claim_facts
from oneread.transactions.commit import Basis, Change, Decision, FollowChanges
from oneread.transactions.deltas import amounts_by_row, encode_amounts
from oneread.transactions.drafts import (
    CommitRequest,
    Finished,
    GroupDraft,
    GroupPart,
    LostRace,
    Prepared,
    Ready,
    was_made,
)
from oneread.transactions.feed_tasks import FollowRows, NoFeeds, noted
from oneread.transactions.group_shards import GroupShards
from oneread.transactions.holds import Holds, RecordedKeys
from oneread.transactions.intents import (
    GOING,
    INTENTS,
    ChildRow,
    Intents,
    SeenRow,
    committed_cells,
    decode_version,
    fence_cells,
    marker_row,
    put_marker,
    read_root,
    root_row,
)
from oneread.transactions.journal import Committed, Journal, check_sums, new_commit, reserve
from oneread.transactions.loading import still_referenced
from oneread.transactions.lost_answers import surely
from oneread.transactions.outbox import is_group_root
from oneread.transactions.root import VERSION, Root
from oneread.transactions.shown_groups import ReadCounter, has_extrema, no_counters, read_groups

INTENTS_BYTES: Final = 1_000_000
"""Bytes of the intents of one commit at most, so that they fit into a row of every store."""

_POINTERS: Final = (outbox.BACK_REFERENCES, outbox.HOLDS)

AttemptPlan: TypeAlias = Callable[[], Plan[Committed | None]]
"""One attempt to commit; None where nothing is to be done."""

CatchUp: TypeAlias = Callable[[Unfollowed], Plan[None]]
"""Lets an entity follow deleted sources before its back-references to them move."""


def _raise_again(left: Unfollowed) -> Plan[None]:
    raise left


class DeclaredViews(msgspec.Struct, kw_only=True):
    """What commits need of a schema. `inline` is how many holders, and groups that are shown, follow at once."""

    followers: FollowChanges
    recorded: RecordedKeys
    claim_facts: ClaimFacts = no_claim_facts
    inline: int = INLINE_HOLDERS
    feeds: FollowRows = msgspec.field(default_factory=NoFeeds)
    shards: GroupShards = msgspec.field(default_factory=GroupShards)
    read_counter: ReadCounter = no_counters


class Pipeline:
    """Attempts to commit, up to the commit point and with it."""

    def __init__(self, journal: Journal, views: DeclaredViews) -> None:
        self.journal = journal
        self.views = views
        self.recorded = views.recorded
        self.holds = Holds(journal, views.recorded, views.claim_facts)
        self.taken = TakenValues(views.recorded, views.followers.cells)

    def win(self, attempt: AttemptPlan, key: bytes, catch_up: CatchUp = _raise_again) -> Plan[Committed | None]:
        """Attempts until no other commit comes first; `catch_up` lets entities follow that have not.

        Raises:
            Conflict: others come first all the time.
        """
        lease = self.journal.lease
        has_learned = lease is None
        for number in range(ATTEMPTS):
            yield from self.journal.renew_lease()
            try:
                return (yield from attempt())
            except Finished:
                continue
            except LostRace:
                yield from Sleep(backoff(number, (yield from Random())))
            except Unfollowed as left:
                yield from catch_up(left)
            except SchemaMismatch:  # a row of a newer program, of which this one knows when the fence is read again
                if has_learned or lease is None:
                    raise
                has_learned = True
                yield from lease.learn()
        raise Conflict("others change this entity all the time; try again", key=self.journal.name_of(key))

    def group(self, change: Change) -> bytes:
        """The root row of the entity group that a change is in."""
        return self.recorded.group(change.key) if change.sequence is None else change.sequence.root

    def open(self, group: bytes, clock: int) -> Plan[GroupDraft]:
        """A group with nothing changed, at a version whose intents are applied."""
        while True:
            (found,) = yield from Read("roots", [group], "dm")
            with suppress(Finished):
                return GroupDraft(*(yield from self._without_intents(group, found)), clock)

    def attempt(self, request: CommitRequest) -> Plan[Committed | None]:
        """One attempt to commit changes of one entity group; None where nothing is to be done.

        Raises:
            Conflict: the group is not as it was in the basis.
            LostRace: another commit comes first.
            Unfollowed: an entity has not followed a deleted source.
        """
        changes, follows = request.changes, request.follows
        draft = yield from self._begin(request)
        if follows is None:
            changes = [each for each in changes if not was_made(each, draft.seen)]
        elif not self._may_refer(draft, changes[0], follows):
            return None
        if not changes:
            return None
        yield from self.load(draft, _first_of_each(changes))
        if follows is not None and self._need_not_follow(draft, changes[0], follows):
            return None
        yield from self._decide_all(draft, request, changes)
        marked = yield from self._mark_going(draft)
        if marked is not None:
            draft = draft.over(marked)
            yield from self._decide_all(draft, request, changes, loaded=0)
        if not draft.decided:
            if follows is None or draft.root_of(changes[0]).body is None:
                return None
            draft.write_again(changes[0].key)
        ready = self.ready(draft, taken_by(changes, follows))
        return (yield from self.write(ready if follows else ready._replace(known=changes[-1].known, jobs=request.jobs)))

    def _begin(self, request: CommitRequest) -> Plan[GroupDraft]:
        """Reads the root row of a group, and puts what is known to be needed before anything is read."""
        changes, basis = request.changes, request.basis
        group = self.group(changes[0])
        now = (yield from Now()) if basis is None else basis.now
        now = max([now, *(each.least_version for each in changes)])
        pointers = [each for change in changes if change.sequence is None for each in change.pointers(None)]
        pointers = [each for each in pointers if not _is_own(each, group)]
        markers = [now] if any(change.likely_derives for change in changes) else []
        first: list[Request[Any]] = [Read("roots", [group], "dm"), *(put_marker(group, each) for each in markers)]
        if pointers:
            first.append(put_pointers(pointers, now))
        found = yield from Together([surely(each) for each in first])
        seen, row = yield from self._without_intents(group, found[0][0])
        if basis is not None and seen.version != _version_of(basis, group):
            raise self.changed_meanwhile(group)
        draft = GroupDraft(seen, row, now)
        draft.markers, draft.put = markers, set(pointers if draft.version == now else ())
        return draft

    def read_whole(self, key: bytes) -> Plan[tuple[SeenRow, Row | None]]:
        """A root row without intents. Raises Finished where it had some."""
        (found,) = yield from surely(Read("roots", [key], "dm"))
        return (yield from self._without_intents(key, found))

    def _without_intents(self, key: bytes, found: Row | None) -> Plan[tuple[SeenRow, Row | None]]:
        """A root row that was read. Raises Finished where it had intents, which are applied then."""
        row = self.laid(key, found)
        seen = self.journal.leased(read_root(key, row))
        if seen.intents is not None:
            yield from self.journal.finish(seen)
            raise Finished
        return seen, row

    def changed_meanwhile(self, group: bytes) -> Conflict:
        """The error of a transaction whose group has another version than the one that it read."""
        return Conflict(
            "the entity group that this transaction read was changed meanwhile", key=self.journal.name_of(group)
        )

    def load(self, draft: GroupDraft, changes: Sequence[Change]) -> Plan[None]:
        """Reads what changes need and the draft lacks, and sums to which they will probably add.

        Back-references and holds that entities outside of the group need are put before, unless the draft has put them,
        or is not to be committed.

        Raises:
            LostRace: the group was changed meanwhile.
        """
        draft.take_numbers(changes, self.journal.name_of)
        yield from self._point(draft, [each for each in changes if each.key in draft.stored])
        wanted = [*(each.key for each in changes), *(key for each in changes for key in each.hints())]
        children = self._children(draft, wanted)
        if children:
            found = yield from self._read_with_sums(children, self._likely_sums(draft, changes), draft)
            for key, row in zip(children, found, strict=True):
                draft.add_child(key, self.laid(key, row))
            yield from self._point(draft, changes)
        wanted += [key for each in changes for key in each.links(draft.root_of(each))]
        yield from self.read_children(draft, wanted)
        sources = [key for key in dict.fromkeys(wanted) if key not in draft.rows]
        if sources:
            yield from self._read_sources(sources, self._likely_sums(draft, changes), draft)
        for each in changes:
            groups = each.groups(draft.root_of(each))
            if not draft.rows.have_shown(each.key, groups):
                yield from read_groups(draft.rows, each.key, groups, self.views.shards, self.views.read_counter)

    def read_children(self, draft: GroupDraft, wanted: Iterable[bytes]) -> Plan[None]:
        """Reads the children among these root rows that a draft lacks; raises LostRace as `load`."""
        children = self._children(draft, wanted)
        if children:
            for key, row in zip(children, (yield from Read("roots", children, "dm")), strict=True):
                draft.add_child(key, self.laid(key, row))

    def _children(self, draft: GroupDraft, wanted: Iterable[bytes]) -> list[bytes]:
        lacking = dict.fromkeys(key for key in wanted if key not in draft.stored)
        return [key for key in lacking if self.recorded.group(key) == draft.seen.key]

    def _point(self, draft: GroupDraft, changes: Iterable[Change]) -> Plan[None]:
        """Puts back-references and holds that are not there yet, but for those of children to their own root.

        Those are put with the row of the child: who looks for them has finished the root.
        """
        put, lacking = draft.put, list[bytes]()
        if put is None:
            return
        for change in changes:
            stored = draft.stored[change.key]
            there = {*put, *self.recorded.pointers(change.key, stored.root)}
            pointers = [each for each in change.pointers(draft.root_of(change)) if each not in there]
            lacking += [each for each in pointers if not _is_own(each, draft.seen.key)]
        if lacking:
            yield from surely(put_pointers(lacking, draft.version))
            put.update(lacking)

    def _may_refer(self, draft: GroupDraft, change: Change, source: bytes) -> bool:
        """Whether a holder refers to a source, as far as its row was read."""
        held = draft.stored.get(change.key)
        return held is None or refers(self.recorded.pointers(change.key, held.root), source)

    def _need_not_follow(self, draft: GroupDraft, change: Change, source: bytes) -> bool:
        held = draft.stored[change.key]
        return not self._may_refer(draft, change, source) or self.taken.has_followed(change, source, held, draft.rows)

    def _decide_all(
        self, draft: GroupDraft, request: CommitRequest, changes: Iterable[Change], loaded: int = 1
    ) -> Plan[None]:
        """Decides changes, each over what those before it made; so many of them are loaded."""
        for number, change in enumerate(changes):
            if number >= loaded:
                yield from self.load(draft, [change])
            if not request.has_caught_up:
                self.taken.check_followed(change, draft.stored[change.key], draft.rows)
            draft.decide(change)

    def _likely_sums(self, draft: GroupDraft, changes: Iterable[Change]) -> list[bytes]:
        """The rows of `counts` that the commit of changes probably adds to, and that the draft lacks."""
        if draft.put is None:
            return []
        root, now, shards = draft.seen.key, draft.rows.now, self.views.shards
        likely = [shards.row_of(group, root) for each in changes for group in each.likely_sums(now)]
        return [each for each in likely if each not in draft.sums]

    def _read_with_sums(self, roots: list[bytes], sums: list[bytes], draft: GroupDraft) -> Plan[list[Row | None]]:
        """Root rows, and sums that the draft takes: both at the same time."""
        reads = [Read("roots", roots, "dm"), *([Read("counts", sums, "dm")] if sums else [])]
        found, *counted = yield from Together([surely(each) for each in reads])
        if sums:
            draft.sums.update(zip(sums, counted[0], strict=True))
        return found

    def _read_sources(self, wanted: Sequence[bytes], sums: list[bytes], draft: GroupDraft) -> Plan[None]:
        """Root rows that have back-references already, and sums; rows of children after those of their roots."""
        groups = {key: self.recorded.group(key) for key in wanted}
        children = [key for key, group in groups.items() if group != key]
        of_children = {groups[key] for key in children}
        first = list(dict.fromkeys(groups.values()))
        found = yield from self._read_with_sums(first, sums, draft)
        for key, row in zip(first, found, strict=True):
            source = read_root(key, row)
            if source.is_going:  # its delete has begun, and must look again
                yield from self.journal.fence(source, 0)
                raise LostRace
            draft.rows[key] = root_row(row)
            if key in of_children:
                yield from self.journal.finish(source)
        if children:
            rows = yield from Read("roots", children, "dm")
            draft.rows.update(zip(children, map(root_row, rows), strict=True))

    def laid(self, key: bytes, row: Row | None) -> Row | None:
        """A root row as it was read, with the newer values of its cells in its document."""
        return None if row is None else self.views.followers.cells.lay(key, row)

    def ready(self, draft: GroupDraft, takes: Callable[[bytes, Row], bool]) -> Ready:
        """What is to be committed of a group; `takes` says of which sources values were taken again."""
        group, root = draft.seen.key, draft.close()
        fanning = _fanning(draft.decided)
        children: list[ChildRow] = []
        for key in dict.fromkeys(key for key, _decision in draft.decided if key != group):
            held = draft.made[key]
            used = self._used_by(draft, key, held, takes)
            left_out = sorted(fanning.get(key, ()))
            children.append(ChildRow(key, held.body, held.emitted or b"", held.own, used, key in fanning, left_out))
        operations = draft.operations()
        pointers = {key: value for key, value in operations.puts.items() if _is_own(key, group)}
        shown = list(dict.fromkeys(each for _key, decision in draft.decided for each in decision.groups))
        decision = Decision(root, operations, group in fanning, sorted(fanning.get(group, ())), groups=shown)
        used = self._used_by(draft, group, root, takes)
        return Ready(
            draft.seen, decision, used, draft.markers, draft.sums, GroupPart(children, pointers, draft.numbers)
        )

    def _used_by(
        self, draft: GroupDraft, key: bytes, root: Root, takes: Callable[[bytes, Row], bool]
    ) -> dict[bytes, int]:
        """As `TakenValues.used`; of sources decided later, and of the entity itself, the versions that they had before.

        Values of another version than the newest are taken when the entity follows its source, as after any commit.
        """
        used = self.taken.used(draft.stored[key], root, draft.rows, takes)
        for each, version in used.items():
            source = source_part(each)
            if draft.is_decided_since(key, source):
                used[each] = min(version, draft.stored[source].version)
        return used

    # The commit point.

    def prepare(self, ready: Ready) -> Plan[Prepared]:
        """What a decision that is not NO_CHANGE writes into its own row.

        Raises:
            LimitExceeded: more follows from it than a row can hold.
        """
        root, key = ready.decision.root, ready.seen.key
        assert root is not None, "a decision that changes nothing is not written"
        amounts = amounts_by_row(ready.decision.operations.deltas)
        added = {self.views.shards.row_of(group, key): encode_amounts(each) for group, each in amounts.items()}
        changed = [each.key for each in ready.decision.groups if each.key in amounts or has_extrema(each)]
        entity = key if root.entity != ready.seen.root.entity else b""
        intents = noted(_intents(ready, added, changed), self.views.feeds, entity)
        commit = (yield from new_commit()) if ready.known is None else ready.known.id
        cells = committed_cells(ready.seen, root, intents, ready.used, commit) | dict(ready.group.numbers)
        size = len(cells[INTENTS].value)
        if size > INTENTS_BYTES:
            raise LimitExceeded(
                "too many rows follow from this entity", key=self.journal.name_of(key), bytes=size, limit=INTENTS_BYTES
            )
        return Prepared(root, intents, cells, commit, self.views.shards.announce(amounts))

    def write(self, ready: Ready) -> Plan[Committed]:
        """What must be there before the commit point, and the commit point."""
        seen, decision, markers, sums = ready.seen, ready.decision, ready.markers, ready.sums
        key = seen.key
        root, intents, cells, commit, announced = yield from self.prepare(ready)
        claims = [self.holds.claim(each, owner, root.version) for each, owner in decision.operations.claimed.items()]
        if claims:
            yield from Together(claims)
        before: list[Request[Any]] = []
        lacking = [each for each in intents.deltas if each not in sums]
        if lacking:
            before.append(Read("counts", lacking, "dm"))
        may_lack = not is_group_root(key) and self._may_lack(seen.root, root)
        if root.version not in markers and (intents or may_lack):
            markers = [*markers, root.version]
            before.append(put_marker(key, root.version))
        if announced:
            before.append(Mutate("counts", list(announced)))
        found = (yield from Together([surely(each) for each in before])) if before else []
        self.views.shards.note_announced(announced)
        if lacking:
            sums = {**sums, **dict(zip(lacking, found[0], strict=True))}
        check_sums(intents.deltas, sums)
        yield from reserve(key, intents, markers)
        if not (yield from self.journal.swap_root(seen, cells, commit)):
            raise LostRace
        return Committed(key, intents or Intents(root.version), sums, markers, root)

    def _may_lack(self, before: Root, after: Root) -> bool:
        """Whether the row may lack by this commit what a newer program declares: then it has a marker (rule F3)."""
        if before.body is None:
            return True
        if before.emitted == after.emitted:
            return False
        return self.recorded.covered(before) != self.recorded.covered(after)

    # A delete that others may forbid.

    def _mark_going(self, draft: GroupDraft) -> Plan[SeenRow | None]:
        """Marks a group in which a delete begins that others may forbid, and looks at every hold on it (rule 19).

        Returns the root as it is marked then; None without such a delete.

        Raises:
            StillReferenced: an entity refers to it.
        """
        ranges = [each for _key, decision in draft.decided for each in decision.unreferenced]
        if not ranges:
            return None
        seen, version, commit = draft.seen, draft.close().version, (yield from new_commit())
        cells = fence_cells(seen, version, commit)
        cells[GOING] = Cell(b"\x01", version)
        if not (yield from self.journal.swap_root(seen, cells, commit)):
            raise LostRace
        (row,) = yield from Read("roots", [seen.key], "dm")
        marked = read_root(seen.key, row)
        if marked.version != version:
            raise LostRace
        for within in ranges:
            holder = yield from self.holds.living_holder(within, draft.made)
            if holder is not None:
                yield from self.journal.fence(marked, version)
                raise still_referenced(self.journal.name_of(seen.key), self.journal.name_of(holder))
        return marked

    # Several at once.

    def swap_all(
        self, ready: Sequence[tuple[SeenRow, Prepared]], there: Collection[bytes] = ()
    ) -> Plan[list[Committed | StoreError | None]]:
        """The commit points of several rows, and before them all markers and a read of the sums that they add to.

        Answers of each what is committed, None where another commit came first, or the error of the commit point.
        `there` are the rows whose markers are put already.
        """
        before: list[Request[Any]] = []
        with_marker = {seen.key for seen, made in ready if made.intents or self._may_lack(seen.root, made.root)}
        markers = [
            marker_row(seen.key, made.root.version)
            for seen, made in ready
            if seen.key in with_marker and seen.key not in there
        ]
        if markers:
            before.append(Mutate("system", markers))
        announced = list({each.key: each for _seen, made in ready for each in made.announced}.values())
        if announced:
            before.append(Mutate("counts", announced))
        sums = list(dict.fromkeys(shard for _seen, made in ready for shard in made.intents.deltas))
        if sums:
            before.append(Read("counts", sums, "dm"))
        answers = (yield from Together([surely(each) for each in before])) if before else []
        self.views.shards.note_announced(announced)
        shards: dict[bytes, Row | None] = dict(zip(sums, answers[-1], strict=True)) if sums else {}
        swaps = [self._has_swapped(seen, made, shards) for seen, made in ready]
        swapped = (yield from Together(swaps)) if swaps else []
        done: list[Committed | StoreError | None] = []
        for (seen, made), was_first in zip(ready, swapped, strict=True):
            if isinstance(was_first, StoreError):
                done.append(was_first)
            elif was_first:
                versions = [made.root.version] if seen.key in with_marker or seen.key in there else []
                intents = made.intents or Intents(made.root.version)
                done.append(Committed(seen.key, intents, shards, versions, made.root))
            else:
                done.append(None)
        return done

    def _has_swapped(
        self, seen: SeenRow, made: Prepared, shards: Mapping[bytes, Row | None]
    ) -> Plan[bool | StoreError]:
        """The commit point of one row, unless a sum that it adds to cannot be read."""
        try:
            check_sums(made.intents.deltas, shards)
            return (yield from self.journal.swap_root(seen, made.cells, made.commit))
        except StoreError as error:
            return error


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


def _fanning(decided: Iterable[tuple[bytes, Decision]]) -> dict[bytes, set[bytes]]:
    """The entities whose holders follow, with the selections that none of their decisions has changed."""
    fanning: dict[bytes, set[bytes]] = {}
    for key, decision in decided:
        if decision.fans_out:
            fanning[key] = fanning.get(key, {*decision.unchanged}).intersection(decision.unchanged)
    return fanning


def _is_own(pointer: bytes, group: bytes) -> bool:
    """Whether a back-reference or hold is one to the root of the group."""
    return pointer.startswith((outbox.holders_of(group).start, outbox.holds_on(group).start))


def _version_of(basis: Basis, group: bytes) -> int:
    row = basis.rows[group]
    assert not isinstance(row, EntityRow), "the basis of a group has cells"
    return 0 if row is None else decode_version(row[VERSION].value)


def _intents(ready: Ready, added: dict[bytes, bytes], groups: list[bytes]) -> Intents:
    """What follows from a decision, but for what is written before the commit point.

    With what is `added` to rows of `counts`, and the groups that changed and are shown.
    """
    decision, group = ready.decision, ready.group
    assert decision.root is not None, "a decision that changes nothing is not written"
    operations = decision.operations
    puts = {key: value for key, value in operations.puts.items() if pointer_part(key) not in _POINTERS}
    puts.update(group.pointers)
    children, version, left_out = list(group.children), decision.root.version, decision.unchanged
    return Intents(
        version, puts, operations.deletes, added, decision.fans_out, children=children, groups=groups,
        unchanged=left_out, jobs=ready.jobs,
    )  # fmt: skip
