"""Declared costs: the bounds of every verb of a schema, as calls and as a table.

See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from oneread.costs.bounds import Bound
from oneread.costs.reads import Reads
from oneread.costs.shares import EntityCosts
from oneread.costs.writes import Verb, Writes
from oneread.derivations.catalog import Catalog
from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.store.limits import BUDGET, DEFAULT_LIMIT

WRITTEN: Final[tuple[Verb, ...]] = ("save", "create", "get_or_create", "upsert", "patch", "delete")


class Costs:
    """The bounds of one schema: `costs.of(shop).page(PurchasesOfBuyer, limit=10).requests`.

    A bound holds for every store under the schema, however full, for rows that code with the same declarations wrote.
    A row that was written under other declarations may cost a request and the rows it is freed of more, once.
    """

    def __init__(self, catalog: Catalog, inline: int) -> None:
        self._views: tuple[type, ...] = tuple(catalog.views)
        weights = EntityCosts(catalog, {each.__name__: each for each in (*catalog.models, *self._views)})
        self._catalog = catalog
        self._reads = Reads(weights)
        self._writes = Writes(weights, inline)

    def get(self, cls: Any) -> Bound:
        """`get`, `find` and `exists` of a model, an aggregate or a unique index."""
        self._known(cls)
        if cls in self._catalog.views and not self._catalog.views[cls].can_find:
            raise UsageError("get needs a unique index; ask for a page of this one", view=cls)
        return self._reads.get(cls)

    def get_many(self, cls: Any, keys: int) -> Bound:
        """`get_many` of that many keys."""
        return self._reads.get_many(self._model(cls), _whole("keys", keys))

    def page(
        self, cls: Any, *, limit: int | None = None, any_of: int = 1, where: bool = False, budget: int = BUDGET
    ) -> Bound:
        """A page of a model or view.

        Arguments:
            cls: what is listed.
            limit: rows; by default those of a page that says nothing.
            any_of: values of one key field.
            where: it has a condition.
            budget: rows that may be read beyond the limit.
        """
        self._known(cls)
        rows = min(DEFAULT_LIMIT, cls.max_limit) if limit is None else _whole("limit", limit)
        values, more = _whole("any_of", any_of), _whole("budget", budget, least=0)
        return self._reads.page(cls, rows, any_of=values, where=where, budget=more)

    def save(self, cls: Any, *, entities: int = 1, carriers: int | None = None) -> Bound:
        """`save` of one entity, or `save_all` of several of one class in one batch.

        Arguments:
            cls: their class.
            entities: of one batch.
            carriers: entities that hold a copy of each, when it is known how many there are.
        """
        name = "save" if entities == 1 else f"save_all({entities})"
        return self._written("save", cls, entities=_whole("entities", entities), carriers=carriers, named=name)

    def create(self, cls: Any) -> Bound:
        """`create`."""
        return self._written("create", cls)

    def get_or_create(self, cls: Any) -> Bound:
        """`get_or_create`."""
        return self._written("get_or_create", cls)

    def upsert(self, cls: Any, *, carriers: int | None = None) -> Bound:
        """`upsert`."""
        return self._written("upsert", cls, carriers=carriers)

    def patch(self, cls: Any, *fields: str, carriers: int | None = None) -> Bound:
        """`patch` of these fields, or of any; `carriers` as with `save`."""
        unknown = [name for name in fields if not any(name in each.__struct_fields__ for each in self._variants(cls))]
        if unknown:
            raise UsageError("there is no such field", model=cls, field=unknown[0])
        named = f"patch({', '.join(fields)})" if fields else "patch"
        return self._written("patch", cls, fields=fields or None, carriers=carriers, named=named)

    def delete(self, cls: Any, *, carriers: int | None = None) -> Bound:
        """`delete`; `carriers` as with `save`."""
        return self._written("delete", cls, carriers=carriers)

    def transact(self, writes: Sequence[Bound], *, reads: int = 0) -> Bound:
        """The commit of one attempt of `transact`, which is what its results say they cost.

        The body comes on top: each `get` a request and a row unless the entity was read before, each write what it
        reads.

        Arguments:
            writes: the bounds of what the body writes.
            reads: entities that the body reads besides.
        """
        return self._writes.transact(writes, _whole("reads", reads, least=0))

    def table(self) -> list[Bound]:
        """Every verb of every model and view, by name; pages as long as they are when nothing is said."""
        found: list[Bound] = []
        for model in self._catalog.models:
            found += [self.get(model), self.page(model)]
            found += [self._written(verb, model) for verb in WRITTEN]
        for view in self._views:
            if self._catalog.views[view].can_find:
                found.append(self.get(view))
            found.append(self.page(view))
        return sorted(found, key=lambda bound: (bound.target, bound.verb))

    def _variants(self, cls: Any) -> list[Any]:
        self._model(cls)
        return [each for each in self._catalog.models if issubclass(each, cls)]

    def _written(
        self,
        verb: Verb,
        cls: Any,
        *,
        fields: Iterable[str] | None = None,
        entities: int = 1,
        carriers: int | None = None,
        named: str | None = None,
    ) -> Bound:
        self._model(cls)
        if carriers is not None:
            _whole("carriers", carriers, least=0)
        return self._writes.bound(verb, cls, fields=fields, entities=entities, carriers=carriers, named=named)

    def _model(self, cls: Any) -> Any:
        if cls not in self._catalog.models:
            raise UsageError("this class is no model of the schema", given=cls)
        return cls

    def _known(self, cls: Any) -> None:
        if cls not in self._catalog.models and cls not in self._views:
            raise UsageError("this class is no model or view of the schema", given=cls)


def of(schema: Schema) -> Costs:
    """The bounds of a schema; nothing is opened, nothing read."""
    if not isinstance(schema, Schema):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise UsageError("costs are those of a Schema(...)", given=schema)
    return Costs(schema.unstored(), schema.inline)


def _whole(name: str, number: Any, least: int = 1) -> int:
    if type(number) is not int or number < least:
        raise UsageError("this is a whole number, large enough", **{name: number})
    return number
