"""A schema as declared: descriptions of its classes that can be compared with the stored schema.

See "Schema history" of the decisions page and "The schema row" of docs/formats/rows.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import NoneType
from typing import Any, Final, is_typeddict

import msgspec

from oneread.derivations.access import Accesses
from oneread.derivations.catalog import Catalog
from oneread.derivations.compile_schema import keyspace_names
from oneread.derivations.copies import Reference
from oneread.derivations.derivation import kind_of_view
from oneread.derivations.entity_groups import RootReference
from oneread.derivations.entity_type import EntityType
from oneread.derivations.expiry import expiry_options
from oneread.derivations.rollups import Rollup
from oneread.derivations.rules import Rule, rules_of
from oneread.derivations.views import Feed, View
from oneread.evolution.stored_rules import WHERE, stored_rules
from oneread.feeds.parts import FeedPart
from oneread.models.evolving import EvolutionStep, Retyped, steps_of
from oneread.models.expressions import Expression
from oneread.models.fields import Marker, defaults_of
from oneread.models.fingerprints import describe, describe_type
from oneread.models.model import Model, key_names, stored_name
from oneread.models.paths import Path, path_of
from oneread.models.references import Copy, copied_names
from oneread.models.registry import key_fields, root_model
from oneread.models.types import FieldType, types_of
from oneread.models.versions import Description, StoredField, StoredRules, Type, TypeValue, digest_of


class Far(msgspec.Struct, frozen=True):
    """A value that an entity holds of another one: its path in the holder, and the source's model and path."""

    path: str
    target: str
    route: str


NUMBERS: Final = "numbers="
"""Before the part of a child's key that is its number, at the end of the options of its root."""


SPREAD: Final = "spread"
"""The ranges that the rows of a model are in, among its promises; no field is called so."""


class DeclaredRollup(msgspec.Struct, frozen=True):
    """A field that shows a number of a group: the stored name of the aggregate, and its field.

    Of a counter the aggregate is empty, and the number is the pattern of its name.
    """

    field: str
    view: str
    number: str

    @property
    def promise(self) -> str:
        """As the layout records it."""
        return f"rollup of {self.view}.{self.number}" if self.view else f"counter {self.number}"


class DeclaredModel(msgspec.Struct, frozen=True):
    """An entity class as declared; `name`, `kind` and `targets` are stored names.

    `blanks` are fields that a stored entity may lack: they have a default, or may be None. `addable` are those of them
    that a program which does not know them can leave alone: plain values and references without a guard. `nullable`
    are copies whose fields may be None whatever their type. `nested` holds `Class.field` of the fields of nested
    classes that have a default, `arrays` the nested classes stored as arrays. `copied` are shown and `hidden` are
    hidden copies;
    `copied_from` are paths of the values that holders copy from this kind. `steps`, `copy_steps` and `was` are the
    declared renamings and former types, of the class, of its copies by field, and by path.
    """

    name: str
    kind: str
    fields: tuple[StoredField, ...]
    cls: str
    keys: tuple[str, ...]
    blanks: frozenset[str] = frozenset()
    addable: frozenset[str] = frozenset()
    nullable: frozenset[str] = frozenset()
    nested: frozenset[str] = frozenset()
    arrays: tuple[str, ...] = ()
    promises: Description = ()
    targets: Description = ()
    copied: tuple[Far, ...] = ()
    hidden: tuple[Far, ...] = ()
    copied_from: tuple[str, ...] = ()
    steps: tuple[EvolutionStep, ...] = ()
    copy_steps: dict[str, tuple[EvolutionStep, ...]] = {}
    was: dict[str, frozenset[Type]] = {}
    rollups: tuple[DeclaredRollup, ...] = ()
    is_logged: bool = False
    parts: dict[str, tuple[Type, ...]] = {}
    """The types of the parts of each key field that refers."""


class DeclaredRule(msgspec.Struct, frozen=True):
    """One rule of a view: the words `before` its path and `after` its type, and the ways to the values it names.

    `paths` are none for a count of entities, and two for newest values, whose second is that of the instant. Each of
    `ways` holds (stored name of a model, path) for each reference on the way, and the value last. `condition` is that
    of a number, and `conditions` are the ways to the values that it reads, by path.
    """

    name: str
    before: tuple[str, ...]
    paths: tuple[str, ...]
    after: tuple[str, ...]
    ways: tuple[Description, ...] = ()
    condition: Expression | None = None
    conditions: dict[str, Description] = {}


