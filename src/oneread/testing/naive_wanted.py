"""Which values the oracle's entities need of others: for their copies, and for the views that look behind them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oneread.derivations.rules import rules_of
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.models.paths import Path, path_of
from oneread.models.references import copied_names
from oneread.models.types import Named
from oneread.testing.naive_entities import AnyModel, Place, Referring, Route, source_route, targets_of
from oneread.testing.naive_feeds import feed_paths


class WantedValues:
    """The references of each model's entities, each with the route to a value behind it."""

    def __init__(
        self,
        models: Sequence[type[AnyModel]],
        views: Iterable[type[View[Any]]],
        fields: Mapping[type, Referring],
        names: Named,
    ) -> None:
        self._models = models
        self._fields = fields
        self._names = names
        self.routes: dict[type, set[tuple[str, Route]]] = {cls: set() for cls in models}
        for cls in models:
            for field in fields[cls].values():
                if field.copy is not None:
                    self._want(cls, (field.name, "deleted"))
                    for name in copied_names(field.copy):
                        self._want(cls, (field.name, name))
        for view in views:
            for of, path in self._paths(view):
                for cls in models:
                    if issubclass(cls, of):
                        self._want(cls, path.names)

    def _paths(self, view: type[View[Any]]) -> Iterable[tuple[type, Path]]:
        """The paths that a view reads, each with the model that it begins at."""
        of = viewed_class(view, self._names)
        if issubclass(view, Feed):
            return feed_paths(view, of, self._names)
        ttl = view.ttl if issubclass(view, (Index, Aggregate)) else None
        fields = [given for rule in rules_of(view).values() for given in rule.given_fields]
        return [(of, path_of(given)) for given in [*fields, *([] if ttl is None else [ttl.field])]]

    def _want(self, cls: type, route: Route) -> None:
        name, *rest = route
        field = self._fields[cls].get(name)
        if field is None or not rest or (rest == ["ref"] and field.copy is not None):
            return
        far = source_route(field, tuple(rest))
        self.routes[cls].add((name, far))
        for target in self._models:
            if issubclass(target, field.variant) and far[0] in target.__struct_fields__:
                self._want(target, far)

    def back_references(self, entity: AnyModel) -> set[tuple[Place, frozenset[Route]]]:
        """The sources that must reach an entity, each with what one of its fields takes of it."""
        taken: dict[str, set[Route]] = {}
        for name, route in self.routes[type(entity)]:
            taken.setdefault(name, set()).add(route)
        return {
            (target, frozenset(taken.get(field.name, set()) - {("deleted",)}))
            for field in self._fields[type(entity)].values()
            if field.name in taken or field.on_delete == "delete"
            for target in targets_of(field, entity)
        }

    def holds_on(self, entity: AnyModel) -> set[Place]:
        """What an entity forbids to delete."""
        fields = self._fields[type(entity)].values()
        return {target for field in fields if field.on_delete == "refuse" for target in targets_of(field, entity)}


def viewed_class(view: type[View[Any]], names: Named) -> type:
    """The model or aggregate that a view is of."""
    given = view.type_arguments[0]
    name = getattr(given, "__forward_arg__", given)
    found: type = names[name] if isinstance(name, str) else given
    return found
