"""Which types a model's field can have: what is refused here could not be saved, or would come back as something else.

See "Two kinds of mistakes, two moments" of the API page.
"""

from __future__ import annotations

from collections.abc import (
    Collection,
    Mapping,
    MutableMapping,
    MutableSequence,
    MutableSet,
    Sequence,
)
from collections.abc import (
    Set as AbstractSet,
)
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Final, Literal, NotRequired, Required, TypeVar, get_args, get_origin
from uuid import UUID

from oneread.errors import InvalidDeclaration
from oneread.models.annotations import Names, field_types, is_union, unwrap, without_alias
from oneread.models.shadow import is_copy, is_ref

_PLAIN: Final = frozenset(
    {bool, int, float, Decimal, str, bytes, bytearray, date, datetime, time, timedelta, UUID, NoneType, Any}
)
_SETS: Final = frozenset({set, frozenset, AbstractSet, MutableSet})
_MAPPINGS: Final = frozenset({dict, Mapping, MutableMapping})
_LISTS: Final = frozenset({list, Sequence, MutableSequence, Collection})
_SEVERAL: Final = _SETS | _MAPPINGS | _LISTS | {tuple}
_PASSED: Final = frozenset({Required, NotRequired})

_NOT_STORED: Final = (
    "values of this type cannot be stored; use plain types, containers of them, an Enum, or a msgspec.Struct"
)
_NOT_KEPT: Final = (
    "a reference stands in a field by itself, optional at most, or in a list: Ref[Tag], Ref[Tag] | None, "
    "Annotated[list[Ref[Tag]], msgspec.Meta(max_length=20)]"
)
_NO_HASH: Final = "elements of a set and keys of a dict are hashable: tuple[...] for list[...], a frozen class"


def check_storable(model: type, field: str, annotation: Any, names: Names) -> None:
    """Raises InvalidDeclaration for a type that cannot be stored, or is not what it seems."""
    bare = unwrap(annotation).bare
    if is_ref(bare) or is_copy(bare):
        return
    if get_origin(bare) in (list, set, frozenset) and is_ref(unwrap(get_args(bare)[0]).bare):
        if unwrap(get_args(bare)[0]).optional:
            raise InvalidDeclaration(_NOT_KEPT, model=model, field=field, type=bare)
        return
    _Judge(model, field, names).judge(annotation)


class _Judge:
    """Walks one field's type; a class is looked into once, which ends recursive ones."""

    def __init__(self, model: type, field: str, names: Names) -> None:
        self._model = model
        self._field = field
        self._names = names
        self._known: set[Any] = set()
        self._depth = 0

    def judge(self, annotation: Any) -> None:
        annotation = without_alias(annotation)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if is_ref(annotation):
            if not self._depth:  # a class used as a field's type may hold one
                self._refuse(_NOT_KEPT, annotation)
        elif origin is Annotated or origin in _PASSED:
            self.judge(arguments[0])
        elif is_union(annotation):
            for each in arguments:
                self.judge(each)
        elif origin is not Literal:
            cls = annotation if origin is None else origin
            if cls in _SETS | _MAPPINGS and not all(map(_hashable, arguments[:1])):
                self._refuse(_NO_HASH, annotation)
            self._class(cls)
            for each in arguments:
                self.judge(each)

    def _class(self, cls: Any) -> None:
        if cls is ... or cls in _PLAIN or cls in _SEVERAL or isinstance(cls, TypeVar) or cls in self._known:
            return
        self._known.add(cls)
        if not isinstance(cls, type) or not (issubclass(cls, Enum) or _has_fields(cls)):
            self._refuse(_NOT_STORED, cls)
        self._depth += 1
        for each in field_types(cls, self._names).values():
            self.judge(each)
        self._depth -= 1

    def _refuse(self, text: str, annotation: Any) -> None:
        raise InvalidDeclaration(text, model=self._model, field=self._field, type=annotation)


def _has_fields(cls: type) -> bool:
    return any(hasattr(cls, name) for name in ("__struct_fields__", "__dataclass_fields__", "__attrs_attrs__")) or (
        issubclass(cls, tuple | dict) and hasattr(cls, "__annotations__")
    )


def _hashable(annotation: Any) -> bool:
    annotation = without_alias(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal or annotation is ... or is_ref(annotation):
        return True
    if origin in (Annotated, frozenset):
        return origin is frozenset or _hashable(arguments[0])
    if is_union(annotation) or origin is tuple:
        return all(map(_hashable, arguments))
    cls = annotation if origin is None else origin
    if cls in _SEVERAL or cls is bytearray:
        return cls in (frozenset, tuple)
    config = getattr(cls, "__struct_config__", None)
    return config.frozen or not config.eq if config is not None else getattr(cls, "__hash__", None) is not None
