"""The JSON form of entities and view rows: what a web client reads and may send, and, with options, a line of a dump.

A reference is the list of its key's parts. A copy is an object with its `ref` and the copied fields, or only its `ref`
while it is not filled, so that a client can send back what it got; in a dump it is the key alone, since loading fills
it. Numbers of groups are left out while they are not built, and of dumps. See "JSON" in docs/reference/web.md, and
docs/formats/dumps.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from types import GenericAlias
from typing import Any, ClassVar, Final, Generic, TypeVar

import msgspec

from oneread.encoding.codegen import function
from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.models.fields import defaults_of, rollup_names
from oneread.models.model import Model, key_names
from oneread.models.references import Copy, ref_class
from oneread.models.set_order import order_sets
from oneread.models.shadow import FieldShape, Shapes, revive
from oneread.models.types import Named

E = TypeVar("E")
T = TypeVar("T")

_UNSET: Final = msgspec.UNSET
_PLACE: Final = re.compile(r"at `\$\.(\w+)")
_FIELD: Final = re.compile(r"field `(\w+)`")
"""How msgspec names the field that is wrong, and the one that is missing or unknown."""
FAULTS: Final = (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError)
"""What msgspec raises for JSON that does not fit, or cannot be written."""


class JsonForm(Generic[E]):
    """The JSON form of one class.

    Raises:
        InvalidDeclaration: a type cannot be resolved from the module of its class.
    """

    shows_copies: ClassVar[bool] = True
    """Whether a copy is an object with the copied fields, under the names that clients see; else its key."""

    write: Callable[[E], dict[str, object]]
    """Converts an entity to what msgspec's JSON encoder takes."""
    write_all: Callable[[Sequence[E]], list[dict[str, object]]]
    """Converts several entities of exactly this class."""

    def __init__(self, cls: type[E], fields: tuple[FieldShape, ...] = ()) -> None:
        self.cls = cls
        self._names = Named(())
        self._shapes = Shapes(self._names, frozenset())
        self.fields = fields or self._shapes.of(cls)
        self._spelled = _spelled(cls) if self.shows_copies else {each.name: each.name for each in self.fields}
        made = _functions(cls, self.fields, self._spelled, copies=self.shows_copies)
        self.write, self.write_all = made["write"], made["write_all"]
        self._keys = key_names(cls) if issubclass(cls, Model) else ()
        self._optional = {name for name, default in defaults_of(cls).items() if default is not msgspec.NODEFAULT}

    @functools.cached_property
    def _whole(self) -> Any:
        return self._struct(lambda name: name in self._optional)

    @functools.cached_property
    def _decode_whole(self) -> Callable[[bytes], Any]:
        return msgspec.json.Decoder(self._whole, dec_hook=revive).decode

    @functools.cached_property
    def _decode_partial(self) -> Callable[[bytes], Any]:
        return msgspec.json.Decoder(self._struct(lambda _name: True, without=self._keys), dec_hook=revive).decode

    def decode(self, body: bytes) -> E:
        """Decodes an entity; its copies are not filled, and fields with a default may be left out.

        Raises:
            InvalidValue: the body is not JSON, or a field is unknown, missing, or of another type.
        """
        return self._entity(self._read(lambda: self._decode_whole(body)))

    def convert(self, value: object, *, strict: bool = True) -> E:
        """Converts JSON that was parsed before, as `decode` does; unless `strict`, numbers and instants may be text."""
        return self._entity(self._read(lambda: msgspec.convert(value, self._whole, strict=strict, dec_hook=revive)))

    def changes(self, body: bytes) -> dict[str, Any]:
        """Decodes the fields that a client wants changed, for `db.patch`. The key's parts are not among them.

        Raises:
            InvalidValue: as `decode`.
        """
        return dict(self._sent(self._read(lambda: self._decode_partial(body))))

    def _read(self, decode: Callable[[], T]) -> T:
        try:
            return decode()
        except FAULTS as error:
            reason = str(error)
            place = _PLACE.search(reason) or _FIELD.search(reason)
            raise InvalidValue(
                "the JSON does not fit the model",
                model=self.cls.__name__, field=place[1] if place else None, reason=reason,
            ) from error  # fmt: skip

    def _entity(self, sent: object) -> E:
        return self.cls(**dict(self._sent(sent)))

    def _sent(self, sent: object) -> Iterator[tuple[str, Any]]:
        """The fields that were sent, as the model holds them."""
        for field in self.fields:
            value = getattr(sent, field.name, _UNSET)
            if value is _UNSET:
                continue
            if value is not None:
                if field.kind == "copy":
                    value = field.cls.of(*(value.ref if self.shows_copies else value))
                elif field.kind == "ref":
                    value = ref_class(field.reference().target())(tuple(value))
                elif field.kind == "refs":
                    made = ref_class(field.reference().target())
                    value = [made(tuple(each)) for each in value]
            yield field.name, value

    def _struct(self, optional: Callable[[str], bool], without: tuple[str, ...] = ()) -> Any:
        """A class that takes what may be sent."""
        fields: list[Any] = []
        for field in self.fields:
            if field.name in without:
                continue
            inner = self._sendable(field)
            if optional(field.name):
                fields.append((field.name, inner | msgspec.UnsetType, _UNSET))  # None is a value, absence is not
            else:
                fields.append((field.name, inner))
        return msgspec.defstruct(
            self.cls.__name__, fields, rename=self._spelled, forbid_unknown_fields=True, kw_only=True
        )

    def _sendable(self, field: FieldShape) -> Any:
        """The type of what may be sent for a field."""
        if field.kind == "plain":
            return field.concrete
        key = self._key(field)
        if field.kind == "copy" and self.shows_copies:
            found: Any = msgspec.defstruct(field.cls.__name__, [("ref", key)])
        else:
            found = GenericAlias(list, (key,)) if field.kind == "refs" else key
        return found | None if field.optional else found

    def _key(self, field: FieldShape) -> Any:
        """The type of the key that a field refers by."""
        return GenericAlias(tuple, self._shapes.key_types(field.reference()))

    def schema(self, *, sent: bool = False) -> dict[str, Any]:
        """The JSON schema of what a client reads, or of what it may send; without references to definitions."""
        kind = self._whole if sent else self._shown()
        try:
            (found,), parts = msgspec.json.schema_components((kind,), schema_hook=_of_reference, ref_template="{name}")
        except TypeError as error:
            raise InvalidDeclaration(
                "a field of this class has no JSON schema", declaration=self.cls, reason=str(error)
            ) from error
        inlined: dict[str, Any] = _inline(found, parts, frozenset())
        return inlined

    def _shown(self) -> Any:
        """A class whose JSON schema is that of what `write` returns."""
        fields = [(field.name, self._showable(field)) for field in self.fields]
        return msgspec.defstruct(self.cls.__name__, fields, rename=self._spelled, kw_only=True)

    def _showable(self, field: FieldShape) -> Any:
        if field.kind != "copy":
            return self._sendable(field)
        own = Copy.__struct_fields__
        shown = [
            (each.name, (each.concrete if each.kind == "plain" else Any) | msgspec.UnsetType, _UNSET)
            for each in field.fields
            if each.name not in own
        ]
        parts: list[Any] = [("ref", self._key(field)), ("deleted", bool | msgspec.UnsetType, _UNSET), *shown]
        found: Any = msgspec.defstruct(field.cls.__name__, parts, kw_only=True)
        return found | None if field.optional else found


