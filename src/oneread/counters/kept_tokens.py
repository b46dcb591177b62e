"""Tokens that are kept, as a dump has them: which adds were counted, so that none that is tried again counts twice.

A store whose transactions span rows keeps each in a row of its own. See "Named counters" of docs/formats/rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from oneread.counters.committer import ANY_COUNTER
from oneread.counters.rows import (
    GENERATIONS_ROW,
    TOKEN_BYTES,
    Generations,
    encode_struct,
    generations_of,
    token_key,
    tokens_of,
)
from oneread.plans.counted import CountedStore
from oneread.plans.plan import Plan
from oneread.plans.scans import fetch_data, scan_all
from oneread.store.requests import Found, Read, Scan
from oneread.store.rows import VALUE, Cell, Row, RowRange, later
from oneread.transactions.commit import SystemCommitter

BATCH: Final = 500
"""Tokens of one request."""

TakeTokens: TypeAlias = Callable[[bytes, float, list[bytes]], None]
"""Called with a counter's name, for how many seconds its tokens are kept at least, and these in order."""


class KeptTokens(Protocol):
    """The tokens of one store."""

    def read(self, take: TakeTokens) -> Plan[None]:
        """Gives the tokens of each counter that has some to `take`, in the order of names.

        Those of batches, which only the process knows that made them, are left out where they belong to no counter.
        """
        ...

    def keep(self, name: bytes, tokens: Sequence[bytes], seconds: float) -> Plan[None]:
        """Keeps tokens of a counter from now on, for so many seconds at least; again for those that are kept."""
        ...


class NativeTokens:
    """`KeptTokens` of stores whose transactions span rows."""

    def __init__(self, system: SystemCommitter) -> None:
        self._system = system

    def read(self, take: TakeTokens) -> Plan[None]:
        """One request, and for each counter with tokens some for each generation."""
        (row,) = yield from Read("counts", [GENERATIONS_ROW])
        generations = generations_of(row)
        if generations is None:
            return
        rests = [tokens_of(each) for each in generations.living]
        while True:
            firsts: list[bytes] = []
            for rest in rests:
                firsts += [_name_in(key) for key, _row in (yield from Scan("counts", rest, 1))]
            if not firsts:
                return
            name = min(firsts)
            found: list[Found] = []
            for number, rest in enumerate(rests):
                prefix = rest.start[:_NAME_AT] + name
                yield from scan_all("counts", RowRange.under(prefix), found.extend, BATCH, fetch_data)
                rests[number] = RowRange(RowRange.under(prefix).stop, rest.stop)
            if name != ANY_COUNTER:
                take(name, generations.once_for, sorted({key[-TOKEN_BYTES:] for key, _row in found}))

    def keep(self, name: bytes, tokens: Sequence[bytes], seconds: float) -> Plan[None]:
        """One transaction; the tokens are of the current generation, which is kept for as long at least."""

        def keep(store: CountedStore) -> None:
            (row,) = store.read("counts", [GENERATIONS_ROW])
            stored = generations_of(row)
            wanted = Generations(0, 0, seconds) if stored is None else stored
            wanted = msgspec.structs.replace(wanted, once_for=max(seconds, wanted.once_for))
            keys = [token_key(wanted.current, name, each) for each in tokens]
            now = store.now()
            rows: dict[bytes, Row | None] = {
                key: {VALUE: Cell(b"1", now)}
                for key, found in zip(keys, store.read("counts", keys), strict=True)
                if found is None
            }
            if wanted != stored:
                rows[GENERATIONS_ROW] = {VALUE: Cell(encode_struct(wanted), later(row, now))}
            if rows:
                store.replace("counts", rows)

        return self._system.together(keep)


_NAME_AT: Final = len(tokens_of(0).start)
"""Where the name begins in the key of a token."""


def _name_in(key: bytes) -> bytes:
    return key[_NAME_AT:-TOKEN_BYTES]
