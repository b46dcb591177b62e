"""Points: the direct path of `get`, for engines where a read takes microseconds.

A test proves that this and `Operations.find` answer alike. See "Plans" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from oneread.database.results import METADATA_ATTRIBUTE
from oneread.derivations.catalog import Catalog
from oneread.errors import InvalidKey
from oneread.models.registry import EntityKind
from oneread.plans.allowance import CURRENT
from oneread.store.engine import Engine
from oneread.transactions.root import BODY

Point: TypeAlias = Callable[[tuple[Any, ...]], Any]
"""A key's parts to the entity, None when it is absent."""


def points(catalog: Catalog, engine: Engine) -> dict[type, Point]:
    """The direct path of each entity class, for engines that are local."""
    return {cls: _point(cls, kind, engine) for cls, kind in catalog.kinds.items()}


def _point(cls: type, kind: EntityKind, engine: Engine) -> Point:
    prefix, arity, encode = kind.prefix, len(kind.names), kind.codec.encode
    decode, fetch, beside = kind.layouts.decode, engine.point, METADATA_ATTRIBUTE
    allowed = CURRENT.get
    whole = cls is kind.cls

    def point(parts: tuple[Any, ...]) -> Any:
        if len(parts) != arity:
            raise InvalidKey(
                "the key has other parts than the model declares", model=cls, declared=kind.names, given=parts
            )
        cell = fetch("roots", prefix + encode(parts), BODY)
        allowance = allowed()
        if allowance is not None:
            allowance.charge(1, 1, 0 if cell is None else len(cell.value))
        if cell is None:
            return None
        entity = decode(cell.value)
        entity.__dict__[beside] = cell
        return entity if whole or isinstance(entity, cls) else None

    return point
