"""How large a store is: by table from the engine's own counts, by model and view from reading every row.

See docs/formats/rows.md.
"""

from __future__ import annotations

from functools import partial
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from oneread.counters.rows import KINDS
from oneread.database.expiry_sweep import sweep_lags
from oneread.database.store_parts import StoreParts
from oneread.database.unfinished_commits import UnfinishedCommits
from oneread.derivations.catalog import Catalog
from oneread.derivations.pending_tasks import TaskLag, count_set_aside, count_waiting, oldest_of
from oneread.derivations.schema_rows import stored_schema
from oneread.jobs.queue import JobCounts
from oneread.models.versions import StoredSchema
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter
from oneread.plans.scans import scan_all
from oneread.store.cache import CacheUse
from oneread.store.engine import Statistics
from oneread.store.keys import KIND_BYTES
from oneread.store.requests import Found
from oneread.store.rows import REMOVED, TABLES, RowRange, Table
from oneread.transactions.outbox import BACK_REFERENCES, HOLDS, is_group_root
from oneread.transactions.prefixes import parts_by, prefix_of
from oneread.transactions.root import BODY

BATCH: Final = 2000
"""Rows of one scan."""

Standing: TypeAlias = Literal["readable", "building", "retired", "", "unknown"]


class SurveyPart(msgspec.Struct, frozen=True):
    """The rows of one model, view, or other prefix.

    Arguments:
        table: the table they are in.
        name: the model or view, as the store names it; an unknown prefix in hexadecimal.
        rows: their number.
        bytes: of keys, column names and values; an engine's own overhead is not counted.
        deleted: tombstones of entities.
        state: the state of a view.
    """

    table: Table
    name: str
    rows: int
    bytes: int
    deleted: int = 0
    state: Standing = ""


class Survey(msgspec.Struct, frozen=True):
    """What a store holds.

    Arguments:
        schema_version: of the schema in the store.
        unfinished: whether a backfill has work to do.
        views: name to state.
        tasks: how many tasks wait, of all kinds.
        engine: the engine's own figures; None when it has none.
        parts: rows by model and view, of an exact survey.
        set_aside: holders whose copies could not be updated.
        lag: how far the tasks of each kind are behind; `follow` are those that give copies their source's values. Where
            a commit changes one row, `total` are those by which entities and indexes show changed groups. Where
            entities show counters, `counter` are those whose value is still to be copied.
        unswept: by model or index with a ttl, how many seconds ago what waits longest for a sweep has expired.
        feeds: by feed, how far its entries are behind its items and memberships; these tasks are in `lag`, too.
        commits: those that are not finished; None where a transaction spans rows.
        cache: what this program's own reads had of its cache; None where it does not read one.
        behind: seconds since the oldest change that a view, a copy or a total may not show yet: that of the oldest task
            or unfinished commit; 0.0 where none waits. A counter that is shown waits up to its `every`. A view that is
            being built, what has expired and is not swept, and holders that are set aside do not count.
        jobs: those that wait, and those that are set aside.
        are_all: whether all tasks and unfinished commits were counted; otherwise the first `most` of each were, and
            `behind` is at least what it says.
    """

    schema_version: int
    unfinished: bool
    views: dict[str, Standing]
    tasks: int
    engine: Statistics | None
    parts: tuple[SurveyPart, ...] = ()
    set_aside: int = 0
    lag: dict[str, TaskLag] = {}
    unswept: dict[str, float] = {}
    feeds: dict[str, TaskLag] = {}
    commits: UnfinishedCommits | None = None
    cache: CacheUse | None = None
    behind: float = 0.0
    are_all: bool = True
    jobs: JobCounts = JobCounts()


def with_cache(found: Survey, cache: CacheUse | None) -> Survey:
    return msgspec.structs.replace(found, cache=cache)


class SurveyOptions(NamedTuple):
    """What is counted: every row with `exact`, and so many tasks of each kind and unfinished commits at `most`."""

    exact: bool
    most: int
    progress: Reporter


def survey(catalog: Catalog, parts: StoreParts, engine: Statistics | None, options: SurveyOptions) -> Plan[Survey]:
    """Surveys a store: a few requests; with `exact`, every row is read, `BATCH` a request.

    Rows that are written meanwhile may be missed or counted.
    """
    stored = yield from stored_schema()
    lags = yield from parts.tasks.lags(options.most)
    aside = yield from count_set_aside()
    jobs = yield from parts.job_queue.count(options.most)
    unswept = yield from sweep_lags(catalog)
    commits = yield from parts.unfinished_commits(BATCH, options.most)
    views: dict[str, Standing] = {name: view.state for name, view in sorted(stored.views.items())}
    counted: list[SurveyPart] = []
    if options.exact:
        names = PrefixNames(stored)
        for table in TABLES:
            total = None if engine is None else engine.tables[table].rows
            counted.extend((yield from _count_rows(table, names, options.progress, total)))
    behind = max(oldest_of(lags.kinds), 0.0 if commits is None else commits.oldest)
    are_all = lags.are_all and (commits is None or commits.are_all)
    return Survey(
        stored.version, stored.unfinished, views, count_waiting(lags.kinds), engine, tuple(counted), aside, lags.kinds,
        unswept, lags.feeds, commits, behind=behind, are_all=are_all, jobs=jobs,
    )  # fmt: skip


class PrefixNames:
    """The names of the prefixes of keys."""

    def __init__(self, stored: StoredSchema) -> None:
        self._kinds = {number.to_bytes(KIND_BYTES, "big"): name for name, number in stored.kinds.items()}
        self._views: dict[bytes, tuple[str, Standing]] = {
            view.prefix: (name, view.state) for name, view in stored.views.items()
        }
        self._views.update({prefix: (name, "") for prefix, name in KINDS.items()})
        self._views.update({view.prefix: (view.name, "retired") for view in stored.retired})

    def of(self, table: Table, prefix: bytes) -> tuple[str, Standing]:
        if table == "system":
            return prefix.decode("ascii", "replace"), ""
        if table == "roots":
            if is_group_root(prefix):
                return "groups that indexes list", ""
            name = self._kinds.get(prefix)
            return (prefix.hex(), "unknown") if name is None else (name, "")
        if table == "views" and prefix in (BACK_REFERENCES, HOLDS):
            return ("back-references" if prefix == BACK_REFERENCES else "holds"), ""
        return self._views.get(prefix, (prefix.hex(), "unknown"))


class _Count(msgspec.Struct):
    rows: int = 0
    bytes: int = 0
    deleted: int = 0


def _count_rows(table: Table, names: PrefixNames, progress: Reporter, total: int | None) -> Plan[list[SurveyPart]]:
    counts: dict[bytes, _Count] = {}
    done = 0

    def add(rows: list[Found]) -> None:
        nonlocal done
        for prefix, several in parts_by(rows, partial(prefix_of, table)):
            count = counts.setdefault(prefix, _Count())
            count.rows += len(several)
            count.bytes += sum([len(key) for key, _row in several])
            count.bytes += sum([len(column) + len(cell.value) for _key, row in several for column, cell in row.items()])
            if table == "roots":
                count.deleted += sum([BODY not in row or row[BODY].value == REMOVED for _key, row in several])
        done += len(rows)
        progress(Progress(f"counting rows of {table}", done, total))

    yield from scan_all(table, RowRange(b"", b""), add, BATCH)
    found: list[SurveyPart] = []
    for prefix, count in counts.items():
        name, state = names.of(table, prefix)
        found.append(SurveyPart(table, name, count.rows, count.bytes, count.deleted, state))
    return found
