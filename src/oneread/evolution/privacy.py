"""Privacy: every place where a store of a schema keeps values of personal fields, from the declarations alone.

See "Personal data" of docs/reference/declarations.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Reference
from oneread.derivations.entity_groups import CHILD_OF
from oneread.derivations.entity_type import EntityType
from oneread.derivations.personal_fields import DeclaredValue, PersonalFields
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import Aggregate, Feed, Index, View
from oneread.errors import UsageError
from oneread.evolution.schema import Schema
from oneread.models.paths import path_of
from oneread.store.rows import Table

PersonalKind: TypeAlias = Literal[
    "field", "key", "last values", "copy", "hidden copy", "reference", "key of rows", "row", "unique value", "number",
    "log", "difference", "counter name",
]  # fmt: skip


class PersonalPlace(msgspec.Struct, frozen=True):
    """One place where values of a personal field are stored.

    Arguments:
        field: the personal field, `Customer.name`.
        kind: `field` or `key` of the entity itself; `last values` of a deleted one, for its holders; `copy` and `hidden
            copy` in a holder, and its `reference` where the key is personal; `key of rows` of a view, or what a `row`
            shows; `unique value`; a `number` of a group; the `log` of a watched view or logged model; the
            `difference` that a launch notes between rows of two views; the `counter name` of a shown counter.
        place: the declaration, and its field: `Purchase.buyer.name`.
        table: where the rows are.
        note: what becomes of it when the entity is deleted, or for how long it is kept; empty where it goes at once.
    """

    field: str
    kind: PersonalKind
    place: str
    table: Table
    note: str = ""


ELSEWHERE: tuple[str, ...] = (
    "system: errors of holders that were set aside, and reports of verify, may quote values",
    "system: heat and the log of consoles have keys",
    "a cache for reads has rows of entities until they are removed from it or its ttl is over",
    "dumps, backups, files of rejects, logs of programs, and the other store of a move have what they were given",
)
"""What the declarations do not say."""

_ON_DELETE = {
    "keep": "stays when the source is deleted; erasing clears it",
    "refuse": "forbids a delete; erasing clears it",
    "clear": "cleared when the source is deleted",
    "delete": "goes with the source",
}


def personal_places(schema: Schema) -> tuple[PersonalPlace, ...]:
    """Every place where a store of this schema keeps values of fields that are `Personal()`; nothing is opened.

    A reference to an entity whose key is personal is listed as one; so are views whose rows end in such a key.

    Raises:
        UsageError: this is not a schema.
    """
    if not isinstance(schema, Schema):  # pyright: ignore[reportUnnecessaryIsInstance]  callers may be untyped
        raise UsageError("expected a Schema", given=schema)
    found = _Places(schema)
    return tuple(dict.fromkeys([*found.of_models(), *found.of_views()]))


class _Places:
    """Lists the places of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._catalog: Catalog = schema.unstored()
        self._personal = PersonalFields(self._catalog)

    def of_models(self) -> Iterator[PersonalPlace]:
        for model in self._schema.models:
            entity_type = self._catalog.entity_types[model]
            names = entity_type.kind.names
            for each in self._personal.of_model(model):
                if not self._is_inherited(model, each.route[0]):
                    kind: PersonalKind = "key" if each.route[0] in names else "field"
                    note = "stays in the row of a deleted one" if kind == "key" else ""
                    yield PersonalPlace(str(each), kind, str(each), "roots", note)
            yield from self._of_key(entity_type)
            for reference in entity_type.references:
                if reference.name != CHILD_OF and not self._is_inherited(model, reference.name):
                    yield from self._of_reference(model, reference)

    def _is_inherited(self, model: type, field: str) -> bool:
        """Whether a variant has a field of its model, which is listed there."""
        kind = self._catalog.entity_types[model].kind
        return model is not kind.cls and field in kind.cls.__struct_fields__

    def _of_key(self, entity_type: EntityType) -> Iterator[PersonalPlace]:
        """Where the key of a model stands besides, if it is personal."""
        model = entity_type.cls
        for each in self._personal.key_of(model) if model is entity_type.kind.cls else ():
            if model.logged is not None:
                yield PersonalPlace(str(each), "log", model.__name__, "system", f"kept for {model.logged}")
            for rollup in entity_type.rollups:
                name = getattr(rollup.shown, "name", None)
                if rollup.number is None and isinstance(name, str):
                    yield PersonalPlace(str(each), "counter name", f"counter {name}", "counts", "until it is deleted")

    def _of_reference(self, model: type, reference: Reference) -> Iterator[PersonalPlace]:
        target: Any = reference.access.target
        place, note = f"{model.__name__}.{reference.name}", _ON_DELETE[reference.on_delete]
        for each in self._personal.key_of(target):
            yield PersonalPlace(str(each), "reference", place, "roots", "stays when the source is deleted")
        hidden = [name.partition(".")[2] for name, _get, _type in reference.hidden]
        taken = [
            *((name, route, False) for name, route in reference.routes),
            *((route, route, True) for route in hidden),
        ]
        for name, route, is_hidden in taken:
            kind: PersonalKind = "hidden copy" if is_hidden else "copy"
            for each in self._personal.origins(target, tuple(route.split("."))):
                yield PersonalPlace(str(each), kind, f"{place}.{name}", "roots", note)
                of = str(DeclaredValue(target, tuple(route.split("."))))
                yield PersonalPlace(
                    str(each), "last values", of, "roots", "of a deleted one; erasing what lives leaves none"
                )

    def of_views(self) -> Iterator[PersonalPlace]:
        for view in self._schema.views:
            compiled = self._catalog.views[view]
            about, keyed = self._personal.about(view), list[DeclaredValue]()
            places = list[PersonalPlace]()
            for name, rule in rules_of(view).items():
                for each in self._of_rule(about[name], rule):
                    keyed += [each] * (rule.kind == "key")
                    places += self._of_field(view, name, rule, each)
            if not issubclass(view, Aggregate) and compiled.groups is None:
                owner = self._personal.key_of(compiled.model)
                places += [
                    PersonalPlace(str(each), "key of rows", f"{view.__name__}.source", "views") for each in owner
                ]
                keyed += owner
            yield from places
            if view.watched is not None:
                for field in dict.fromkeys(map(str, keyed)):
                    yield PersonalPlace(field, "log", view.__name__, "system", f"kept for {view.watched}")
            if view in self._catalog.replaced and self._catalog.replaced[view].is_launched:
                for field in dict.fromkeys(place.field for place in places):
                    yield PersonalPlace(field, "difference", view.__name__, "system", "until the launch is forgotten")

    def _of_rule(self, about: type, rule: Rule) -> Iterator[DeclaredValue]:
        if rule.fold == "count":
            return
        for given in rule.given_fields:
            yield from self._personal.origins(about, path_of(given).names, only_refers=rule.kind == "key")

    def _of_field(self, view: type[View[Any]], name: str, rule: Rule, of: DeclaredValue) -> Iterator[PersonalPlace]:
        place, field = f"{view.__name__}.{name}", str(of)
        note = "as a digest" if rule.hashed else ""
        if issubclass(view, Aggregate):
            if rule.kind == "key":
                yield PersonalPlace(field, "key of rows", place, "counts", note or "an empty group's row stays")
            else:
                yield PersonalPlace(field, "number", place, "counts" if rule.fold in ("total", "mean") else "views")
        elif rule.kind == "key":
            yield PersonalPlace(field, "key of rows", place, "views", note)
            if issubclass(view, Index) and view.unique:
                yield PersonalPlace(field, "unique value", place, "counts", note)
        else:
            kept = view.expires_after if issubclass(view, Feed) else None
            yield PersonalPlace(field, "row", place, "views", "" if kept is None else f"{kept} at most")
