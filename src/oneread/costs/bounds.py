"""Bounds: the most that one operation asks of a store, and the terms that it is the sum of.

See docs/explanation/costs.md.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import msgspec

from oneread.costs.sizes import Size
from oneread.store.rows import Table

StoreAction: TypeAlias = Literal["read", "scan", "write"]

Span: TypeAlias = Literal["rows", "row"]
"""What a store changes at once: several rows, in a transaction, or one."""


class Term(msgspec.Struct, frozen=True):
    """A part of a bound.

    Arguments:
        act: rows are read by key, scanned, or written.
        table: that they are in.
        what: the rows are: entities, holders, groups.
        because: the declaration that causes them.
        requests: made for them; 0 where they come with the rows of another term.
        rows: how many at most.
        bytes: of their keys and values, at most.
        typical: bytes to expect, an estimate.
        rounds: those of the requests that wait for the answer of another one; the others are made at the same time.
        shared: names what several changes of one commit ask for once; empty for what each asks for.
    """

    act: StoreAction
    table: Table
    what: str
    because: str
    requests: int
    rows: int
    bytes: int
    typical: int
    rounds: int = 0
    shared: str = ""

    def scaled(self, times: int) -> Term:
        """The term of what is done so many times."""
        return msgspec.structs.replace(
            self,
            requests=self.requests * times,
            rounds=self.rounds * times,
            rows=self.rows * times,
            bytes=self.bytes * times,
            typical=self.typical * times,
        )

    def __str__(self) -> str:
        mark = "+" if self.requests else " "
        return f"{mark} {self.act:5} {self.table:6} {self.rows:>9,} {self.what} ({self.because})"


class Bound(msgspec.Struct, frozen=True):
    """The most that one operation asks of a store.

    Arguments:
        verb: of the database.
        target: the model or view.
        requests: to the store, at most.
        rows: read and written, at most.
        bytes: of keys and values, at most.
        typical: bytes to expect, an estimate: with three holders of copies of an entity, none of a new one.
        terms: the parts of the sum.
        undeclared: fields without a declared maximum: `bytes` counts each as large as a whole entity may be.
        rounds: requests that wait for the answer of another one, at most.
    """

    verb: str
    target: str
    requests: int
    rows: int
    bytes: int
    typical: int
    terms: tuple[Term, ...]
    undeclared: tuple[str, ...] = ()
    rounds: int = 0

    @property
    def name(self) -> str:
        """Verb and target."""
        return f"{self.verb} {self.target}"

    def __str__(self) -> str:
        requests = f"{counted(self.requests, 'request')} in {counted(self.rounds, 'round')}"
        amounts = f"{requests}, {counted(self.rows, 'row')}, {readable(self.bytes)}"
        text = [f"{self.name}: at most {amounts} (typically {readable(self.typical)})"]
        text += [f"  {term}" for term in self.terms]
        if self.undeclared:
            text.append(f"  no maximum is declared for: {', '.join(self.undeclared)}")
        return "\n".join(text)


def counted(number: int, what: str) -> str:
    """A number of things, as a person writes it."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def readable(size: int) -> str:
    """Bytes as a person reads them."""
    for factor, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"


class Rows(NamedTuple):
    """Rows that an operation reads or writes: how, in which table, what they are, and the declaration that is why.

    `usual` is how many of them are to be expected; None for all.
    """

    act: StoreAction
    table: Table
    what: str
    because: str
    usual: int | None = None


class Requests(NamedTuple):
    """Requests of which not each is a round; `shared` is that of their term."""

    number: int
    rounds: int
    shared: str = ""


class BoundBuilder:
    """Adds up terms. The first term of a request has it; the others come with it and have none."""

    def __init__(self) -> None:
        self._terms: list[Term] = []
        self._requests: set[str] = set()
        self._undeclared: set[str] = set()

    def add(self, request: str, rows: Rows, count: int, size: Size, requests: int | Requests = 1) -> None:
        """Adds `count` rows of one size to a request, named within the operation; nothing when there are none."""
        if not count:
            return
        made = Requests(requests, requests) if isinstance(requests, int) else requests
        number, rounds = (0, 0) if request in self._requests else (made.number, made.rounds)
        self._requests.add(request)
        all_rows = size.times(count)
        self._undeclared |= all_rows.open
        expected = size.times(count if rows.usual is None else min(rows.usual, count)).typical
        act, table, what, because, _usual = rows
        term = Term(act, table, what, because, number, count, all_rows.most, expected, rounds, made.shared)
        self._terms.append(term)

    def add_requests(self, rows: Rows, requests: int, rounds: int | None = None) -> None:
        """Adds requests that find no rows beyond those of other terms."""
        if requests:
            act, table, what, because, _usual = rows
            made = requests if rounds is None else rounds
            self._terms.append(Term(act, table, what, because, requests, 0, 0, 0, made))

    def add_term(self, term: Term) -> None:
        """Adds a term of another bound."""
        self._terms.append(term)

    def make_one_round(self, rounds: int = 1) -> None:
        """Says that all terms so far are one round, or so many: a transaction over several rows is."""
        for place, term in enumerate(self._terms):
            self._terms[place] = msgspec.structs.replace(term, rounds=rounds if term.requests else 0)
            rounds = 0 if term.requests else rounds

    def add_bound(self, bound: Bound, times: int = 1) -> None:
        """Adds the terms of another bound, each of what is done so many times."""
        self._terms.extend(bound.terms if times == 1 else [term.scaled(times) for term in bound.terms])
        self._undeclared.update(bound.undeclared)

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms so far."""
        return tuple(self._terms)

    def note_undeclared(self, fields: frozenset[str]) -> None:
        """Notes fields without a declared maximum."""
        self._undeclared |= fields

    def bound(self, verb: str, target: str) -> Bound:
        """The bound that is the sum of the terms."""
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
            sum(term.rounds for term in terms),
        )