class DeclaredView(msgspec.Struct, frozen=True):
    """A view as declared; `name`, `kind` and `model` are stored names.

    `model` is the class that its rules are about: of an index over groups the aggregate, and then `is_of_groups`.
    `hidden` are the stored names of its extrema, `condition` is its `where`, `conditions` are the
    ways to the values that the condition reads, by path, and `options` the class options that its rows depend on.
    `is_watched` says that its changes are logged, which its rows do not depend on; `stand_in` is the view that answers
    for it while it is built, if any, and `is_paired` that it replaces a view or is replaced. `is_feed_part`:
    it is one of the two indexes of a feed; `is_marked`: it is a feed with marks. `stored` are its rules as data, None
    where they cannot be stored.
    """

    name: str
    kind: str
    model: str
    fields: Description
    hidden: tuple[str, ...] = ()
    rules: tuple[DeclaredRule, ...] = ()
    condition: Expression | None = None
    conditions: dict[str, Description] = {}
    options: Description = ()
    is_of_groups: bool = False
    is_watched: bool = False
    stand_in: str = ""
    is_paired: bool = False
    is_feed_part: bool = False
    is_marked: bool = False
    stored: StoredRules | None = None


class DeclaredSchema(msgspec.Struct, frozen=True):
    """A whole schema as declared, and the digest that its version is found by."""

    models: tuple[DeclaredModel, ...]
    views: tuple[DeclaredView, ...]
    digest: bytes


def rule_text(rule: DeclaredRule, paths: Sequence[str], types: dict[str, str], condition: Expression | None) -> str:
    """A rule as the store describes it, with these paths, their types from `types`, and this condition."""
    first, *further = [(path, types.get(path, "")) for path in paths] or [("", "")]
    words = [*rule.before, *first, *rule.after, *chain(*(("by", *each) for each in further))]
    words += [] if condition is None else [f"{WHERE}{condition.canonical().hex()}"]
    return " ".join(filter(None, words))


def declare_schema(catalog: Catalog, views: tuple[type[View[Any]], ...], names: Mapping[str, Any]) -> DeclaredSchema:
    """Describes a schema as it is stored."""
    writer = _Declarer(catalog, names)
    models = tuple(writer.model(cls) for cls in catalog.models)
    described = {each.name: {field.name: str(field) for field in each.fields} for each in models}
    found = tuple(writer.view(view, described) for view in views)
    stored = (
        sorted((each.name, each.kind, each.fields, each.promises, each.targets, each.arrays) for each in models),
        sorted((each.name, each.kind, each.model, each.fields, each.hidden) for each in found),
    )
    watched = sorted(each.name for each in found if each.is_watched)
    logged = sorted({each.kind for each in models if each.is_logged})
    further = [watched, logged] if logged else [watched] if watched else []
    return DeclaredSchema(models, found, digest_of((*stored, *further)))


