"""Forms: entities as JSON, each reference as the key it refers to, and back.

What a copy shows is left out, since it follows from its source. What JSON would not bring back exactly - a NaN, bytes
in a field of any type - is written as its document instead. See docs/formats/dumps.md.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Callable, Mapping
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Final

import msgspec

from oneread.derivations.entity_type import EntityType
from oneread.encoding.codec import Element
from oneread.errors import InvalidValue, OnereadError
from oneread.models.fields import defaults_of
from oneread.models.layout import Layout
from oneread.models.references import Ref
from oneread.models.registry import EntityKind
from oneread.models.set_order import order_sets
from oneread.models.shadow import FieldShape, revive

_LEFT_OUT: Final = msgspec.UNSET
_FAULTS: Final = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)
_encode = msgspec.json.Encoder().encode


def key_type(kind: EntityKind) -> Any:
    """The type of a key as a list of its parts."""
    return GenericAlias(tuple, tuple(map(_element_type, kind.codec.elements)))


def _element_type(element: Element) -> Any:
    return Annotated[datetime, msgspec.Meta(tz=True)] if element.type is datetime else element.type


class ColumnForm:
    """How entities of one class are written down."""

    def __init__(self, entity_type: EntityType) -> None:
        self.entity_type = entity_type
        self.cls = entity_type.cls
        self.names = tuple(each.name for each in entity_type.layout.fields)
        self.references = {each.name: each for each in entity_type.references}
        self.plain = {each.name: each for each in entity_type.layout.fields}
        optional = {name for name, default in defaults_of(self.cls).items() if default is not msgspec.NODEFAULT}
        self.required = tuple(name for name in self.names if name not in optional)
        self.row: Any = msgspec.defstruct(
            self.cls.__name__,
            [
                (each.name, self._type(each), _LEFT_OUT) if each.name in optional else (each.name, self._type(each))
                for each in entity_type.layout.fields
            ],
            kw_only=True,
            forbid_unknown_fields=True,
        )
        self._sets = any(each.sets for each in entity_type.layout.fields)
        self._decode = msgspec.json.Decoder(self.row, dec_hook=revive).decode
        self._down: tuple[tuple[str, Callable[[Any], Any]], ...] = tuple(
            (each.name, _DOWN[each.kind]) for each in entity_type.layout.fields if each.kind != "plain"
        )

    def _type(self, shape: FieldShape) -> Any:
        if shape.kind == "plain":
            return shape.concrete
        key = key_type(self.references[shape.name].kind)
        key = GenericAlias(list, (key,)) if shape.kind == "refs" else key
        return key | None if shape.optional else key

    def written(self, entity: Any) -> bytes | None:
        """The JSON of an entity; None when that would not bring it back exactly."""
        values = {name: getattr(entity, name) for name in self.names}
        for name, down in self._down:
            if values[name] is not None:
                values[name] = down(values[name])
        row = self.row(**values)
        try:
            text = _encode(order_sets(row) if self._sets else row)
            same = self._decode(text) == row
        except _FAULTS:
            return None
        return text if same else None

    def read(self, text: bytes | msgspec.Raw) -> Any:
        """The entity of its JSON, its copies unfilled.

        Raises:
            InvalidValue: a field is missing, unknown, or does not take its value.
        """
        try:
            return self._entity(self._decode(text))
        except _FAULTS as error:
            raise self._refused(error) from error

    def taken(self, values: Mapping[str, Any]) -> Any:
        """The entity of values that others wrote: text for numbers and instants, a bare value for a key of one part.

        Raises:
            InvalidValue: a field is missing, unknown, or does not take its value.
        """
        given = dict(values)
        for name, reference in self.references.items():
            if name in given and not reference.many and given[name] is not None and not isinstance(given[name], list):
                given[name] = [given[name]]
        try:
            return self._entity(msgspec.convert(given, self.row, strict=False, dec_hook=revive))
        except _FAULTS as error:
            raise self._refused(error) from error

    def _entity(self, row: Any) -> Any:
        values = {name: value for name in self.names if (value := getattr(row, name)) is not _LEFT_OUT}
        for name, reference in self.references.items():
            value = values.get(name)
            if value is None:
                continue
            if reference.many:
                values[name] = [Ref(key) for key in value]
            else:
                values[name] = Ref(value) if reference.copy is None else reference.copy.of(*value)
        return self.cls(**values)

    def _refused(self, error: Exception) -> InvalidValue:
        reason, _, where = str(error).partition(" - at ")
        field = where.strip("`").removeprefix("$.") or "?"
        return InvalidValue("a value does not fit its field", model=self.cls.__name__, field=field, reason=reason)


_DOWN: Final[dict[str, Callable[[Any], Any]]] = {
    "copy": lambda copy: copy.ref.key,
    "ref": lambda ref: ref.key,
    "refs": lambda refs: [ref.key for ref in refs],
}


def document_text(layout: Layout[Any], entity: Any) -> str:
    """An entity's document as text, without the number that its store gave the layout."""
    data = layout.encode(entity)
    return b64encode(data.startswith(layout.wide_prefix).to_bytes(1, "big") + data[2:]).decode()


def document_entity(layout: Layout[Any], text: str) -> Any:
    """The entity of `document_text`.

    Raises:
        InvalidValue: it is no document of this layout.
    """
    try:
        data = b64decode(text, validate=True)
        return layout.decode((layout.wide_prefix if data[:1] == b"\x01" else layout.prefix) + data[1:])
    except (OnereadError, NotBase64, ValueError) as error:
        raise InvalidValue("a document does not fit its model", model=layout.cls.__name__, reason=str(error)) from error
