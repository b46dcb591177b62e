"""Explaining: what a call would request of the store, without a request.

Arguments are checked as the call itself checks them. See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from oneread import costs
from oneread.counters.cache_first import expected_loss
from oneread.counters.rows import MOST_SHARDS, WindowSize
from oneread.counters.wanted import CHANCE, check_chance, check_name
from oneread.database.cursors import CursorCipher
from oneread.database.lists import Listed
from oneread.database.operations import Children, Operations, found_by, one_key
from oneread.database.pages import AnyOf, BoundQuery, Query, bounds_of
from oneread.database.patches import patching, take_changes, take_only_changes, values_of
from oneread.database.place_reader import PlacesQuery, PlacesRead
from oneread.database.replaced_pages import answering_list
from oneread.derivations.derivation import CompiledView
from oneread.derivations.program_text import ExplainedProgram, explained_program
from oneread.errors import UsageError, shown
from oneread.models.fields import GENERATED
from oneread.plans.arguments import check_iterable
from oneread.store.limits import BUDGET, DEFAULT_LIMIT

if TYPE_CHECKING:
    from oneread.costs.bounds import Bound
    from oneread.costs.declared import Explanation
    from oneread.costs.numbers import MachineNumbers


class Explainer:
    """The verbs of a database, explained: `db.explain.page(PurchasesOfBuyer, 12347, limit=10)`."""

    def __init__(self, operations: Operations, cipher: CursorCipher, numbers: MachineNumbers | None = None) -> None:
        self._operations = operations
        self._catalog = operations.catalog
        self._name = operations.catalog.name_of
        self._cipher = cipher
        self._numbers = numbers
        self.costs = operations.costs

    def by(self, numbers: MachineNumbers) -> Explainer:
        """The same, with predicted times: `db.explain.by(read_numbers("numbers.json")).get(...)`."""
        return Explainer(self._operations, self._cipher, numbers)

    def get(self, model: Any, *key: object) -> Explanation:
        """What `get`, `find` and `exists` would do."""
        self._check_class(model)
        call = _call("get", model, key)
        if model in self._catalog.kinds:
            root = self._operations.root(model, key)
            return self._explanation(call, [f"read roots {self._name(root)}"], self.costs.get(model))
        view = self._answering(model)
        place = view.prefix + view.key.codec.encode(found_by(view, key))
        return self._explanation(call, view.explain_find(place), self.costs.get(view.cls))

    def get_many(self, model: Any, keys: Iterable[tuple[Any, ...]]) -> Explanation:
        """What `get_many` would do."""
        self._check_class(model)
        check_iterable(keys, "get_many takes keys as tuples, or references: [(1,), (2,)]")
        given = [one_key(model, key) for key in keys]
        cls = model
        if model not in self._catalog.views:
            self._operations.kind(model)
            plan = [f"read roots {', '.join(self._name(self._operations.root(model, key)) for key in given)}"]
        else:
            view = self._answering(model)
            cls = view.cls
            places = [view.prefix + view.key.codec.encode(found_by(view, key)) for key in given]
            plan = [line for place in places for line in view.explain_find(place)]
        return self._explanation(f"get_many({model.__name__})", plan, self.costs.get_many(cls, max(1, len(given))))

    def _answering(self, view: Any) -> CompiledView:
        """The view whose rows answer a read by key; raises NotReady."""
        if view not in self._catalog.views:
            raise UsageError("not a model or view of the schema", given=view)
        sides = self._operations.sides
        found = sides.answering(view) if view in sides else self._catalog.views[view]
        self._operations.fence.check(found.cls)
        return found

    def page(  # noqa: PLR0913 - as the page itself
        self,
        view: Any,
        *equal: Any,
        limit: int | None = None,
        cursor: str | None = None,
        backward: bool = False,
        since: Any = None,
        after: Any = None,
        until: Any = None,
        through: Any = None,
        starts_with: str | bytes | None = None,
        where: Any = None,
        budget: int = BUDGET,
    ) -> Explanation:
        """What `page` would do, with the ranges that it would read."""
        self._check_class(view)
        bounds = bounds_of(since, after, until, through)
        asked = Query(equal, 1, cursor, backward, bounds, starts_with)
        of = answering_list(self._operations, view, asked, self._cipher)
        rows = min(DEFAULT_LIMIT, of.max_limit) if limit is None else limit
        query = Query(equal, rows, cursor, backward, bounds, starts_with, where, budget)
        bounded = BoundQuery(of, query, self._cipher)
        ranges = bounded.ranges()
        given = _values(equal, len(ranges) // of.spread)
        bound = self.costs.page(of.rows_of, limit=rows, any_of=len(given), where=where is not None, budget=budget)
        plan = [_scan(of, values, query, reverse=bounded.backward) for values in given]
        if of.merged is not None:
            plan = [of.merged.explain(rows), *plan]
        named = [value.values if isinstance(value, AnyOf) else value for value in equal]
        return self._explanation(_call("page", view, named, limit=rows), plan, bound)

    def places(
        self, model: Any, *key: Any, limit: int = DEFAULT_LIMIT, cursor: str | None = None, check: bool = False
    ) -> Explanation:
        """What `places` would do."""
        query = PlacesQuery(model, key, limit, cursor, check)
        root = PlacesRead(self._operations, self._cipher, query).key
        plan = [f"read roots {self._name(root)}", f"scan views for {limit + 1} rows that refer to it"]
        plan += ["of a deleted one: scan system for what still follows"]
        plan += ["read the schema, and the rows of its places"] if check else []
        bound = self.costs.places(model, limit=limit, check=check)
        return self._explanation(_call("places", model, key, limit=limit), plan, bound)

    def save(self, entity: object, *, carriers: int | None = None) -> Explanation:
        """What `save` would do; `carriers` is the number of holders, when it is known."""
        return self._write("save", entity, self.costs.save(self._class(entity), carriers=carriers))

    def create(self, entity: object) -> Explanation:
        """What `create` would do."""
        return self._write("create", entity, self.costs.create(self._class(entity)))

    def get_or_create(self, entity: object) -> Explanation:
        """What `get_or_create` would do."""
        return self._write("get_or_create", entity, self.costs.get_or_create(self._class(entity)))

    def upsert(self, entity: object, /, *given: Any, carriers: Any = UNSET, **changes: Any) -> Explanation:
        """What `upsert` would do; a model's own field `carriers` takes precedence."""
        cls = self._class(entity)
        carriers = _known_holders(cls, carriers, changes)
        take_only_changes(cls, given, changes)
        patching(cls, changes)
        self._catalog.check_values(cls, values_of(changes))
        return self._write("upsert", entity, self.costs.upsert(cls, carriers=carriers))

    def patch(self, model: Any, /, *given: Any, carriers: Any = UNSET, **changes: Any) -> Explanation:
        """What `patch` would do to these fields, whatever their values.

        `carriers` is the number of holders, when it is known; a model's own field `carriers` takes precedence.
        """
        carriers = _known_holders(model, carriers, changes)
        key = take_changes(model, given, changes)
        place = self._operations.root(model, key)
        patching(model, changes)
        self._catalog.check_values(model, values_of(changes))
        bound = self.costs.patch(model, *changes, carriers=carriers)
        plan = [f"read roots {self._name(place)}"]
        return self._explanation(_call("patch", model, key, **changes), plan, bound, model)

    def delete(
        self, model: Any, *key: object, carriers: int | None = None, children: Children | int = "refuse"
    ) -> Explanation:
        """What `delete` would do; with `children="delete"`, or the number of children, of a root and its children."""
        if children == "refuse":
            place = self._operations.root(model, key)
            bound = self.costs.delete(model, carriers=carriers)
            return self._explanation(_call("delete", model, key), [f"read roots {self._name(place)}"], bound, model)
        place = self._operations.group_root(model, key)
        most: Any = self._operations.inline if children == "delete" else children
        bound = self.costs.delete(model, carriers=carriers, children=most)
        plan = [f"scan views for the children of {self._name(place)}", f"read roots {self._name(place)} and children"]
        return self._explanation(_call("delete", model, key, children="delete"), plan, bound, model)

    def save_all(self, entities: Iterable[Any]) -> Explanation:
        """What `save_all` of entities of one class would do, in one batch."""
        check_iterable(entities, "save_all takes an iterable of entities")
        given = list(entities)
        classes = {self._class(each) for each in given}
        if len(classes) != 1:
            raise UsageError("save_all is explained for one class", given=sorted(c.__name__ for c in classes))
        (cls,) = classes
        plan = [line for each in given for line in self._reads(each)]
        bound = self.costs.save(cls, entities=len(given))
        return self._explanation(f"save_all({len(given)} x {cls.__name__})", plan, bound, cls)

    def counter_add(
        self, name: str, *, keep: Mapping[WindowSize, int] | None = None, once: bool = False, at: bool = False
    ) -> Explanation:
        """What `add` to a counter with these windows would do, `once` with a token, `at` a moment that is given."""
        check_name(name)
        plan = [f"read counts, settings and a shard of counter {shown(name)}", "write counts, the shard"]
        if at:
            plan.append("scan counts for the newest window of each size, where a window begins")
        given = ", ".join(f"{argument}=..." for argument, is_given in (("once", once), ("at", at)) if is_given)
        bound = self.costs.counter_add(name, keep=keep, once=once, at=at)
        return self._explanation(f"counter({shown(name)}).add({given})", plan, bound)

    def counter_read(self, name: str, *, shards: int = MOST_SHARDS) -> Explanation:
        """What `read` of a counter that never had more shards would do, without `max_age`."""
        check_name(name)
        plan = [f"scan counts for the shards of counter {shown(name)}"]
        return self._explanation(f"counter({shown(name)}).read()", plan, self.costs.counter_read(shards=shards))

    def cache_counter_add(
        self, name: str, *, chance_to_write: float = CHANCE, shards: int = MOST_SHARDS
    ) -> Explanation:
        """What `add` to a cache-first counter would do, and what a loss of the cache may lose."""
        check_name(name)
        chance = check_chance(chance_to_write)
        loss = expected_loss(chance)
        plan = [
            "increment in the cache, one operation; an add to it more when it has lost the counter",
            f"with a chance of {chance:g}, and then: scan counts for the greatest value, write this if it is greater",
            f"a loss of the cache loses {loss.mean:,.1f} adds on average, {loss.most:,.1f} at most in 99.9 %",
        ]
        bound = self.costs.cache_counter_add(shards=shards)
        return self._explanation(f"cache_counter({shown(name)}).add()", plan, bound)

    def cache_counter_read(self, name: str, *, shards: int = MOST_SHARDS) -> Explanation:
        """What `read` of a cache-first counter would do."""
        check_name(name)
        plan = [
            "read from the cache, one operation",
            "when it has lost the counter: scan counts for the greatest stored value, add it to the cache, scan again",
        ]
        bound = self.costs.cache_counter_read(shards=shards)
        return self._explanation(f"cache_counter({shown(name)}).read()", plan, bound)

    def verb(self, verb: str, model: Any, bound: Bound) -> Explanation:
        """A bound as an explanation of any call of this verb that writes, with its time."""
        return self._explanation(f"{verb}({model.__name__})", [], bound, model)

    def _write(self, verb: str, entity: object, bound: Bound) -> Explanation:
        return self._explanation(f"{verb}({type(entity).__name__})", self._reads(entity), bound, type(entity))

    def _reads(self, entity: object) -> list[str]:
        """The root rows that a save reads: the entity's own, and those it refers to."""
        entity_type = self._catalog.type_of(entity)
        parts = entity_type.kind.parts(entity)
        own = type(entity).__name__ if GENERATED in parts else self._name(entity_type.kind.key(parts))
        refs = [self._name(key) for keys in entity_type.refs(entity).values() for key in keys]
        return [f"read roots {', '.join(names)}" for names in self._operations.parts.reads_of_save(own, refs)]

    def _class(self, entity: object) -> type:
        return self._catalog.type_of(entity).cls

    def program(self, model: Any) -> ExplainedProgram:
        """What follows in its views from each write of an entity of this class, as operations. No request.

        Raises:
            UsageError: the class is not a model of the schema.
        """
        self._check_class(model)
        self._operations.kind(model)
        return explained_program(self._catalog.entity_types[model])

    def _check_class(self, model: Any) -> None:
        if not isinstance(model, type):
            raise UsageError("not a class of the schema", given=model)

    def _explanation(self, call: str, plan: list[str], bound: Bound, written: Any = None) -> Explanation:
        group = None if written is None else self.costs.group_of(written)
        name = "" if group is None else group.__name__
        notes = tuple(map(str, self.costs.formers_of(bound)))
        if self._numbers is None:
            return costs.declared.Explanation(call, tuple(plan), bound, notes=notes, group=name)
        notes += tuple(
            f"the numbers were measured elsewhere: {each}" for each in self._numbers.mismatches(self.costs.span)
        )
        seconds = self._numbers.predicted(bound)
        rate = None if group is None else self._numbers.group_rate(bound)
        return costs.declared.Explanation(call, tuple(plan), bound, seconds, notes, name, rate)


