"""Copies: what an entity holds of others, and how copies are filled and follow their source.

A holder reads its source once, when the reference is new. Afterwards the source pushes. What one reference takes is a
*selection* of the source's values; whenever the digest of a selection changes, the holders that wait for it get the new
values. See "Copies" of the decisions page, rules 3, 13 and 14 of the commit protocol, and
docs/decisions/0046-selections-of-copied-values.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias, get_args

import msgspec

from oneread.derivations.access import Access, Accesses
from oneread.derivations.emitted_record import SOURCE_DELETED, short_hash
from oneread.encoding.codegen import function, indented
from oneread.errors import InvalidDeclaration, InvalidValue, MissingReference
from oneread.models.fields import Marker, defaults_of
from oneread.models.model import Model
from oneread.models.references import Copy, OnDelete, Ref, copied_names, refuse_copy_in_copy
from oneread.models.registry import EntityKind, instead_of
from oneread.models.set_order import order_sets, stored_form
from oneread.models.shadow import revive
from oneread.models.types import unwrap
from oneread.store.keys import row_selection, selection

Getter = Callable[[Any, Mapping[str, Any]], Any]
"""(entity, its hidden copies by name) to a value."""


def compile_getter(expression: str, scope: dict[str, Any] | None = None) -> Getter:
    """The function of `e` and `u` that an expression made by `access` stands for."""
    return function("get", "e, u", [f"return {expression}"], scope or {})


MEANING: Final = "#"
"""Key of the digest of their types among the last values of a deleted entity; it is not a path."""

VARIANT: Final = "@"
"""Key of the stored name of its class among the last values of a deleted entity that holders know as a variant."""

DELETES: Final = "-"
"""Key among the last values of an entity that was deleted while references with `on_delete="delete"` were declared."""

ERASED: Final = "!"
"""Key among the last values of an entity that was erased: its last values are empty ones, and it is not restored."""

DELETED_OR_MISSING: Final = (
    'on_delete="delete" and missing_ok exclude each other: a reference to nothing would be to a deleted entity'
)

Fill = Callable[[Ref[Any], Any, Mapping[str, Any]], Copy[Any]]
"""(reference, the source's entity, its hidden copies by name) to the copy."""


def compile_fill(copy: type[Copy[Any]], found: Mapping[str, Access]) -> Fill:
    """The function that makes a copy, generated: a copied field's name to where its value is in the source."""
    values = "".join(f", {name}={access.code}" for name, access in found.items())
    return function("fill", "r, e, u", [f"return COPY(ref=r, deleted=False{values})"], {"COPY": copy}, copy.__name__)


def _nothing_copied(*_arguments: object) -> Copy[Any]:
    raise AssertionError("a plain reference has no copy to fill")


class Source(msgspec.Struct, frozen=True, gc=False):
    """A source as its holders see it."""

    entity: Model[Any] | None
    """None when it is absent or deleted."""
    used: Mapping[str, Any]
    existed: bool
    """Whether it was ever written."""
    last: Mapping[str, Any] = {}
    """The last values of a deleted one, by route."""
    deletes: bool = False
    """Whether it was deleted, and holders go with it."""
    variant: type | None = None
    """The class of a deleted entity, where it is known, or of one that is not of the variant that a reference names."""
    expired: bool = False
    """Whether it waits for a sweep: holders keep its values until then, and new references are refused."""
    erased: bool = False
    """Whether it was erased: holders that go with it are erased as well."""


NO_SOURCE = Source(None, {}, existed=False)


class HiddenCopy(NamedTuple):
    """A value that a holder stores for its views, not shown: its name, its getter in the source, its type."""

    name: str
    get: Getter
    type: Any


class Reference(msgspec.Struct, frozen=True):
    """One field of a model that refers to other entities.

    `blank` is what the field is when it is left out, empty when it must be given; `routes` are where the fields of a
    copy are in the source. `is_leaf` says that nothing else follows from the copied values: no view of the holder and
    no other entity has any of them; `has_cells` that the store changes one row at a time, and has such copies in cells.
    """

    name: str
    kind: EntityKind
    access: Access
    missing_ok: bool
    on_delete: str
    blank: tuple[Any, ...] = ()
    fill: Fill = _nothing_copied
    routes: tuple[tuple[str, str], ...] = ()
    hidden: tuple[HiddenCopy, ...] = ()
    is_leaf: bool = False
    has_cells: bool = False

    @property
    def copy(self) -> type[Copy[Any]] | None:
        return self.access.copy

    @property
    def many(self) -> bool:
        return self.access.many

    @property
    def tracked(self) -> bool:
        """Whether the source must reach the holder when it changes."""
        return self.access.copy is not None or bool(self.hidden) or self.on_delete == "delete"

    @property
    def taken(self) -> tuple[str, ...]:
        """The routes of all values that it takes of the source; the empty one for a copy without fields."""
        start = len(self.name) + 1
        found = {route for _name, route in self.routes} | {name[start:] for name, _get, _type in self.hidden}
        return tuple(sorted(found)) or ("",)

    @property
    def selection(self) -> bytes:
        """The name of what it takes of the source: a digest of the routes, and whether the values come in a cell."""
        name = selection(_digest_of_routes(self.taken))
        return row_selection(name, in_cell=self.is_leaf) if self.has_cells else name

    def keys(self, entity: object) -> list[bytes]:
        """The root rows that the field refers to, each once; none for no entity, or one of another variant."""
        return self.keys_of(type(entity), getattr(entity, self.name, None))

    def keys_of(self, owner: type, value: Any) -> list[bytes]:
        """The root rows that one value of the field refers to; `owner` is the class of its entity."""
        if value is None:
            return []
        access = self.access
        try:
            if access.many:
                keys = dict.fromkeys([self._key(ref) for ref in value])
                return sorted(keys) if access.unordered else list(keys)
            ref: Any = value if access.copy is None else value.ref if type(value) is access.copy else None
            return [self.kind.key(ref.key) if ref.refers_to is access.target else self._key(ref)]
        except (AttributeError, TypeError) as error:
            cls = access.copy or access.target or self.kind.cls
            why, write = instead_of(value, cls, "at" if access.copy is None else "of")
            raise InvalidValue(
                f"a value does not fit its field, which refers to an entity: {why}",
                model=owner.__name__,
                field=self.name,
                value=value,
                write=write,
            ) from error

    def write_keys(self, variable: str, scope: dict[str, object]) -> list[str]:
        """Statements that give a variable the `keys` of `e`; what they need is added to the scope."""
        scope |= {f"keys_{variable}": self.keys_of}
        lines = [f"v = e.{self.name}", f"if v is None: {variable} = []"]
        if not self.many:
            scope |= {f"copy_{variable}": self.copy, f"known_{variable}": (None, self.access.target)}
            scope |= {f"locate_{variable}": self.kind.locate}
            ref, is_copy = ("v", "") if self.copy is None else ("v.ref", f"type(v) is copy_{variable} and ")
            is_known = f"{is_copy}(r := {ref}).refers_to in known_{variable} and len(r.key) == {len(self.kind.names)}"
            lines.append(f"elif {is_known}: {variable} = [{self.kind.prefix!r} + locate_{variable}(r.key)]")
        return [*lines, f"else: {variable} = keys_{variable}(type(e), v)"]

    def accepts(self, cls: type) -> bool:
        """Whether this refers to entities of a class: those of another variant are missing to it."""
        target = self.access.target
        return target is self.kind.cls or (target is not None and issubclass(cls, target))

    def narrowed(self, source: Source) -> Source:
        """A source as this reference sees it: one of another variant counts as deleted, without last values."""
        cls = source.variant if source.entity is None else type(source.entity)
        return source if cls is None or self.accepts(cls) else Source(None, {}, existed=True, variant=cls)

    def goes_with(self, source: Source) -> bool:
        """Whether a holder is to be deleted because this source was, of whichever variant it was last."""
        return self.on_delete == "delete" and source.deletes

    def _key(self, ref: Any) -> bytes:
        cls, target = ref.refers_to, self.access.target
        if cls is not target and cls is not None and not issubclass(cls, self.kind.cls):
            raise InvalidValue(
                "this refers to another class than the field does", field=self.name, value=ref, expected=target
            )
        return self.kind.key(ref.key)

    def keeps_last_values(self, source: Source) -> bool:
        """Whether holders keep the last values of this source: it was deleted, and `on_delete` does not clear them."""
        return source.entity is None and source.existed and self.on_delete != "clear"

    def filled_copy(self, copy: Copy[Any], source: Source) -> Copy[Any]:
        """The copy with the source's values, or with None for each when there is no source."""
        if source.entity is not None:
            return self.fill(copy.ref, source.entity, source.used)
        assert self.copy is not None
        empty: dict[str, Any] = dict.fromkeys(copied_names(self.copy))
        return self.copy(ref=copy.ref, deleted=source.existed, **empty)

    def updated_copy(self, copy: Copy[Any], source: Source) -> Copy[Any]:
        """The copy after its source changed: new values, or what `on_delete` says."""
        if not self.keeps_last_values(source):
            return self.filled_copy(copy, source)
        last = {name: source.last[route] for name, route in self.routes if route in source.last}
        return msgspec.structs.replace(copy, deleted=True, **last)

    def hidden_values(self, source: Source, held: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The hidden copies of this source; `held` are those of a holder that referred to it before."""
        if held is not None and self.keeps_last_values(source):
            last, route = source.last, len(self.name) + 1
            return {name: last.get(name[route:], held.get(name)) for name, _get, _type in self.hidden}
        return {
            name: None if source.entity is None else get(source.entity, source.used) for name, get, _type in self.hidden
        }

    def refuse_missing(self, entity: Model[Any], source: Source) -> None:
        """Raises MissingReference for a new reference to nothing, unless that is allowed."""
        if self.missing_ok:
            return
        facts = {"model": type(entity).__name__, "field": self.name, "value": getattr(entity, self.name)}
        if source.variant is None or self.accepts(source.variant):
            raise MissingReference("this refers to an entity that does not exist", **facts)
        raise MissingReference(
            "this refers to an entity of another variant",
            **facts,
            expected=self.access.target,
            variant=source.variant,
        )


Refs: TypeAlias = dict[str, list[bytes]]
"""Field name to the keys of the root rows that it refers to."""


def keys_of(refs: Refs) -> list[bytes]:
    """The sources of all fields."""
    return [key for keys in refs.values() for key in keys]


def compile_refs(cls: type[Model[Any]], references: Sequence[Reference]) -> Callable[[object], Refs]:
    """The function that finds the root rows an entity refers to, generated: `Reference.keys` of each of its fields.

    Raises:
        InvalidValue: as `Reference.keys`, which is asked again for the error.
    """

    def ask(entity: object) -> Refs:
        return {each.name: each.keys(entity) for each in references}

    scope: dict[str, object] = {"ask": ask}
    lines: list[str] = []
    for at, each in enumerate(references):
        lines += each.write_keys(f"k{at}", scope)
    found = ", ".join(f"{each.name!r}: k{at}" for at, each in enumerate(references))
    lines = ["try:", *indented([*lines, f"return {{{found}}}"]), "except (AttributeError, TypeError): return ask(e)"]
    return function("refs", "e", lines, scope, cls.__qualname__)


def compile_taken(cls: type[Model[Any]], tracked: Sequence[Reference]) -> Callable[[Refs], list[bytes]]:
    """The function that finds the sources which must reach an entity, each with the selection that it takes."""
    lines = ["found = []"]
    for each in tracked:
        taken = f"found.append(source + {each.selection!r})"
        lines += [f"for source in refs[{each.name!r}]: {taken}"]
    is_once = len({(each.kind.prefix, each.selection) for each in tracked}) == len(tracked)
    lines += ["return found" if is_once else "return list(dict.fromkeys(found))"]
    return function("taken", "refs", lines, {}, cls.__qualname__)


class HolderOptions(NamedTuple):
    """What the references to a model say about its entities."""

    missing_ok: bool = False
    """Holders may refer to an entity before it exists."""
    deletes: bool = False
    """Some holders are deleted with the entity."""
    variants: Mapping[str, type] = {}
    """Classes by stored name where some reference names a variant, else none."""
    blanks: Mapping[str, Any] = {}
    """By route, what stands in place of a value once the entity is erased."""


class CopiedValues:
    """What holders copy from a model, as a digest of the values of each selection.

    A selection is named by its routes because programs with other declarations announce other routes: when the values
    happen to be equal, a holder that has the wrong ones would otherwise never be updated again.

    `values` are every value that any copy takes, by route, with its type and the one by which it is read back;
    `selections` the routes of each selection, by its name; `meaning` is the types as text, so that values kept under
    other types are not mistaken for these; `sets` says that a value may be a set or hold one.
    """

    def __init__(
        self,
        values: Mapping[str, tuple[Getter, Any, Any]],
        selections: Mapping[bytes, Iterable[str]],
        options: HolderOptions,
        *,
        meaning: str = "",
        sets: bool = False,
    ) -> None:
        self._values = {route: values[route] for route in sorted(values)}
        self.selections = {name: tuple(sorted(selections[name])) for name in sorted(selections)}
        self._selected = tuple(
            (name, tuple(values[route][0] for route in routes)) for name, routes in self.selections.items()
        )
        self._meaning = blake2b(meaning.encode(), digest_size=4).digest()
        self._options = options
        self._sets = sets
        self._names = {cls: name for name, cls in options.variants.items()}
        self._pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode

    @property
    def types(self) -> dict[str, Any]:
        """The type of each copied value, by its route from the source."""
        return {route: kind for route, (_get, kind, _read_as) in self._values.items()}

    def snapshot(self, entity: Model[Any] | None, used: Mapping[str, Any]) -> dict[str, Any]:
        """The values themselves, for the record of a deleted entity: holders may not have its latest ones yet."""
        values = {route: order_sets(get(entity, used)) for route, (get, *_types) in self._values.items()}
        kept: dict[str, Any] = {**values, MEANING: self._meaning}
        if self._names:
            kept[VARIANT] = self._names[type(entity)]
        if self._options.deletes:
            kept[DELETES] = True
        return msgspec.to_builtins(kept, builtin_types=(bytes,))  # type: ignore[no-any-return]

    def blank_snapshot(self, variant: str) -> dict[str, Any]:
        """What the record of an erased entity keeps in place of its values: None, or an empty value of the type.

        `variant` is the stored name of its class, as the record has it; empty where that is not known.
        """
        kept: dict[str, Any] = {**self._options.blanks, MEANING: self._meaning, ERASED: True}
        if self._names and variant:
            kept[VARIANT] = variant
        if self._options.deletes:
            kept[DELETES] = True
        return msgspec.to_builtins(kept, builtin_types=(bytes,))  # type: ignore[no-any-return]

    def variant_name(self, cls: type) -> str:
        """The stored name of a class, as records have it; empty where they have none."""
        return self._names.get(cls, "")

    def read_snapshot(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """The values of a snapshot; none if they had other types then: holders keep what they have."""
        types = self._values
        if kept.get(MEANING, self._meaning) != self._meaning:
            return {}
        return {
            route: msgspec.convert(value, types[route][2], dec_hook=revive)
            for route, value in kept.items()
            if route in types
        }

    def variant_of(self, kept: Mapping[str, Any]) -> type | None:
        """The class of the entity of a snapshot; None if holders did not know it as a variant then."""
        return self._options.variants.get(kept.get(VARIANT, ""))

    def digests(self, entity: Model[Any], used: Mapping[str, Any]) -> dict[bytes, bytes]:
        """What the record keeps of the copied values: the digest of each selection."""
        return {name: self._digest([get(entity, used) for get in getters]) for name, getters in self._selected}

    def _digest(self, values: list[Any]) -> bytes:
        if not self._sets:
            try:
                return short_hash(self._pack(values))
            except OverflowError:  # an int beyond 64 bits
                pass
        return short_hash(stored_form(values))

    def may_be_awaited(self, after: object) -> bool:
        """Whether holders may already refer to an entity that was never written before."""
        return self._options.missing_ok and after != SOURCE_DELETED


def _digest_of_routes(routes: Iterable[str]) -> bytes:
    return blake2b("\n".join(routes).encode(), digest_size=4).digest()


def references_of(
    cls: type[Model[Any]], accesses: Accesses, kinds: Mapping[type, EntityKind], types: Mapping[str, Any]
) -> dict[str, Reference]:
    """The referring fields of a model, without what their copies and hidden copies take from the source."""
    references: dict[str, Reference] = {}
    defaults = defaults_of(cls)
    for name in types:
        access = _access_of_reference(cls, name, accesses)
        if access is None or access.target is None:
            continue
        if access.target not in kinds:
            raise InvalidDeclaration(
                "the model referred to is not in the schema", model=cls, field=name, target=access.target
            )
        missing_ok, on_delete = _policy(access, defaults[name])
        blank = _blank(types[name]) if isinstance(defaults[name], Marker) else ()
        references[name] = Reference(name, kinds[access.target], access, missing_ok, on_delete, blank)
    return references


def _blank(annotation: object) -> tuple[Any, ...]:
    """The default that `reference(...)` means: None if the field may be None, else none."""
    return (None,) if unwrap(annotation).optional else ()


def _policy(access: Access, default: object) -> tuple[bool, str]:
    if access.copy is not None:
        return access.copy.missing_ok, access.copy.on_delete
    return getattr(default, "missing_ok", False), getattr(default, "on_delete", "keep")


def _access_of_reference(cls: type[Model[Any]], name: str, accesses: Accesses) -> Access | None:
    access = accesses.of_route(cls, (name,))
    if access.target is not None:
        return access
    elements = accesses.elements_of(access, cls, name)
    if elements is None or elements.target is None:
        return None
    if elements.copy is not None:
        raise InvalidDeclaration(
            "a list of copies cannot be kept; use list[Ref[...]] and an index by each(...)", model=cls, field=name
        )
    return elements


def nullable_copy_classes(copies: set[type[Copy[Any]]]) -> frozenset[type]:
    """The copy classes whose fields may be None although their annotations do not say so."""
    return frozenset(copy for copy in copies if copy.missing_ok or copy.on_delete == "clear")


def check_copy(
    copy: type[Copy[Any]], target: type[Model[Any]], accesses: Accesses, types: Mapping[str, Any]
) -> dict[str, Access]:
    """Where each field of a copy class comes from, checked against the source's types."""
    if copy.on_delete not in get_args(OnDelete):
        raise InvalidDeclaration(
            "on_delete: expected keep, refuse, clear or delete", copy=copy, on_delete=copy.on_delete
        )
    if copy.on_delete == "delete" and copy.missing_ok:
        raise InvalidDeclaration(DELETED_OR_MISSING, copy=copy)
    if type(copy.costly) is not bool:
        raise InvalidDeclaration("costly: expected True or False", copy=copy, given=copy.costly)
    found: dict[str, Access] = {}
    for name in copied_names(copy):
        access = accesses.of_end(target, accesses.source_route(copy, name))
        bare, optional, _metadata = unwrap(types[name])
        if access.stands_for is not None and bare is access.stands_for:
            refuse_copy_in_copy(copy, name, access.stands_for)
        if bare != access.type:
            raise InvalidDeclaration(
                "a copied field has another type than its source",
                copy=copy,
                field=name,
                declared=bare,
                source=access.type,
            )
        if access.optional and not optional:
            raise InvalidDeclaration(
                "the source of this field may be None: declare it as `| None`", copy=copy, field=name
            )
        found[name] = access
    return found
