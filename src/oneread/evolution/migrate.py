"""Migration: plans what a declared schema changes in a store, applies it, and rolls it back.

A plan writes nothing. Applying is one transaction, however large the store is, because a backfill rewrites rows later.
See "Schema history" of the decisions page and docs/explanation/schema-evolution.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from oneread.derivations.schema_rows import stored_schema
from oneread.errors import SchemaMismatch, Unsupported
from oneread.evolution.backfill_position import BackfillPosition, position
from oneread.evolution.changing import change_schema
from oneread.evolution.compare import Difference
from oneread.evolution.declare import DeclaredModel, DeclaredSchema
from oneread.evolution.formers import rows_of_formers, view_of_former
from oneread.evolution.next_layouts import refuse_undeclared, undeclared
from oneread.evolution.plan import Evolved, evolve, refuse
from oneread.models.evolving import Renamed
from oneread.models.versions import StoredSchema, ViewState, lowered
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now
from oneread.plans.inside import run_plan
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.limits import LAST_NUMBER
from oneread.store.requests import Found
from oneread.store.rows import RowRange
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.first_rows import first_row
from oneread.transactions.root import BODY
from oneread.transactions.system_rows import NATIVE_SYSTEM, NativeSystem

BATCH: Final = 2000
"""Rows of one scan."""

_OLDER: Final = (
    "this schema is an older version of the store's; `oneread migrate rollback` makes it the newest again, "
    "where nothing is lost"
)
_LOSES: Final = "rolling back loses this field's values; allow it with --lose MODEL.FIELD, or keep the newer schema"
_POPULATED: Final = "this model still has entities; delete them before dropping it"
_STILL_DECLARED: Final = "this is declared; remove it from the schema before dropping it"
_NOT_THERE: Final = "the store has no model or view of this name"


class Planned(msgspec.Struct, frozen=True):
    """What a declared schema changes in a store, from `version` of its schema to `becomes`; the same for no change.

    A refused difference has the reason and what to do. `missing` are (model, field, type) for which `retyped` must be
    declared, because rows of that type may exist. `cuts_off` are versions that may write now and could not any more,
    `why` the reasons for that, and `continues` versions that may write until a backfill ends it. `builds` are views
    that are not readable until a backfill is done, but for those for which another view answers: `answered` has both
    names. That of `formers` is their own former generation, which is written as well until it is dropped: `twice` has
    the rows that a save of a model writes more for that, without elements of an `each(...)`, and `entries` the feeds
    whose entries are. `unserved` says of `builds` why their former generation does not answer. `undeclared` are views
    that programs of this schema do not read, and write for those that continue, until they are dropped: `twice` has
    their rows too. `rows` are entities that the backfill rewrites, by model.
    """

    version: int
    becomes: int
    differences: tuple[Difference, ...]
    missing: tuple[tuple[str, str, str], ...]
    cuts_off: tuple[int, ...]
    builds: tuple[str, ...]
    rows: dict[str, int]
    why: tuple[str, ...] = ()
    continues: tuple[int, ...] = ()
    answered: tuple[tuple[str, str], ...] = ()
    formers: tuple[str, ...] = ()
    twice: dict[str, int] = {}
    entries: tuple[str, ...] = ()
    unserved: dict[str, str] = {}
    undeclared: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the schema cannot be opened as it is."""
        return bool(self.missing) or any(each.refused for each in self.differences)

    @property
    def nothing(self) -> bool:
        """Whether the store is as declared."""
        return not self.differences and not self.missing and self.version == self.becomes


class Version(msgspec.Struct, frozen=True):
    """One version of the schema."""

    version: int
    at: datetime
    may_write: bool
    declared: bool


class StandingView(msgspec.Struct, frozen=True):
    """A view as the store has it; `undeclared`: since which version the schema does not declare it, or 0."""

    name: str
    state: ViewState
    generation: int
    undeclared: int = 0


class OlderRows(msgspec.Struct, frozen=True):
    """An older layout that rows may still have."""

    model: str
    layout: int
    needs: tuple[str, ...]


