"""Completes the references of a schema: what each copies from its source, and what each source has to announce.

A path of a view or a copy that leaves an entity makes its holders store the value as a hidden copy, which may need a
hidden copy at the source in turn. So a reference is complete only when all copies and all views have been added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from oneread.derivations.access import NO_VALUE, Access, Accesses, HiddenRoute
from oneread.derivations.copies import (
    CopiedValues,
    Getter,
    HiddenCopy,
    HolderOptions,
    Reference,
    check_copy,
    compile_fill,
    compile_getter,
    nullable_copy_classes,
    references_of,
)
from oneread.derivations.derivation import CompiledView, behind, inputs_of
from oneread.derivations.entity_groups import root_reference
from oneread.derivations.rules import rules_of
from oneread.errors import InvalidDeclaration
from oneread.models.blank_values import blank_value
from oneread.models.fingerprints import describe_type
from oneread.models.model import Model, has_check
from oneread.models.prepare import prepare_type
from oneread.models.references import Copy
from oneread.models.registry import EntityKind, root_model
from oneread.models.shadow import Shapes
from oneread.models.types import Names, field_types, type_of


class ReferenceBuilder:
    """Takes the copies of all models, then `add_view` the views; `references` are complete after that.

    `models` are by stored name.
    """

    def __init__(
        self, models: Mapping[str, type[Model[Any]]], kinds: Mapping[type, EntityKind], accesses: Accesses
    ) -> None:
        self._accesses = accesses
        self._models = models
        self._references = {
            cls: references_of(cls, accesses, kinds, field_types(cls, accesses.names)) | root_reference(cls, kinds)
            for cls in models.values()
        }
        self._copied: dict[type, dict[str, tuple[Getter, Any]]] = {}
        self._optional: set[tuple[type, str]] = set()
        self._awaited: set[type] = set()
        self._narrowed: set[type] = set()
        self._deleting: set[type] = set()
        self._of_variants: dict[tuple[type, str], dict[type, Getter]] = {}
        for cls, references in self._references.items():
            for reference in tuple(references.values()):
                if reference.copy is not None:
                    self._add_copy(cls, reference, reference.copy)
                elif reference.on_delete == "delete":
                    self._announce_delete(reference)

    def references(self, cls: type[Model[Any]]) -> Mapping[str, Reference]:
        """The referring fields of a model by name."""
        return self._references[cls]

    def nullable_copies(self) -> frozenset[type]:
        """The copy classes whose fields may be None although their annotations do not say so."""
        every = [each.copy for references in self._references.values() for each in references.values()]
        return nullable_copy_classes({copy for copy in every if copy is not None})

    def add_view(self, view: CompiledView) -> None:
        """Adds the hidden copies that the rules of a view need."""
        for name, rule in rules_of(view.cls).items():
            for given in rule.given_fields:
                access = self._accesses.of_path(view.cls, name, given, view.model)
                if access.hidden is not None:
                    self._hide(view.model, access.hidden)

    def mark_leaves(self, views: Iterable[CompiledView], *, has_cells: bool) -> None:
        """Says of each reference whether anything follows from its copied values, once all views are added.

        A model with a `check` of its own may refuse copied values, which only a commit of the holder finds.
        """
        needed = [(view.model, inputs_of(view)) for view in views]
        for cls, references in self._references.items():
            copied = {route.partition(".")[0] for route in self._copied.get(root_model(cls), ())}
            used = {name for model, inputs in needed if issubclass(cls, model) for name in inputs}
            for name, each in references.items():
                is_leaf = (
                    each.copy is not None
                    and not each.hidden
                    and each.on_delete != "delete"
                    and name not in copied
                    and behind(name) not in used
                    and not has_check(cls)
                )
                references[name] = msgspec.structs.replace(each, is_leaf=is_leaf, has_cells=has_cells)

    def copied_values(self, cls: type[Model[Any]]) -> CopiedValues | None:
        """What holders copy from a model; None if no model copies from it."""
        copied = self._copied.get(cls)
        if copied is None:
            return None
        names = self._accesses.names
        meaning = "\n".join(
            f"{route}: {describe_type(copied[route][1], cls, route, names)}" for route in sorted(copied)
        )
        values = {route: (get, kind, _concrete(kind, names)) for route, (get, kind) in copied.items()}
        blanks = {
            route: None if (cls, route) in self._optional else blank_value(type_of(kind, names).present)
            for route, (_get, kind) in copied.items()
        }
        sets = any(type_of(kind, names).holds_sets for _get, kind in copied.values())
        variants = self._models if cls in self._narrowed else {}
        options = HolderOptions(cls in self._awaited, cls in self._deleting, variants, blanks)
        return CopiedValues(values, self._selections(cls), options, meaning=meaning, sets=sets)

    def _selections(self, source: type[Model[Any]]) -> dict[bytes, set[str]]:
        """What each reference takes of a source, by name; two of one name would be announced together."""
        found: dict[bytes, set[str]] = {}
        for references in self._references.values():
            for each in references.values():
                if each.tracked and each.kind.cls is source:
                    found.setdefault(each.selection, set()).update(each.taken)
        return found

    def _add_copy(self, cls: type[Model[Any]], reference: Reference, copy: type[Copy[Any]]) -> None:
        accesses = self._accesses
        target = reference.access.target
        assert target is not None
        found = check_copy(copy, target, accesses, field_types(copy, accesses.names))
        routes = {name: ".".join(accesses.source_route(copy, name)) for name in found}
        held = self._references[cls][reference.name]
        self._references[cls][reference.name] = msgspec.structs.replace(
            held, fill=compile_fill(copy, found), routes=tuple(routes.items())
        )
        for name, access in found.items():
            self._announce(reference, routes[name], access)
            if access.hidden is not None:
                self._hide(target, access.hidden)
        if not found:
            self._announce_delete(reference)

    def _announce_delete(self, reference: Reference) -> None:
        """Makes the source notify a holder that takes no value of it when it is deleted."""
        self._announce(reference, "", Access(NO_VALUE, type(None), optional=True))

    def _announce(self, reference: Reference, route: str, access: Access) -> None:
        """Makes the source notify its holders when the value at this route changes."""
        source, target = reference.kind.cls, reference.access.target
        assert target is not None
        get, given = compile_getter(access.code), access.type | None
        if target is not source:
            self._narrowed.add(source)
            if route.partition(".")[0] not in ("", *source.__struct_fields__):
                get = self._getter_of_variants(source, target, route, get)
        known = self._copied.setdefault(source, {}).setdefault(route, (get, given))
        if known[1] != given:
            raise InvalidDeclaration(
                "a field of two variants, each of another type, cannot be copied from both; give one another name",
                model=source,
                field=route,
                types=(known[1], given),
            )
        if access.optional:
            self._optional.add((source, route))
        if reference.missing_ok:
            self._awaited.add(source)
        if reference.on_delete == "delete":
            self._deleting.add(source)

    def _getter_of_variants(self, source: type, target: type, route: str, get: Getter) -> Getter:
        """Reads a field that variants declare: None for the entities of other variants."""
        getters = self._of_variants.setdefault((source, route), {})
        getters[target] = get

        def read(entity: object, used: Mapping[str, Any]) -> object:
            return next((each(entity, used) for cls, each in getters.items() if isinstance(entity, cls)), None)

        return read

    def _hide(self, cls: type[Model[Any]], hidden: HiddenRoute) -> None:
        """Adds a hidden copy to the reference in `cls` and its variants, and those that the source needs for it."""
        far = self._accesses.of_end(hidden.target, hidden.route)
        made = HiddenCopy(hidden.name, compile_getter(far.code), _concrete(far.type | None, self._accesses.names))
        for model, references in self._references.items():
            reference = references[hidden.reference] if issubclass(model, cls) else None
            if reference is None or any(each.name == made.name for each in reference.hidden):
                continue
            if reference.many:
                raise InvalidDeclaration(
                    "a path cannot go through a list of references", model=model, field=hidden.reference
                )
            references[hidden.reference] = msgspec.structs.replace(reference, hidden=(*reference.hidden, made))
            self._announce(reference, ".".join(hidden.route), far)
        if far.hidden is not None:
            self._hide(hidden.target, far.hidden)


def _concrete(kind: Any, names: Names) -> Any:
    """A type as `revive` and msgspec read a value of it back: references by the types of their keys."""
    return prepare_type(Shapes(names, frozenset()).concrete(type_of(kind, names)))
