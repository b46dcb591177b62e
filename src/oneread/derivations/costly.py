"""Copies and rows of views that take a total, which changes with each entity that is counted: they warn.

A total is one number of one row until others take it; then each entity that is counted rewrites all of these. See
"Warnings" in docs/explanation/costs.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from oneread.derivations.access import FieldRoute
from oneread.derivations.compiled_schema import CompiledSchema
from oneread.derivations.derivation import CompiledView, condition_paths
from oneread.derivations.entity_type import EntityType
from oneread.derivations.rollups import ShownAggregate
from oneread.derivations.views import Feed
from oneread.models.paths import path_of


class CostlyValue(NamedTuple):
    """A total that something takes which has many rows: `declared` is the copy or the view with these rows."""

    declared: type
    total: str
    counted: str
    """The model whose every change may change the total."""
    rewritten: str
    instead: str

    def __str__(self) -> str:
        name = self.declared.__name__
        return (
            f"{name} shows {self.total}, which changes with each {self.counted}: each rewrites {self.rewritten}; "
            f"{self.instead}, or declare costly = True in {name} where that is meant"
        )


def costly_values(schema: CompiledSchema) -> list[CostlyValue]:
    """What is not declared as costly, once for each declaration and total. Views that a schema adds are left out."""
    found: dict[tuple[type, str], CostlyValue] = {}
    for entity_type in schema.entity_types.values():
        for each in _in_copies(schema, entity_type):
            found.setdefault((each.declared, each.total), each)
    for view in schema.views.values():
        if not view.cls.is_added and view.cls.former_of is None:
            for each in _in_view(schema, view):
                found.setdefault((each.declared, each.total), each)
    return [each for each in found.values() if not getattr(each.declared, "costly", False)]


def _in_copies(schema: CompiledSchema, holder: EntityType) -> Iterator[CostlyValue]:
    instead = "leave it out, and read it with get of what is referred to"
    for reference in holder.references:
        for _name, route in reference.routes:
            total = _total_at(schema, schema.entity_types[reference.kind.cls], tuple(route.split(".")))
            if total is not None and reference.copy is not None:
                yield CostlyValue(reference.copy, *total, f"each {holder.cls.__name__} that holds it", instead)


def _in_view(schema: CompiledSchema, view: CompiledView) -> Iterator[CostlyValue]:
    """What the rows of a view take through a reference; of a feed also what they show of the item itself."""
    if view.model not in schema.entity_types:
        return
    of, routes, placed = schema.entity_types[view.model], set[FieldRoute](), set[FieldRoute]()
    for form in view.forms():
        routes |= form.place | form.value | form.where
        placed |= form.place
    routes |= {path.names for path in condition_paths(view.cls)}
    beside = "leave it out, and read it with get_many of the sources of a page"
    of_feed: Any = view.cls.joined if issubclass(view.cls, Feed) else None
    for route in sorted(routes):
        is_copied = len(route) > 1 and _is_copy(of, route[0])
        total = _total_at(schema, of, route)
        if total is None:
            continue
        if of_feed is not None and route not in placed:
            group = ".".join(path_of(of_feed.item).names)
            yield CostlyValue(view.cls, *total, f"its entries of all members of {group}", beside)
        elif len(route) > 1 and not is_copied:
            yield CostlyValue(view.cls, *total, f"the rows of each {of.cls.__name__} that refers to it", "leave it out")


def _is_copy(holder: EntityType, name: str) -> bool:
    return any(each.name == name and each.copy is not None for each in holder.references)


def _total_at(schema: CompiledSchema, start: EntityType, route: FieldRoute) -> tuple[str, str] | None:
    """The total at the end of a route, and the model that it counts; None for anything else.

    A counter is shown within its `every`, however often it changes.
    """
    owner, (name, *rest) = start, route
    for reference in owner.references:
        if reference.name == name and rest:
            further = dict(reference.routes).get(rest[0])
            behind = tuple(rest) if further is None else (*further.split("."), *rest[1:])
            return _total_at(schema, schema.entity_types[reference.kind.cls], behind)
    for each in owner.rollups:
        if each.field == name and isinstance(each.shown, ShownAggregate):
            return f"{owner.cls.__name__}.{name}", schema.views[each.shown.view].model.__name__
    return None
