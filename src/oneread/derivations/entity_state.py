"""The state of an entity: what its root row holds, and what its copies are filled from."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

import msgspec

from oneread.derivations.copies import Source
from oneread.derivations.emitted_record import Record


class SourceMap(Protocol):
    """Sources by the key of their root row; `NO_SOURCE` for an unknown key."""

    def __getitem__(self, key: bytes, /) -> Source: ...


class EntityState(msgspec.Struct, frozen=True, gc=False):
    """What a root row holds."""

    entity: Any
    """None when it is absent or deleted."""
    used: Mapping[str, Any]
    """Hidden copies by name."""
    record: Record
    unfilled: frozenset[str] = frozenset()
    """Copies that lack values, and fields that did not refer: the row was written under an older layout."""
    must_notify: bool = False
    """Holders are to be notified even if the copied values look the same, because of the row's older layout."""
    keep: Callable[[bytes], bytes] | None = None
    """Gives a new document what only a newer program knows of the entity; None for a row without such fields."""
    body: bytes | None = None
    """The document of a row of the current layout."""


NOTHING_STORED: Final = EntityState(None, {}, {})
"""The state of a row that was never written."""


class FillInputs(msgspec.Struct, frozen=True, gc=False):
    """What the copies of an entity are filled from."""

    before: EntityState
    """Its copies are taken over for references that are the same."""
    sources: SourceMap
    """Of every new reference, and of those in `changed`."""
    changed: Container[bytes] = ()
    """Sources whose values are read again although the reference is the same."""
    skipped: AbstractSet[int] = frozenset()
    """Tokens of views that are left out, as if they were not declared."""
    now: int = 0
    """The clock: index rows that have expired are left out. 0 to have them all."""
    differing: frozenset[str] | None = None
    """The only inputs of views (`inputs_of`) that may differ from those before; None if any may."""
    trusts_record: bool = False
    """Whether contributions of declared views in the record before are right where the document stays the same."""


class EmissionOptions(msgspec.Struct, frozen=True, gc=False):
    """What an entity emits, where no copies are filled: as of `FillInputs`."""

    skipped: AbstractSet[int] = frozenset()
    now: int = 0
