"""Expiry: the instant from which an entity, or its row in an index, counts as absent.

It is computed from a field of the entity, so it is data, and never the engine's own ttl. Instants are whole
milliseconds since 1970 here, as the database's clock shows them. See docs/explanation/expiry.md.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from oneread.models.paths import path_of

NEVER: Final = 2**64 - 1
"""The expiry of what does not expire."""
EXPIRY_BYTES: Final = 8
"""Of an expiry at the end of an index row."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MILLISECOND: Final = 1000
"""In microseconds."""


class Expiry(msgspec.Struct, frozen=True):
    """The value of the class option `ttl`, as `expires(...)` makes it."""

    field: Any
    after: Any = None


def expires(field: str | datetime | None, *, after: timedelta | None = None) -> Expiry:
    """The class option `ttl`: when the entities of a model, rows of an index, or contributions to groups expire.

    In a model, `field` is the name of a field: `ttl = expires("expires_at")`. In an index or aggregate it is a field of
    its model, or of another entity that it refers to: `ttl = expires(Post.made_at, after=timedelta(days=7))`,
    `ttl = expires(within(Seat.event, Event.ends_at))`. What has None in it does not expire. A mistake raises
    InvalidDeclaration when the schema is built.

    Arguments:
        field: of the type `datetime` or `datetime | None`.
        after: how long after the field's instant; without it, the field is the instant itself.
    """
    return Expiry(field, after)


class ExpiryRule(NamedTuple):
    """A checked `ttl`: where the instant is that it is counted from, and microseconds.

    Of a model, the instant is a field of its own; of an index, it may be a copied field.
    """

    path: tuple[str, ...]
    after: int

    def of(self, entity: object) -> int:
        """The instant from which an entity counts as absent, by the ttl of its model."""
        (field,) = self.path
        return self.until(getattr(entity, field))

    def until(self, since: datetime | None) -> int:
        """The expiry of what has this instant; never for None."""
        return NEVER if since is None else self.end(since)

    def end(self, since: datetime) -> int:
        """The expiry of what has this instant."""
        return max(0, ((since - _EPOCH) // _MICROSECOND + self.after) // _MILLISECOND)

    def is_expired(self, entity: object, now: int) -> bool:
        """Whether an entity counts as absent; `now` is the database's clock."""
        return self.of(entity) <= now

    def first_living(self, now: int) -> datetime | None:
        """The least instant of what has not expired; None if that is before the year 1."""
        try:
            return _EPOCH + timedelta(microseconds=(now + 1) * _MILLISECOND - self.after)
        except OverflowError:
            return None

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} {self.after}"


def rule_of(given: Expiry) -> ExpiryRule:
    """The rule of a checked option."""
    path = (given.field,) if isinstance(given.field, str) else path_of(given.field).names
    return ExpiryRule(path, 0 if given.after is None else given.after // _MICROSECOND)


def row_expiry(row: bytes) -> int:
    """The expiry at the end of an index row."""
    return int.from_bytes(row[-EXPIRY_BYTES:], "big")


def is_living_row(row: bytes, now: int) -> bool:
    """Whether an index row that ends in its expiry counts as present."""
    return row_expiry(row) > now
