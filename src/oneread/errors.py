"""Every error of oneread: one tree, of usage errors and failures of the store.

A message is static text; the values of one occurrence are `facts`, shown after it. `retryable` of a class is true when
the same call may succeed later, or in another process. See the error page of the
reference.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, ClassVar, cast

__all__ = [
    "AlreadyExists",
    "BudgetExceeded",
    "Closed",
    "Conflict",
    "Corrupt",
    "CostlyDeclaration",
    "Expired",
    "InvalidCursor",
    "InvalidDeclaration",
    "InvalidFields",
    "InvalidKey",
    "InvalidQuery",
    "InvalidUrl",
    "InvalidValue",
    "LimitExceeded",
    "MissingReference",
    "NotFound",
    "NotReady",
    "NotUnique",
    "OnereadError",
    "OutcomeUnknown",
    "Outdated",
    "SchemaMismatch",
    "StaleCopies",
    "StillReferenced",
    "StoreError",
    "StoreMoved",
    "StoreReplaced",
    "Unavailable",
    "Unsupported",
    "UsageError",
]

_SHOWN = 200
"""The most characters shown of one fact, or of one value inside it."""
_DEPTH = 4
"""The deepest containers shown."""
_SHOWN_BITS = 2000
"""The largest int shown in full: conversion costs the square of the digits, and Python refuses 4,300."""


class OnereadError(Exception):
    """The root of the tree: a static message, and facts with the values of this occurrence (field, model, key, ...)."""

    retryable: ClassVar[bool] = False

    def __init__(self, message: str, /, **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts

    def __str__(self) -> str:
        if not self.facts:
            return self.message
        return f"{self.message} ({', '.join(f'{name}={shown(fact)}' for name, fact in self.facts.items())})"

    def __copy__(self) -> OnereadError:
        return _again(type(self), self.message, self.facts, getattr(self, "__notes__", ()))

    def __reduce__(self) -> tuple[object, ...]:
        facts = {name: _portable(fact) for name, fact in self.facts.items()}
        return _again, (type(self), self.message, facts, tuple(getattr(self, "__notes__", ())))


def _again(kind: type[OnereadError], message: str, facts: dict[str, object], notes: Iterable[str] = ()) -> OnereadError:
    """Rebuilds an error that was pickled: keyword facts do not survive the default protocol."""
    error = kind(message, **facts)
    for note in notes:
        error.add_note(note)
    return error


def _portable(fact: object) -> object:
    """The fact, or its text when it cannot be pickled: an error must be able to leave its process."""
    try:
        pickle.dumps(fact)
    except Exception:  # noqa: BLE001 - a fact is any object of the caller's, and its methods raise anything
        return shown(fact)
    return fact


def perhaps(name: str, known: Iterable[str], *, likeness: float = 0.6) -> dict[str, object]:
    """The fact of the known name that an unknown one is most like; none where none is."""
    near = get_close_matches(name, list(known), n=1, cutoff=likeness)
    return {"perhaps": near[0]} if near else {}


def shown(fact: object) -> str:
    """A fact as text of bounded length, printable in UTF-8; never raises, whatever the fact is."""
    return _text(fact, _DEPTH).encode(errors="backslashreplace").decode()


def printable(text: str) -> str:
    """Text with control characters escaped: stored text must not control the terminal, nor break a line."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _text(fact: object, depth: int) -> str:
    """The `repr` of a fact, shortened before it is made where that is possible.

    Only exact types are opened: a subclass may have any methods.
    """
    kind = type(fact)
    if kind is int:
        return _int_text(cast("int", fact))
    if kind in (str, bytes, bytearray):
        return _long_text(cast("str", fact))
    if kind in (list, tuple, set, frozenset, dict):
        return _several_text(cast("Collection[object]", fact), depth)
    return _own_text(fact)


def _shortened(text: str, size: int, unit: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({size} {unit})"


def _int_text(number: int) -> str:
    bits = number.bit_length()
    return _shortened(repr(number), bits, "bits") if bits <= _SHOWN_BITS else f"<an int of {bits} bits>"


def _long_text(text: str) -> str:
    return _shortened(repr(text[: _SHOWN + 1]), len(text), "in all")


def _several_text(several: Collection[object], depth: int) -> str:
    """A list, tuple, set or dict by its first elements."""
    if not several:
        return repr(several)
    kind = type(several)
    opened, closed = _BRACKETS.get(kind, ("{", "}"))
    parts: list[str] = []
    room = _SHOWN if depth else 0
    items = cast("Iterable[Any]", several.items() if isinstance(several, dict) else several)
    for each in items:
        if room <= 0:
            break
        halves: Iterable[object] = each if kind is dict else (each,)
        parts.append(": ".join(_text(half, depth - 1) for half in halves))
        room -= len(parts[-1]) + 2
    if len(parts) < len(several):
        parts.append(f"... ({len(several)} in all)")
    text = f"{opened}{', '.join(parts)}{',' if kind is tuple and len(parts) == 1 else ''}{closed}"
    return f"frozenset({text})" if kind is frozenset else text


_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")")}