class Status(msgspec.Struct, frozen=True):
    """The state of a store's schema: its versions, oldest first, and its views.

    `older` are layouts that rows have until a backfill rewrites them, `retired` generations of views whose rows it
    removes, as `name, generation`; `unfinished` says whether it has something to do, `backfill` how far it is.
    """

    version: int
    versions: tuple[Version, ...]
    views: tuple[StandingView, ...]
    older: tuple[OlderRows, ...]
    retired: tuple[str, ...]
    unfinished: bool
    backfill: str


def evolve_schema(declared: DeclaredSchema, stored: StoredSchema, drop: Collection[str] = ()) -> Plan[Evolved]:
    """Compares a declared schema with the stored one. A scan of one row for each stored model."""
    stored, populated = lowered(stored), {}
    for name in stored.kinds:
        populated[name] = (yield from first_row("roots", _rows_of(stored.kinds, name))) is not None
    return evolve(stored, declared, populated, (yield from Now()), drop)


def _rows_of(kinds: Mapping[str, int], name: str) -> RowRange:
    return RowRange.under(kinds[name].to_bytes(2, "big"))


def plan_migration(declared: DeclaredSchema, drop: Collection[str] = (), *, count: bool = True) -> Plan[Planned]:
    """Returns what opening, or applying, would change, as `Migration.plan` describes; writes nothing."""
    stored = yield from stored_schema()
    yield from _refuse_drops(stored, declared, drop)
    drop = _existing(stored, drop)
    version = _version_of(stored, declared)
    if version not in (0, stored.version) and not drop:
        versions = f"version {stored.version}", f"version {version}"
        cut = Difference("changed", "model", "the whole schema", "", *versions, _OLDER)
        may_write = version >= stored.writers
        cuts, continues = ((), (version,)) if may_write else ((cut,), ())
        return Planned(stored.version, stored.version, cuts, (), (), (), {}, continues=continues)
    return (yield from _described(stored, declared, (yield from evolve_schema(declared, stored, drop)), count=count))


def _version_of(stored: StoredSchema, declared: DeclaredSchema) -> int:
    """The newest version that this schema is in the store's history; 0 for none."""
    return max((past.version for past in stored.history if past.declared == declared.digest), default=0)


def _described(stored: StoredSchema, declared: DeclaredSchema, evolved: Evolved, *, count: bool) -> Plan[Planned]:
    after = evolved.stored
    rows: dict[str, int] = {}
    rewritten = {after.layouts[name].kind for name in after.older if after.older[name] != stored.older.get(name)}
    building = {
        name: view for name, view in after.views.items() if view.state == "building" and stored.views.get(name) != view
    }
    emitted = {view.kind for view in building.values() if view.model not in after.views}  # others are of groups
    for kind in sorted(rewritten | emitted):
        if count and kind in stored.kinds:
            rows[kind] = yield from _count(_rows_of(stored.kinds, kind))
    formers = {name: view for name, view in after.views.items() if view.former_of in building}
    stand_ins = {each.name: each.stand_in for each in declared.views}
    answered = {name: stand_ins[name] for name in building if stand_ins.get(name, name) not in ("", *building)}
    answered |= {view.former_of: name for name, view in formers.items()}
    builds = tuple(name for name in building if name in stand_ins and name not in answered)
    may_write = tuple(sorted({past.version for past in stored.history if past.version >= stored.writers}))
    cuts_off = tuple([version for version in may_write if version < after.writers])
    continues = () if after.version == stored.version else may_write[len(cuts_off) :]
    reasons = evolved.reasons if may_write else ()
    kept = tuple([name for name, view in after.views.items() if view.undeclared == after.version])
    missing = tuple(undeclared(after, declared))
    numbers = stored.version, after.version
    differences, others = evolved.differences, tuple(answered.items())
    twice = {kind: rows_of_formers(after.views, kind) for kind in sorted(after.kinds)}
    twice = {kind: rows for kind, rows in twice.items() if rows and (formers or kept)}
    feeds = [each.former_of for each in formers.values() if each.rules is not None and each.rules.feed is not None]
    return Planned(
        *numbers, differences, missing, cuts_off, builds, rows, reasons, continues, others, tuple(formers), twice,
        tuple(feeds), dict(evolved.unserved), kept,
    )  # fmt: skip


