"""Personal fields: which values of a schema are about a person, and of which field a value is that stands elsewhere.

See "Personal data" of docs/reference/declarations.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from oneread.derivations.access import Accesses, FieldRoute, GroupField
from oneread.derivations.compiled_schema import CompiledSchema
from oneread.derivations.derivation import kind_of_view
from oneread.derivations.rules import rules_of
from oneread.derivations.views import View
from oneread.models.fields import defaults_of, is_counter, is_rollup
from oneread.models.model import key_names
from oneread.models.paths import path_of
from oneread.models.personal import Personal
from oneread.models.references import copied_names, is_copied
from oneread.models.registry import child_of, root_model
from oneread.models.types import FieldType, types_of


class DeclaredValue(NamedTuple):
    """A field of a model, or what is inside of it."""

    model: type
    route: FieldRoute

    def __str__(self) -> str:
        return f"{self.model.__name__}.{'.'.join(self.route)}"


class PersonalFields:
    """The personal fields of one schema."""

    def __init__(self, compiled: CompiledSchema) -> None:
        self.names = compiled.names
        self._accesses = Accesses(compiled.names)

    def of_model(self, model: type) -> list[DeclaredValue]:
        """The personal fields of a model, and of the classes that its fields hold."""
        found = [
            DeclaredValue(model, (name, *inner))
            for name, given in types_of(model, self.names).items()
            for inner in _marked_routes(given, set())
        ]
        known = {each.route[0] for each in found}
        shared = [name for name in self._root_key(model) if name not in known]
        return [*found, *(each for name in shared if self.is_personal(each := DeclaredValue(model, (name,))))]

    def key_of(self, model: type) -> list[DeclaredValue]:
        """The personal parts of the key of a model; of a part that refers, those of the key that it refers to."""
        return [each for name in key_names(model) for each in self.origins(model, (name,))]

    def is_personal(self, value: DeclaredValue) -> bool:
        """Whether a value is personal, or holds one that is."""
        model, route = value
        types = types_of(model, self.names)
        given: FieldType | None = None
        for name in route:
            given = types.get(name)
            if given is None:
                return False
            if is_marked(given):
                return True
            types = given.present.fields()
        if given is not None and any(is_marked(each) for each in given.walk()):
            return True
        if len(route) == 1 and route[0] in self._root_key(model):
            root: Any = child_of(root_model(model), self.names)
            return self.is_personal(DeclaredValue(root, route))
        return False

    def _root_key(self, model: type) -> tuple[str, ...]:
        """The parts of a child's key that are those of the root of its group."""
        root: Any = child_of(root_model(model), self.names)
        return () if root is None else key_names(root)

    def origins(self, declared: type, route: FieldRoute, *, only_refers: bool = False) -> list[DeclaredValue]:
        """The fields of models that a value of a model or aggregate is of; personal ones only.

        A reference is the key that it refers to, and a copy its fields as well, unless it `only_refers`.
        """
        return [each for each in self._origins(declared, route, only_refers) if self.is_personal(each)]

    def _origins(self, declared: type, route: FieldRoute, only_refers: bool) -> Iterator[DeclaredValue]:  # noqa: FBT001
        first, *rest = route
        if issubclass(declared, View):
            yield from self._of_rule(declared, first)
            return
        default = defaults_of(declared)[first]
        if is_rollup(default):
            if not is_counter(default):
                yield from self._of_rule(*GroupField.of(declared, first, default))
            return
        access = self._accesses.of_route(declared, (first,))
        access = self._accesses.elements_of(access, declared, first) or access
        target, copy = access.target, access.copy
        if target is None:
            yield DeclaredValue(declared, route)
        elif not rest or rest == ["ref"]:
            for name in key_names(target):
                yield from self._origins(target, (name,), only_refers)
            if copy is not None and not rest and not only_refers:
                for name in copied_names(copy):
                    yield from self._origins(target, self._accesses.source_route(copy, name), only_refers=False)
        elif copy is not None and is_copied(copy, rest[0]):
            source = self._accesses.source_route(copy, rest[0])
            yield from self._origins(target, (*source, *rest[1:]), only_refers)
        else:
            yield from self._origins(target, tuple(rest), only_refers)

    def _of_rule(self, view: type[View[Any]], field: str) -> Iterator[DeclaredValue]:
        rule = rules_of(view).get(field)
        if rule is None or rule.fold == "count":
            return
        about = self.about(view)[field]
        yield from self._origins(about, path_of(rule.field).names, only_refers=True)

    def about(self, view: type[View[Any]]) -> dict[str, type]:
        """By field of a view, the model or aggregate that the path of its rule begins at."""
        return dict(kind_of_view(view).about(view, self._accesses.viewed(view), self.names))


def is_marked(given: FieldType) -> bool:
    """Whether a type, or that of its elements, says Personal()."""
    return any(isinstance(each, Personal) for layer in given.layers for each in layer) or any(
        is_marked(each) for each in given.parts
    )


def _marked_routes(given: FieldType, entered: set[type]) -> Iterator[FieldRoute]:
    """The ways from a value to what is personal in it; the empty one where all of it is."""
    if is_marked(given):
        yield ()
        return
    if given.kind == "class" and given.cls not in entered:
        for name, inner in given.fields().items():
            for route in _marked_routes(inner, entered | {given.cls}):
                yield (name, *route)
    for each in given.parts:
        yield from _marked_routes(each, entered)
