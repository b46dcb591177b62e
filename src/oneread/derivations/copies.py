"""Copies: what an entity holds of others, how it is filled, and what a source must tell its carriers.

A carrier asks its source once, when a reference is new; from then on the source tells: whenever the hash of all values
that anybody copies from it changes, every carrier is given the new ones. See "Copies" of the decisions page and rules
3, 13 and 14 of the commit protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from oneread.derivations.access import Access, Accesses
from oneread.derivations.emitted_record import SOURCE_DELETED, short_hash
from oneread.encoding.codegen import function
from oneread.errors import InvalidDeclaration, InvalidValue, MissingReference
from oneread.models.annotations import unwrap
from oneread.models.fields import Marker, defaults_of
from oneread.models.model import Model
from oneread.models.references import Copy, Ref, copied_names
from oneread.models.registry import EntityKind
from oneread.models.set_order import order_sets, stored_form

Getter = Callable[[Any, Mapping[str, Any]], Any]
"""(entity, its hidden copies by name) to a value."""


def compiled(expression: str, scope: dict[str, Any] | None = None) -> Getter:
    """The function of `e` and `u` that an expression made by `access` stands for."""
    return function("get", "e, u", [f"return {expression}"], scope or {})


_IN_ANY_ORDER: Final = b"\x01"
"""Begins the digest of values among which is no set."""

_IN_ORDER: Final = b"\x02"
"""Begins the digest of values whose sets were put in order first, or that hold an int beyond 64 bits."""

MEANING: Final = "#"
"""What stands beside the last values of a deleted entity, no path: a digest of their types."""

Fill = Callable[[Ref[Any], Any, Mapping[str, Any]], Copy[Any]]
"""(reference, the source's entity, its hidden copies by name) to the copy."""


def filling(copy: type[Copy[Any]], found: Mapping[str, Access]) -> Fill:
    """The function that makes a copy, generated: a copied field's name to where its value is in the source."""
    values = "".join(f", {name}={access.code}" for name, access in found.items())
    return function("fill", "r, e, u", [f"return COPY(ref=r, deleted=False{values})"], {"COPY": copy}, copy.__name__)


def _nothing_copied(*_arguments: Any) -> Any:
    raise AssertionError("a plain reference has no copy to fill")


class Source(NamedTuple):
    """A source as a carrier sees it."""

    entity: Any
    """None when it is absent or deleted."""
    used: Mapping[str, Any]
    existed: bool
    """Whether it was ever written."""
    last: Mapping[str, Any] = {}
    """What a deleted one told last, by route."""


NO_SOURCE = Source(None, {}, existed=False)


class Reference:
    """One field of a model that refers to other entities.

    Arguments:
        name: the field.
        kind: the table it refers to.
        access: of the field itself.
        missing_ok: a new reference to nothing is allowed.
        on_delete: what the delete of a source does.
        blank: what the field is when it is left out; empty when it must be given.
    """

    def __init__(
        self,
        name: str,
        kind: EntityKind,
        access: Access,
        *,
        missing_ok: bool,
        on_delete: str,
        blank: tuple[Any, ...] = (),
    ) -> None:
        self.name = name
        self.kind = kind
        self.copy = access.copy
        self.many = access.many
        self._unordered = access.unordered
        self.missing_ok = missing_ok
        self.on_delete = on_delete
        self.blank = blank
        self.fill: Fill = _nothing_copied
        self.routes: tuple[tuple[str, str], ...] = ()
        self.hidden: tuple[tuple[str, Getter, Any], ...] = ()
        self.tracked = self.copy is not None

    def keys(self, entity: Any) -> list[bytes]:
        """The commit rows that the field refers to, each once; none for no entity, or one of another variant."""
        value = getattr(entity, self.name, None)
        if value is None:
            return []
        try:
            if self.many:
                keys = dict.fromkeys([self.kind.key(ref.key) for ref in value])
                return sorted(keys) if self._unordered else list(keys)
            ref: Any = value if self.copy is None else value.ref if type(value) is self.copy else None
            return [self.kind.key(ref.key)]
        except (AttributeError, TypeError) as error:
            raise InvalidValue(
                "a value does not fit its field", model=type(entity).__name__, field=self.name, value=value
            ) from error

    def filled(self, copy: Copy[Any], source: Source) -> Copy[Any]:
        """The copy with the source's values, or with None for each where there is no source yet."""
        if source.entity is not None:
            return self.fill(copy.ref, source.entity, source.used)
        assert self.copy is not None
        empty: dict[str, Any] = dict.fromkeys(copied_names(self.copy))
        return self.copy(ref=copy.ref, deleted=source.existed, **empty)

    def updated_copy(self, copy: Copy[Any], source: Source) -> Copy[Any]:
        """The copy after its source changed: new values, or what `on_delete` says."""
        if source.entity is not None or not source.existed or self.on_delete == "clear":
            return self.filled(copy, source)
        last = {name: source.last[route] for name, route in self.routes if route in source.last}
        return msgspec.structs.replace(copy, deleted=True, **last)

    def last_hidden_values(self, source: Source, held: Mapping[str, Any]) -> dict[str, Any]:
        """What the carrier goes on holding out of sight of a deleted source: what that told last, else what is held."""
        return {
            name: source.last.get(name.removeprefix(f"{self.name}."), held.get(name))
            for name, _get, _type in self.hidden
        }

    def hidden_values(self, source: Source) -> dict[str, Any]:
        """What the carrier holds out of sight of this source."""
        return {
            name: None if source.entity is None else get(source.entity, source.used) for name, get, _type in self.hidden
        }

    def refuse_missing(self, entity: Any) -> None:
        """Raises MissingReference for a new reference to nothing, unless that is allowed."""
        if not self.missing_ok:
            raise MissingReference(
                "this refers to an entity that does not exist",
                model=type(entity).__name__,
                field=self.name,
                value=getattr(entity, self.name),
            )


class CopiedValues:
    """What a model's carriers copy from it, as one hash of the values and one of the routes to them.

    Code with other declarations tells other routes; where their values happen to be equal the hashes must still differ,
    else a carrier that holds what is not told any more, or not yet, is never told again.

    Arguments:
        values: route to every value that any copy, open or hidden, takes over, and its type.
        missing_ok: somebody may hold a reference that is older than the entity.
        meaning: the types of the values as text; what was kept under other types is not taken for these.
        sets: one of the values may be a set, or hold one.
    """

    def __init__(
        self, values: Mapping[str, tuple[Getter, Any]], *, missing_ok: bool, meaning: str = "", sets: bool = False
    ) -> None:
        self._values = {route: values[route] for route in sorted(values)}
        self._getters = tuple(get for get, _type in self._values.values())
        self._routes = blake2b("\n".join(self._values).encode(), digest_size=4).digest()
        self._meaning = blake2b(meaning.encode(), digest_size=4).digest()
        self.missing_ok = missing_ok
        self._sets = sets
        self._pack = msgspec.msgpack.Encoder(uuid_format="bytes").encode

    @property
    def types(self) -> dict[str, Any]:
        """The type of each value that is told, by its route from the source."""
        return {route: kind for route, (_get, kind) in self._values.items()}

    def snapshot(self, entity: Any, used: Mapping[str, Any]) -> dict[str, Any]:
        """The values themselves, for the record of an entity that is deleted before all its carriers were told."""
        values = {route: order_sets(get(entity, used)) for route, (get, _type) in self._values.items()}
        return msgspec.to_builtins(values | {MEANING: self._meaning}, builtin_types=(bytes,))  # type: ignore[no-any-return]

    def last(self, kept: Mapping[str, Any]) -> dict[str, Any]:
        """What `kept` was made of; nothing where the values had other types then: carriers keep what they show."""
        types = self._values
        if kept.get(MEANING, self._meaning) != self._meaning:
            return {}
        return {route: msgspec.convert(value, types[route][1]) for route, value in kept.items() if route in types}

    def hash(self, entity: Any, used: Mapping[str, Any]) -> bytes:
        """What the record keeps of the values told."""
        if entity is None:
            return SOURCE_DELETED
        values = [get(entity, used) for get in self._getters]
        if not self._sets:
            try:
                return _IN_ANY_ORDER + short_hash(self._pack(values)) + self._routes
            except OverflowError:  # an int beyond 64 bits
                pass
        return _IN_ORDER + short_hash(stored_form(values)) + self._routes

    def is_of_before(self, recorded: Any, now: bytes) -> bool:
        """Whether a record holds a digest that no code makes any more, of the same routes.

        It was made of sets in the order of one process, so it says nothing about the values.
        """
        return (
            isinstance(recorded, bytes)
            and recorded[:1] == _IN_ANY_ORDER
            and now[:1] == _IN_ORDER
            and recorded.endswith(self._routes)
        )

    def may_be_awaited(self, after: bytes) -> bool:
        """Whether somebody may be waiting for an entity that was never written before."""
        return self.missing_ok and after != SOURCE_DELETED


def references_of(
    cls: type[Model[Any]], accesses: Accesses, kinds: Mapping[type, EntityKind], types: Mapping[str, Any]
) -> dict[str, Reference]:
    """Every field of a model that refers, with what its declaration promises."""
    from_fields: dict[str, Reference] = {}
    defaults = defaults_of(cls)
    for name in types:
        access = _referring(cls, name, accesses)
        if access is None or access.target is None:
            continue
        if access.target not in kinds:
            raise InvalidDeclaration(
                "the model referred to is not in the schema", model=cls, field=name, target=access.target
            )
        missing_ok, on_delete = _policy(access, defaults[name])
        blank = _blank(types[name]) if isinstance(defaults[name], Marker) else ()
        from_fields[name] = Reference(
            name, kinds[access.target], access, missing_ok=missing_ok, on_delete=on_delete, blank=blank
        )
    return from_fields


def _blank(annotation: Any) -> tuple[Any, ...]:
    """What `reference(...)` stands for as a default: None where that is possible, else nothing."""
    return (None,) if unwrap(annotation).optional else ()


def _policy(access: Access, default: Any) -> tuple[bool, str]:
    if access.copy is not None:
        return access.copy.missing_ok, access.copy.on_delete
    return getattr(default, "missing_ok", False), getattr(default, "on_delete", "keep")


def _referring(cls: type[Model[Any]], name: str, accesses: Accesses) -> Access | None:
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
    """The copy classes whose fields may be None although they are declared otherwise."""
    return frozenset(copy for copy in copies if copy.missing_ok or copy.on_delete == "clear")


def check_copy(
    copy: type[Copy[Any]], target: type[Model[Any]], accesses: Accesses, types: Mapping[str, Any]
) -> dict[str, Access]:
    """Where each field of a copy class comes from, checked against the source's types."""
    if copy.on_delete not in ("keep", "refuse", "clear"):
        raise InvalidDeclaration("on_delete is keep, refuse or clear", copy=copy, on_delete=copy.on_delete)
    found: dict[str, Access] = {}
    for name in copied_names(copy):
        access = accesses.of_route(target, accesses.source_route(copy, name))
        bare, optional = accesses.bare(types[name])
        if access.many or access.copy is not None:
            raise InvalidDeclaration("a copied field is a plain value or a reference", copy=copy, field=name)
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