def _count(within: RowRange) -> Plan[int]:
    sizes: list[int] = []
    yield from scan_all("roots", within, lambda rows: sizes.append(len(rows)), BATCH, fetch_data)
    return sum(sizes)


def apply_migration(
    declared: DeclaredSchema, drop: Collection[str] = (), committer: SystemCommitter = NATIVE_SYSTEM
) -> Plan[Planned]:
    """Makes the declared schema the newest version, as `Migration.apply` describes; returns what changed."""
    before = yield from plan_migration(declared, drop, count=False)
    stored = yield from stored_schema()
    yield from _accepted(stored, declared, drop)  # a refused migration must not have purged anything
    yield from _refuse_drops(stored, declared, drop, committer)
    yield from change_schema(committer, partial(_apply, declared=declared, drop=drop))
    return before


def _accepted(stored: StoredSchema, declared: DeclaredSchema, drop: Collection[str]) -> Plan[StoredSchema]:
    """The next version of the schema, the given one when nothing changes; raises SchemaMismatch if refused."""
    drop = _existing(stored, drop)
    version = _version_of(stored, declared)
    if version and version < stored.writers:
        raise SchemaMismatch(_OLDER, version=version, newest=stored.version)
    if version and not drop:
        return stored
    evolved = yield from evolve_schema(declared, stored, drop)
    refuse(evolved)
    refuse_undeclared(evolved.stored, declared)
    return evolved.stored


def _apply(store: CountedStore, stored: StoredSchema, declared: DeclaredSchema, drop: Collection[str]) -> StoredSchema:
    """The next schema, where entities that were saved since the first check are found."""
    accepted = run_plan(store, _accepted(stored, declared, drop))
    if accepted is stored:
        return stored
    for name in drop:
        if name in stored.kinds:
            if run_plan(store, first_row("roots", _rows_of(stored.kinds, name))) is not None:
                raise SchemaMismatch(_POPULATED, model=name)
        elif name in stored.layouts:
            run_plan(store, _refuse_populated(stored, name))
    return accepted


def _existing(stored: StoredSchema, drop: Collection[str]) -> Collection[str]:
    """The names that the store has; an apply that was killed may have dropped the others."""
    return [name for name in drop if name in stored.layouts or name in stored.views]


def _refuse_drops(
    stored: StoredSchema, declared: DeclaredSchema, drop: Collection[str], purging: SystemCommitter | None = None
) -> Plan[None]:
    """Refuses to drop what is declared, what the store never had, and models that have entities."""
    names = {each.name for each in declared.models} | {each.name for each in declared.views}
    for name in sorted(drop):
        if name in names:
            raise SchemaMismatch(_STILL_DECLARED, name=name)
        layout = stored.layouts.get(name)
        if layout is None and name not in stored.views:
            if name in stored.dropped:
                continue
            raise SchemaMismatch(_NOT_THERE, name=name, models=sorted(stored.layouts), views=sorted(stored.views))
        if layout is not None:
            yield from _refuse_populated(stored, name, purging)


def _refuse_populated(stored: StoredSchema, name: str, purging: SystemCommitter | None = None) -> Plan[None]:
    """Raises SchemaMismatch when a model has an entity; reads every row of its kind. `purging` purges deleted ones."""
    layout = stored.layouts[name]
    numbers = {layout.number, *(older.number for older in stored.older.get(name, ()))}
    is_whole = layout.kind == name

    def purge(rows: list[Found]) -> Plan[None]:
        for key, row in rows:
            if BODY in row and (is_whole or int.from_bytes(row[BODY].value[:2], "big") & LAST_NUMBER in numbers):
                raise SchemaMismatch(_POPULATED, model=name, key=key.hex())
        if is_whole and rows and purging is not None:
            if not isinstance(purging, NativeSystem):
                raise Unsupported("rows of deleted entities are not removed on this store yet", rows=len(rows))
            yield from purging.purge([key for key, _row in rows])

    yield from scan_all("roots", _rows_of(stored.kinds, layout.kind), purge, BATCH, fetch_data)


