"""Whether two emitted records are equal although their bytes differ.

Several contributions of one token may be in any order. Values are compared by the bytes that they are stored as, so
that NaN equals itself. See "The emitted record" of docs/formats/rows.md.
"""

from __future__ import annotations

from typing import Any, Final

from oneread.derivations.emitted_record import (
    COPIED,
    HELD,
    HIDDEN,
    REFERENCES,
    ROWS,
    SUMS,
    UNIQUE,
    Record,
    form_of,
)
from oneread.derivations.entity_type import EntityType
from oneread.errors import OnereadError
from oneread.models.set_order import stored_form
from oneread.store.rows import UNDECODABLE

_BAD_SHAPE: Final = (OnereadError, *UNDECODABLE, TypeError, ValueError, OverflowError)
_PAIRS: Final = frozenset({ROWS, SUMS})
_SEVERAL: Final = frozenset({UNIQUE, REFERENCES, HELD})


def differing_tokens(entity_type: EntityType, found: Record, wanted: Record) -> tuple[int, ...]:
    """The tokens whose contributions differ in the record of a root row and the expected one, in order."""
    return tuple(token for token in sorted(found.keys() | wanted.keys()) if _differs(entity_type, token, found, wanted))


def _differs(entity_type: EntityType, token: int, found: Record, wanted: Record) -> bool:
    """Whether contributions differ in more than their order; those of a wrong form differ."""
    if token not in found or token not in wanted:
        # When the last model that copied it was dropped, the digest stays in its source until the next commit, and is
        # not read any more.
        return token != COPIED or entity_type.copied is not None
    have, want = found[token], wanted[token]
    try:
        return stored_form(have) != stored_form(want) and not _is_alike(entity_type, token, have, want)
    except _BAD_SHAPE:
        return True


def _is_alike(entity_type: EntityType, token: int, have: Any, want: Any) -> bool:
    """Whether contributions whose bytes differ are equal."""
    form = form_of(token)
    if form in _PAIRS:
        return _sorted_pairs(have) == _sorted_pairs(want)
    if form in _SEVERAL:
        return sorted(map(stored_form, have)) == sorted(map(stored_form, want))
    if token == HIDDEN:
        values, expected = entity_type.hidden.used_in({HIDDEN: have}), entity_type.hidden.used_in({HIDDEN: want})
        return have.keys() == want.keys() and all(
            stored_form(values.get(name)) == stored_form(value) for name, value in expected.items()
        )
    return False


def _sorted_pairs(contributions: Any) -> list[bytes]:
    return sorted(map(stored_form, zip(contributions[::2], contributions[1::2], strict=True)))
