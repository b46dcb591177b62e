"""Many changes on a store that changes one row at a time: pages of them, each change a commit of its own.

The rows of a page are read in one request, what must be there before their commit points is written together, and what
follows from all of them is applied together; only the commit point of each is a request of its own. A page ends before
a change that needs more: that one is done alone. So changes are made in their order, but for those whose commit points
are in one page. Children of entity groups are committed by their group, all groups at the same time. See
docs/decisions/0102-pages-of-commits.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from oneread.errors import OnereadError, StoreError
from oneread.plans.effects import Now, Together
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate, Read, Request
from oneread.store.rows import VALUE, Row, RowMutation
from oneread.transactions import outbox, page_drafts
from oneread.transactions.back_references import Unfollowed, put_cell, put_pointers
from oneread.transactions.commit import Change, Commit
from oneread.transactions.completion import CommitCompletion
from oneread.transactions.copy_follower import PAGE, PAGE_BYTES, CopyFollower
from oneread.transactions.drafts import CommitRequest, Prepared
from oneread.transactions.grace import OPERATION
from oneread.transactions.intents import INTENTS, marker_row
from oneread.transactions.journal import Committed, reserve
from oneread.transactions.lost_answers import surely
from oneread.transactions.page_drafts import Alone, PageDraft
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.refusals import is_refusal

GROUP_PAGE: Final = 50
"""Changes of one entity group in one commit, at most."""


class BatchDone(NamedTuple):
    """What a batch came to: the tasks that it left, and by their places the changes that are refused."""

    tasks: list[bytes]
    refused: dict[int, OnereadError]


class _Decided(NamedTuple):
    """A change that can be committed, and whether a marker of its version is put; `prepared` is None for nothing."""

    draft: PageDraft
    prepared: Prepared | None
    has_marker: bool


class CommitPages:
    """Commits batches of many changes; `commit` commits one alone."""

    def __init__(
        self,
        pipeline: Pipeline,
        copies: CopyFollower,
        completion: CommitCompletion,
        commit: Callable[[Commit], Plan[list[bytes]]],
    ) -> None:
        self._pipeline = pipeline
        self._journal = pipeline.journal
        self._copies = copies
        self._completion = completion
        self._commit = commit

    def commit_batch(self, changes: Sequence[Change], *, stops: bool) -> Plan[BatchDone]:
        """Commits changes, each by itself, in pages.

        With `stops` none behind the first that is refused is begun, but for those of other entity groups that are
        committed at the same time. Costs a request a change, and some for each page.

        Raises:
            StoreError: the store failed. Some of the changes are committed.
        """
        done = BatchDone([], {})
        place, size = 0, PAGE
        while place < len(changes) and not (stops and done.refused):
            run = changes[place : place + size]
            children = self._first_children(run)
            if children:
                yield from self._commit_groups(changes, range(place, place + children), done, stops=stops)
                place += children
                continue
            paged = yield from self._commit_first(run, place, done)
            place += paged
            if paged == len(run):
                size = min(PAGE, 2 * size)
            else:
                size = max(2, min(size, len(run)) // 2)
                if self._pipeline.group(changes[place]) == changes[place].key:
                    yield from self._commit_alone(changes[place], place, done)
                    place += 1
        return done

    def _first_children(self, run: Sequence[Change]) -> int:
        """How many of the first changes are of children."""
        return next((number for number, each in enumerate(run) if self._pipeline.group(each) == each.key), len(run))

    def _commit_alone(self, change: Change, place: int, done: BatchDone) -> Plan[None]:
        commit = Commit([change])
        try:
            done.tasks.extend((yield from self._commit(commit)))
        except OnereadError as error:
            if not (is_refusal(error) and commit.is_deciding):
                raise
            done.refused[place] = error

    # Entities outside of other groups.

    def _commit_first(self, run: Sequence[Change], place: int, done: BatchDone) -> Plan[int]:
        """Commits the first changes of a run, as many as go together; returns how many."""
        if len(run) == 1:
            return 0
        yield from self._journal.renew_lease()
        return (yield from in_time(self._commit_together(run, place, done), self._journal.clock, OPERATION))

    def _commit_together(self, run: Sequence[Change], place: int, done: BatchDone) -> Plan[int]:
        now = yield from Now()
        drafts = yield from self._read_drafts(list(self._distinct(run)), now)
        yield from page_drafts.read_needed(self._pipeline, drafts)
        decided: list[_Decided] = []
        size = 0
        for draft in drafts:
            try:
                ready = page_drafts.decide(self._pipeline, draft)
                made = None if ready is None else (yield from self._pipeline.prepare(ready))
            except (OnereadError, Unfollowed, Alone):  # alone, an error is raised, and what is lacking follows
                break
            size += 0 if made is None else len(made.cells[INTENTS].value)
            if size > PAGE_BYTES:
                break
            decided.append(_Decided(draft, made, has_marker=draft.change.likely_derives and draft.version == now))
        lost = yield from self._write_all(decided, done)
        for number in lost:
            yield from self._commit_alone(run[number], place + number, done)
        return len(decided)

    def _distinct(self, run: Sequence[Change]) -> Iterator[Change]:
        """The first changes of a run that are of different rows, and of no child."""
        keys: set[bytes] = set()
        for change in run:
            if self._pipeline.group(change) != change.key or change.key in keys:
                return
            keys.add(change.key)
            yield change

    def _read_drafts(self, changes: Sequence[Change], now: int) -> Plan[list[PageDraft]]:
        """Reads the rows of changes, and puts their markers and back-references; ends before one that must be alone."""
        markers = [marker_row(each.key, now) for each in changes if each.likely_derives]
        pointers = {each.key: list(each.pointers(None)) for each in changes}
        together = [place for several in pointers.values() for place in several]
        first: list[Request[Any]] = [Read("roots", [each.key for each in changes], "dm")]
        first += [Mutate("system", markers)] if markers else []
        first += [put_pointers(together, now)] if together else []
        found: list[Row | None]
        found, *_others = yield from Together([surely(each) for each in first])
        drafts: list[PageDraft] = []
        lacking: list[RowMutation] = []
        for change, stored in zip(changes, found, strict=True):
            try:
                draft = page_drafts.draft_of(self._pipeline, change, stored, now)
                root, version = draft.seen.root, draft.version
                places = list(change.pointers(root))
            except (OnereadError, Alone):  # alone, an error is raised
                break
            put = {*self._pipeline.recorded.pointers(change.key, root)}
            put.update(pointers[change.key] if version == now else ())
            lacking += [put_cell(each, VALUE, outbox.PRESENT, version) for each in places if each not in put]
            drafts.append(draft)
        if lacking:
            yield from surely(Mutate("views", lacking))
        return drafts

    def _write_all(self, decided: Sequence[_Decided], done: BatchDone) -> Plan[list[int]]:
        """Commits what was decided, and applies it; returns the places of changes that others came before.

        Raises the first error of a commit point, when what was committed is applied.
        """
        made = [(number, each, each.prepared) for number, each in enumerate(decided) if each.prepared is not None]
        ready = [(each.draft.seen, prepared) for _number, each, prepared in made]
        marked = {each.draft.seen.key for _number, each, _prepared in made if each.has_marker}
        for seen, prepared in ready:
            if prepared.intents:
                yield from reserve(seen.key, prepared.intents, [prepared.root.version])
        outcomes = (yield from self._pipeline.swap_all(ready, marked)) if ready else []
        committed = [each for each in outcomes if isinstance(each, Committed)]
        changes = [each.draft.change for _number, each, _prepared in made]
        done.tasks.extend((yield from self._completion.complete(committed, changes)))
        for each in outcomes:
            if isinstance(each, StoreError):
                raise each
        return [number for (number, *_rest), each in zip(made, outcomes, strict=True) if each is None]

    # Children, by their groups.

    def _commit_groups(self, changes: Sequence[Change], places: range, done: BatchDone, *, stops: bool) -> Plan[None]:
        """Commits changes of children: those of one entity group together, the groups at the same time.

        Where a group refuses one, its changes are committed one by one; with `stops` none behind that one.
        """
        groups: dict[bytes, list[list[int]]] = {}
        for place in places:
            parts = groups.setdefault(self._pipeline.group(changes[place]), [[]])
            if len(parts[-1]) == GROUP_PAGE:
                parts.append([])
            parts[-1].append(place)
        for number in range(max(map(len, groups.values()))):
            parts = [each[number] for each in groups.values() if number < len(each)]
            refused = yield from self._commit_parts([[(each, changes[each]) for each in part] for part in parts], done)
            for place, change in refused:
                if not (stops and done.refused):
                    yield from self._commit_alone(change, place, done)
            if stops and done.refused:
                return

    def _commit_parts(
        self, parts: Sequence[Sequence[tuple[int, Change]]], done: BatchDone
    ) -> Plan[list[tuple[int, Change]]]:
        """Commits parts of different groups; returns the changes of those that were refused, in order."""
        requests = [CommitRequest([change for _place, change in each]) for each in parts]
        tries = [self._try_group(each) for each in requests]
        outcomes = yield from Together(tries)
        committed = [each for each in outcomes if isinstance(each, Committed)]
        changes = [change for each in parts for _place, change in each]
        done.tasks.extend(task for each in requests for task in each.tasks)
        done.tasks.extend((yield from self._completion.complete(_with_own_shards(committed), changes)))
        for each in outcomes:
            if isinstance(each, OnereadError) and not is_refusal(each):
                raise each
        left = [each for each, outcome in zip(parts, outcomes, strict=True) if isinstance(outcome, OnereadError)]
        return sorted((each for part in left for each in part), key=lambda each: each[0])

    def _try_group(self, request: CommitRequest) -> Plan[Committed | OnereadError | None]:
        """The commit of changes of one group, which is not applied yet; or why there is none."""
        try:
            return (yield from in_time(self._copies.commit_group(request), self._journal.clock, OPERATION))
        except OnereadError as error:
            return error


def _with_own_shards(done: Sequence[Committed]) -> list[Committed]:
    """Commits with the rows of `counts` that only one of them has read: another's may have come before the reading."""
    readers: dict[bytes, int] = {}
    for each in done:
        for shard in each.shards:
            readers[shard] = readers.get(shard, 0) + 1
    known = {key: row for each in done for key, row in each.shards.items() if readers[key] == 1}
    return [each._replace(shards=known) for each in done]