def roll_back(
    declared: DeclaredSchema, lose: Collection[str] = (), committer: SystemCommitter = NATIVE_SYSTEM
) -> Plan[Planned]:
    """Makes an older program's schema the newest version, as `Migration.rollback` describes.

    Renames since then are undone while the store remembers them; views that it does not declare are dropped, since they
    can be built again.
    """
    planned: list[Planned] = []

    def wanted(store: CountedStore, stored: StoredSchema) -> StoredSchema:
        found, plan = _rolled_back(store, stored, declared, frozenset(lose))
        planned.append(plan)
        return found

    yield from change_schema(committer, wanted)
    return planned[-1]


def _rolled_back(
    store: CountedStore, stored: StoredSchema, declared: DeclaredSchema, lose: frozenset[str]
) -> tuple[StoredSchema, Planned]:
    stored = lowered(stored)
    # The schema with the renames that lead back to it.
    given = msgspec.structs.replace(declared, models=tuple(_undone(model, stored) for model in declared.models))
    hidden = {name for view in given.views for name in view.hidden}
    others = {name for name in stored.views if name not in hidden and not view_of_former(stored.views, name)}
    drop = others - {view.name for view in given.views}
    models = {name for name in stored.layouts if name not in {model.name for model in given.models}}
    evolved = run_plan(store, evolve_schema(given, stored, drop | (models & lose)))
    refuse(evolved)
    for each in evolved.differences:
        if each.loses and each.of == "model" and each.field and f"{each.name}.{each.field}" not in lose:
            raise SchemaMismatch(_LOSES, model=each.name, field=each.field)
    for name in models:
        run_plan(store, _refuse_populated(stored, name))
    refuse_undeclared(evolved.stored, given)
    return evolved.stored, run_plan(store, _described(stored, given, evolved, count=False))


def _undone(model: DeclaredModel, stored: StoredSchema) -> DeclaredModel:
    known = (*stored.former.get(model.name, ()), *stored.older.get(model.name, ()))
    layout = next((each for each in reversed(known) if each.fields == model.fields), None)
    if layout is None:
        return model
    moved = [(origin.field, origin.of) for origin in layout.origins if origin.field != origin.of]
    tops = tuple(Renamed(field, of) for field, of in moved if "." not in field)
    inner = dict(model.copy_steps)
    for field, of in moved:
        name, _, then = of.partition(".")
        now = field.partition(".")[2]
        if name in inner and then and now != then:
            inner[name] = (*inner[name], Renamed(now, then))
    return msgspec.structs.replace(model, steps=(*model.steps, *tops), copy_steps=inner)


def status(declared: DeclaredSchema | None) -> Plan[Status]:
    """The state of a store's schema. Two requests, two rows."""
    stored = yield from stored_schema()
    found = yield from position()
    return Status(
        stored.version,
        tuple(
            Version(
                past.version,
                datetime.fromtimestamp(past.at / 1000, UTC),
                past.version >= stored.oldest_writer,
                declared is not None and past.declared == declared.digest,
            )
            for past in stored.history
        ),
        tuple(StandingView(name, view.state, view.generation, view.undeclared) for name, view in stored.views.items()),
        tuple(
            OlderRows(name, layout.number, tuple(sorted(each.field for each in layout.origins if each.was)))
            for name, layouts in stored.older.items()
            for layout in layouts
        ),
        tuple(f"{each.name}, {each.generation}" for each in stored.retired),
        stored.unfinished,
        "" if found is None or found.version != stored.version else _in_words(found),
    )


def _in_words(at: BackfillPosition) -> str:
    total = f" of about {at.total:,}" if at.total else ""
    return f"pass {at.passes}: {at.looked:,}{total} read, {at.recommitted:,} rewritten, {at.refused:,} refused"
