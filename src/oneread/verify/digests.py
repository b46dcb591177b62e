"""Digests: whether two sets of rows are the same, without keeping either.

Every row that is expected is added to the digest of its bucket and every row that is there is taken away; what is equal
comes to zero, in any order. The digest of a row is keyed by the process (SipHash, under `PYTHONHASHSEED`). Sums are
linear: a number times a keyed coefficient, modulo the prime that Python's own hashes of numbers use, so that
contributions can be added without knowing their groups' totals. See docs/decisions/0013-verify-by-digests.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Final

from oneread.transactions.deltas import Number, negated

BUCKETS: Final = 1 << 14
_MASK: Final = BUCKETS - 1
_PRIME: Final = sys.hash_info.modulus
_COEFFICIENTS: Final = 1 << 15
_AMBIGUOUS: Final = -2


def bucket_of(place: bytes) -> int:
    """The bucket of a row."""
    return hash(place) & _MASK


def residue(number: Number) -> int:
    """A number modulo the prime, exactly; a Decimal m * 10**e is m * 10**e there too."""
    if type(number) is int:
        return number
    found = hash(number)  # Python defines it as the residue; only -1 is not itself
    return -hash(negated(number)) if found == _AMBIGUOUS else found


class Digests:
    """The difference of what is expected and what is there, by bucket."""

    def __init__(self) -> None:
        self.rows = [0] * BUCKETS
        self._sums = [0] * BUCKETS
        self._coefficients: dict[bytes, tuple[int, ...]] = {}
        self._spoiled: set[int] = set()

    def expect(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Rows that should be there: (key, value)."""
        into = self.rows
        for row in rows:
            into[hash(row[0]) & _MASK] += hash(row)

    def find(self, rows: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Rows that are there; the value of one that cannot be read is None."""
        into = self.rows
        for row in rows:
            into[hash(row[0]) & _MASK] -= hash(row)

    def contribute(self, contributions: Iterable[tuple[bytes, Sequence[Number | None], int]]) -> None:
        """Contributions to groups (sign 1), or what the rows of groups hold (sign -1)."""
        known, sums = self._coefficients, self._sums
        for place, amounts, sign in contributions:
            coefficients = known.get(place) or self._remembered(place, len(amounts))
            total = 0
            for coefficient, amount in zip(coefficients, amounts, strict=False):
                if amount:
                    total += coefficient * (amount if type(amount) is int else residue(amount))
            sums[hash(place) & _MASK] += total if sign > 0 else -total

    def _remembered(self, place: bytes, count: int) -> tuple[int, ...]:
        if len(self._coefficients) >= _COEFFICIENTS:
            self._coefficients.clear()
        made = self._coefficients[place] = tuple([hash((place, number)) for number in range(count)])
        return made

    def mark_unreadable(self, place: bytes) -> None:
        """What is there cannot be added up: its bucket differs."""
        self._spoiled.add(hash(place) & _MASK)

    def differing_rows(self) -> set[int]:
        """Buckets whose rows are not the expected ones."""
        return {bucket for bucket, digest in enumerate(self.rows) if digest}

    def differing_sums(self) -> set[int]:
        """Buckets whose sums are not the expected ones."""
        return {bucket for bucket, digest in enumerate(self._sums) if digest % _PRIME} | self._spoiled
