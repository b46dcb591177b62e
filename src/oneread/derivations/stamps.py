"""The stamps that the database sets in entities: when they were created and updated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from oneread.derivations.entity_type import EntityType
from oneread.models.fields import CREATED, UPDATED

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(milliseconds: int) -> datetime:
    """Milliseconds since 1970 as an instant in UTC, exactly."""
    return _EPOCH + timedelta(milliseconds=milliseconds)


def stamped(entity_type: EntityType, entity: Any, before: Any, clock: int) -> Any:
    """The entity with its created and updated stamps; the created one of its first save stays.

    Stamps are the clock, not the version: after a write under a clock that was ahead, versions stay ahead.
    """
    if not (entity_type.defaults.created or entity_type.defaults.updated):
        return entity
    now = instant_of(clock)
    stamps = dict.fromkeys(entity_type.defaults.updated, now)
    for name in entity_type.defaults.created:
        if hasattr(before, name):
            stamps[name] = getattr(before, name)
        elif getattr(entity, name) == CREATED:
            stamps[name] = now
    return msgspec.structs.replace(entity, **stamps)


def stamped_as_given(entity_type: EntityType, entity: Any, clock: int) -> Any:
    """The entity with the stamps that it brings; those that it lacks are the clock."""
    lacking = [name for name in entity_type.defaults.created if getattr(entity, name) == CREATED]
    lacking += [name for name in entity_type.defaults.updated if getattr(entity, name) == UPDATED]
    return msgspec.structs.replace(entity, **dict.fromkeys(lacking, instant_of(clock))) if lacking else entity
