"""How holders follow their source on stores that change one row at a time: a page of them at once.

All holders of a page are read in one request, the source after them, and what follows from all is written together;
only the commit point of each is a request of its own. A holder that cannot go with the others - its row has intents, or
another commit of it comes first - is done alone. See rule 14 of the commit protocol and docs/decisions/0080.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

from oneread.errors import Corrupt, OnereadError
from oneread.plans.effects import Now
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.keys import SELECTION_BYTES, holder_part, kind_part
from oneread.store.requests import CheckAndMutate, Found, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, Row, RowMutation, later
from oneread.transactions import outbox, page_drafts
from oneread.transactions.back_references import Unfollowed
from oneread.transactions.change_log import keys_by_log
from oneread.transactions.copy_cells import COPY_CELL
from oneread.transactions.drafts import CommitRequest, Prepared
from oneread.transactions.feed_tasks import follow_all, follow_feeds
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import INTENTS, SeenRow
from oneread.transactions.journal import Committed, group_tasks, left_tasks
from oneread.transactions.lost_answers import surely
from oneread.transactions.page_drafts import Alone, PageDraft
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.refusals import PartRefused, raises_again, tell_apart
from oneread.transactions.root import VERSION, next_version

_log = logging.getLogger(__name__)

PAGE: Final = 100
"""Holders that follow at once, at most."""

PAGE_BYTES: Final = 4_000_000
"""Bytes of the intents of one page; holders beyond them are done alone."""


class _Page:
    """The back-references of one page: `stamps` by key, and `alone` what cannot be done with the others."""

    def __init__(self, source: bytes, found: Sequence[Found]) -> None:
        start = len(outbox.holders_of(source).start)
        self.stamps = {place: row[VALUE].stamp for place, row in found}
        self.places: dict[bytes, list[bytes]] = {}
        for place in self.stamps:
            self.places.setdefault(holder_part(place[start:]), []).append(place)
        self.alone: dict[bytes, None] = {}

    def leave(self, *holders: bytes) -> None:
        """Leaves holders to be done alone, by each of their back-references: they may refer by some of them no more."""
        self.alone.update(dict.fromkeys(place for holder in holders for place in self.places[holder]))


class _PutCells(NamedTuple):
    """What was put into cells: the back-references of holders that must be committed, and whose source it is."""

    left: list[Found]
    is_erased: bool


class CopyFollower:
    """Lets the holders of what was committed follow."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._journal = pipeline.journal
        self._views = pipeline.views

    def commit_group(self, request: CommitRequest) -> Plan[Committed | None]:
        """Commits changes of one entity group, which is not applied yet: see `apply_and_follow`.

        Before that, the entities follow the sources that their new back-references leave.

        Raises:
            Conflict: others come first all the time, or the group is not as it was in the basis.
        """
        first, attempt = request.changes[0], partial(self._pipeline.attempt, request)
        named = first.key if first.sequence is None else first.sequence.root
        return self._pipeline.win(attempt, named, partial(self._catch_up, request))

    def _catch_up(self, request: CommitRequest, left: Unfollowed) -> Plan[None]:
        """Lets entities follow the sources that their new back-references leave."""
        request.has_caught_up = True  # or is set aside
        for source, place in left.pointers:
            request.tasks += yield from self.follow_pointer(source, place, 0)

    def commit_and_apply(self, request: CommitRequest) -> Plan[bool]:
        """Commits changes of one entity group and applies that; whether there was something."""
        done = yield from self.commit_group(request)
        if done is not None:
            yield from self.apply_and_follow(done)
        return done is not None

    def expire(self, owner: bytes) -> Plan[bool]:
        """Lets an entity give up what has expired of it; whether there was something."""
        change = self._views.followers.of_expired(owner)
        return change is not None and (yield from self.commit_and_apply(CommitRequest([change])))

    def apply_and_follow(self, *done: Committed) -> Plan[list[bytes]]:
        """Applies commits, and lets their holders follow where they are few; returns what is left to do, as tasks.

        Nothing raises here: the commits are made. What could not be applied is left to recovery.
        """
        tasks: list[bytes] = []
        try:
            yield from self._journal.apply(*done)
            for each in done:
                for source, unchanged in each.intents.sources(each.key).items():
                    tasks += yield from self._follow_few(source, unchanged, each.intents.version)
                tasks += yield from follow_feeds(self._views.feeds, each, self._views.inline)
                tasks += group_tasks(each)
        except OnereadError as error:
            names = [self._journal.name_of(each.key) for each in done]
            _log.warning("commits are not applied yet, which recovery will do: %s: %s", names, error)
            return [key for each in done for key in left_tasks(each)]
        return tasks

    def _follow_few(self, source: bytes, unchanged: Sequence[bytes], version: int) -> Plan[list[bytes]]:
        """Lets the holders of a source follow at once, unless they are many; returns the tasks that are left."""
        task, most = outbox.version_key(source, version), self._views.inline
        found = yield from Scan("views", outbox.holders_of(source), most + 1)
        if len(found) > most:
            return [task]
        if unchanged:
            found = outbox.of_changed_selections(source, unchanged, found)
        left = yield from self.follow_page(source, found)
        yield from Mutate("system", [RowMutation(task, deletes={VALUE: version})])
        return left

    def follow_page(self, source: bytes, found: Sequence[Found]) -> Plan[list[bytes]]:
        """Lets the holders of back-references follow their source, and removes those that do not refer to it.

        Returns the tasks that are left for the holders of the holders, and of sources whose holders are set aside.
        """
        left: list[bytes] = []
        leaves = self.leaves_of(source, found)
        is_erased = False
        if leaves:
            yield from self._journal.renew_lease()
            places = {place for place, _row in leaves}
            others = [each for each in found if each[0] not in places]
            put = yield from in_time(self._put_cells(source, leaves), self._journal.clock, OPERATION)
            found, is_erased = [*others, *put.left], put.is_erased
        for first in range(0, len(found), PAGE):
            yield from self._journal.renew_lease()
            page = _Page(source, found[first : first + PAGE])
            left += yield from in_time(self._follow_all(source, page), self._journal.clock, OPERATION)
            for place in page.alone:
                alone = self.follow_pointer(source, place, page.stamps[place])
                left += yield from in_time(alone, self._journal.clock, OPERATION)
        if is_erased and outbox.version_key(source, 0) not in left:  # all of them have followed
            yield from in_time(self._put_cells(source, leaves, are_followed=True), self._journal.clock, OPERATION)
        return list(dict.fromkeys(left))

    # Holders from whose copies nothing follows.

    def leaves_of(self, source: bytes, found: Sequence[Found]) -> list[Found]:
        """The back-references of holders from whose copies nothing follows."""
        start = len(outbox.holders_of(source).start)
        return [each for each in found if self._views.followers.cells.has_leaf(source, *_selected(each[0][start:]))]

    def _put_cells(self, source: bytes, leaves: Sequence[Found], *, are_followed: bool = False) -> Plan[_PutCells]:
        """Puts copied values into the rows of holders, which are neither read nor committed (rule 13).

        The source is read after the back-references: an attempt that puts one later reads this version of the source,
        or a later one. What is left are those whose holders must be committed: those of a source that was erased, too,
        since under a cell the document has what it had. Their cells are of the version before, so that they count as
        not followed yet. When they `are_followed` the cells are put again at its version: one that comes late, and is
        of an earlier one, may have the values of before.
        """
        start = len(outbox.holders_of(source).start)
        _seen, root = yield from self._pipeline.holds.settled(source)
        values: dict[tuple[bytes, bytes], bytes | None] = {}
        puts: dict[bytes, Row] = {}
        left: list[Found] = []
        is_erased = self._views.followers.cells.is_erased(source, root)
        for each in leaves:
            taken, holder = _selected(each[0][start:])
            form = taken, kind_part(holder)
            if form not in values:
                values[form] = self._views.followers.cells.value(source, root, taken, holder)
            value = values[form]
            if value is None or is_erased:
                left.append(each)
            if value is not None:
                stamp = root.version - (is_erased and not are_followed)
                puts.setdefault(holder, {})[COPY_CELL + source + taken] = Cell(value, stamp)
        if puts:
            yield from surely(Mutate("roots", [RowMutation(holder, row) for holder, row in puts.items()]))
            yield from self._log_entities(puts)
        return _PutCells(left, is_erased)

    def _log_entities(self, keys: Iterable[bytes]) -> Plan[None]:
        """Adds entities that were given copied values to the change logs of their models."""
        yield from self._journal.logs.add(keys_by_log(self._views.feeds.logged, kind_part, keys))

    # A page of holders at once.

    def _follow_all(self, source: bytes, page: _Page) -> Plan[list[bytes]]:
        done = yield from self._commit_page(source, page)
        return (yield from self.apply_and_follow(*done))

    def _commit_page(self, source: bytes, page: _Page) -> Plan[list[Committed]]:
        """Commits all holders of a page that are done together; the others are noted in it."""
        holders = yield from self._read_holders(source, page)
        if not holders:
            return []
        yield from page_drafts.read_needed(self._pipeline, holders)
        ready: list[tuple[SeenRow, Prepared]] = []
        size = 0
        for draft in holders:
            deciding = partial(page_drafts.decide, self._pipeline, draft, source)
            try:
                found = deciding()
                if found is None:
                    continue
                prepared = yield from self._pipeline.prepare(found)
            except (OnereadError, Alone):  # alone, an error is set aside
                page.leave(draft.seen.key)
                continue
            except Exception as error:
                if not raises_again(deciding, error):
                    raise
                page.leave(draft.seen.key)
                continue
            size += len(prepared.cells[INTENTS].value)
            if size > PAGE_BYTES:
                page.leave(draft.seen.key)
            else:
                ready.append((draft.seen, prepared))
        outcomes = yield from self._pipeline.swap_all(ready)
        done = [each for each in outcomes if isinstance(each, Committed)]
        both = zip(ready, outcomes, strict=True)
        lost = [seen.key for (seen, _made), outcome in both if not isinstance(outcome, Committed)]
        page.leave(*lost)  # alone, an error is met again
        return done

    def _read_holders(self, source: bytes, page: _Page) -> Plan[list[PageDraft]]:
        """The holders that refer to the source; the back-references of others are removed."""
        keys = list(page.places)
        rows = yield from surely(Read("roots", keys, "dm"))
        now = yield from Now()
        holders: list[PageDraft] = []
        gone: list[RowMutation] = []
        for key, stored in zip(keys, rows, strict=True):
            try:
                draft, recorded = self._draft_of(source, key, stored, now)
            except (OnereadError, Alone):  # alone, an error is raised
                page.leave(key)
                continue
            seen = draft.seen
            if any(place in recorded for place in page.places[key]):
                holders.append(draft)
            for place in page.places[key]:
                if place not in recorded and seen.version >= page.stamps[place]:
                    gone.append(RowMutation(place, {VALUE: Cell(REMOVED, seen.version)}))
                elif place not in recorded:  # an attempt that put it may still be committed
                    page.alone[place] = None
        if gone:
            yield from Mutate("views", gone)
        return holders

    def _draft_of(self, source: bytes, key: bytes, stored: Row | None, now: int) -> tuple[PageDraft, Collection[bytes]]:
        """A holder that is to follow, and its back-references and holds.

        Raises Alone for one that lacks some, or shows groups.
        """
        change = self._views.followers.of_source(source, key)
        draft = page_drafts.draft_of(self._pipeline, change, stored, now)
        root = draft.seen.root
        recorded = self._pipeline.recorded.pointers(key, root)
        if draft.row is None or change.groups(root) or any(each not in recorded for each in change.pointers(root)):
            raise Alone
        return draft, recorded

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
        return [] if done is None else (yield from self.apply_and_follow(done))

    def _follow_one(self, source: bytes, holder: bytes, place: bytes, stamp: int) -> Plan[Committed | None]:
        if not (yield from self._pipeline.holds.has_pointer(holder, place, stamp)):
            return None
        return (
            yield from self.commit_group(
                CommitRequest([self._views.followers.of_source(source, holder)], follows=source)
            )
        )

    def _check_source(self, source: bytes) -> Plan[None]:
        """Raises Corrupt where it is the source that cannot be read: then no holder can follow it."""
        _seen, root = yield from self._pipeline.holds.settled(source)
        self._views.followers.read_source(source, root)

    def take_again(self, source: bytes, holder: bytes) -> Plan[None]:
        """Commits a holder with its source's values, whatever it says to have taken of it.

        Raises:
            PartRefused: it refuses them.
        """
        yield from in_time(tell_apart(partial(self._take_again, source, holder)), self._journal.clock, OPERATION)

    def _take_again(self, source: bytes, holder: bytes) -> Plan[bool]:
        return self.commit_and_apply(CommitRequest([self._views.followers.of_source(source, holder)]))

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
        outbox.warn_of_aside(self._journal.name_of, source, holder, error)

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
            yield from follow_all(self._views.feeds, outbox.feed_row(source))
        elif holder:
            seen, root = yield from in_time(self._pipeline.holds.settled(holder), self._journal.clock, OPERATION)
            for place in self._pipeline.recorded.pointers(holder, root):
                if place.startswith(outbox.holders_of(source).start):
                    yield from in_time(self.follow_pointer(source, place, seen.version), self._journal.clock, OPERATION)
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
            key = outbox.version_key(source, version)
            yield from Mutate("system", [outbox.task_row(key, outbox.Task(source), version)])

    def end_aside(self, key: bytes, before: Row | None) -> Plan[None]:
        """Removes the note of what could not follow, unless it was noted again meanwhile."""
        if before is not None and before[VALUE].value != REMOVED:
            done = RowMutation(key, {VALUE: Cell(REMOVED, before[VALUE].stamp + 1)})
            yield from CheckAndMutate("system", VALUE, before[VALUE].value, done)


def _selected(behind: bytes) -> tuple[bytes, bytes]:
    """The selection and the holder, from what is behind the source in the key of a back-reference."""
    return behind[:SELECTION_BYTES], behind[SELECTION_BYTES:]
