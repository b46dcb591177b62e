"""Entities as the JSON of dumps, or as their stored document where JSON would not give back an equal entity.

That is so for a NaN, or bytes in a field of any type. See docs/formats/dumps.md.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from datetime import datetime
from types import GenericAlias
from typing import Annotated, Any, Final

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.emitted_record import decode_dumped, encode_dumped
from oneread.derivations.entity_type import EntityType
from oneread.errors import InvalidValue, OnereadError
from oneread.models.json_body import FAULTS
from oneread.models.json_form import JsonForm
from oneread.models.layout import Layout
from oneread.models.model import stored_name
from oneread.models.registry import EntityKind
from oneread.models.set_order import order_sets
from oneread.models.shadow import FieldShape

HIDDEN_COPIES: Final = b"u"
LAST: Final = b"l"
"""What parts of a record are called in dumps."""

_encode = msgspec.json.Encoder().encode


def key_type(kind: EntityKind) -> Any:
    """The type of a key as a list of its parts."""
    instant = Annotated[datetime, msgspec.Meta(tz=True)]
    return GenericAlias(tuple, tuple(instant if each.type is datetime else each.type for each in kind.codec.elements))


class ColumnForm(JsonForm[Any]):
    """The JSON form of a line of a dump, and of records with a column for each field."""

    shows_copies = False

    def __init__(self, entity_type: EntityType) -> None:
        self.entity_type = entity_type
        self.references = {each.name: each for each in entity_type.references}
        super().__init__(entity_type.cls, entity_type.layout.fields)
        self.by_name = {each.name: each for each in self.fields}
        self.parts = {
            f"{name}.{part}": name
            for name, each in self.references.items()
            if not each.many and len(each.kind.names) > 1
            for part in each.kind.names
        }
        """The columns of references by keys of several parts, in the order of the key, and their fields."""
        self.required = tuple(name for name in self.by_name if name not in self.optional)
        self._sets = any(each.sets for each in self.fields)

    def _sendable(self, field: FieldShape) -> Any:
        if field.kind == "plain":
            return field.concrete
        key = key_type(self.references[field.name].kind)
        found: Any = GenericAlias(list, (key,)) if field.kind == "refs" else key
        return found | None if field.optional else found

    def encode(self, entity: object) -> bytes | None:
        """Encodes an entity; None where decoding would not give an equal one."""
        row = self.whole.struct(**self.write(entity))
        try:
            text = _encode(order_sets(row) if self._sets else row)
            same = self.whole.decode_struct(text) == row  # not so for a NaN, or bytes in a field of any type
        except FAULTS:
            return None
        return text if same else None

    def from_text(self, values: Mapping[str, object]) -> Any:
        """Converts values that may be text for numbers and instants; a key of one part may be that part alone.

        Raises:
            InvalidValue: a field is missing, unknown, or does not take its value.
        """
        return self.convert(dict(values), strict=False)


def forms_by_name(catalog: Catalog) -> dict[str, ColumnForm]:
    return {stored_name(cls): ColumnForm(entity_type) for cls, entity_type in catalog.entity_types.items()}


def pack_values(name: bytes, values: Mapping[str, Any]) -> str:
    """Encodes hidden copies (`u`) or last values (`l`), as a record has them, as text."""
    return b64encode(encode_dumped({name: values})).decode()


def unpack_values(name: bytes, text: str) -> Mapping[str, Any]:
    """Decodes the text of `pack_values`; none for empty text. Raises InvalidValue."""
    try:
        return decode_dumped(b64decode(text, validate=True)).get(name, {}) if text else {}
    except (OnereadError, msgspec.MsgspecError, ValueError) as error:
        raise InvalidValue("the emitted record cannot be decoded", reason=str(error)) from error


def document_text(layout: Layout[Any], entity: Any) -> str:
    """An entity's document as text, without the number that its store gave the layout."""
    data = layout.encode(entity)
    return b64encode(data.startswith(layout.wide_prefix).to_bytes(1, "big") + data[2:]).decode()


def document_entity(layout: Layout[Any], text: str) -> Any:
    """Decodes the text of `document_text`; raises InvalidValue for text that is not of this layout."""
    try:
        data = b64decode(text, validate=True)
        return layout.decode((layout.wide_prefix if data[:1] == b"\x01" else layout.prefix) + data[1:])
    except (OnereadError, NotBase64, ValueError) as error:
        raise InvalidValue(
            "the document does not fit the model", model=layout.cls.__name__, reason=str(error)
        ) from error
