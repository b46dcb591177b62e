"""The committer of stores that change one row at a time, made of its parts.

A change becomes a commit in the `pipeline`, whose commit point is in the `journal`; behind it `completion` applies it,
`copies` lets holders follow, and `totals` what shows groups. See docs/design/one-row-at-a-time.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from oneread.errors import OutcomeUnknown, Unavailable, UsageError
from oneread.plans.effects import Now
from oneread.plans.in_time import in_time
from oneread.plans.plan import Plan
from oneread.store.requests import Mutate
from oneread.transactions import outbox
from oneread.transactions.commit import NO_JOBS, Change, Commit, GroupRefused
from oneread.transactions.commit_pages import BatchDone, CommitPages
from oneread.transactions.completion import CommitCompletion
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.drafts import CommitRequest
from oneread.transactions.grace import OPERATION
from oneread.transactions.job_rows import job_puts
from oneread.transactions.journal import Journal
from oneread.transactions.lost_answers import until_answered
from oneread.transactions.outbox import is_group_root
from oneread.transactions.pipeline import DeclaredViews, Pipeline
from oneread.transactions.refusals import PartRefused
from oneread.transactions.system_commits import RowSystem
from oneread.transactions.system_rows import Swap
from oneread.transactions.total_follower import TotalFollower

_TWO_GROUPS: Final = "a store that changes one row at a time commits one entity group at a time, and these are two"


class RowCommitter(RowSystem):
    """Commits of one open database: see `BatchCommitter`."""

    def __init__(self, journal: Journal, views: DeclaredViews) -> None:
        super().__init__(journal)
        self.views = views
        self.pipeline = Pipeline(journal, views)
        self.copies = CopyFollower(self.pipeline)
        self.pipeline.holds.expire = self.copies.expire
        self.totals = TotalFollower(self.pipeline, self.copies)
        self.completion = CommitCompletion(journal, self.totals)
        self._pages = CommitPages(self.pipeline, self.copies, self.completion, self.commit)

    def commit(self, commit: Commit) -> Plan[list[bytes]]:
        """The changes of each entity group are a commit of their own; a transaction's are of one.

        Those with swaps beside them are batches of single changes: each is a commit of its own.

        Raises:
            UsageError: the changes of a transaction are of two groups. Nothing is written.
        """
        tasks: list[bytes] = []
        parts = self._parts(commit)
        for changes in parts:
            jobs = commit.jobs if changes is parts[-1] else NO_JOBS
            tasks += yield from in_time(self._commit_part(commit, changes, jobs), self.journal.clock, OPERATION)
        if commit.jobs and not parts:
            yield from self._put_jobs(commit.jobs)
        for each in commit.swaps:
            yield from self.swap(each)
        return tasks

    def _parts(self, commit: Commit) -> Sequence[Sequence[Change]]:
        """The changes that are committed together."""
        groups: dict[bytes, list[Change]] = {}
        for change in commit.changes:
            groups.setdefault(self.group(change), []).append(change)
        if commit.beside:
            raise AssertionError("only a transaction that spans rows runs functions beside its changes")
        if commit.basis is None and (commit.swaps or all(len(each) == 1 for each in groups.values())):
            return [[each] for each in commit.changes]
        if commit.basis is not None and len(groups) > 1:
            first, second, *_others = map(self.journal.name_of, groups)
            raise UsageError(_TWO_GROUPS, group=first, given=second)
        return list(groups.values())

    def _commit_part(self, commit: Commit, changes: Sequence[Change], jobs: Mapping[bytes, bytes]) -> Plan[list[bytes]]:
        commit.is_deciding = True
        request = CommitRequest(changes, commit.basis, jobs=jobs)
        done = yield from self.copies.commit_group(request)
        commit.is_deciding = False
        if jobs and done is None:
            yield from self._put_jobs(jobs)
        return request.tasks + (yield from self.completion.complete([] if done is None else [done], changes))

    def _put_jobs(self, jobs: Mapping[bytes, bytes]) -> Plan[None]:
        """Puts jobs of a commit that changes no entity: one that saves what is there, or that has nothing else.

        Raises:
            OutcomeUnknown: the answers were lost; they may be there.
        """
        yield from self.journal.renew_lease()
        now = yield from Now()
        yield from self.journal.gate.enter((), now)
        try:
            yield from until_answered(Mutate("system", job_puts(jobs, now)))
        except Unavailable as failure:
            raise OutcomeUnknown("the answer to enqueuing jobs was lost; they may be run") from failure

    def commit_batch(self, changes: Sequence[Change], *, stops: bool) -> Plan[BatchDone]:
        return self._pages.commit_batch(changes, stops=stops)

    def group(self, change: Change) -> bytes:
        return self.pipeline.group(change)

    def follow_rows(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """One row after the other, in pages. A removed one removes its cells: older code has left no task of it."""
        for key in keys:
            cursor: bytes | None = b""
            while cursor is not None:
                yield from self.journal.renew_lease()
                cursor = yield from self.views.feeds.follow(key, cursor, outbox.BATCH)
        for each in swaps:
            yield from self.swap(each)

    def index_groups(self, keys: Sequence[bytes], swaps: Sequence[Swap]) -> Plan[None]:
        """A commit of each group's root row, with all index rows."""
        for key in keys:
            group = self.totals.group_at(key)
            if group is not None and group.indexes is not None:
                try:
                    yield from self.totals.list_again(group, group.indexes)
                except PartRefused as refused:
                    raise GroupRefused(key, refused.error) from refused.error
        for each in swaps:
            yield from self.swap(each)

    def follow_groups_of(self, aggregates: Sequence[bytes]) -> Plan[None]:
        """Programs that do not know what shows a group write until their lease is over, and leave no tasks."""
        return self.totals.follow_groups_of(aggregates)

    def retry_aside(self, source: bytes, holder: bytes) -> Plan[None]:
        """Lets a holder that was set aside follow its source, which may be a group; it stays aside if that fails."""
        follower = self.totals if is_group_root(source) else self.copies
        return follower.retry_aside(source, holder)
