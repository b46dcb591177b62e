"""Many changes on a store that changes one row at a time: pages of them, each change a commit of its own.

The rows of a page are read in one request, what must be there before their commit points is written together, and what
follows from all of them is applied together; only the commit point of each is a request of its own. A page ends before
a change that needs more: that one is done alone. So changes are made in their order, but for those whose commit points
are in one page. Children of entity groups are committed by their group, all groups at the same time. See
docs/decisions/0102-pages-of-commits.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from oneread.errors import OnereadError, StoreError
from oneread.plans.effects import Now, Together
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read, Request
from oneread.store.rows import Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.commit import Change, Commit
from oneread.transactions.intents import INTENTS, SeenRow, marker_row, read_pending, read_root, root_row
from oneread.transactions.lost_answers import surely
from oneread.transactions.refusals import is_refusal
from oneread.transactions.root import next_version
from oneread.transactions.row_apply import Committed, group_tasks, left_tasks, reserve
from oneread.transactions.row_commits import LATER, Prepared, Ready, Unfollowed, was_made
from oneread.transactions.row_followers import PAGE, PAGE_BYTES
from oneread.transactions.row_pointers import put_cell, put_pointers, taken_by
from oneread.transactions.row_rollups import TotalsCommitter, Waiting
from oneread.transactions.row_shown_groups import RowsAndGroups, read_groups
from oneread.transactions.row_time import OPERATION
from oneread.transactions.unit_of_work import VALUE

_log = logging.getLogger(__name__)

GROUP_PAGE: Final = 50
"""Changes of one entity group in one commit, at most."""


class BatchDone(NamedTuple):
    """What a batch came to: the tasks that it left, and by their places the changes that are refused."""

    tasks: list[bytes]
    refused: dict[int, OnereadError]


class _Item(NamedTuple):
    """A change whose row was read. `wanted` are the rows that its decision needs, `rows` those that it has."""

    change: Change
    seen: SeenRow
    row: Row | None
    version: int
    wanted: Sequence[bytes]
    rows: RowsAndGroups


class _Decided(NamedTuple):
    """A change that can be committed, and whether a marker of its version is put; `prepared` is None for nothing."""

    item: _Item
    prepared: Prepared | None
    is_marked: bool


class PagesCommitter(TotalsCommitter):
    """Commits of one open database, and batches of many changes."""

    def commit_batch(self, changes: Sequence[Change], *, stops: bool) -> Plan[BatchDone]:
        """Commits changes, each by itself, in pages; with `stops` none behind the first that is refused is begun.

        Costs a request a change, and some for each page.

        Raises:
            StoreError: the store failed. Some of the changes are committed.
        """
        done = BatchDone([], {})
        place, size = 0, PAGE
        while place < len(changes) and not (stops and done.refused):
            run = changes[place : place + size]
            children = self._first_children(run)
            if children:
                yield from self._commit_groups(changes, range(place, place + children), done)
                place += children
                continue
            paged = yield from self._commit_first(run, place, done)
            place += paged
            if paged == len(run):
                size = min(PAGE, 2 * size)
            else:
                size = max(1, min(size, len(run)) // 2)
                if self.group(changes[place]) == changes[place].key:
                    yield from self._commit_alone(changes[place], place, done)
                    place += 1
        return done

    def _first_children(self, run: Sequence[Change]) -> int:
        """How many of the first changes are of children."""
        return next((number for number, each in enumerate(run) if self.group(each) == each.key), len(run))

    def _commit_alone(self, change: Change, place: int, done: BatchDone) -> Plan[None]:
        commit = Commit([change])
        try:
            done.tasks.extend((yield from self.commit(commit)))
        except OnereadError as error:
            if not (is_refusal(error) and commit.is_deciding):
                raise
            done.refused[place] = error

    # Entities outside of other groups.

    def _commit_first(self, run: Sequence[Change], place: int, done: BatchDone) -> Plan[int]:
        """Commits the first changes of a run, as many as go together; returns how many."""
        if len(run) == 1:
            return 0
        yield from self.renew_lease()
        return (yield from in_time(self._commit_together(run, place, done), self.clock, OPERATION))

    def _commit_together(self, run: Sequence[Change], place: int, done: BatchDone) -> Plan[int]:
        now = yield from Now()
        items = yield from self._read_items(list(self._distinct(run)), now)
        yield from self._read_needed(items, now)
        decided: list[_Decided] = []
        size = 0
        for item in items:
            try:
                made = yield from self._decide_item(item, now)
            except (OnereadError, Unfollowed):  # alone, it is raised, or follows
                break
            if made is None:
                break
            size += 0 if made.prepared is None else len(made.prepared.cells[INTENTS].value)
            if size > PAGE_BYTES:
                break
            decided.append(made)
        lost = yield from self._write_all(decided, done)
        for number in lost:
            yield from self._commit_alone(run[number], place + number, done)
        return len(decided)

    def _distinct(self, run: Sequence[Change]) -> Iterator[Change]:
        """The first changes of a run that are of different rows, and of no child."""
        keys: set[bytes] = set()
        for change in run:
            if self.group(change) != change.key or change.key in keys:
                return
            keys.add(change.key)
            yield change

    def _read_items(self, changes: Sequence[Change], now: int) -> Plan[list[_Item]]:
        """Reads the rows of changes, and puts their markers and back-references; ends before one that must be alone."""
        markers = [marker_row(each.key, now) for each in changes if each.likely_derives]
        pointers = {each.key: list(each.pointers(None)) for each in changes}
        together = [place for several in pointers.values() for place in several]
        first: list[Request[Any]] = [Read("roots", [each.key for each in changes], "dm")]
        first += [Mutate("system", markers)] if markers else []
        first += [put_pointers(together, now)] if together else []
        found: list[Row | None]
        found, *_others = yield from Together([surely(each) for each in first])
        items: list[_Item] = []
        lacking: list[RowMutation] = []
        for change, stored in zip(changes, found, strict=True):
            try:
                row = self.laid(change.key, stored)
                seen = read_root(change.key, row)
                wanted = list(dict.fromkeys([*change.hints(), *change.links(seen.root)]))
                places = list(change.pointers(seen.root))
            except OnereadError:  # alone, it is raised
                break
            wanted = [key for key in wanted if key != change.key]
            if seen.intents is not None or any(self._recorded.group(each) != each for each in wanted):
                break
            version = next_version(now, seen.version, change.key)
            put = {*self._recorded.pointers(change.key, seen.root), *(pointers[change.key] if version == now else ())}
            lacking += [put_cell(each, VALUE, outbox.PRESENT, version) for each in places if each not in put]
            items.append(_Item(change, seen, row, version, wanted, RowsAndGroups()))
        if lacking:
            yield from surely(Mutate("views", lacking))
        return items

    def _read_needed(self, items: Sequence[_Item], now: int) -> Plan[None]:
        """Reads what decisions need, behind the rows of the changes and their back-references."""
        wanted = list(dict.fromkeys(key for each in items for key in each.wanted))
        rows: dict[bytes, Row | None] = {}
        if wanted:
            read = zip(wanted, (yield from surely(Read("roots", wanted, "dm"))), strict=True)
            rows = {key: root_row(row) for key, row in read if not read_root(key, row).marked}
        reading: list[Plan[None]] = []
        for each in items:
            each.rows.now = now
            each.rows.update({key: rows[key] for key in each.wanted if key in rows})
            each.rows[each.seen.key] = root_row(each.row)
            groups = each.change.groups(each.seen.root)
            if groups:
                reading.append(read_groups(each.rows, each.change.key, groups, self.shards, self.read_counter))
        if reading:
            yield from Together(reading)

    def _decide_item(self, item: _Item, now: int) -> Plan[_Decided | None]:
        """What one change commits; None for one that must be done alone.

        Raises OnereadError as for that.
        """
        change, seen, sources = item.change, item.seen, item.rows
        if any(key not in sources for key in item.wanted):  # the delete of a source has begun
            return None
        if was_made(change, seen):
            return _Decided(item, None, is_marked=False)
        self._check_followed(change, seen, sources)
        decision = change.decide(seen.root, item.version, sources)
        if decision.unreferenced or decision.operations.claimed:
            return None
        if decision.root is None:
            return _Decided(item, None, is_marked=False)
        used = self._used(seen, decision.root, sources, taken_by([change], None))
        prepared = yield from self._prepare(Ready(seen, decision, used, (), {}, known=change.known))
        return _Decided(item, prepared, is_marked=change.likely_derives and item.version == now)

    def _write_all(self, decided: Sequence[_Decided], done: BatchDone) -> Plan[list[int]]:
        """Commits what was decided, and applies it; returns the places of changes that others came before.

        Raises the first error of a commit point, when what was committed is applied.
        """
        made = [(number, each, each.prepared) for number, each in enumerate(decided) if each.prepared is not None]
        ready = [(each.item.seen, prepared) for _number, each, prepared in made]
        marked = {each.item.seen.key for _number, each, _prepared in made if each.is_marked}
        for seen, prepared in ready:
            if prepared.intents:
                yield from reserve(seen.key, prepared.intents, [prepared.root.version])
        outcomes = (yield from self.swap_all(ready, marked)) if ready else []
        committed = [each for each in outcomes if isinstance(each, Committed)]
        changes = [each.item.change for _number, each, _prepared in made]
        done.tasks.extend((yield from self._complete_all(committed, changes)))
        for each in outcomes:
            if isinstance(each, StoreError):
                raise each
        return [number for (number, *_rest), each in zip(made, outcomes, strict=True) if each is None]

    # Children, by their groups.

    def _commit_groups(self, changes: Sequence[Change], places: range, done: BatchDone) -> Plan[None]:
        """Commits changes of children: those of one entity group together, the groups at the same time.

        Where a group refuses one, its changes are committed one by one.
        """
        groups: dict[bytes, list[list[int]]] = {}
        for place in places:
            parts = groups.setdefault(self.group(changes[place]), [[]])
            if len(parts[-1]) == GROUP_PAGE:
                parts.append([])
            parts[-1].append(place)
        for number in range(max(map(len, groups.values()))):
            several = [parts[number] for parts in groups.values() if number < len(parts)]
            yield from self._commit_parts([[(place, changes[place]) for place in each] for each in several], done)

    def _commit_parts(self, parts: Sequence[Sequence[tuple[int, Change]]], done: BatchDone) -> Plan[None]:
        """Commits parts of different groups."""
        tries = [self._try_group([change for _place, change in each]) for each in parts]
        outcomes = yield from Together(tries)
        committed = [each for each in outcomes if isinstance(each, Committed)]
        changes = [change for each in parts for _place, change in each]
        done.tasks.extend((yield from self._complete_all(_with_own_shards(committed), changes)))
        for each in outcomes:
            if isinstance(each, OnereadError) and not is_refusal(each):
                raise each
        left = [each for each, outcome in zip(parts, outcomes, strict=True) if isinstance(outcome, OnereadError)]
        for place, change in sorted((each for part in left for each in part), key=lambda each: each[0]):
            yield from self._commit_alone(change, place, done)

    def _try_group(self, changes: Sequence[Change]) -> Plan[Committed | OnereadError | None]:
        """The commit of changes of one group, which is not applied yet; or why there is none."""
        attempt = partial(self._attempt_group, self.group(changes[0]), changes, None, None)
        try:
            return (yield from in_time(self._until_won(attempt, changes[0].key), self.clock, OPERATION))
        except OnereadError as error:
            return error

    # Behind the commit points.

    def _complete_all(self, done: Sequence[Committed], changes: Sequence[Change]) -> Plan[list[bytes]]:
        """Applies commits of these changes together, at once or later; returns what is left to do, as tasks."""
        if not done:
            return []
        if self.applies_later and len(self._later) + len(done) <= LATER:
            self._later.extend(done)
            return [task for each in done for task in left_tasks(each)]
        tasks = yield from self._apply_now(*done)
        return (yield from self._show_groups_of(done, tasks, changes))

    def _show_groups_of(
        self, done: Sequence[Committed], tasks: list[bytes], changes: Sequence[Change]
    ) -> Plan[list[bytes]]:
        """Does the tasks of groups that commits left, as `_settle` does those of one."""
        if not any(map(outbox.is_group_task, tasks)):
            return tasks
        left = [task for task in tasks if not outbox.is_group_task(task)]
        if any(map(read_pending, left)):
            return tasks
        waiting: Waiting = {}
        try:
            for each in done:
                yield from self._note(each, group_tasks(each), waiting)
            left += yield from self._do(waiting, changes, len(done))
        except OnereadError as error:
            _log.warning("totals are not shown yet, which workers will do: %s", error)
            return tasks
        return left


def _with_own_shards(done: Sequence[Committed]) -> list[Committed]:
    """Commits with the rows of `counts` that only one of them has read: another's may have come before the reading."""
    readers: dict[bytes, int] = {}
    for each in done:
        for shard in each.shards:
            readers[shard] = readers.get(shard, 0) + 1
    known = {key: row for each in done for key, row in each.shards.items() if readers[key] == 1}
    return [each._replace(shards=known) for each in done]