_FORMS: Final[dict[type[Any], JsonForm[Any]]] = {}


def form(cls: type[E]) -> JsonForm[E]:
    """The JSON form of a model or view, made once."""
    known = _FORMS.get(cls)
    if known is None:
        known = _FORMS[cls] = JsonForm(cls)
    return known


def to_plain(value: object) -> object:
    """An entity, a view row, or a list of them, as what msgspec's JSON encoder takes; anything else as it is."""
    if isinstance(value, list):
        return [to_plain(each) for each in value]
    return form(type(value)).write(value) if hasattr(type(value), "reserved_names") else value


def _spelled(cls: Any) -> dict[str, str]:
    """The names of the fields in JSON."""
    return dict(zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True))


def _functions(
    cls: type, fields: tuple[FieldShape, ...], spelled: dict[str, str], *, copies: bool
) -> dict[str, Callable[..., Any]]:
    """The functions that write one row and many: generated; a loop over fields would cost more than the JSON."""
    totals = set(rollup_names(cls))
    parts = "".join(
        _total(field.name, spelled[field.name]) if field.name in totals else f"{spelled[field.name]!r}: {value}, "
        for field, value in zip(fields, [_value(at, field, copies) for at, field in enumerate(fields)], strict=True)
        if copies or field.name not in totals
    )
    scope = {"in_order": order_sets}
    return {
        "write": function("write", "row", [f"return {{{parts}}}"], scope, cls.__qualname__),
        "write_all": function("write_all", "rows", [f"return [{{{parts}}} for row in rows]"], scope, cls.__qualname__),
    }


def _total(name: str, spelled: str) -> str:
    """A number of a group, left out while it is not built."""
    return f"**({{{spelled!r}: row.{name}}} if hasattr(row, {name!r}) else {{}}), "


def _value(at: int, field: FieldShape, copies: bool) -> str:  # noqa: FBT001 - private, one caller
    """The expression of one field's value."""
    if field.kind == "plain":
        return _plain(f"row.{field.name}", field) if copies else f"row.{field.name}"
    here = f"value_{at}"
    if field.kind == "copy":
        found = _copy(here, field) if copies else f"{here}.ref.key"
    else:
        found = f"{here}.key" if field.kind == "ref" else f"[each.key for each in {here}]"
    return f"None if ({here} := row.{field.name}) is None else {found}"


def _plain(value: str, field: FieldShape) -> str:
    """A value as it is; sets in one order, because equal entities have equal JSON in all processes."""
    return f"in_order({value})" if field.sets else value


def _copy(here: str, field: FieldShape) -> str:
    """The expression of a copy: one that only refers, as rows of a list do, is its `ref` alone."""
    own = Copy.__struct_fields__
    spelled = _spelled(field.cls)
    copied = [each for each in field.fields if each.name not in own]
    shown = "".join(f"{spelled[each.name]!r}: {_plain(f'{here}.{each.name}', each)}, " for each in copied)
    whole = f"{{'ref': {here}.ref.key, 'deleted': {here}.deleted, {shown}}}"
    return f"({whole} if hasattr({here}, {copied[0].name!r}) else {{'ref': {here}.ref.key}})" if copied else whole


def _of_reference(_type: object) -> dict[str, Any]:
    """The schema of a reference deep inside another type: msgspec's own form, a list of the key's list."""
    return {"type": "array", "prefixItems": [{"type": "array"}], "items": False}


def _inline(schema: Any, parts: dict[str, Any], inside: frozenset[str]) -> Any:
    """A schema with its definitions put where they are referred to; inside itself one is any value."""
    if isinstance(schema, list):
        return [_inline(each, parts, inside) for each in schema]
    if not isinstance(schema, dict):
        return schema
    name = schema.get("$ref")
    if isinstance(name, str) and name in parts:
        return {} if name in inside else _inline(parts[name], parts, inside | {name})
    return {key: _inline(value, parts, inside) for key, value in schema.items()}
