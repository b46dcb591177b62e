"""Every error of oneread: one tree, arranged by whose fault it is.

Knows nothing but messages and facts. Must not know rows, models or engines.
A message is static; what differs from case to case is a fact, kept in `facts` and shown behind the message. Whether
trying again can help is the class: `retryable` is true where the same call may succeed later. The law is the error page
of the reference.
"""

from __future__ import annotations

from typing import ClassVar

_SHOWN = 200


class OnereadError(Exception):
    """The root of the tree.

    Arguments:
        message: static text, the same for every occurrence.
        facts: what this occurrence is about (field, model, key, limit, ...).
    """

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, /, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        if not self.facts:
            return self.message
        return f"{self.message} ({', '.join(f'{name}={_short(fact)}' for name, fact in self.facts.items())})"

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), self.message, self.facts)


def _again(kind: type[OnereadError], message: str, facts: dict[str, object]) -> OnereadError:
    """Rebuilds an error that was pickled: keyword facts do not survive the default protocol."""
    return kind(message, **facts)


def _short(fact: object) -> str:
    text = fact.__name__ if isinstance(fact, type) else repr(fact)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


class UsageError(OnereadError):
    """The caller's mistake: the same call fails again."""


class InvalidDeclaration(UsageError):
    """A model, view or schema that cannot work; raised when the schema is built."""


class InvalidKey(UsageError):
    """A key of the wrong arity or type, not orderable (NaN, naive datetime), or too long."""


class InvalidValue(UsageError):
    """A field's value breaks its declared type, constraint or limit; raised before anything is written."""


class InvalidQuery(UsageError):
    """A page or scan that the view cannot answer, or whose limit is out of bounds."""


class InvalidCursor(UsageError):
    """A cursor that was tampered with, expired with its view's generation, or belongs to another page."""


class InvalidUrl(UsageError):
    """A store URL with an unknown scheme or option."""


class NotFound(UsageError):
    """Nothing is stored under this key."""


class AlreadyExists(UsageError):
    """The key, or a value declared unique, is taken; `owner` names the entity that holds it."""


class MissingReference(UsageError):
    """A new reference points to an entity that does not exist, and the declaration does not allow that."""


class StillReferenced(UsageError):
    """A delete of an entity that others refer to with `on_delete="refuse"`."""


class SchemaMismatch(UsageError):
    """The declared schema does not fit the one kept in the store."""


class Closed(UsageError):
    """The database was closed before this call."""


class StoreError(OnereadError):
    """The store could not do it."""


class Unavailable(StoreError):
    """The store did not answer or could not start in time; nothing was written."""

    retryable = True


class Conflict(StoreError):
    """Somebody else changed the row first; nothing was written."""

    retryable = True


class NotReady(StoreError):
    """The view is still being built and is not readable yet."""

    retryable = True


class LimitExceeded(StoreError):
    """A limit of the store: size of a row or key, a full map, a full disk; nothing was written."""


class BudgetExceeded(LimitExceeded):
    """More was asked of the store than the `budget(...)` around it allows; nothing was written."""


class Unsupported(StoreError):
    """The engine cannot do this; its capabilities say so."""


class Corrupt(StoreError):
    """Bytes that no release of oneread wrote, or that were damaged."""


class StoreReplaced(StoreError):
    """A file of the store was removed or replaced while this process had it open; nothing was written."""


class OutcomeUnknown(StoreError):
    """The answer to a write was lost: it may or may not have happened. Read before writing again."""
