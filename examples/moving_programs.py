"""The programs of a site that is moved: writers that log what was answered, and readers that keep their cursors.

Both know where the store comes next, `connect(url, schema, next=other)`, and are not restarted. A writer logs each call
before it is made, and its answer behind it, so that what must be stored can be said in plain Python.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from time import perf_counter, sleep
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from oneread import Database, Page
from oneread.errors import OnereadError, OutcomeUnknown, Unavailable

COUNTERS = 10
CURSORS = 300
"""How many pages each reader keeps open."""
ROWS = 5


class Call(msgspec.Struct, frozen=True):
    """A call that is about to be made; a site adds what it is made with. `once` says that it is not made again."""

    verb: str

    @property
    def once(self) -> bool:
        return False


C = TypeVar("C", bound=Call)


class Answer(msgspec.Struct, frozen=True):
    """What came of it: the number of what was created, 1 or 0 for what was counted; `error` where none came."""

    result: int = 0
    seconds: float = 0.0
    error: str = ""


class Made(NamedTuple, Generic[C]):
    """A call and its answer; `token` names the call."""

    call: C
    answer: Answer
    token: str


class Answered(Generic[C]):
    """What the logs of all writers say, each writer's calls in their order."""

    def __init__(self, logs: list[Path], kind: type[C]) -> None:
        found = [each for me, log in enumerate(logs) for each in _logged(log, me, kind)]
        self.longest = max((each.answer.seconds for each in found), default=0.0)
        self.made = [each for each in found if not each.answer.error]
        self.unknown = [each for each in found if each.answer.error == "unknown"]
        self.refused = len(found) - len(self.made)


def _logged(log: Path, me: int, kind: type[C]) -> Iterator[Made[C]]:
    """The calls that were answered, or whose answer was an error."""
    decode_call, decode_answer = msgspec.json.Decoder(kind).decode, msgspec.json.Decoder(Answer).decode
    number, call = -1, None
    for text in log.read_bytes().splitlines():
        if text.startswith(b'{"verb"'):
            number, call = number + 1, decode_call(text)
        elif call is not None:
            yield Made(call, decode_answer(text), f"{me} {number}")


# --- Writers ---------------------------------------------------------------------------------------------------------


def let_go() -> bool:
    """Whether the standard input of this program has ended, and so should the program."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def write(calls: Iterable[C], make: Callable[[C, str], int], rate: float, log: Path, me: int) -> None:
    """Makes calls, at most `rate` a second, until it is let go; `make` gets each with a token of its own."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = perf_counter()
    for number, call in enumerate(calls):
        if let_go():
            return
        sleep(max(0.0, started + number / rate - perf_counter()))
        os.write(file, msgspec.json.encode(call) + b"\n")
        began, answer = perf_counter(), Answer(error="again")
        while answer.error == "again":
            answer = _made(call, make, began, f"{me} {number}")
            os.write(file, msgspec.json.encode(answer) + b"\n")


def _made(call: C, make: Callable[[C, str], int], began: float, token: str) -> Answer:
    try:
        result = make(call, token)
    except OutcomeUnknown:
        return Answer(0, perf_counter() - began, "unknown" if call.once else "again")
    except Unavailable:
        return Answer(0, perf_counter() - began, "again")
    return Answer(result, perf_counter() - began)


def now() -> datetime:
    """The time, to the millisecond."""
    found = datetime.now(UTC)
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


def count_again(db: Database, counted: Mapping[str, list[str]]) -> tuple[int, int]:
    """How many adds are lost, and how many were counted twice, of counters and the tokens that were added to them."""
    lost = twice = 0
    for name, tokens in counted.items():
        value = db.counter(name).read()
        missing = sum(db.counter(name).add(1, once=each) for each in tokens)
        lost, twice = lost + missing, twice + value + missing - len(tokens)
    return lost, twice


# --- Readers ---------------------------------------------------------------------------------------------------------


class Cursor(NamedTuple):
    """A list that was read up to a place, and whether the store had moved by then."""

    owner: Any
    place: int
    cursor: str
    moved: bool


class Pages(msgspec.Struct):
    """What a reader has found: pages, those with other rows than they should have, and cursors over a switch."""

    read: int = 0
    wrong: int = 0
    over_a_switch: int = 0
    continued: int = 0
    refused: int = 0


def read(
    db: Database, me: int, page: Callable[[Any, str | None], Page[Any]], listed: Mapping[Any, list[Any]]
) -> Pages:  # fmt: skip
    """Pages through lists that stay as they are, each for a long time, and compares the keys of their sources.

    Arguments:
        page: reads a page of `ROWS` of one list, from a cursor on.
        listed: of each list all keys, in their order.
    """
    chance, pages, kept = Random(me), Pages(), list[Cursor]()
    owners = [each for each, rows in listed.items() if len(rows) > ROWS]

    def read_on(at: Cursor | None) -> None:
        owner, place = (chance.choice(owners), 0) if at is None else (at.owner, at.place)
        found = page(owner, None if at is None else at.cursor)
        moved, right = db.moved, [each.source.key for each in found] == listed[owner][place : place + ROWS]
        pages.read += 1
        pages.wrong += not right
        if at is not None and at.moved != moved:
            pages.over_a_switch += 1
            pages.continued += right
        if found.next is not None:
            kept.append(Cursor(owner, place + ROWS, found.next, moved))

    def attempt(at: Cursor | None) -> None:
        try:
            read_on(at)
        except OnereadError as error:
            print(f"reader {me}: {error!r}", file=sys.stderr, flush=True)
            pages.refused += 1

    while not let_go():
        attempt(None if len(kept) < CURSORS else kept.pop(chance.randrange(CURSORS)))
        sleep(0.005)
    for at in [*kept]:
        attempt(at)
    return pages