def _own_text(fact: object) -> str:
    """The `repr` of an object of any class; the name of its class when that fails."""
    try:
        if isinstance(fact, type):
            return _name_of(fact)
        if type(fact) is Decimal and (digits := len(fact.as_tuple().digits)) > _SHOWN:
            return f"<a Decimal of {digits} digits>"
        text = str.__str__(repr(fact))  # a subclass of str may be returned, with methods of its own
    except Exception as error:  # noqa: BLE001 - `__repr__` is the caller's
        return f"<a {_name_of(type(fact))} whose repr raises {_name_of(type(error))}>"
    return _shortened(text, len(text), "characters")


def _name_of(cls: type) -> str:
    """The name of a class, whatever its metaclass makes of attributes."""
    name: str = type.__dict__["__name__"].__get__(cls)
    return name


class UsageError(OnereadError):
    """The caller's mistake: the same call fails again."""


class CostlyDeclaration(UserWarning):
    """Something takes a total, so that each entity that is counted rewrites many rows: a warning of a new schema.

    It names the declaration, the total, what is rewritten, and what to write instead; `costly = True` in the
    declaration says that it is meant. See "Warnings" in docs/explanation/costs.md.
    """


class InvalidDeclaration(UsageError):
    """A model, view or schema that cannot work; raised when the schema is built."""


class InvalidKey(UsageError):
    """A key of the wrong arity or type, not orderable (NaN, naive datetime), or too long."""


class InvalidValue(UsageError):
    """A field's value breaks its declared type, constraint or limit; raised before anything is written."""


class InvalidFields(InvalidValue, TypeError):
    """A model's constructor was given fields that it does not have, not all that it needs, or fields without names."""


class InvalidQuery(UsageError):
    """A page or scan that the view cannot answer, or whose limit is out of bounds."""


class InvalidCursor(UsageError):
    """A cursor that was changed, expired with its view's generation, or belongs to another page."""


class Expired(InvalidCursor):
    """What follows this cursor is not kept any more: read the page again, and continue from a new cursor."""


class InvalidUrl(UsageError):
    """A store URL with an unknown scheme or option."""


class NotFound(UsageError):
    """Nothing is stored under this key."""


class AlreadyExists(UsageError):
    """The key, or a value declared unique, is taken; `owner` names the entity that has it."""


class NotUnique(AlreadyExists):
    """A value declared unique is taken; `owner` names the entity that has it."""

    holder: bytes = b""
    """The key of its root row, where the error is raised."""


class Erased(UsageError):
    """A load, or a bulk writer, brought what was stored of an entity before it was erased; it was left out."""


class MissingReference(UsageError):
    """A new reference points to an entity that does not exist, and the declaration does not allow that."""


class StillReferenced(UsageError):
    """A delete of an entity that others refer to with `on_delete="refuse"`."""


class SchemaMismatch(UsageError):
    """The declared schema does not fit the schema of the store."""


class Outdated(SchemaMismatch):
    """A newer program has changed the store, and this one may not do this; one of the newer release can."""

    retryable = True


class StoreMoved(SchemaMismatch):
    """The store was moved to another place, where it is written from now on; or a move into this one is under way."""


class Closed(UsageError):
    """The database was closed before this call."""


class StoreError(OnereadError):
    """A failure of the store."""


class Unavailable(StoreError):
    """The store did not answer or could not start in time; nothing was written."""

    retryable = True


class Conflict(StoreError):
    """Another commit changed the row first; nothing was written."""

    retryable = True


class NotReady(StoreError):
    """The view is still being built and cannot be read yet."""

    retryable = True


class StaleCopies(StoreError):
    """Copies could not be updated: their holders are set aside; `db.set_aside()` lists them."""


class LimitExceeded(StoreError):
    """A limit of the store: size of a row or key, a full map, a full disk; nothing was written."""


class BudgetExceeded(LimitExceeded):
    """The operation exceeds the `budget(...)` around it; nothing was written."""


class Unsupported(StoreError):
    """The engine does not have the capability for this."""


class Corrupt(StoreError):
    """Stored bytes are damaged, or were not written by oneread."""


class StoreReplaced(StoreError):
    """A file or table of the store was removed or replaced while this process had it open; nothing was written."""


class OutcomeUnknown(StoreError):
    """The answer to a write was lost: it may be applied or not. Read before writing again."""
