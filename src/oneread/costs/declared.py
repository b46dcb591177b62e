"""Declared costs: the bounds of every verb of a schema, as calls, as a table, and as the explanation of one call.

See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, get_args

import msgspec

from oneread.costs import counter_costs
from oneread.costs.bounds import Bound, BoundBuilder, Line, Span
from oneread.costs.entity_costs import EntityCosts
from oneread.costs.footprints import Verb, WriteCall, WriteFootprints
from oneread.costs.journal_prices import JournalPrices
from oneread.costs.numbers import seconds_text
from oneread.costs.place_costs import PlaceCosts
from oneread.costs.reads import Reads
from oneread.costs.sizes import Size
from oneread.costs.transaction_prices import TransactionPrices
from oneread.costs.usual import NOTHING_COUNTED, UsualFanOuts
from oneread.counters.rows import MOST_SHARDS, WindowSize
from oneread.counters.wanted import check_keep
from oneread.derivations.catalog import Catalog
from oneread.derivations.compiled_schema import ROW_FORM
from oneread.derivations.views import AnyView, View
from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.models.model import Model, stored_name
from oneread.models.registry import root_model
from oneread.store.limits import BUDGET, CHANGES, DEFAULT_LIMIT, JOB_BYTES, KEY_BYTES
from oneread.store.rows import Table

_PRICES: Final[dict[Span, type[TransactionPrices | JournalPrices]]] = {"rows": TransactionPrices, "row": JournalPrices}

_JOB: Final = Size(JOB_BYTES + KEY_BYTES, 200)

WRITTEN: Final[tuple[Verb, ...]] = ("save", "create", "get_or_create", "upsert", "patch", "delete")


ModelClass: TypeAlias = "type[Model[*tuple[Any, ...]]]"
"""A model, whatever its key."""

ListedClass: TypeAlias = "type[Model[*tuple[Any, ...]] | AnyView]"
"""A model or a view."""


class Explanation(msgspec.Struct, frozen=True):
    """What one call would do; nothing was done.

    Arguments:
        call: as it was given.
        plan: its requests one by one, with keys and ranges.
        bound: the most that it costs.
        seconds: that it takes, when numbers were given.
        notes: what to know about the prediction.
        group: the root model of the entity group that it writes in, empty for none: the commits of one group are one
            after the other.
        group_rate: commits a second of one group, when numbers were given: what one takes, turned round.
    """

    call: str
    plan: tuple[str, ...]
    bound: Bound
    seconds: float | None = None
    notes: tuple[str, ...] = ()
    group: str = ""
    group_rate: float | None = None

    def __str__(self) -> str:
        lines = [self.call, *(f"  {line}" for line in self.plan), *str(self.bound).splitlines()]
        if self.seconds is not None:
            lines.append(f"about {seconds_text(self.seconds)}, if it costs all that")
        if self.group:
            rate = "" if self.group_rate is None else f": at least {self.group_rate:,.0f} a second"
            lines.append(f"the commits of one {self.group} group are one after the other{rate}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


_DROP: Final = "oneread migrate apply --drop"


class FormerCost(msgspec.Struct, frozen=True):
    """A former generation of a view that was edited in place, or a view for older programs, which is written besides.

    Arguments:
        name: of its rows, in bounds.
        view: that it answers for until that one is built; empty for one that is not declared any more.
        drop: what ends it: `oneread migrate apply --drop`, with this name.
    """

    name: str
    view: str
    drop: str

    def __str__(self) -> str:
        what = f"the former generation of {self.view}" if self.view else "not declared any more"
        return f"{self.name} is {what}: written until the schema changes again, or `{_DROP} {self.drop}`"


def _former_cost(cls: type[View[Any]]) -> FormerCost:
    view = "" if cls.former_of is None else cls.former_of.__name__
    return FormerCost(cls.__name__, view, stored_name(cls))


class Following(msgspec.Struct, frozen=True):
    """What follows within the call that changes one entity, at most; tasks do the rest.

    Arguments:
        holders: of its copies, and entities that are deleted with it.
        groups: of each aggregate whose numbers entities or indexes show: 2 where the entity may leave one for another.
    """

    holders: int
    groups: Mapping[type, int]


class Costs:
    """The bounds of one schema: `costs.of(shop).page(PurchasesOfBuyer, limit=10).requests`.

    A bound holds for every store under the schema, however full, for rows that code with the same declarations wrote.
    A row that was written under other declarations may cost, once, a request and the derived rows that it loses more.
    Those of a database, `db.explain.costs`, have the former generations of views that were edited in place besides,
    as the store had them when it was opened.
    """

    def __init__(
        self, catalog: Catalog, inline: int, span: Span = "rows", usual: UsualFanOuts = NOTHING_COUNTED
    ) -> None:
        self.span: Span = span
        self._views: tuple[type[View[Any]], ...] = tuple(catalog.views)
        self.formers = [_former_cost(cls) for cls in self._views if cls in catalog.formers]
        self._costs = costs = EntityCosts(catalog)
        self._catalog = catalog
        self.inline = inline
        self.usual = usual
        self._footprints = WriteFootprints(costs, usual, inline)
        self._prices = _PRICES[span](self._footprints, inline)
        self._reads = Reads(costs, self._prices)
        self._places = PlaceCosts(costs, span)

    def get(self, cls: ListedClass) -> Bound:
        """`get`, `find` and `exists` of a model, an aggregate or a unique index."""
        self._check_found(cls)
        return self._reads.get(cls)

    def get_many(self, cls: ListedClass, keys: int) -> Bound:
        """`get_many` of that many keys."""
        self._check_found(cls)
        return self._reads.get_many(cls, _check_whole("keys", keys))

    def page(
        self,
        cls: ListedClass,
        *,
        limit: int | None = None,
        any_of: int = 1,
        where: bool = False,
        budget: int = BUDGET,
    ) -> Bound:
        """A page of a model or view.

        Arguments:
            cls: what is listed.
            limit: rows; by default those of a page without `limit=`.
            any_of: values of one key field.
            where: it has a condition.
            budget: rows that may be read beyond the limit.
        """
        self._check_declared(cls)
        rows = min(DEFAULT_LIMIT, cls.max_limit) if limit is None else _check_whole("limit", limit)
        values, more = _check_whole("any_of", any_of), _check_whole("budget", budget, least=0)
        return self._reads.page(cls, rows, any_of=values, where=where, budget=more)

    def changes(self, cls: ListedClass, *, limit: int | None = None) -> Bound:
        """A batch of `changes`, where no other watcher of the process has looked or read before.

        Arguments:
            cls: a watched view, or a logged model.
            limit: changes of a batch; by default those of one without `limit=`.

        Raises:
            UsageError: it is not watched or logged.
        """
        self._check_declared(cls)
        if cls not in self._catalog.logs:
            missing = "not watched: watched = timedelta(hours=1)"
            if cls not in self._views:
                missing = "not logged: logged = timedelta(days=7)"
            raise UsageError(f"its changes are {missing}", declaration=cls)
        most = min(CHANGES, cls.max_limit) if limit is None else _check_whole("limit", limit)
        return self._reads.changes(cls, most)

    def places(self, cls: ModelClass, *, limit: int | None = None, check: bool = False) -> Bound:
        """`places` of an entity.

        Arguments:
            cls: its class.
            limit: holders of a page, and members of a group that are counted.
            check: whether its rows are compared.
        """
        self._check_model(cls)
        rows = DEFAULT_LIMIT if limit is None else _check_whole("limit", limit)
        return self._places.bound(cls, rows, check=check)

    def save(self, cls: ModelClass, *, entities: int = 1, carriers: int | None = None) -> Bound:
        """`save` of one entity, or `save_all` of several of one class in one batch.

        Arguments:
            cls: their class.
            entities: of one batch.
            carriers: entities that hold a copy of each, when it is known how many there are.
        """
        name = "save" if entities == 1 else f"save_all({entities})"
        return self._write(WriteCall("save", cls, None, _check_whole("entities", entities), carriers), name)

    def create(self, cls: ModelClass) -> Bound:
        """`create`."""
        return self._write(WriteCall("create", cls))

    def get_or_create(self, cls: ModelClass) -> Bound:
        """`get_or_create`."""
        return self._write(WriteCall("get_or_create", cls))

    def upsert(self, cls: ModelClass, *, carriers: int | None = None) -> Bound:
        """`upsert`."""
        return self._write(WriteCall("upsert", cls, holders=carriers))

    def patch(self, cls: ModelClass, *fields: str, carriers: int | None = None) -> Bound:
        """`patch` of these fields, or of any; `carriers` as with `save`."""
        self._check_model(cls)
        variants = [each for each in self._catalog.models if issubclass(each, cls)]
        unknown = [name for name in fields if not any(name in each.__struct_fields__ for each in variants)]
        if unknown:
            raise UsageError("this is not a field of the model", model=cls, field=unknown[0])
        name = f"patch({', '.join(fields)})" if fields else "patch"
        return self._write(WriteCall("patch", cls, fields or None, holders=carriers), name)

    def delete(self, cls: ModelClass, *, carriers: int | None = None, children: int | None = None) -> Bound:
        """`delete`; with `children`, of a root with at most so many children: `delete(..., children="delete")`.

        A group that gets children meanwhile is listed and deleted again, which costs as much once more.

        Arguments:
            cls: its class.
            carriers: as with `save`, of each entity that is deleted.
            children: of all models together; at most the schema's `inline`.

        Raises:
            UsageError: more children than are deleted in one commit, or the class has none.
        """
        call = WriteCall("delete", cls, holders=carriers)
        if children is None:
            return self._write(call)
        self._check_model(cls)
        if not self._footprints.models_in_group(cls):
            raise UsageError("no model of the schema has this one as its root (child_of)", given=cls)
        if _check_whole("children", children, least=0) > self.inline:
            raise UsageError("so many children are not deleted in one commit", children=children, inline=self.inline)
        return self._prices.delete_group(call, children, f"delete(children={children})")

    def enqueuing(self, write: Bound, jobs: int = 1) -> Bound:
        """A write with so many jobs, `enqueue=[...]`: a request more for all of them, and a row for each.

        Arguments:
            write: the bound of the write without jobs.
            jobs: that it enqueues.
        """
        total = BoundBuilder()
        total.add_bound(write)
        number = _check_whole("jobs", jobs)
        if self.span == "rows":
            total.add("jobs", Line("write system jobs", "enqueue", number, _JOB, rounds=0))
        else:  # they are in the root row until they are put behind the commit point
            total.add("jobs", Line("write system jobs", "enqueue", number, _JOB.times(2)))
        made = total.bound(write.verb, write.target)
        return msgspec.structs.replace(made, unlimited=write.unlimited)

    def transact(self, writes: Sequence[Bound], *, reads: int = 0) -> Bound:
        """The commit of one attempt of `transact`, which is what its results say they cost.

        The reads of the body are not part of it: a request and a row for each `get` of an entity that was not read
        before, and what each write reads.

        Arguments:
            writes: the bounds of what the body writes.
            reads: entities that the body reads besides.
        """
        return self._prices.transact(writes, _check_whole("reads", reads, least=0))

    def counter_add(
        self, name: str = "", *, keep: Mapping[WindowSize, int] | None = None, once: bool = False, at: bool = False
    ) -> Bound:
        """`add` to a counter.

        Arguments:
            name: of the counter; an add to one that entities show costs more. Any other counter unless given.
            keep: its windows, as for `db.counter`.
            once: with a token.
            at: in the windows of a moment that is given.
        """
        shown = next((each.name for each in self._catalog.counters if name and each.group_named(name)), "")
        return self._add_to_counter(check_keep(keep), shown, once=once, at=at)

    def counter_read(self, *, shards: int = MOST_SHARDS) -> Bound:
        """`read` and `look` of a counter that never had more shards than these; with `max_age` it may cost nothing."""
        return counter_costs.read_bound(_check_whole("shards", shards))

    def counter_windows(self, last: int, *, until: bool = False) -> Bound:
        """`windows` of a counter, so many of one size, `until` a moment or now."""
        return self._prices.windows_of_counter(_check_whole("last", last), until=until)

    def cache_counter_add(self, *, shards: int = MOST_SHARDS) -> Bound:
        """`add` to a cache-first counter: all of it after a loss of the cache, mostly nothing of the store.

        Arguments:
            shards: the most that any program has declared.
        """
        return counter_costs.cache_first_bound(_check_whole("shards", shards))

    def cache_counter_read(self, *, shards: int = MOST_SHARDS) -> Bound:
        """`read` of a cache-first counter: all of it after a loss of the cache, mostly nothing of the store."""
        return counter_costs.cache_first_read_bound(_check_whole("shards", shards))

    def formers_of(self, bound: Bound) -> tuple[FormerCost, ...]:
        """The former generations of views that a bound is of, or has terms for."""
        named = {bound.target, *(term.because for term in bound.terms)}
        owners = {name.partition(".")[0] for name in named}
        return tuple([each for each in self.formers if each.name in owners])

    @property
    def most_entries(self) -> int:
        """The entries of a feed that follow an item or a membership within the call that changes it, at most."""
        return self._prices.most_holders()

    def following(self, cls: ModelClass) -> Following:
        """What follows within the call that changes one entity of a class."""
        self._check_model(cls)
        footprint = self._footprints.of(WriteCall("save", cls))
        touched = self._footprints.groups_of(footprint.own, 1)
        groups = {shown.view: self._prices.most_groups(several) for shown, several in touched.items()}
        return Following(0 if footprint.fan is None else self._prices.most_holders(), groups)

    def row_changes(self, cls: ModelClass) -> Mapping[tuple[Table, str], Mapping[str, int]]:
        """What a change of each field of an entity does to one row that it has in a view, by table and name.

        1 where the row is written again, 2 where it is deleted and another one is written; without fields that change
        nothing.
        """
        self._check_model(cls)
        return self._costs.of[cls].row_changes()

    def group_of(self, cls: type) -> type | None:
        """The root model of the entity groups that entities of a class are in; None where there are no children."""
        if cls not in self._catalog.models:
            return None
        model = root_model(cls)
        root = self._catalog.kinds[model].child_of or model
        return root if self._footprints.models_in_group(root) else None

    def expecting(self, usual: UsualFanOuts) -> Costs:
        """The same bounds; what is typical has as many holders, members and items as a store has at the median."""
        return Costs(self._catalog, self.inline, self.span, usual)

    def table(self) -> list[Bound]:
        """Every verb of every model and view, and of counters that entities show, by name; pages without `limit=`."""
        found: list[Bound] = []
        for model in self._catalog.models:
            found += [self.get(model), self.page(model)]
            if model.logged is not None:
                found.append(self.changes(model))
            calls = [WriteCall(verb, model) for verb in WRITTEN]
            found += [self._write(each) for each in calls if self._prices.is_bounded(each)]
            if self._footprints.models_in_group(model):
                found.append(self.delete(model, children=self.inline))
        for view in self._views:
            if self._catalog.views[view].can_find:
                found.append(self.get(view))
            found.append(self.page(view))
            if view.watched is not None:
                found.append(self.changes(view))
        for shown in self._catalog.counters:
            found += [self._add_to_counter({}, shown.name, once=once) for once in (False, True)]
            found.append(self._prices.copy(shown))
        return sorted(found, key=lambda bound: (bound.target, bound.verb))

    def _write(self, call: WriteCall, name: str = "") -> Bound:
        self._check_model(call.cls)
        if call.holders is not None:
            _check_whole("carriers", call.holders, least=0)
        return self._prices.bound(call, name or call.verb)

    def _add_to_counter(self, keep: Mapping[WindowSize, int], shown: str, *, once: bool, at: bool = False) -> Bound:
        return self._prices.add_to_counter(keep, shown, once=once, at=at)

    def _check_model(self, cls: type) -> None:
        if cls not in self._catalog.models:
            raise UsageError("this class is not a model of the schema", given=cls)

    def _check_found(self, cls: type) -> None:
        self._check_declared(cls)
        if cls in self._catalog.views and not self._catalog.views[cls].can_find:
            raise UsageError("get needs a unique index; this view only has pages", view=cls)

    def _check_declared(self, cls: type) -> None:
        if cls not in self._catalog.models and cls not in self._views:
            raise UsageError("this class is not a model or view of the schema", given=cls)


def of(schema: Schema, span: Span = "rows") -> Costs:
    """The bounds of a schema; no store is opened or read.

    Arguments:
        schema: of the store.
        span: what the store changes at once: `rows` in a transaction, or one `row`.

    Raises:
        Unsupported: stores that change one row at a time do not keep something that is declared.
    """
    if not isinstance(schema, Schema):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise UsageError("expected a Schema(...)", given=schema)
    if span not in get_args(Span):
        raise UsageError("span: expected rows, or row", span=span)
    catalog = schema.unstored()
    if span == "row":
        catalog = schema.catalog(msgspec.structs.replace(catalog.numbers, form=ROW_FORM))
    return Costs(catalog, schema.inline, span)


def _check_whole(name: str, number: int, least: int = 1) -> int:
    if type(number) is not int or number < least:
        raise UsageError("expected a whole number of at least `minimum`", minimum=least, **{name: number})
    return number