class _Declarer:
    def __init__(self, catalog: Catalog, names: Mapping[str, Any]) -> None:
        self._catalog = catalog
        self._names = names
        self._accesses = Accesses(names)

    def model(self, cls: type[Model[Any]]) -> DeclaredModel:
        entity_type = self._catalog.entity_types[cls]
        references, types = entity_type.references, types_of(cls, self._names)
        copies = {each.name: each.copy for each in references if each.copy is not None}
        nested = _nested(types.values())
        rollups = tuple(map(_declared_rollup, entity_type.rollups))
        totals = {each.field for each in rollups}
        referring = {each.name: each.target for each in key_fields(cls, self._names) if each.target is not None}
        parts = {name: tuple(self._parts_of(target)) for name, target in referring.items()}
        blanks = frozenset(
            name for name, _type, has_default in describe(cls, self._names) if has_default or _may_be_none(types[name])
        )
        return DeclaredModel(
            stored_name(cls),
            stored_name(root_model(cls)),
            self._fields_of(cls),
            cls.__name__,
            key_names(cls),
            blanks=blanks | totals,
            addable=blanks - totals - _not_addable(cls, references),
            nullable=_nullable(references),
            nested=frozenset(f"{each.__name__}.{name}" for each in nested for name in _defaulted(each)),
            arrays=tuple(sorted(each.__name__ for each in nested if _is_array(each))),
            promises=_promises_of(entity_type, rollups),
            targets=tuple((each.name, stored_name(each.kind.cls)) for each in references),
            copied=_shown_paths(references),
            hidden=_hidden_paths(references),
            copied_from=() if entity_type.copied is None else tuple(entity_type.copied.types),
            steps=steps_of(cls),
            copy_steps={name: steps_of(copy) for name, copy in copies.items()},
            was=self._was({"": cls} | {f"{name}.": copy for name, copy in copies.items()}),
            rollups=rollups,
            is_logged=cls.logged is not None,
            parts=parts,
        )

    def _parts_of(self, model: type[Model[Any]]) -> Iterator[Type]:
        """The types of the parts of a model's key."""
        types = {name: given for name, given, _default in describe(model, self._names)}
        for each in key_fields(model, self._names):
            if each.target is None:
                yield types[each.name].arguments[0]  # of Key[...]
            else:
                yield from self._parts_of(each.target)

    def _was(self, classes: Mapping[str, type]) -> dict[str, frozenset[Type]]:
        """The former types that `retyped` declares, by path; `classes` by the prefix of their fields' paths."""
        found: dict[str, frozenset[Type]] = {}
        for prefix, cls in classes.items():
            for each in steps_of(cls):
                if isinstance(each, Retyped):
                    former = describe_type(each.was, cls, each.name, self._names)
                    found[prefix + each.name] = found.get(prefix + each.name, frozenset()) | {former}
        return found

    def _fields_of(self, cls: type[msgspec.Struct]) -> tuple[StoredField, ...]:
        """A class's fields and types, classes spelled out; with the fields and options of its copies."""
        found: list[StoredField] = []
        types = types_of(cls, self._names)
        for name, plain, _default in describe(cls, self._names):
            if types[name].present.kind != "copy":
                found.append(StoredField(name, plain))
                continue
            copy, optional = types[name].present.cls, types[name].optional
            only = Type(copy.__name__, limits=_options(copy))
            found.append(StoredField(name, Type("|", (only, Type("None"))) if optional else only))
            found.extend(self._copied(name, copy))
        return tuple(found)

    def _copied(self, name: str, copy: type[Copy[Any]]) -> Iterator[StoredField]:
        """The fields that one copy shows: types, and the path of each value in the source."""
        sources = defaults_of(copy)
        for inner, plain, _default in describe(copy, self._names):
            if inner in copied_names(copy):
                yield StoredField(f"{name}.{inner}", plain, _source(sources[inner], inner))

    def view(self, view: type[View[Any]], described: Mapping[str, dict[str, str]]) -> DeclaredView:
        of, compiled = self._accesses.viewed(view), self._catalog.views[view]
        about = kind_of_view(view).about(view, of, self._names)
        rules = tuple(self._rule(name, rule, about[name]) for name, rule in rules_of(view).items())
        types = described.get(stored_name(of), {})  # those of a group are in the rules of its aggregate
        fields = [(rule.name, rule_text(rule, rule.paths, types, rule.condition)) for rule in rules]
        if view.where is not None:
            fields.append(("where", view.where.canonical().hex()))
        options = (*kind_of_view(view).options(view), *expiry_options(view, of))
        fields.extend(options)
        return DeclaredView(
            stored_name(view),
            stored_name(root_model(compiled.model)),
            stored_name(of),
            tuple(fields),
            tuple(keyspace_names(view).values()),
            rules,
            view.where,
            {} if view.where is None else self._ways(of, view.where),
            options,
            compiled.groups is not None,
            view.watched is not None,
            self._stand_in(view),
            view in self._catalog.replaced,
            issubclass(view, FeedPart),
            issubclass(view, Feed) and view.marks,
            stored_rules(view, of, self._names, lambda name, path: self._way(about[name] if name else of, path)),
        )

    def _stand_in(self, view: type[View[Any]]) -> str:
        pair = self._catalog.replaced.get(view)
        return stored_name(pair.old.cls) if pair is not None and pair.new.cls is view and pair.shows_all else ""

    def _rule(self, name: str, rule: Rule, model: type[Model[Any] | View[Any]]) -> DeclaredRule:
        paths = [path_of(given) for given in rule.given_fields]
        after: list[str] = [rule.size or "", rule.none or ""]
        after.extend(word for word, is_set in (("descending", rule.descending), ("hashed", rule.hashed)) if is_set)
        after.extend("each" for path in paths if path.every)
        after.extend(f"most={most}" for most in (rule.most,) if most)
        return DeclaredRule(
            name,
            (rule.kind, rule.fold or ""),
            tuple(".".join(path.names) for path in paths),
            tuple(after),
            tuple(self._way(model, path.names) for path in paths),
            rule.where,
            {} if rule.where is None else self._ways(model, rule.where),
        )

    def _ways(self, model: type[Model[Any] | View[Any]], condition: Expression) -> dict[str, Description]:
        """The ways to the values that a condition reads, by path."""
        return {".".join(path.names): self._way(model, path.names) for path in condition.paths()}

    def _way(self, model: type[Model[Any] | View[Any]], route: tuple[str, ...]) -> Description:
        """The way to a value through references: (model, path) for each entity on it."""
        hidden = self._accesses.of_route(model, route).hidden
        if hidden is None:
            return ((stored_name(model), ".".join(route)),)
        return ((stored_name(model), hidden.reference), *self._way(hidden.target, hidden.route))


