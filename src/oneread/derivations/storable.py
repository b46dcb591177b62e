"""Which types a model's field can have: what is refused here could not be saved, or would come back as something else.

See "Two kinds of mistakes, two moments" of the API page.
"""

from __future__ import annotations

from typing import Final

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.types import FieldType

_NOT_STORED: Final = (
    "values of this type cannot be stored; use plain types, containers of them, an Enum, or a msgspec.Struct"
)
_NOT_KEPT: Final = (
    "a reference stands in a field by itself, optional at most, or in a list: Ref[Tag], Ref[Tag] | None, "
    "Annotated[list[Ref[Tag]], msgspec.Meta(max_length=20)]"
)
_UNREADABLE: Final = (
    "msgspec reads no value that is either constrained or a tuple of fixed length; leave the constraint to check(), "
    "or use tuple[..., ...] or a NamedTuple"
)
_NO_HASH: Final = "elements of a set and keys of a dict are hashable: tuple[...] for list[...], a frozen class"
_CONSTRAINTS: Final = ("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length")


def check_storable(given: FieldType) -> None:
    """Raises InvalidDeclaration for a field's type that cannot be stored, or is not what it seems."""
    present = given.present
    if present.kind in ("reference", "copy"):
        return
    element = present.several
    if element is not None and element.present.kind == "reference":
        if element.optional:
            raise InvalidDeclaration(_NOT_KEPT, model=given.owner, field=given.field, type=present.bare)
        return
    for each in given.walk():
        is_inside = each.owner is not given.owner
        reason = ""
        if each.kind == "reference" and not is_inside:  # a class used as a field's type may hold one
            reason = _NOT_KEPT
        elif each.kind in ("set", "mapping") and each.parts and not _is_hashable(each.parts[0]):
            reason = _NO_HASH
        elif each.kind == "union" and any(map(_is_fixed_tuple, each.parts)) and any(map(_is_constrained, each.parts)):
            reason = _UNREADABLE
        elif each.kind == "other":
            reason = _NOT_STORED
        if reason:
            refused = each.cls if reason is _NOT_STORED else each.bare
            raise InvalidDeclaration(reason, model=given.owner, field=given.field, type=refused)


def _is_fixed_tuple(given: FieldType) -> bool:
    return given.kind == "tuple" and all(each.kind != "ellipsis" for each in given.parts)


def _is_constrained(given: FieldType) -> bool:
    metas = [each for layer in given.layers for each in layer if isinstance(each, msgspec.Meta)]
    return given.kind == "scalar" and any(getattr(meta, name) is not None for meta in metas for name in _CONSTRAINTS)


def _is_hashable(given: FieldType) -> bool:
    if given.kind in ("union", "tuple"):
        return all(map(_is_hashable, given.parts))
    if given.kind in ("list", "set", "mapping") or given.cls is bytearray:
        return given.cls is frozenset
    config = getattr(given.cls, "__struct_config__", None)
    if config is not None and given.kind != "reference":
        return bool(config.frozen or not config.eq)
    return getattr(given.cls, "__hash__", None) is not None
