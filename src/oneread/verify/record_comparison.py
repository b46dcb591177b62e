"""Whether two emitted records are equal although their bytes differ.

Releases before decision 0031 listed contributions in the order of one process and kept no digest of an extremum; such
records are right. Values are compared by the bytes that they are stored as, so that NaN equals itself. See "The emitted
record" of docs/formats/rows.md and docs/decisions/0031-one-form-of-equal-values.md.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from oneread.derivations.emitted_record import COPIED, HELD, HIDDEN, REFERENCES, ROWS, SUMS, UNIQUE, Record
from oneread.derivations.entity_type import EntityType
from oneread.errors import OnereadError
from oneread.models.set_order import stored_form

Pairs: TypeAlias = list[tuple[bytes, Any]]
"""Key suffixes of rows, each with its digest, as a record lists them."""

_BAD_SHAPE: Final = (OnereadError, msgspec.MsgspecError, TypeError, ValueError, OverflowError)
_SEVERAL: Final = frozenset({SUMS, UNIQUE, REFERENCES, HELD})


class Prefixes(NamedTuple):
    """The views whose contributions earlier releases recorded in other ways, by the prefix of their rows."""

    extrema: Container[bytes]
    """Of each least and greatest."""
    unordered: Container[bytes]
    """Of each index whose rows show sets inside of other values."""


class RecordDifference(NamedTuple):
    """Where two records differ."""

    tokens: tuple[bytes, ...]
    """Those whose contributions differ, in order."""
    unsure: Mapping[bytes, bytes]
    """Index rows to a digest that is not the expected one: right if the row that is there has it."""


def compare_records(entity_type: EntityType, found: Record, wanted: Record, prefixes: Prefixes) -> RecordDifference:
    """Compares the record of a root row with the expected one."""
    tokens: list[bytes] = []
    unsure: dict[bytes, bytes] = {}
    for token in sorted(found.keys() | wanted.keys()):
        if token not in found or token not in wanted:
            if token != COPIED or entity_type.copied is not None:  # when the last model that copied it was dropped, the
                tokens.append(token)  # digest stays in its source until the next commit, and is not read any more
            continue
        have, want = found[token], wanted[token]
        try:
            if stored_form(have) != stored_form(want) and not _is_alike(entity_type, token, have, want):
                if token[:1] != ROWS:
                    tokens.append(token)
                else:
                    unsure |= _compare_rows(token[1:], have, want, prefixes)
        except _BAD_SHAPE:
            tokens.append(token)
    return RecordDifference(tuple(tokens), unsure)


def _is_alike(entity_type: EntityType, token: bytes, have: Any, want: Any) -> bool:
    """Whether contributions whose bytes differ are equal."""
    if token[:1] in _SEVERAL:
        return sorted(map(stored_form, have)) == sorted(map(stored_form, want))
    if token == HIDDEN:
        values, expected = entity_type.used_in({HIDDEN: have}), entity_type.used_in({HIDDEN: want})
        return have.keys() == want.keys() and all(
            stored_form(values.get(name)) == stored_form(value) for name, value in expected.items()
        )
    return token == COPIED and entity_type.copied is not None and entity_type.copied.is_unordered_digest(have, want)


def _compare_rows(prefix: bytes, have: Pairs, want: Pairs, prefixes: Prefixes) -> dict[bytes, bytes]:
    """The digests of unexpected rows that may be right; raises ValueError where the record lists other rows."""
    digests, expected = dict(have), dict(want)
    if digests.keys() != expected.keys() or len(digests) != len(have):
        raise ValueError
    unsure: dict[bytes, bytes] = {}
    for suffix, digest in expected.items():
        kept = digests[suffix]
        if kept == digest or (kept == b"" and prefix in prefixes.extrema):
            continue
        if prefix not in prefixes.unordered or not isinstance(kept, bytes):
            raise ValueError
        unsure[prefix + suffix] = kept
    return unsure
