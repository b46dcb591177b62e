"""How holders follow their source on stores that change one row at a time: a page of them at once.

All holders of a page are read in one request, the source after them, and what follows from all is written together;
only the commit point of each is a request of its own. A holder that cannot go with the others - its row has intents, or
another commit of it comes first - is done alone. See rule 14 of the commit protocol and docs/decisions/0080.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from oneread.errors import Corrupt, OnereadError, StoreError
from oneread.plans.effects import Now, Together
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.keys import SELECTION_BYTES, holder_part, kind_part
from oneread.store.requests import CheckAndMutate, Found, Mutate, Read, Request, Scan
from oneread.store.rows import REMOVED, Cell, Row, RowMutation
from oneread.transactions import outbox
from oneread.transactions.commit import Change, Decision
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.intents import INTENTS, Intents, SeenRow, marker_row, read_root, root_row
from oneread.transactions.lost_answers import surely
from oneread.transactions.refusals import PartRefused, raises_again, tell_apart
from oneread.transactions.root import VERSION, Root, next_version
from oneread.transactions.row_apply import Committed, check_sums
from oneread.transactions.row_commits import Prepared, Ready, RowCommitter
from oneread.transactions.row_feeds import follow_all
from oneread.transactions.row_pointers import taken_by
from oneread.transactions.row_shown_groups import RowsAndGroups
from oneread.transactions.row_time import OPERATION
from oneread.transactions.system_rows import Swap
from oneread.transactions.unit_of_work import VALUE, later

PAGE: Final = 100
"""Holders that follow at once, at most."""

PAGE_BYTES: Final = 4_000_000
"""Bytes of the intents of one page; holders beyond them are done alone."""


class _Holder(NamedTuple):
    """A holder as it was read, one of its back-references, and the change that lets it follow.

    `wanted` are the root rows that its decision needs, but for its own.
    """

    seen: SeenRow
    row: Row
    place: bytes
    change: Change
    wanted: Sequence[bytes]


class _Alone(Exception):
    """A holder needs more than the others: it is done alone."""


class _Page:
    """The back-references of one page: `stamps` by key, and `alone` what cannot be done with the others."""

    def __init__(self, source: bytes, found: Sequence[Found]) -> None:
        start = len(outbox.holders_of(source).start)
        self.stamps = {place: row[VALUE].stamp for place, row in found}
        self.places: dict[bytes, list[bytes]] = {}
        for place in self.stamps:
            self.places.setdefault(holder_part(place[start:]), []).append(place)
        self.alone: dict[bytes, None] = {}

    def leave(self, holder: bytes) -> None:
        """Leaves a holder to be done alone."""
        self.alone.update(dict.fromkeys(self.places[holder]))


class FollowingCommitter(RowCommitter):
    """Commits, and lets the holders of what was committed follow."""

    def _follow_few(self, source: bytes, version: int) -> Plan[list[bytes]]:
        task = outbox.version_key(source, version)
        found = yield from Scan("views", outbox.holders_of(source), self._inline + 1)
        if len(found) > self._inline:
            return [task]
        left = yield from self.follow_page(source, found)
        yield from Mutate("system", [RowMutation(task, deletes={VALUE: version})])
        return left

    def follow_page(self, source: bytes, found: Sequence[Found]) -> Plan[list[bytes]]:
        """Lets the holders of back-references follow their source, and removes those that do not refer to it.

        Returns the tasks that are left for the holders of the holders, and of sources whose holders are set aside.
        """
        left: list[bytes] = []
        leaves = self.leaves_of(source, found)
        if leaves:
            yield from self.renew_lease()
            places = {place for place, _row in leaves}
            others = [each for each in found if each[0] not in places]
            found = others + (yield from in_time(self._put_cells(source, leaves), self.clock, OPERATION))
        for first in range(0, len(found), PAGE):
            yield from self.renew_lease()
            page = _Page(source, found[first : first + PAGE])
            left += yield from in_time(self._follow_all(source, page), self.clock, OPERATION)
            for place in page.alone:
                alone = self.follow_pointer(source, place, page.stamps[place])
                left += yield from in_time(alone, self.clock, OPERATION)
        return list(dict.fromkeys(left))

    # Holders from whose copies nothing follows.

    def leaves_of(self, source: bytes, found: Sequence[Found]) -> list[Found]:
        """The back-references of holders from whose copies nothing follows."""
        start = len(outbox.holders_of(source).start)
        return [each for each in found if self._cells.has_leaf(source, *_selected(each[0][start:]))]

    def _put_cells(self, source: bytes, leaves: Sequence[Found]) -> Plan[list[Found]]:
        """Puts copied values into the rows of holders, which are neither read nor committed (rule 13).

        The source is read after the back-references: an attempt that puts one later reads this version of the source,
        or a later one. Returns those whose holders must be committed.
        """
        start = len(outbox.holders_of(source).start)
        _seen, root = yield from self._settled(source)
        values: dict[tuple[bytes, bytes], bytes | None] = {}
        puts: dict[bytes, Row] = {}
        left: list[Found] = []
        for each in leaves:
            taken, holder = _selected(each[0][start:])
            form = taken, kind_part(holder)
            if form not in values:
                values[form] = self._cells.value(source, root, taken, holder)
            value = values[form]
            if value is None:
                left.append(each)
            else:
                puts.setdefault(holder, {})[COPY_CELL + source + taken] = Cell(value, root.version)
        if puts:
            yield from surely(Mutate("roots", [RowMutation(holder, row) for holder, row in puts.items()]))
        return left

    # A page of holders at once.

    def _follow_all(self, source: bytes, page: _Page) -> Plan[list[bytes]]:
        done = yield from self._commit_page(source, page)
        return (yield from self._apply_now(*done))

    def _commit_page(self, source: bytes, page: _Page) -> Plan[list[Committed]]:
        """Commits all holders of a page that are done together; the others are noted in it."""
        holders = yield from self._read_holders(source, page)
        if not holders:
            return []
        now = yield from Now()
        sources = yield from self._read_sources(holders)
        ready: list[tuple[_Holder, Prepared]] = []
        size = 0
        for each in holders:
            decide = partial(self._decide, source, each, sources, now)
            try:
                found = decide()
                if found is None:
                    continue
                prepared = yield from self._prepare(found)
            except (OnereadError, _Alone):  # alone, an error is set aside
                page.alone[each.place] = None
                continue
            except Exception as error:
                if not raises_again(decide, error):
                    raise
                page.alone[each.place] = None
                continue
            size += len(prepared.cells[INTENTS].value)
            if size > PAGE_BYTES:
                page.alone[each.place] = None
            else:
                ready.append((each, prepared))
        outcomes = yield from self.swap_all([(each.seen, prepared) for each, prepared in ready])
        done = [each for each in outcomes if isinstance(each, Committed)]
        lost = [
            each.place
            for (each, _made), outcome in zip(ready, outcomes, strict=True)
            if not isinstance(outcome, Committed)
        ]
        page.alone.update(dict.fromkeys(lost))  # alone, an error is met again
        return done

    def _read_holders(self, source: bytes, page: _Page) -> Plan[list[_Holder]]:
        """The holders that refer to the source; back-references of others are removed."""
        keys = list(page.places)
        rows = yield from surely(Read("roots", keys, "dm"))
        holders: list[_Holder] = []
        gone: list[RowMutation] = []
        for key, stored in zip(keys, rows, strict=True):
            try:
                row = self.laid(key, stored)
                seen = read_root(key, row)
                recorded = self._recorded.pointers(key, seen.root)
                change = self._followers.of_source(source, key)
                wanted = dict.fromkeys([*change.hints(), *change.links(seen.root)])
                lacks_pointers = any(place not in recorded for place in change.pointers(seen.root))
                is_alone = bool(change.groups(seen.root))
            except OnereadError:  # alone, it is raised
                page.leave(key)
                continue
            is_child = any(self._recorded.group(each) != each for each in (key, *wanted))  # or refers to one
            if row is None or seen.intents is not None or key in wanted or is_alone or is_child or lacks_pointers:
                page.leave(key)
                continue
            living = [place for place in page.places[key] if place in recorded]
            if living:
                holders.append(_Holder(seen, row, living[0], change, list(wanted)))
            for place in page.places[key]:
                if place not in recorded and seen.version >= page.stamps[place]:
                    gone.append(RowMutation(place, {VALUE: Cell(REMOVED, seen.version)}))
                elif place not in recorded:  # an attempt that put it may still be committed
                    page.alone[place] = None
        if gone:
            yield from Mutate("views", gone)
        return holders

    def _read_sources(self, holders: Sequence[_Holder]) -> Plan[dict[bytes, Row | None]]:
        """The root rows that decisions need, but for those whose delete has begun, which must look again.

        They are read after the holders: else a change between the two reads would be missed.
        """
        wanted = list(dict.fromkeys(key for each in holders for key in each.wanted))
        rows = yield from surely(Read("roots", wanted, "dm"))
        read = zip(wanted, rows, strict=True)
        return {key: root_row(row) for key, row in read if not read_root(key, row).marked}

    def _decide(self, source: bytes, holder: _Holder, rows: Mapping[bytes, Row | None], now: int) -> Ready | None:
        """What one holder commits; None when it has the source's values."""
        seen = holder.seen
        sources = RowsAndGroups()
        sources.now = now
        for key in holder.wanted:
            if key not in rows:
                raise _Alone
            sources[key] = rows[key]
        sources[seen.key] = root_row(holder.row)
        if self._has_followed(holder.change, source, seen, sources):
            return None
        version = next_version(now, seen.version, seen.key)
        decision = holder.change.decide(seen.root, version, sources)
        if decision.unreferenced or decision.operations.claimed:
            raise _Alone
        if decision.root is None:  # as it is: what was decided on the source's earlier values must not be committed
            decision = Decision(Root(version, seen.root.body, seen.root.emitted, seen.root.own))
        used = self._used(seen, decision.root, sources, taken_by([holder.change], source))
        return Ready(seen, decision, used, (), {})

    def swap_all(
        self, ready: Sequence[tuple[SeenRow, Prepared]], there: Collection[bytes] = ()
    ) -> Plan[list[Committed | StoreError | None]]:
        """The commit points of several rows, and before them all markers and a read of the sums that they add to.

        Answers of each what is committed, None where another commit came first, or the error of the commit point.
        `there` are the rows whose markers are put already.
        """
        before: list[Request[Any]] = []
        marked = {seen.key for seen, made in ready if made.intents or self._may_lack(seen.root, made.root)}
        markers = [
            marker_row(seen.key, made.root.version)
            for seen, made in ready
            if seen.key in marked and seen.key not in there
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
        self.shards.note_announced(announced)
        shards: dict[bytes, Row | None] = dict(zip(sums, answers[-1], strict=True)) if sums else {}
        swaps = [self._has_swapped(seen, made, shards) for seen, made in ready]
        swapped = (yield from Together(swaps)) if swaps else []
        done: list[Committed | StoreError | None] = []
        for (seen, made), was_first in zip(ready, swapped, strict=True):
            if isinstance(was_first, StoreError):
                done.append(was_first)
            elif was_first:
                versions = [made.root.version] if seen.key in marked or seen.key in there else []
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
            return (yield from self._swap_root(seen, made.cells, made.commit))
        except StoreError as error:
            return error

    def follow_rows(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """One row after the other, in pages. A removed one removes its cells: older code has left no task of it."""
        for key in keys:
            cursor: bytes | None = b""
            while cursor is not None:
                yield from self.renew_lease()
                cursor = yield from self.feeds.follow(key, cursor, outbox.BATCH)
        for each in swaps:
            yield from self.swap(each)

    # One holder alone.

    def follow_pointer(self, source: bytes, place: bytes, stamp: int) -> Plan[list[bytes]]:
        """Lets the holder of a back-reference follow its source, or removes one that does not refer to it (rule 14).

        Returns the tasks that are left for the holders of the holder, or that of the source where it is set aside.
        """
        holder = holder_part(place[len(outbox.holders_of(source).start) :])
        try:
            done = yield from tell_apart(partial(self._follow_one, source, holder, place, stamp))
        except PartRefused as refused:
            if isinstance(refused.error, Corrupt):
                yield from self._check_source(source)
            yield from self.set_aside(source, holder, refused.error)
            return [outbox.version_key(source, 0)]  # who waits for it learns that a holder is set aside
        return [] if done is None else (yield from self._apply_now(done))

    def _follow_one(self, source: bytes, holder: bytes, place: bytes, stamp: int) -> Plan[Committed | None]:
        if not (yield from self._has_pointer(holder, place, stamp)):
            return None
        change = self._followers.of_source(source, holder)
        return (yield from self._until_won(partial(self._attempt, change, source), change.key))

    def _check_source(self, source: bytes) -> Plan[None]:
        """Raises Corrupt where it is the source that cannot be read: then no holder can follow it."""
        _seen, root = yield from self._settled(source)
        self._followers.read_source(source, root)

    def take_again(self, source: bytes, holder: bytes) -> Plan[None]:
        """Commits a holder with its source's values, whatever it says to have taken of it.

        Raises:
            PartRefused: it refuses them.
        """
        change = self._followers.of_source(source, holder)
        commit = partial(self._commit_now, partial(self._attempt, change, None), change.key)
        yield from in_time(tell_apart(commit), self.clock, OPERATION)

    def set_aside(self, source: bytes, holder: bytes, error: Exception) -> Plan[None]:
        """Notes that a holder could not follow, newer than what was noted before, by whichever clock."""
        now = yield from Now()
        key = outbox.aside_key(source, holder)
        roots = [each for each in (source, holder) if each]
        rows = (yield from Read("roots", roots, "dm")) if roots else []
        entry = outbox.new_aside(source, holder, error, now, dict(zip(roots, rows, strict=True)))
        (before,) = yield from Read("system", [key], "dm")
        known = None if before is None else outbox.read_aside((key, before)).shown
        if known is not None:
            entry = outbox.tried_again(entry, known)
        stamp = later(before, now)
        yield from Mutate("system", [RowMutation(key, {VALUE: Cell(outbox.encode_aside(entry), stamp)})])
        outbox.warn_of_aside(self.name_of, source, holder, error)

    def retry_aside(self, source: bytes, holder: bytes) -> Plan[None]:
        """Lets a holder that was set aside follow its source; it stays aside when that fails again."""
        key = outbox.aside_key(source, holder)
        (before,) = yield from Read("system", [key], "dm")
        try:
            yield from tell_apart(partial(self._retry_part, source, holder))
        except PartRefused as refused:
            yield from self.set_aside(source, holder, refused.error)
        yield from self.end_aside(key, before)  # which is another one if it was noted again

    def _retry_part(self, source: bytes, holder: bytes) -> Plan[None]:
        if outbox.kind_of(source) == outbox.FEED:
            yield from follow_all(self.feeds, outbox.feed_row(source))
        elif holder:
            seen, root = yield from in_time(self._settled(holder), self.clock, OPERATION)
            for place in self._recorded.pointers(holder, root):
                if place.startswith(outbox.holders_of(source).start):
                    yield from in_time(self.follow_pointer(source, place, seen.version), self.clock, OPERATION)
        elif source:
            yield from self._check_source(source)
            yield from self.restart(source)

    def restart(self, source: bytes) -> Plan[None]:
        """Puts a whole task into the outbox again, unless its source never was written.

        At a later version than the source has: the delete of the former one would hide it.
        """
        (row,) = yield from Read("roots", [source], "dm")
        if row is not None and VERSION in row:
            version = next_version((yield from Now()), row[VERSION].stamp, source)
            cell = Cell(outbox.encode_task(outbox.Task(source)), version)
            yield from Mutate("system", [RowMutation(outbox.version_key(source, version), {VALUE: cell})])

    def end_aside(self, key: bytes, before: Row | None) -> Plan[None]:
        """Removes the note of what could not follow, unless it was noted again meanwhile."""
        if before is not None and before[VALUE].value != REMOVED:
            done = RowMutation(key, {VALUE: Cell(REMOVED, before[VALUE].stamp + 1)})
            yield from CheckAndMutate("system", VALUE, before[VALUE].value, done)


def _selected(behind: bytes) -> tuple[bytes, bytes]:
    """The selection and the holder, from what is behind the source in the key of a back-reference."""
    return behind[:SELECTION_BYTES], behind[SELECTION_BYTES:]
