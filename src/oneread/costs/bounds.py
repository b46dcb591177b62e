"""Bounds: the most that one operation asks of a store, and the terms that it is the sum of.

See docs/explanation/costs.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from oneread.costs.sizes import NOTHING, Size, greatest
from oneread.store.rows import Table

StoreAction: TypeAlias = Literal["read", "scan", "write"]

Span: TypeAlias = Literal["rows", "row"]
"""What a store changes at once: several rows, in a transaction, or one."""


UNBOUNDED: Final = "unbounded"
_ACTS: Final[dict[str, StoreAction]] = {each: each for each in get_args(StoreAction)}
_TABLES: Final[dict[str, Table]] = {each: each for each in get_args(Table)}


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
        typical_rows: rows to expect, as `typical` has their bytes.
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
    typical_rows: int = 0

    def scaled(self, times: int) -> Term:
        """The term of what is done so many times."""
        return msgspec.structs.replace(
            self,
            requests=self.requests * times,
            rounds=self.rounds * times,
            rows=self.rows * times,
            bytes=self.bytes * times,
            typical=self.typical * times,
            typical_rows=self.typical_rows * times,
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
        typical: bytes to expect, an estimate: with three holders of copies of an entity, none of a new one, and twenty
            members of a group; or with as many as there are at the median, where a store was counted.
        terms: the parts of the sum.
        undeclared: fields without a declared maximum: `bytes` counts each as large as a whole entity may be.
        rounds: requests that wait for the answer of another one, at most.
        typical_rows: rows to expect, likewise.
        unlimited: feeds whose entries follow each of the holders that follow the write: the members of a group are
            limited by no declaration, and all that holds is how much the library does within one call.
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
    typical_rows: int = 0
    unlimited: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Verb and target."""
        return f"{self.verb} {self.target}"

    @property
    def amounts(self) -> list[object]:
        """Requests, rounds, rows and bytes at most, for people."""
        most: list[object] = [self.requests, self.rounds, self.rows, readable(self.bytes)]
        return [UNBOUNDED] * len(most) if self.unlimited else most

    @property
    def limits_to_declare(self) -> list[str]:
        """What would limit an unbounded write, for people."""
        return [
            f"{UNBOUNDED}: a change of {self.target} is followed by its holders, and each of these by its entries of "
            f"{feed}; declare large_group= in {feed}, or inline= of the schema"
            for feed in self.unlimited
        ]

    @property
    def typically(self) -> str:
        """Rows and bytes to expect, for people."""
        return f"{counted(self.typical_rows, 'row')}, {readable(self.typical)}"

    def expecting(self, usual: Bound) -> Bound:
        """This bound, with what to expect taken from another one, of the same write with as much as usually follows."""
        rows, sizes = Counter[_TermName](), Counter[_TermName]()
        for term in usual.terms:
            rows[_name_of(term)] += term.typical_rows
            sizes[_name_of(term)] += term.typical
        terms = [
            msgspec.structs.replace(term, typical=sizes.pop(name, 0), typical_rows=rows.pop(name, 0))
            for term, name in [(term, _name_of(term)) for term in self.terms]
        ]
        found = {"typical": usual.typical, "typical_rows": usual.typical_rows}
        return msgspec.structs.replace(self, terms=tuple(terms), **found)

    def __str__(self) -> str:
        requests = f"{counted(self.requests, 'request')} in {counted(self.rounds, 'round')}"
        amounts = f"{requests}, {counted(self.rows, 'row')}, {readable(self.bytes)}"
        text = [f"{self.name}: {UNBOUNDED if self.unlimited else f'at most {amounts}'} (typically {self.typically})"]
        text += [f"  {term}" for term in self.terms]
        if self.undeclared:
            text.append(f"  no maximum is declared for: {', '.join(self.undeclared)}")
        text += [f"  {each}" for each in self.limits_to_declare]
        return "\n".join(text)


_TermName: TypeAlias = tuple[str, str, str, str]


