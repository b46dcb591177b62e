"""Bounds: the most that one operation asks of a store, and what it is made of.

`reads` and `writes` make the terms. See docs/explanation/costs.md.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from oneread.costs.sizes import Size
from oneread.store.rows import Table

StoreAction: TypeAlias = Literal["read", "scan", "write"]


class Term(msgspec.Struct, frozen=True):
    """A part of a bound.

    Arguments:
        act: rows are read by key, scanned, or written.
        table: where they lie.
        what: they are.
        because: the declaration that causes them.
        requests: made for them; 0 where they come with the rows of another term.
        rows: at most.
        bytes: of their keys and values, at most.
        typical: bytes to expect, an estimate.
    """

    act: StoreAction
    table: Table
    what: str
    because: str
    requests: int
    rows: int
    bytes: int
    typical: int


class Bound(msgspec.Struct, frozen=True):
    """The most that one operation asks of a store.

    Arguments:
        verb: of the database.
        target: the model or view.
        requests: to the store, at most.
        rows: read and written, at most.
        bytes: of keys and values, at most.
        typical: bytes to expect, an estimate, as many rows as in the bound.
        terms: what it is made of.
        undeclared: fields that no declaration bounds: `bytes` counts them as large as a whole entity may be.
    """

    verb: str
    target: str
    requests: int
    rows: int
    bytes: int
    typical: int
    terms: tuple[Term, ...]
    undeclared: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Verb and target."""
        return f"{self.verb} {self.target}"

    def __str__(self) -> str:
        amounts = f"{counted(self.requests, 'request')}, {counted(self.rows, 'row')}, {readable(self.bytes)}"
        text = [f"{self.name}: at most {amounts} (typically {readable(self.typical)})"]
        text += [f"  {line}" for line in lines(self.terms)]
        if self.undeclared:
            text.append(f"  no maximum is declared for: {', '.join(self.undeclared)}")
        return "\n".join(text)


def lines(terms: tuple[Term, ...]) -> list[str]:
    """A line for each term: rows, what they are, and why."""
    return [
        f"{'+' if term.requests else ' '} {term.act:5} {term.table:6} {term.rows:>9,} {term.what} ({term.because})"
        for term in terms
    ]


def counted(number: int, what: str) -> str:
    """A number of things, as a person writes it."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def readable(size: int) -> str:
    """Bytes as a person reads them."""
    for factor, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"


class BoundBuilder:
    """Adds up terms; those of one request stand side by side, and the first of them carries it."""

    def __init__(self) -> None:
        self._terms: list[Term] = []
        self._requests: set[str] = set()
        self._undeclared: set[str] = set()

    def add(
        self,
        request: str,
        act: StoreAction,
        table: Table,
        what: str,
        because: str,
        rows: int,
        size: Size,
        requests: int = 1,
    ) -> None:
        """Adds rows to a request, which begins with its first term.

        Arguments:
            request: its name within the operation.
            act: what is done.
            table: where.
            what: the rows are.
            because: the declaration that causes them.
            rows: at most; without any there is no term.
            size: of one row.
            requests: how many there are, for its first term.
        """
        if not rows:
            return
        first = request not in self._requests
        self._requests.add(request)
        whole = size.times(rows)
        self._undeclared |= whole.open
        self._terms.append(Term(act, table, what, because, requests if first else 0, rows, whole.most, whole.typical))

    def more(self, act: StoreAction, table: Table, what: str, because: str, requests: int) -> None:
        """Adds requests that find no rows beyond those counted elsewhere."""
        if requests:
            self._terms.append(Term(act, table, what, because, requests, 0, 0, 0))

    def take(self, term: Term) -> None:
        """Takes over a term of another bound."""
        self._terms.append(term)

    def missing(self, names: frozenset[str]) -> None:
        """Notes fields without a declared maximum."""
        self._undeclared |= names

    def bound(self, verb: str, target: str) -> Bound:
        """The sum."""
        terms = tuple(self._terms)
        return Bound(
            verb,
            target,
            sum(term.requests for term in terms),
            sum(term.rows for term in terms),
            sum(term.bytes for term in terms),
            sum(term.typical for term in terms),
            terms,
            tuple(sorted(self._undeclared)),
        )
