"""Which types a model's field can have: what is refused here could not be saved, or would come back as something else.

See "Two kinds of mistakes, two moments" of the API page.
"""

from __future__ import annotations

from typing import Final

from oneread.errors import InvalidDeclaration
from oneread.models.types import FieldType

_NOT_STORED: Final = (
    "values of this type cannot be stored; use plain types, containers of them, an Enum, or a msgspec.Struct"
)
_NOT_KEPT: Final = (
    "a reference stands in a field by itself, optional at most, or in a list: Ref[Tag], Ref[Tag] | None, "
    "Annotated[list[Ref[Tag]], msgspec.Meta(max_length=20)]"
)
_NO_HASH: Final = "elements of a set and keys of a dict are hashable: tuple[...] for list[...], a frozen class"


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
        elif each.kind == "other":
            reason = _NOT_STORED
        if reason:
            refused = each.cls if reason is _NOT_STORED else each.bare
            raise InvalidDeclaration(reason, model=given.owner, field=given.field, type=refused)


def _is_hashable(given: FieldType) -> bool:
    if given.kind in ("union", "tuple"):
        return all(map(_is_hashable, given.parts))
    if given.kind in ("list", "set", "mapping") or given.cls is bytearray:
        return given.cls is frozenset
    config = getattr(given.cls, "__struct_config__", None)
    if config is not None and given.kind != "reference":
        return bool(config.frozen or not config.eq)
    return getattr(given.cls, "__hash__", None) is not None