def _values(equal: tuple[Any, ...], ranges: int) -> list[tuple[Any, ...]]:
    """The values of each range that a page reads, those of any_of one by one."""
    place = next((place for place, value in enumerate(equal) if isinstance(value, AnyOf)), None)
    if place is None:
        return [equal] * ranges
    each = dict.fromkeys(equal[place].values) if ranges > 1 else [equal[place].values[0]]
    return [(*equal[:place], value, *equal[place + 1 :]) for value in each]


def _scan(of: Listed, values: tuple[Any, ...], query: Query, *, reverse: bool) -> str:
    bounds = {} if query.bounds is None else query.bounds._asdict()
    bounds["starts_with"] = query.starts_with
    named = ", ".join(
        [*map(shown, values), *(f"{name}={shown(each)}" for name, each in bounds.items() if each is not None)]
    )
    cursor = " from the cursor" if query.cursor else ""
    backwards = " backwards" if reverse else ""
    each = "" if of.spread == 1 else f", in each of {of.spread} ranges"
    return f"scan {of.table} for {query.limit + 1} rows of {of.rows_of.__name__}({named}){cursor}{backwards}{each}"


def _call(verb: str, cls: Any, key: Iterable[Any], /, **named: Any) -> str:
    given = [cls.__name__, *map(shown, key), *(f"{name}={shown(value)}" for name, value in named.items())]
    return f"{verb}({', '.join(given)})"


def _known_holders(model: Any, given: Any, changes: dict[str, Any]) -> int | None:
    """The number of holders given to a patch; for a model with a field of that name it goes to `changes`."""
    if given is not UNSET and "carriers" in getattr(model, "__struct_fields__", ()):
        changes["carriers"] = given
        return None
    number: int | None = None if given is UNSET else given
    return number
