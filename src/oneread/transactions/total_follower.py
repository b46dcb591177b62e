"""What shows groups follows them, on a store that changes one row at a time: entities with totals, indexes over groups.

A commit that changes groups leaves a task of each, and does them itself before it returns: the entity that shows a
group is committed again with the group's numbers, read after its root row. So is the root row of a group that indexes
list, which has no other use. See rules R1 to R5 of the commit protocol, and docs/decisions/0090-totals-on-one-row.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

from oneread.errors import OnereadError
from oneread.plans.effects import Now, Sleep
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import ABSENT, CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import Cell, Row, RowMutation, RowRange, later
from oneread.transactions import outbox
from oneread.transactions.back_references import taken_by
from oneread.transactions.commit import Change, Decision
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.derived_writes import DerivedWrites, Group, GroupIndexes
from oneread.transactions.drafts import GroupDraft, LostRace, Ready
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import read_pending
from oneread.transactions.journal import Committed, group_tasks
from oneread.transactions.leases import LEASE, Lease, LeaseHolder, encode_lease, lease_in
from oneread.transactions.outbox import group_of_root, group_root
from oneread.transactions.pipeline import AttemptPlan, Pipeline
from oneread.transactions.refusals import PartRefused, tell_apart
from oneread.transactions.root import NO_ROOT, Root, next_version
from oneread.transactions.shown_groups import (
    RowsAndGroups,
    decode_listed,
    encode_listed,
    listed_digests,
    read_groups,
)
from oneread.transactions.tasks import TaskStepResult

_log = logging.getLogger(__name__)

_WHOLE: Final = b""
"""Stands for the holder of a group that is set aside because an index cannot list it."""

_GROUPS: Final = 200
"""Groups of one scan."""

Waiting: TypeAlias = dict[bytes, dict[bytes, int]]
"""Tasks of groups: key to the cells that are removed once it is done, with their stamps."""

ShownAgain: TypeAlias = tuple[Committed | None, list[bytes]]
"""A commit of what shows groups, which is applied, and the tasks that it leaves; of what is set aside, its task."""

AskAlone: TypeAlias = Callable[[], Plan[bool]]
"""Whether all programs that may write have this one's schema, as of now."""


