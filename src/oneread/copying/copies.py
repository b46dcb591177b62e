"""The verbs: two URLs and their schemas to a copy, or to a comparison; synchronous only, as an operator runs them.

The target derives its own copies, lists and totals. Where the schema is the same it takes over the numbers of kinds and
views and the key for cursors, so that cursors of pages stay valid. See
docs/decisions/0143-dumps-hold-what-was-counted.md.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from oneread.connect import SCHEMES, connect, migration
from oneread.copying.comparison import ComparedStores, StoreComparison
from oneread.copying.pairs import Stores
from oneread.copying.store_copy import CopiedStore, CopyOptions, StoreCopy
from oneread.database._sync.database import Database
from oneread.errors import SchemaMismatch, UsageError
from oneread.evolution.schema import Schema
from oneread.models.versions import StoredSchema
from oneread.plans.arguments import check_function, check_pace
from oneread.plans.clock import wall_clock
from oneread.plans.progress import Reporter, no_progress
from oneread.store.urls import redact, split_url, with_read_only
from oneread.transfer.bulk import BATCH
from oneread.transfer.dump import schema_digest


def copy_store(  # noqa: PLR0913 - keyword-only options of the one call that copies
    source: str,
    target: str,
    schema: Schema,
    *,
    target_schema: Schema | None = None,
    batch: int = BATCH,
    pace: float | None = None,
    resume: bool = False,
    compare: bool = True,
    clock: Callable[[], int] = wall_clock,
    progress: Reporter = no_progress,
) -> CopiedStore:
    """Copies a store at rest into an empty one, of any kind, and compares both.

    Entities and tombstones go along with their versions, stamps and numbers; so do the last numbers of sequences, marks
    of feeds, and counters with their windows and the tokens that are kept. The target derives everything else. With the
    same schema it takes over the numbers of kinds and views and the key for cursors.

    Nothing writes to either store meanwhile: that is up to the caller. Where the source has snapshots its entities are
    of one moment; comparing names what was changed behind it.

    Costs what a dump of the source costs, and of the target what `bulk` costs for each entity, a request or two for
    each counter, and in comparing a read of the rows of both.

    Arguments:
        source: the URL of a store, which is opened read-only.
        target: the URL of another one, which is made where there is none.
        schema: the schema of the source.
        target_schema: another one for the target, with the same models: with other views, `spread` or `inline`.
        batch: entities of one transaction.
        pace: entities a second at most.
        resume: continues a copy that was stopped; what was copied is read and skipped.
        compare: compares both stores afterwards.
        clock: whole milliseconds since 1970.
        progress: called after each batch.

    Raises:
        UsageError: the target is not empty, or is the source; something waits in the source; there is nothing to
            resume, or the source has changed since the copy that is resumed began.
        SchemaMismatch: the models of the two schemas differ.
        OnereadError: the target refuses an entity: which, is noted. The rest is stored, and can be resumed.
        StoreError: a store failed; the copy can be resumed.
    """
    check_function("progress", progress)
    check_pace("entities", pace)
    with _opened(source, target, (schema, target_schema or schema), clock) as stores:
        options = CopyOptions(batch, pace, resume, progress)
        copied = StoreCopy(stores, options).run()
        compared = StoreComparison(stores, progress).run() if compare else None
    return msgspec.structs.replace(copied, compared=compared)


def compare_stores(
    source: str,
    target: str,
    schema: Schema,
    *,
    target_schema: Schema | None = None,
    clock: Callable[[], int] = wall_clock,
    progress: Reporter = no_progress,
) -> ComparedStores:
    """Compares a store with the one that it was copied into, while nothing writes to either; writes nothing.

    Costs a read of the rows of all entities of both, in requests of 500, and a request or two for each counter.

    Arguments:
        source: the URL of a store.
        target: the URL of the other one.
        schema: the schema of the source.
        target_schema: that of the target, where it is another one.
        clock: whole milliseconds since 1970.
        progress: called after each batch.

    Raises:
        UsageError: both are one store.
        SchemaMismatch: the models of the two schemas differ.
    """
    check_function("progress", progress)
    check_two(source, target)
    with (
        connect(_reading(source, target), schema, workers=0, clock=clock) as one,
        connect(_reading(target, source), target_schema or schema, workers=0, clock=clock) as two,
    ):
        stores = Stores(one, two, ())
        check_models(stores)
        return StoreComparison(stores, progress).run()


@contextmanager
def _opened(source: str, target: str, schemas: tuple[Schema, Schema], clock: Callable[[], int]) -> Generator[Stores]:
    """Opens both stores; a target without a schema takes over the source's."""
    check_two(source, target)
    schema, other = schemas
    url = _reading(source, target)
    with migration(url, schema) as change:
        stored, key = change.stored()
    with connect(url, schema, workers=0, clock=clock) as one:
        adopted = False
        if stored.history[-1].declared == other.declared().digest:
            with migration(target, other, clock=clock) as change:
                adopted = change.adopt(stored, key)
        with connect(target, other, workers=0, clock=clock) as two:
            stores = Stores(one, two, _left_behind(one, stored, adopted=adopted))
            check_models(stores)
            yield stores


def check_two(source: str, target: str) -> None:
    """Raises UsageError for two URLs of one store."""
    if _place(source) == _place(target):
        raise UsageError("the target is the source: give the URL of another store", url=redact(source))


def _place(url: str) -> tuple[str, str, str]:
    scheme, place, options = split_url(url, SCHEMES)
    path = str(Path(place).resolve()) if scheme == "lmdb" else place
    return scheme, path, options.get("prefix", "")


def _reading(url: str, other: str) -> str:
    """The URL by which nothing is written; but one process opens a folder of LMDB in one way for all stores in it."""
    (scheme, path, _prefix), (other_scheme, other_path, _other) = _place(url), _place(other)
    return url if (scheme, path) == (other_scheme, other_path) else with_read_only(url, SCHEMES)


def check_models(stores: Stores) -> None:
    """Raises SchemaMismatch unless both schemas have the same models."""
    one, two = stores.source.operations.catalog, stores.target.operations.catalog
    if schema_digest(one) != schema_digest(two):
        raise SchemaMismatch(
            "the models of the two schemas differ: change the schema before the copy, or after it",
            source=sorted(each.__name__ for each in one.models), target=sorted(each.__name__ for each in two.models),
        )  # fmt: skip


def _left_behind(source: Database, stored: StoredSchema, *, adopted: bool) -> tuple[str, ...]:
    """What the target does not get, in words."""
    catalog = source.operations.catalog
    left = [] if adopted else ["cursors of pages: the target has numbers of its own; a client begins at the first page"]
    if stored.logged or any(each.watched for each in stored.views.values()):
        left.append("positions of change logs: a reader of db.changes reads its page again")
    if any(getattr(each, "at_most", None) is not None for each in catalog.views):
        left.append("what at_most trimmed from feeds: older entries may be shown again")
    return tuple(left)
