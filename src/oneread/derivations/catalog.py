"""The catalog: a schema compiled for one store, where every model, layout and view has its number.

See "Tables" and "Bodies" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from oneread.derivations import emitted_record
from oneread.derivations.access import Access, Accesses, Hidden
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.copies import (
    NO_SOURCE,
    CopiedValues,
    Getter,
    Reference,
    Source,
    check_copy,
    compiled,
    filling,
    nullable_copy_classes,
    references_of,
)
from oneread.derivations.derivation import CompiledView, Compiling, compile_view, register
from oneread.derivations.entity_type import EntityState, EntityType
from oneread.derivations.indexes import IndexView
from oneread.derivations.probes import Probes
from oneread.derivations.rules import rules_of
from oneread.derivations.views import Aggregate, Index, View
from oneread.errors import Corrupt, InvalidDeclaration, UsageError
from oneread.models.annotations import Named, field_types
from oneread.models.fingerprints import text_of
from oneread.models.layout import Layout
from oneread.models.model import Model
from oneread.models.older import OlderLayout
from oneread.models.registry import EntityKind, root_model
from oneread.models.set_order import holds_sets
from oneread.models.versions import StoredLayout
from oneread.store.keys import kind_part, view_prefix
from oneread.store.limits import LAST_NUMBER
from oneread.transactions.root import Root

register(Index, IndexView)
register(Aggregate, AggregateView)


class SchemaNumbers(msgspec.Struct, frozen=True):
    """What the store calls each declaration.

    Arguments:
        kinds: a model's stored name to its id.
        layouts: an entity class's stored name to the id of its current layout.
        views: a view's stored name (and `view.field` for a least or greatest) to (id, generation).
        older: layouts that rows may still have, by the stored name of their entity class.
        last: the last number that was given to anything.
    """

    kinds: Mapping[str, int]
    layouts: Mapping[str, int]
    views: Mapping[str, tuple[int, int]]
    older: Mapping[str, tuple[StoredLayout, ...]] = {}
    last: int = LAST_NUMBER


def stored_name(cls: type[Model[Any] | View[Any]]) -> str:
    """What a declaration is called in the store."""
    own = cls.__dict__.get("stored_as")
    return own if isinstance(own, str) else cls.__name__


def extremum_names(view: type[View[Any]]) -> dict[str, str]:
    """Field to stored name of each least or greatest of an aggregate."""
    folds = {name: rule for name, rule in rules_of(view).items() if rule.fold in ("least", "greatest")}
    return {name: f"{stored_name(view)}.{name}" for name in folds}


class Catalog:
    """Compiles declarations; raises InvalidDeclaration for those that cannot work."""

    def __init__(
        self, models: tuple[type[Model[Any]], ...], views: tuple[type[View[Any]], ...], numbers: SchemaNumbers
    ) -> None:
        self._names = Named((*models, *views))
        self._accesses = Accesses(self._names)
        self._numbers = numbers
        self.models = models
        roots = {root_model(cls) for cls in models}
        self.kinds: dict[type, EntityKind] = {
            cls: EntityKind(cls, numbers.kinds[stored_name(cls)], self._names, numbers.last)
            for cls in sorted(roots, key=stored_name)
        }
        self.kinds.update({cls: self.kinds[root_model(cls)] for cls in models})
        self._by_prefix = {kind.prefix: kind for kind in self.kinds.values()}
        self._references = {
            cls: references_of(cls, self._accesses, self.kinds, field_types(cls, self._names)) for cls in models
        }
        self._nullable = nullable_copy_classes(
            {each.copy for refs in self._references.values() for each in refs.values() if each.copy is not None}
        )
        self._told: dict[type, dict[str, tuple[Getter, Any]]] = {}
        self._awaited: set[type] = set()
        self.probes = Probes(self._accesses)
        self._compile_copies()
        self.views: dict[type, CompiledView] = {}
        for view in views:
            self._add_view(view)
        self._wire_hidden()
        self.entity_types: dict[type, EntityType] = {cls: self._entity_type(cls) for cls in models}
        self._hiding = frozenset(each.kind.prefix for each in self.entity_types.values() if each.has_hidden)
        self._any_type: dict[bytes, EntityType] = {
            kind.prefix: self.entity_types[self._any_class(kind)] for kind in self.kinds.values()
        }

    @property
    def names(self) -> Mapping[str, Any]:
        """The declared classes by name."""
        return self._names

    def _any_class(self, kind: EntityKind) -> type[Model[Any]]:
        return next(cls for cls in self.models if self.kinds[cls] is kind)

    def _compile_copies(self) -> None:
        for cls, references in self._references.items():
            for reference in references.values():
                copy = reference.copy
                if copy is None:
                    continue
                found = check_copy(copy, reference.kind.cls, self._accesses, field_types(copy, self._names))
                reference.fill = filling(copy, found)
                reference.routes = tuple((name, ".".join(self._accesses.source_route(copy, name))) for name in found)
                for name, access in found.items():
                    route = ".".join(self._accesses.source_route(copy, name))
                    self._tell(reference, route, access)
                    if access.hidden is not None:
                        self._hide(reference.kind.cls, access.hidden)
                if not found:
                    self._tell(reference, "", Access("None", type(None), optional=True))
                layout: Layout[Any] = Layout(copy, None, nullable=self._nullable, names=self._names)
                self.probes.add_copy(reference, copy, layout)
                self._check_options(cls, reference)

    def _check_options(self, cls: type, reference: Reference) -> None:
        if reference.many and reference.on_delete == "clear":
            raise InvalidDeclaration(
                "a list of references is kept or refused, not cleared", model=cls, field=reference.name
            )

    def _tell(self, reference: Reference, route: str, access: Access) -> None:
        """The source must tell its carriers when this value changes."""
        target = reference.kind.cls
        self._told.setdefault(target, {})[route] = compiled(access.code), access.type | None
        if reference.missing_ok:
            self._awaited.add(target)

    def _hide(self, cls: type[Model[Any]], hidden: Hidden) -> None:
        """Lets every class of the kind that has the reference carry a hidden copy, and what that needs further on."""
        far = self._accesses.of_route(hidden.target, hidden.route)
        get = compiled(far.code)
        for model in self.models:
            if not issubclass(model, cls):
                continue
            reference = self._references[model][hidden.reference]
            if any(name == hidden.name for name, _get, _type in reference.hidden):
                continue
            if reference.many:
                raise InvalidDeclaration(
                    "a path cannot go through a list of references", model=model, field=hidden.reference
                )
            reference.hidden = (*reference.hidden, (hidden.name, get, far.type | None))
            reference.tracked = True
            self._tell(reference, ".".join(hidden.route), far)
        if far.hidden is not None:
            self._hide(hidden.target, far.hidden)

    def _add_view(self, view: type[View[Any]]) -> None:
        model = self._viewed(view)
        numbers = self._numbers.views
        prefixes = {field: view_prefix(*numbers[name]) for field, name in extremum_names(view).items()}
        prefix = view_prefix(*numbers[stored_name(view)])
        compiling = Compiling(model, prefix, prefixes, self._accesses, self.kinds, self._nullable)
        compiled_view = self.views[view] = compile_view(view, compiling)
        for field, access, check in compiled_view.taken_values():
            if access.through is not None:
                self.probes.add_value(access.through, view, field, check)

    def _viewed(self, view: type[View[Any]]) -> type[Model[Any]]:
        """The entity class that a view is about."""
        given = view.type_arguments[0] if view.type_arguments else None
        name = getattr(given, "__forward_arg__", given)
        model = self._names.get(name) if isinstance(name, str) else given
        if not (isinstance(model, type) and issubclass(model, Model)):
            raise InvalidDeclaration("say whose view it is: class Recent(Index[Purchase])", view=view, given=given)
        if model not in self._references:
            raise InvalidDeclaration("the model of this view is not in the schema", view=view, model=model)
        return model

    def _wire_hidden(self) -> None:
        """Every path of a view that leaves the entity makes its carriers hold the value out of sight."""
        for view in self.views:
            model = self._viewed(view)
            for name, rule in rules_of(view).items():
                if rule.field is not None:
                    hidden = self._accesses.of_path(view, name, rule.field, model).hidden
                    if hidden is not None:
                        self._hide(model, hidden)

    def _entity_type(self, cls: type[Model[Any]]) -> EntityType:
        kind = self.kinds[cls]
        layout: Layout[Any] = Layout(
            cls, self._numbers.layouts[stored_name(cls)], nullable=self._nullable, names=self._names
        )
        kind.layouts.add(layout)
        for older in self._numbers.older.get(stored_name(cls), ()):
            kind.layouts.add_older(OlderLayout(older, layout, self._names))
        derivations = tuple(view for view in self.views.values() if self.kinds[view.model] is kind)
        told = self._told.get(kind.cls)
        getters = None if told is None else self._copied_values(kind.cls, told)
        return EntityType(cls, kind, layout, self._references[cls], derivations, getters)

    def _copied_values(self, cls: type[Model[Any]], told: dict[str, tuple[Getter, Any]]) -> CopiedValues:
        meaning = "\n".join(f"{route}: {text_of(told[route][1], cls, route, self._names)}" for route in sorted(told))
        sets = any(holds_sets(kind, self._names) for _get, kind in told.values())
        return CopiedValues(told, missing_ok=cls in self._awaited, meaning=meaning, sets=sets)

    def kind_of(self, key: bytes) -> EntityKind:
        """The kind that a commit row belongs to."""
        try:
            return self._by_prefix[kind_part(key)]
        except KeyError:
            raise Corrupt("a row belongs to a model that this schema does not have", key=key.hex()) from None

    def name_of(self, key: bytes) -> str:
        """A commit row's key as a person reads it."""
        kind = self.kind_of(key)
        return f"{kind.cls.__name__}({', '.join(map(repr, kind.parts_of(key)))})"

    def type_of(self, entity: Any) -> EntityType:
        """The carrier of an entity's class."""
        try:
            return self.entity_types[type(entity)]
        except KeyError:
            raise UsageError("this is no entity of a model of the schema", given=type(entity)) from None

    def any_type_of(self, key: bytes) -> EntityType:
        """A carrier of the kind that a commit row belongs to, for what all variants have in common."""
        return self._any_type[self.kind_of(key).prefix]

    def state(self, key: bytes, root: Root) -> EntityState:
        """What a commit row says."""
        record = emitted_record.decode_record(root.emitted)
        if root.body is None:
            return EntityState(None, {}, record)
        layouts = self.kind_of(key).layouts
        older = layouts.older(root.body)
        if older is None:
            entity = layouts.decode(root.body)
            return EntityState(entity, self.entity_types[type(entity)].used_in(record), record)
        entity = older.whole(root.body)
        used = {} if older.stored.renew else self.entity_types[type(entity)].used_in(record)
        return EntityState(entity, used, record, older.unfilled, older.stored.retell)

    def source(self, key: bytes, root: Root) -> Source:
        """A commit row as those who copy from it see it."""
        if root.body is None:
            return (
                self.any_type_of(key).source_of_deleted(emitted_record.decode_record(root.emitted))
                if root.version
                else NO_SOURCE
            )
        layouts = self.kind_of(key).layouts
        older = layouts.older(root.body)
        entity = layouts.decode(root.body) if older is None else older.whole(root.body)
        entity_type = self.entity_types[type(entity)]
        is_held = entity_type.has_hidden and not (older is not None and older.stored.renew)
        return Source(
            entity, entity_type.used_in(emitted_record.decode_record(root.emitted)) if is_held else {}, existed=True
        )

    def is_current(self, key: bytes, root: Root) -> bool:
        """Whether a commit row is written, and has told its views, as is declared now (commit protocol, rule 17)."""
        record = emitted_record.decode_record(root.emitted)
        if root.body is None:
            return self.any_type_of(key).covers_views(record, alive=False)
        entity_type = self.entity_types[self.kind_of(key).layouts.class_of(root.body)]
        layout = entity_type.layout
        if not root.body.startswith((layout.prefix, layout.wide_prefix)) or not entity_type.covers_views(
            record, alive=True
        ):
            return False
        return not entity_type.needs_state or entity_type.is_current(self.state(key, root))

    def sources_of(self, key: bytes, body: bytes) -> list[bytes]:
        """The commit rows that a document refers to."""
        entity = self.kind_of(key).layouts.decode(body)
        return [source for keys in self.entity_types[type(entity)].refs(entity).values() for source in keys]

    def may_lack(self, key: bytes, body: bytes) -> bool:
        """Whether a row may lack values of its sources: hidden ones, or copied ones that older layouts do not show."""
        return kind_part(key) in self._hiding or self.kind_of(key).layouts.older(body) is not None

    def may_be_held(self, key: bytes) -> bool:
        """Whether any reference forbids the delete of rows of this kind."""
        kind = self.kind_of(key)
        return any(
            each.kind is kind and each.on_delete == "refuse"
            for references in self._references.values()
            for each in references.values()
        )