class TotalFollower:
    """Applies commits, and lets entities and indexes show the groups as they are."""

    def __init__(self, pipeline: Pipeline, copies: CopyFollower) -> None:
        self._pipeline = pipeline
        self._copies = copies
        self._journal = pipeline.journal
        self._views = pipeline.views

    def apply_and_show(self, done: Sequence[Committed], changes: Sequence[Change]) -> Plan[list[bytes]]:
        """Applies commits of these changes, and does the tasks of groups that they leave, unless those are many.

        Returns what is left to do, as tasks. Nothing raises here: the commits are made. What could not be done is left
        to workers.
        """
        tasks = yield from self._copies.apply_and_follow(*done)
        if not self._views.inline or not any(map(outbox.is_group_task, tasks)):
            return tasks
        waiting: Waiting = {}
        try:
            left = yield from self._note(done, tasks, waiting)
            left += yield from self._do(waiting, changes, len(done))
        except OnereadError as error:
            names = [self._journal.name_of(each.key) for each in done]
            _log.warning("totals are not shown yet, which workers will do: %s: %s", names, error)
            return tasks
        return left

    def _note(self, done: Sequence[Committed], tasks: Collection[bytes], waiting: Waiting) -> Plan[list[bytes]]:
        """Adds the tasks of groups that commits left, with the cells of now; returns the other tasks.

        Where something is not applied, all are left: recovery may put a cell that was removed here before, in vain.
        """
        if any(map(read_pending, tasks)):
            return list(tasks)
        groups = list(dict.fromkeys(filter(outbox.is_group_task, tasks)))
        if groups and any(each.intents.sources(each.key) for each in done):  # holders that followed have cells, too
            yield from self._note_cells(groups, waiting)
        else:
            for each in done:
                for task in group_tasks(each):
                    waiting.setdefault(task, {})[outbox.source_column(each.key)] = each.intents.version
        return [task for task in tasks if not outbox.is_group_task(task)]

    def _note_cells(self, groups: list[bytes], waiting: Waiting) -> Plan[None]:
        """Adds tasks with the cells that they have; those without any are done."""
        for task, row in zip(groups, (yield from Read("system", groups)), strict=True):
            cells = outbox.waiting_cells(row)
            if cells:
                waiting.setdefault(task, {}).update(cells)

    def _do(self, waiting: Waiting, changes: Sequence[Change], commits: int = 1) -> Plan[list[bytes]]:
        """Does tasks of groups, of the lowest rank first, and what they leave; returns the tasks that are left.

        Those of groups of which something is set aside are among them: who waits for them learns that.
        Those that many commits have left may be as many times more.
        """
        left: list[bytes] = []
        cells: Waiting = {}
        while waiting:
            known = {task: self.group_at(outbox.group_of_task(task)) for task in waiting}
            groups = _of_lowest_rank(known, commits * self._views.inline - len(cells))
            if not groups:
                left += waiting
                break
            noted = {task: waiting.pop(task) for task in groups}
            for done, tasks in (yield from self.follow_groups(list(groups.values()))):
                if done is None:
                    left += tasks
                    continue
                left += yield from self._note([done], tasks, waiting)
                for change in changes:
                    root = _root_in(done, change.key)
                    if root is not None:
                        change.followed(root)
            cells |= {task: cells.get(task, {}) | each for task, each in noted.items()}
        if cells:
            yield from Mutate("system", [RowMutation(task, deletes=each) for task, each in cells.items()])
        return list(dict.fromkeys(left))

    def group_at(self, key: bytes) -> Group | None:
        """The group with this row in `counts`, if this program knows it."""
        return None if self._views.followers.group_at is None else self._views.followers.group_at(key)

    def do(self, tasks: list[bytes]) -> Plan[None]:
        """Does these tasks of groups if they wait, and what they leave."""
        waiting: Waiting = {}
        yield from self._note_cells(tasks, waiting)
        yield from self._do(waiting, ())

    def follow_groups(self, groups: Sequence[Group]) -> Plan[list[ShownAgain]]:
        """Commits what shows groups again, with their numbers, and applies it; what refuses them is set aside.

        Raises:
            StoreError: what shows them cannot be read or written.
        """
        found: list[ShownAgain] = []
        for holder in dict.fromkeys([key for each in groups for key in each.holders]):
            shown = [each for each in groups if holder in each.holders]
            found += yield from in_time(self._show_all(holder, shown), self._journal.clock, OPERATION)
        for each in groups:
            if each.indexes is not None:
                listing = self._tried(each, _WHOLE, partial(self._list, each, each.indexes))
                found += yield from in_time(listing, self._journal.clock, OPERATION)
        return found

    def show_counter(self, group: Group) -> Plan[None]:
        """Commits the entities that show a named counter again, with its value.

        Raises:
            PartRefused: an entity refuses it.
        """
        for holder in group.holders:
            attempt = partial(self._show, self._views.followers.of_groups(holder, [group]), [group], set[int]())
            yield from in_time(tell_apart(partial(self._commit, attempt, holder)), self._journal.clock, OPERATION)

    def show_again(self, holder: bytes, groups: Sequence[Group]) -> Plan[None]:
        """Commits an entity with the numbers of groups, whatever it says to have taken of them; then what follows.

        Raises:
            PartRefused: the entity refuses them.
        """
        attempt = partial(self._show, self._views.followers.of_groups(holder, groups), groups, set[int](), always=True)
        showing = partial(self._pipeline.win, attempt, holder)
        done = yield from in_time(tell_apart(showing), self._journal.clock, OPERATION)
        if done is not None:
            yield from self.apply_and_show([done], ())

    def _commit(self, attempt: AttemptPlan, key: bytes) -> Plan[None]:
        done = yield from self._pipeline.win(attempt, key)
        if done is not None:
            yield from self._copies.apply_and_follow(done)

    def _show_all(self, holder: bytes, groups: Sequence[Group]) -> Plan[list[ShownAgain]]:
        """Gives an entity the numbers of groups in one commit; in one for each where that is refused."""
        change = self._views.followers.of_groups(holder, groups)
        attempt = partial(self._show, change, groups, set[int]())
        if len(groups) == 1:
            return (yield from self._tried(groups[0], holder, attempt))
        try:
            done = yield from tell_apart(partial(self._pipeline.win, attempt, holder))
        except PartRefused:
            found: list[ShownAgain] = []
            for each in groups:
                found += yield from self._show_all(holder, [each])
            return found
        return [] if done is None else [(done, (yield from self._copies.apply_and_follow(done)))]

    def _tried(self, group: Group, holder: bytes, attempt: AttemptPlan) -> Plan[list[ShownAgain]]:
        try:
            done = yield from tell_apart(partial(self._pipeline.win, attempt, holder or group_root(group.key)))
        except PartRefused as refused:
            yield from self._copies.set_aside(group_root(group.key), holder, refused.error)
            return [(None, [outbox.group_task(group.key)])]
        return [] if done is None else [(done, (yield from self._copies.apply_and_follow(done)))]

    def _show(
        self, change: Change, groups: Sequence[Group], fenced: set[int], *, always: bool = False
    ) -> Plan[Committed | None]:
        """One attempt to give an entity the numbers of groups; None where it has them, or is not there.

        It has those of its row, or the row is wrong and it is `always` committed.

        An entity that is made at the same time may have read them before they changed: a fence ends that attempt, and
        one that begins afterwards reads them as they are. `fenced` are the versions that were seen without it. All of
        this is the group's root for a child.
        """
        seen, row = yield from self._pipeline.read_whole(self._pipeline.group(change))
        draft = GroupDraft(seen, row, (yield from Now()))
        draft.put = set()
        yield from self._pipeline.read_children(draft, [change.key])
        if draft.root_of(change).body is None:
            if fenced - {seen.version} or (yield from self._journal.fence(seen, 0)):
                return None
            fenced.add(seen.version)
            raise LostRace
        yield from self._pipeline.load(draft, [change])
        used, shown = draft.stored[change.key].used, draft.rows.shown[change.key]
        if not always and not any(each.extrema for each in groups) and used.items() >= shown.items():
            return None
        draft.decide(change)
        if not draft.decided:  # others may be about to show other numbers, read before: this ends their attempts
            draft.write_again(change.key)
        return (yield from self._pipeline.write(self._pipeline.ready(draft, taken_by([change], None))))

    def _list(self, group: Group, indexes: GroupIndexes, *, writes_all: bool = False) -> Plan[Committed | None]:
        """One attempt to give a group the index rows of its numbers; None where it has them.

        It has those of its record, or the record is wrong and it `writes_all`.
        """
        key = group_root(group.key)
        seen, _row = yield from self._pipeline.read_whole(key)
        listed = group._replace(extrema=tuple(indexes.extrema(group.key)))
        sources = RowsAndGroups()
        yield from read_groups(sources, key, [listed], self._views.shards)
        shown, writes = indexes.rows(group.key, sources.groups[group.key]), sources.shown[key]
        before, now = decode_listed(seen.root.emitted), listed_digests(shown)
        if not writes_all and not listed.extrema and before == now and seen.used.items() >= writes.items():
            return None
        puts = {place: shown[place] for place in shown if writes_all or before.get(place) != now[place]}
        derived = DerivedWrites(puts, [place for place in before if place not in now])
        version = next_version((yield from Now()), seen.version, key)
        root = Root(version, None, encode_listed(now))
        return (yield from self._pipeline.write(Ready(seen, Decision(root, derived), writes, (), {})))

    def list_again(self, group: Group, indexes: GroupIndexes) -> Plan[None]:
        """Commits the root row of a group with all its index rows: the store may lack what its record has.

        Raises:
            PartRefused: an index refuses its numbers.
        """
        attempt = partial(self._list, group, indexes, writes_all=True)
        listing = partial(self._commit, attempt, group_root(group.key))
        yield from in_time(tell_apart(listing), self._journal.clock, OPERATION)

    def follow_groups_of(self, aggregates: Sequence[bytes]) -> Plan[None]:
        """Programs that do not know what shows a group write until their lease is over, and leave no tasks."""
        for prefix in aggregates:
            within = RowRange.under(prefix)
            while found := (yield from Scan("counts", within, _GROUPS, families="dm")):
                groups = {each.key: each for key, _row in found if (each := self.group_at(key)) is not None}
                for group in groups.values():
                    yield from self.follow_groups([group])
                within = within.behind(found[-1][0])
                yield from Sleep(0.0)

    def retry_aside(self, source: bytes, holder: bytes) -> Plan[None]:
        """Shows a group again which something refused."""
        key = outbox.aside_key(source, holder)
        (before,) = yield from Read("system", [key], "dm")
        group = self.group_at(group_of_root(source))
        if group is not None:
            yield from self.follow_groups([group])
            yield from self._copies.end_aside(key, before)

    @property
    def shows_groups(self) -> bool:
        """Whether this program shows totals of groups."""
        return self._views.followers.group_at is not None

    def next_group(self, leases: LeaseHolder, writes_alone: AskAlone, failing: set[bytes]) -> Plan[TaskStepResult]:
        """Does the first task of a group that no other worker has; ends those of groups that nothing shows any more.

        Passes over those that are `failing`, and adds one that the store fails.
        """
        within, result, may_end = outbox.GROUP_TASKS, TaskStepResult.IDLE, True
        while True:
            found = yield from Scan("system", within, 1)
            if not found:
                return result
            task = found[0][0]
            (row,) = yield from Read("system", [task], "dm")
            group = self.group_at(outbox.group_of_task(task))
            if group is None and may_end:
                # The schema is read after the row, so that each cell in it is of a program that may not write any more.
                may_end = yield from writes_alone()
                if may_end:
                    yield from Mutate("system", [RowMutation(task, deletes=outbox.waiting_cells(row))])
                    result = TaskStepResult.DONE
            elif group is not None and row is not None and task not in failing:
                now = yield from Now()
                if leases.may_take(task, lease_in(row), now):
                    failing.add(task)  # which it is if this raises
                    yield from self._work(task, group, row, leases)
                    failing.discard(task)
                    return TaskStepResult.DONE
                result = result or TaskStepResult.HELD
            within = within.behind(task)

    def _work(self, task: bytes, group: Group, row: Row, leases: LeaseHolder) -> Plan[None]:
        """Does a task under a lease, which is freed afterwards and never removed: its key comes again (rule R5)."""
        now = yield from Now()
        mine = leases.renew(task, lease_in(row), now)
        taken = _lease_cell(mine, row.get(LEASE), now)
        if not (yield from _swap(row.get(LEASE), RowMutation(task, {LEASE: taken}))):
            return
        yield from self.follow_groups([group])
        freed = _lease_cell(leases.left(task, mine), taken, now)
        yield from _swap(taken, RowMutation(task, {LEASE: freed}, outbox.waiting_cells(row)))


def _root_in(done: Committed, key: bytes) -> Root | None:
    """What a commit has made of the row of an entity; None for an entity that it leaves alone."""
    if done.key == key:
        return None if done.root is NO_ROOT else done.root
    child = next((each for each in done.intents.children if each.key == key), None)
    return None if child is None else Root(done.intents.version, child.body, child.emitted, child.own)


def _of_lowest_rank(known: Mapping[bytes, Group | None], most: int) -> dict[bytes, Group]:
    """The first groups that settle, by their tasks; not those that this program does not know."""
    groups = {task: group for task, group in known.items() if group is not None}
    rank = min([each.rank for each in groups.values()], default=0)
    return dict([each for each in groups.items() if each[1].rank == rank][:most])


def _lease_cell(lease: Lease, before: Cell | None, now: int) -> Cell:
    return Cell(encode_lease(lease), later(None if before is None else {LEASE: before}, now))


def _swap(before: Cell | None, wanted: RowMutation) -> CheckAndMutate:
    """Takes or frees the lease of a task."""
    return CheckAndMutate("system", LEASE, ABSENT if before is None else before.value, wanted)