def _name_of(term: Term) -> _TermName:
    return term.act, term.table, term.what, term.because


def counted(number: int, what: str) -> str:
    """A number of things, as a person writes it."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def readable(size: int) -> str:
    """Bytes as a person reads them."""
    for factor, unit in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"


class Line(NamedTuple):
    """A line of a price list: rows of one kind that an operation asks for, and the requests that it takes for them.

    `kind` says how they are asked for, in which table, and what they are, as a bound prints it: `read roots sources`.
    `rounds` are those of the requests that wait for another one's answer; by default all do. `usual` is how many rows
    are to be expected; None for all. `step` names what several changes of one commit ask for once, as `Term.shared`.
    """

    kind: str
    because: str
    number: int
    size: Size = NOTHING
    requests: int = 1
    rounds: int | None = None
    usual: int | None = None
    step: str = ""

    @property
    def waits(self) -> int:
        """Its rounds."""
        return self.requests if self.rounds is None else self.rounds

    def scaled(self, times: int) -> Line:
        """The line of what is done so many times, one after the other."""
        usual = None if self.usual is None else self.usual * times
        made = self._replace(number=self.number * times, usual=usual)
        return made._replace(requests=self.requests * times, rounds=self.waits * times)

    def term(self) -> Term:
        """The term of its rows and requests."""
        act, table, what = self.kind.split(" ", 2)
        size, usual = self.size, self.number if self.usual is None else min(self.usual, self.number)
        most, typical = size.times(self.number).most, size.times(usual).typical
        place = _ACTS[act], _TABLES[table], what
        amounts = self.requests, self.number, most, typical
        return Term(*place, self.because, *amounts, self.waits, self.step, usual)


Lines: TypeAlias = dict[str, Line]
"""What one commit asks for, by names that are the same in every commit."""


def at_once(*chains: Mapping[str, Line]) -> Lines:
    """What is asked for at the same time, each line of a chain after the one before: as many rounds as the longest."""
    longest = max(chains, key=lambda chain: sum(each.waits for each in chain.values()), default={})
    found: Lines = {}
    for chain in chains:
        found |= chain if chain is longest else {name: each._replace(rounds=0) for name, each in chain.items()}
    return found


def greatest_lines(several: Iterable[Mapping[str, Line]]) -> Lines:
    """What a commit of any of several kinds asks for at most."""
    found: Lines = {}
    for lines in several:
        for name, line in lines.items():
            known = found.get(name, line)
            found[name] = line._replace(
                number=max(known.number, line.number),
                size=greatest((known.size, line.size)),
                requests=max(known.requests, line.requests),
                rounds=max(known.waits, line.waits),
            )
    return found


class BoundBuilder:
    """Adds up terms. The first term of a request has it; the others come with it and have none."""

    def __init__(self) -> None:
        self._terms: list[Term] = []
        self._requests: set[str] = set()
        self._undeclared: set[str] = set()
        self.entities: Counter[str] = Counter()
        """How many entities are written, by their classes' names."""

    def add(self, request: str, line: Line) -> None:
        """Adds a line to a request, named within the operation; nothing when it has no rows."""
        if line.number:
            comes_with = request in self._requests
            self._requests.add(request)
            self._undeclared |= line.size.open
            self._terms.append((line._replace(requests=0, rounds=0) if comes_with else line).term())

    def add_requests(self, line: Line) -> None:
        """Adds requests that find no rows beyond those of other terms."""
        if line.requests:
            self._terms.append(line._replace(number=0, step="").term())

    def add_lines(self, lines: Mapping[str, Line], times: int = 1, label: str = "") -> None:
        """Adds what so many commits ask for, one after the other; with a `label` these share nothing with others."""
        for name, line in lines.items():
            scaled = line.scaled(times)._replace(step="" if label else line.step)
            if scaled.number:
                self.add(f"{label}{name}", scaled)
            else:
                self.add_requests(scaled)

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
            sum(term.typical_rows for term in terms),
        )