def _options(reference: Reference | type[Copy[Any]]) -> tuple[tuple[str, TypeValue], ...]:
    return ("on_delete", reference.on_delete), ("missing_ok", reference.missing_ok)


def _declared_rollup(rollup: Rollup) -> DeclaredRollup:
    if rollup.number is None:
        return DeclaredRollup(rollup.field, "", rollup.shown.name)
    return DeclaredRollup(rollup.field, stored_name(rollup.number.view), rollup.number.field)


def _not_addable(cls: type[Model[Any]], references: Sequence[Reference]) -> set[str]:
    """The fields that entities cannot get later: what they refer to must be looked at, or when they were written."""
    stamped = {name for name, default in defaults_of(cls).items() if _is_stamp(default)}
    return stamped | {each.name for each in references if each.copy is not None or each.on_delete != "keep"}


def _nullable(references: Sequence[Reference]) -> frozenset[str]:
    """The copies whose fields may be None."""
    return frozenset(each.name for each in references if each.copy and (each.missing_ok or each.on_delete == "clear"))


def _shown_paths(references: Sequence[Reference]) -> tuple[Far, ...]:
    """Where the values of copies come from."""
    return tuple(
        Far(f"{each.name}.{name}", stored_name(each.kind.cls), route)
        for each in references
        for name, route in each.routes
    )


def _hidden_paths(references: Sequence[Reference]) -> tuple[Far, ...]:
    """Where the values of hidden copies come from."""
    return tuple(
        Far(name, stored_name(each.kind.cls), name.removeprefix(f"{each.name}."))
        for each in references
        for name, _get, _type in each.hidden
    )


def _promises_of(entity_type: EntityType, rollups: Sequence[DeclaredRollup]) -> Description:
    """What references, totals and the spread of keys promise, by field."""
    plain = [each for each in entity_type.references if each.copy is None]
    spread = entity_type.kind.spread
    return (
        *((each.name, _promises(each, entity_type.numbered)) for each in plain),
        *((each.field, each.promise) for each in rollups),
        *(((SPREAD, str(spread)),) if spread > 1 else ()),
    )


def _promises(reference: Reference, numbered: str | None = None) -> str:
    """The options of a reference; of that of a child the root and the part that a sequence gives, too."""
    options = ", ".join(f"{name}={value}" for name, value in _options(reference))
    if isinstance(reference, RootReference):
        return f"{options}, root={stored_name(reference.kind.cls)}, {NUMBERS}{numbered or ''}"
    return options


def _is_stamp(default: object) -> bool:
    return isinstance(default, Marker) and default.what != "reference"


def _may_be_none(given: FieldType) -> bool:
    return given.optional or any(each.bare is NoneType for each in given.parts)


def _nested(types: Iterable[FieldType]) -> set[type]:
    """The classes with fields that are used as types in fields, copies and models apart."""
    return {each.cls for given in types for each in given.walk() if each.kind == "class" and each.fields()}


def _is_array(cls: Any) -> bool:
    config = getattr(cls, "__struct_config__", None)
    return issubclass(cls, tuple) if config is None else bool(config.array_like)


def _defaulted(cls: Any) -> Iterator[str]:
    """The fields of a nested class that may be left out."""
    if isinstance(cls, type) and issubclass(cls, msgspec.Struct):
        yield from (name for name, default in defaults_of(cls).items() if default is not msgspec.NODEFAULT)
    elif dataclasses.is_dataclass(cls):
        missing = dataclasses.MISSING
        yield from (each.name for each in dataclasses.fields(cls) if {each.default, each.default_factory} != {missing})
    elif is_typeddict(cls):
        yield from cls.__optional_keys__
    else:
        yield from getattr(cls, "_field_defaults", {})


def _source(default: object, name: str) -> str:
    """Where a copied field comes from: a field of the source by its name, however it is written; else the path."""
    if not isinstance(default, Path):
        return name
    return default.names[0] if len(default.names) == 1 else str(default)
