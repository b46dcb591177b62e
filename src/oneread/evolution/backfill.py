"""Backfill: commits root rows again for the views that are declared now, on live data, while older programs write.

It passes over all root rows, deleted ones and sources too, and commits again those that lack something. When older code
has been quiet it is fenced off, and one more pass finds what it wrote meanwhile; then nothing can be missing, and the
views become readable. Each step is one commit that swaps the position, too, so a killed backfill resumes where it was,
and two of them take turns. See rule 17 of the commit protocol and docs/decisions/0017-how-a-backfill-ends.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import Reemit
from oneread.derivations.decisions import LookedAt, look_at
from oneread.derivations.derivation import CompiledView, Keyspace
from oneread.derivations.group_indexes import IndexedGroups, indexed_groups
from oneread.derivations.schema_rows import fence, fence_unchanged, replace_schema, schema_and_fence, stored_schema
from oneread.errors import (
    Conflict,
    Corrupt,
    LimitExceeded,
    OnereadError,
    SchemaMismatch,
    UsageError,
)
from oneread.evolution.backfill_position import (
    BackfillPosition,
    BackfillRefusal,
    Phase,
    encode_position,
    read_position,
)
from oneread.evolution.building import Building
from oneread.evolution.fence import LOOK_SECONDS
from oneread.feeds.counting import COUNTED, count_members
from oneread.feeds.feed_view import FeedView
from oneread.models.model import stored_name
from oneread.models.versions import StoredSchema, mark_built
from oneread.plans.arguments import check_function
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Sleep
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.progress import QUIET_SECONDS, WAIT_SECONDS, Progress, Reporter, no_progress
from oneread.plans.scans import check_ascending
from oneread.store.keys import kind_part, row_part, view_part
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Row, RowRange, Table
from oneread.transactions.commit import Change, Commit, GroupRefused
from oneread.transactions.intents import root_row
from oneread.transactions.refusals import is_of_part
from oneread.transactions.root import AHEAD_MILLISECONDS, parse_root
from oneread.transactions.system_rows import BACKFILL_ROW, Swap
from oneread.transactions.tasks import OutboxRunner

_MEMBERSHIPS: Final = 20
"""Memberships of one step that builds a feed: each is given the items of its group."""

BATCH: Final = 200
"""Root rows of one step: other writers wait while it commits."""

_UNSAVED: Final = 10_000
"""Rows read without a commit, after which the position is saved: a killed backfill reads them again."""

_SWEPT: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PHASES: Final[dict[Phase, str]] = {
    "open": "building views, older programs may write",
    "closed": "checking once more, older programs are fenced off",
    "ending": "finishing",
}


class Backfilled(msgspec.Struct, frozen=True):
    """The result of a backfill.

    Arguments:
        done: every view is readable; otherwise the other fields say why not, and calling it again resumes.
        looked: root rows read in the last pass.
        recommitted: root rows that lacked something and were written, by all passes and runs together.
        passes: over all root rows.
        refused: entities that cannot be in a view as it is declared; they must be changed first.
        refusals: the first 20 of them, each with its reason.
        old_code: the entity that a program with an older schema wrote last, when the backfill waits for that program.
        old_code_at: when it did.
    """

    done: bool
    looked: int = 0
    recommitted: int = 0
    passes: int = 0
    refused: int = 0
    refusals: tuple[BackfillRefusal, ...] = ()
    old_code: str = ""
    old_code_at: datetime | None = None


class BackfillOptions(msgspec.Struct, frozen=True):
    """How a backfill works: see `Database.backfill`. `pace` is root rows a second, None for no limit."""

    pace: float | None = None
    fence: bool = False
    quiet: float = QUIET_SECONDS
    wait: float = WAIT_SECONDS
    progress: Reporter = no_progress

    def __post_init__(self) -> None:
        check_function("progress", self.progress)
        pace = 1 if self.pace is None else self.pace
        for name, given in (("pace", pace), ("quiet", self.quiet), ("wait", self.wait)):
            if type(given) not in (int, float) or not 0 <= given < float("inf") or (name == "pace" and not given):
                raise UsageError(
                    "pace: expected rows a second above 0; quiet and wait: expected seconds, 0 or more",
                    option=name,
                    given=given,
                )


class _Overtaken(Conflict):
    """Another backfill moved the position, or the schema changed: this one continues from there."""


class Lacking(NamedTuple):
    """A root row that must be committed again, as it was found; None for one that cannot be read."""

    key: bytes
    looked: LookedAt | None


class Backfill:
    """One run of a backfill. Not for several threads at once."""

    def __init__(
        self,
        catalog: Catalog,
        building: Building,
        outbox: OutboxRunner,
        version: int,
        options: BackfillOptions,
    ) -> None:
        self._catalog = catalog
        self._building = building
        self._committer = building.committer
        self._outbox = outbox
        self._version = version
        self._options = options
        self._kinds = sorted({kind.prefix for kind in self._catalog.kinds.values()})
        self._at = BackfillPosition(version)
        self._row: bytes | None = None
        self._fence = b""
        self._saved = 0
        self._waited = 0.0
        self._unfollowed: frozenset[bytes] = frozenset()

    def run(self) -> Plan[Backfilled]:
        """Runs until every view is readable, or returns why not; raises SchemaMismatch under an older schema."""
        while True:
            try:
                return (yield from self._run_from_position())
            except _Overtaken:
                yield from Sleep(0.0)

    def _run_from_position(self) -> Plan[Backfilled]:
        stored, self._fence = yield from schema_and_fence()
        if stored.version != self._version:
            raise SchemaMismatch(
                "cannot backfill: this program's schema is not the store's newest; run the newest program's backfill",
                version=self._version,
                store=stored.version,
            )
        self._catalog.learn(stored)
        if not stored.unfinished:
            return Backfilled(done=True) if self._row is None else self._result(done=True)
        self._unfollowed = frozenset(
            part.prefix for feed in self._unfinished_feeds(stored) for part in (feed.items, feed.members)
        )
        yield from self._resume(stored)
        while self._at.phase != "ending":
            began = yield from Now()
            rows = yield from self._step()
            if not rows:
                stopped = yield from self._pass_ended()
                if stopped is not None:
                    return stopped
            self._report()
            yield from self._sleep(rows, began)
        refused = yield from self._end(stored)
        return self._result(done=True) if refused is None else refused

    def _resume(self, stored: StoredSchema) -> Plan[None]:
        (row,) = yield from Read("system", [BACKFILL_ROW])
        self._row, found = read_position(row)
        closed = stored.writers >= self._version
        if found is None or (found.version, found.shared) != (self._version, stored.shared):
            found = BackfillPosition(self._version, shared=stored.shared)
        if closed and found.phase == "open":
            yield from self._committer.end_older()
            found = found.next_pass("closed") if found.looked else msgspec.structs.replace(found, phase="closed")
        self._at, self._saved = found, found.looked

    def _result(self, *, done: bool, waits: bool = False) -> Backfilled:
        at = self._at
        return Backfilled(
            done,
            at.looked,
            at.recommitted,
            at.passes,
            at.refused,
            at.refusals,
            self._catalog.name_of(at.old_place) if waits else "",
            _EPOCH + timedelta(milliseconds=at.old_version) if waits else None,
        )

    def _report(self) -> None:
        self._options.progress(Progress(_PHASES[self._at.phase], self._at.looked, self._at.total or None))

    def _sleep(self, rows: int, began: int) -> Plan[None]:
        """Sleeps to keep the pace; without one, lets other threads run."""
        seconds = 0.0
        if self._options.pace is not None:
            seconds = max(0.0, rows / self._options.pace - max(0, (yield from Now()) - began) / 1000)
        yield from Sleep(seconds)

    # One step: some rows are read, and those that lack something are committed again.

    def _step(self) -> Plan[int]:
        found = yield from self._next_rows()
        if not found:
            return 0
        lacking = [each for key, row in found if (each := self._lacking(key, row)) is not None]
        if lacking:
            yield from self._recommit(found, lacking)
        else:
            self._at = msgspec.structs.replace(self._at, place=found[-1][0], looked=self._at.looked + len(found))
            if self._at.looked - self._saved >= _UNSAVED:
                yield from self._move(self._at)
        return len(found)

    def _next_rows(self) -> Plan[list[Found]]:
        for prefix in self._kinds:
            if kind_part(self._at.place) > prefix:
                continue
            within = RowRange.under(prefix)
            if kind_part(self._at.place) == prefix:
                within = within.behind(self._at.place)
            rows = yield from Scan("roots", within, BATCH, families="dm")
            check_ascending("roots", within, rows)
            if rows:
                return rows
        return []

    def _lacking(self, key: bytes, row: Row) -> Lacking | None:
        """A row that must be committed again; None for one that is as declared."""
        try:
            root = parse_root(root_row(row))
            if not root.version or self._catalog.is_current(key, root):  # without a version, no more than a fence
                return None
        except Corrupt:  # the commit raises it again, as a refusal of this row
            return Lacking(key, None)
        if root.version > self._at.old_version:
            self._at = msgspec.structs.replace(self._at, old_place=key, old_version=root.version)
        try:
            return Lacking(key, look_at(self._catalog, key, root))
        except OnereadError:
            return Lacking(key, None)

    def _recommit(self, found: list[Found], lacking: list[Lacking]) -> Plan[None]:
        """Commits rows again, together; a part that is refused is halved until the refused row is alone."""
        keys, before = [key for key, _row in found], self._at.looked
        parts = [lacking]
        while parts:
            part = parts.pop()
            # The position moves to the last row of the part, and with the last part to the last row that was read.
            count = bisect_right(keys, part[-1].key) if parts else len(keys)
            position = msgspec.structs.replace(self._at, place=keys[count - 1], looked=before + count)
            written = msgspec.structs.replace(position, recommitted=position.recommitted + len(part))
            error = yield from self._move(written, [Reemit(self._catalog, each.key, each.looked) for each in part])
            if error is None:
                continue
            if len(part) > 1:
                parts += [part[len(part) // 2 :], part[: len(part) // 2]]
            else:
                name = self._catalog.name_of(part[0].key)
                self._at = position.refusing(BackfillRefusal(name, f"{type(error).__name__}: {error}"))

    def _move(self, position: BackfillPosition, changes: Sequence[Change] = ()) -> Plan[OnereadError | None]:
        """Commits changes and swaps the position; returns the error of a refused change, with nothing written."""
        data = encode_position(position)
        commit = Commit(changes, self._swaps(data), unfollowed=self._unfollowed)
        try:
            yield from self._building.commit(commit)
        except OnereadError as error:
            of_store = isinstance(error, LimitExceeded) and not commit.is_deciding
            if not changes or of_store or not is_of_part(error):
                raise
            return error
        self._at, self._row, self._saved = position, data, position.looked
        return None

    def _swaps(self, data: bytes | None) -> list[Swap]:
        """Moves the position, only while the schema and the position are as this run knows them."""
        return [
            fence_unchanged(self._fence, lambda: _Overtaken("the schema changed")),
            Swap(BACKFILL_ROW, self._row, data, lambda: _Overtaken("another backfill moved the position")),
        ]

    # Between two passes.

    def _pass_ended(self) -> Plan[Backfilled | None]:
        """Starts what follows a pass; returns the result when nothing can follow."""
        at = self._at
        if at.refused:
            stopped = self._result(done=False)
            yield from self._move(at.next_pass(at.phase))
            return stopped
        if at.phase == "closed":
            yield from self._move(msgspec.structs.replace(at, phase="ending", place=b""))
            return None
        now = yield from Now()
        if at.old_version > now + AHEAD_MILLISECONDS:  # written under a clock that was ahead: count from now
            at = self._at = msgspec.structs.replace(at, old_version=now)
        left = (at.old_version + round(self._options.quiet * 1000) - now) / 1000
        if self._options.fence or left <= 0:
            yield from self._close()
            return None
        if self._waited + left > self._options.wait:
            stopped = self._result(done=False, waits=True)
            yield from self._move(at.next_pass("open"))
            return stopped
        self._options.progress(Progress("waiting for older programs to end", 0))
        yield from Sleep(left)
        self._waited += left
        yield from self._move(at.next_pass("open"))
        return None

    def _close(self) -> Plan[None]:
        """Cuts older programs off, and begins the last pass."""

        def close(store: CountedStore) -> StoredSchema:
            stored = run_plan(store, stored_schema())
            closed = msgspec.structs.replace(stored, writers=self._version)
            return replace_schema(store, closed, store.now())

        stored = yield from self._committer.together(close, self._swaps(self._row))
        self._fence = fence(stored)
        yield from self._committer.end_older()
        yield from self._move(self._at.next_pass("closed"))

    # The end: nothing is missing, and nothing can become missing any more.

    def _end(self, stored: StoredSchema) -> Plan[Backfilled | None]:
        """Makes the views readable; returns the result when groups are refused."""
        yield from self._outbox.finish_waiting()  # tasks added later are of code that knows the views
        yield from self._building.follow_groups_of(self._catalog.totals_of(stored.older))
        yield from self._build_group_indexes(stored)
        yield from self._build_feeds(stored)
        if self._at.refused:
            stopped = self._result(done=False)
            yield from self._move(msgspec.structs.replace(self._at, place=b"", refused=0, refusals=()))
            return stopped
        for retired in stored.retired:
            yield from self._sweep("views", retired.name, retired.prefix)
            yield from self._sweep("counts", retired.name, retired.prefix)
        yield from self._committer.together(_mark_built, self._swaps(None))
        if any(
            view.former_of for view in stored.views.values()
        ):  # until then programs may read what comes next removes
            yield from Sleep(min(LOOK_SECONDS, self._options.wait))
        return None

    def _sweep(self, table: Table, name: str, prefix: bytes) -> Plan[None]:
        """Removes the rows of a view, or of a generation of one that no schema declares any more."""
        swept = 0
        while True:
            began = yield from Now()
            count = yield from self._committer.sweep(table, RowRange.under(prefix), _SWEPT, self._swaps(self._row))
            swept += count
            if count < _SWEPT:
                return
            self._options.progress(Progress(f"removing old rows of {name}", swept))
            yield from self._sleep(count, began)

    # Indexes over groups: a pass over the groups, when all of them are right and no older code changes them.

    def _build_group_indexes(self, stored: StoredSchema) -> Plan[None]:
        """Writes the rows of all groups again; older code may have left some of former numbers."""
        every = indexed_groups(self._catalog.views.values()).values()
        for indexed in sorted(every, key=lambda each: each.aggregate.prefix):
            found = [each for each in indexed.indexes if stored.views[stored_name(each.cls)].state == "building"]
            building, groups = IndexedGroups(indexed.aggregate, tuple(found)), indexed.aggregate.prefix
            if not found or view_part(self._at.place) > groups:
                continue
            if view_part(self._at.place) < groups:
                for each in found:
                    yield from self._sweep("views", each.cls.__name__, each.prefix)
                yield from self._move(msgspec.structs.replace(self._at, place=groups))
            yield from self._build_rows(building)

    def _build_rows(self, indexed: IndexedGroups) -> Plan[None]:
        """Continues the pass over the groups of one aggregate, which is at `place`."""
        name, done = ", ".join(each.cls.__name__ for each in indexed.indexes), 0
        while True:
            began = yield from Now()
            within = RowRange.under(indexed.aggregate.prefix).behind(self._at.place)
            found = yield from Scan("counts", within, BATCH, families="dm")  # empty groups too, where they have rows
            check_ascending("counts", within, found)
            if not found:
                return
            groups = dict.fromkeys([indexed.aggregate.group_row(key) for key, _row in found])
            yield from self._write_rows(indexed, list(groups), found[-1][0])
            done += len(found)
            self._options.progress(Progress(f"building {name}", done))
            yield from self._sleep(len(found), began)

    def _write_rows(self, indexed: IndexedGroups, groups: list[bytes], last: bytes) -> Plan[None]:
        """Writes the index rows of some groups as they are now, and moves behind the last; refused ones are noted."""
        position = msgspec.structs.replace(self._at, place=last)
        while True:
            data = encode_position(position)
            try:
                yield from self._building.index_groups(indexed, groups, self._swaps(data))
            except GroupRefused as refused:
                groups = [key for key in groups if key != refused.group]
                values = indexed.aggregate.key.codec.decode(row_part(refused.group))
                name = f"{indexed.aggregate.cls.__name__}({', '.join(map(repr, values))})"
                error = refused.error
                position = position.refusing(BackfillRefusal(name, f"{type(error).__name__}: {error}"))
                continue
            self._at, self._row = position, data
            return

    # Feeds: a pass over the memberships of each, when these and the items are right.

    def _build_feeds(self, stored: StoredSchema) -> Plan[None]:
        """Writes the entries of feeds: older code does not keep them, and the passes over root rows leave them out."""
        feeds = self._unfinished_feeds(stored)
        for feed in feeds:
            memberships, begun = feed.members.prefix, view_part(self._at.membership)
            if begun > memberships:
                continue
            if begun < memberships:
                prefixes = dict.fromkeys([each.prefix for each in self._keyspaces_of(feed)])
                for prefix in self._building.former_entries(prefixes):
                    yield from self._sweep("views", feed.cls.__name__, prefix)
                yield from self._move(msgspec.structs.replace(self._at, membership=memberships))
            building = [each for each in (feed.items, feed.members) if self._is_building(stored, each)]
            if self._at.membership == memberships:
                yield from self._count_groups(feed)
                yield from self._follow_removed(feed, building)
            if self._building.passes_over(building):
                yield from self._build_entries(feed)
        if feeds:
            yield from self._outbox.finish_waiting()

    def _unfinished_feeds(self, stored: StoredSchema) -> list[FeedView]:
        """The feeds that are built, or one of whose indexes is, in the order in which their entries are."""
        building = {each.prefix for each in stored.views.values() if each.state == "building"}
        feeds = [view for view in self._catalog.views.values() if isinstance(view, FeedView)]
        found = [
            each for each in feeds if not building.isdisjoint((each.prefix, each.items.prefix, each.members.prefix))
        ]
        return sorted(found, key=lambda each: each.members.prefix)

    def _is_building(self, stored: StoredSchema, part: CompiledView) -> bool:
        return stored.views[stored_name(part.cls)].state == "building"

    def _follow_removed(self, feed: FeedView, parts: Sequence[CompiledView]) -> Plan[None]:
        """Lets the removal of rows of items or memberships follow: from the start each time, there are few."""
        for within in self._building.removed_rows(parts):
            rest = within
            while True:
                began = yield from Now()
                found = yield from Scan("views", rest, BATCH, families="dm")
                check_ascending("views", rest, found)
                removed = [key for key, row in found if row[VALUE].value == REMOVED]
                if removed:
                    yield from self._committer.follow_rows(removed, self._swaps(self._row))
                if len(found) < BATCH:
                    break
                rest = rest.behind(found[-1][0])
                self._options.progress(Progress(f"removing entries of {feed.cls.__name__}", 0))
                yield from self._sleep(len(removed), began)

    def _keyspaces_of(self, feed: FeedView) -> Sequence[Keyspace]:
        return feed.keyspaces(self._catalog.kinds[feed.model])

    def _count_groups(self, feed: FeedView) -> Plan[None]:
        """Counts the members of the groups of a feed with large groups; the members of large ones have no entries."""
        large, done, cursor = self._building.counted_groups(feed), 0, b""
        while large is not None:
            began = yield from Now()
            unchanged = self._swaps(self._row)
            counted = yield from self._committer.together(partial(count_members, large=large, cursor=cursor), unchanged)
            done += COUNTED
            if counted is None:
                yield from self._outbox.finish_waiting()
                return
            cursor = counted
            self._options.progress(Progress(f"counting members of groups of {feed.cls.__name__}", done))
            yield from self._sleep(COUNTED, began)

    def _build_entries(self, feed: FeedView) -> Plan[None]:
        """Continues the pass over the memberships of one feed, which is at `membership`."""
        done = 0
        while True:
            began = yield from Now()
            within = RowRange.under(feed.members.prefix).behind(self._at.membership)
            found = yield from Scan("views", within, _MEMBERSHIPS, families="dm")
            check_ascending("views", within, found)
            if not found:
                return
            position = msgspec.structs.replace(self._at, membership=found[-1][0])
            data = encode_position(position)
            keys = [key for key, row in found if row[VALUE].value != REMOVED]
            yield from self._committer.follow_rows(keys, self._swaps(data))
            self._at, self._row = position, data
            done += len(found)
            self._options.progress(Progress(f"building {feed.cls.__name__}", done))
            yield from self._sleep(len(found), began)


def _mark_built(store: CountedStore) -> StoredSchema:
    return replace_schema(store, mark_built(run_plan(store, stored_schema())), store.now())
