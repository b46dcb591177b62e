"""The programs of a shop that is moved: writers that log what was answered, and readers that keep their cursors.

Both know where the store comes next, `connect(url, schema, next=other)`, and are not restarted. A writer logs each call
before it is made, and its answer behind it, so that `Answered` can say in plain Python what must be stored.
"""

from __future__ import annotations

import os
import select
import sys
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from random import Random
from time import perf_counter, sleep
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from examples.shop import cleaning
from examples.shop.recount import newest_first
from examples.shop.schema import SHOP, Product, Purchase, PurchasesOfBuyer
from examples.shop.source import Line
from oneread import GENERATED, Database, Key, Model, Schema
from oneread.errors import OnereadError, OutcomeUnknown, Unavailable

COUNTERS = 10
REMARKED = 20
"""Products about which all writers make remarks, so that they compete for numbers."""
CURSORS = 300
"""How many pages each reader keeps open."""
ROWS = 5


class Remark(Model[str, int]):
    """What a customer says of a product: its remarks are numbered from 1 by the store."""

    child_of = Product

    code: Key[str]
    number: Key[int] = GENERATED
    text: str


MOVED = Schema(*SHOP.models, Remark, *SHOP.views, portable=True)

Verb: TypeAlias = Literal["buy", "change", "remove", "count", "remark", "rename"]


class Call(msgspec.Struct, frozen=True):
    """A call that is about to be made; `line` is the whole purchase, `key` a counter or the code of a product."""

    verb: Verb
    line: Line | None = None
    key: str = ""
    text: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What came of it: the number of a remark, 1 or 0 for what was counted; `error` for a call without an answer."""

    result: int = 0
    seconds: float = 0.0
    error: str = ""


_call = msgspec.json.Decoder(Call).decode
_answer = msgspec.json.Decoder(Answer).decode


# --- Writers ---------------------------------------------------------------------------------------------------------


def let_go() -> bool:
    """Whether the standard input of this program has ended, and so should the program."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def write(db: Database, me: int, writers: int, lines: list[Line], rate: float, log: Path) -> None:
    """Makes calls of all kinds, at most `rate` a second, until it is let go."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    started = perf_counter()
    for number, call in enumerate(_calls(me, writers, lines)):
        if let_go():
            return
        sleep(max(0.0, started + number / rate - perf_counter()))
        os.write(file, msgspec.json.encode(call) + b"\n")
        began, tries = perf_counter(), 0
        answer = Answer(error="again")
        while answer.error == "again":
            answer = _made(db, call, began, f"{me} {number}")
            tries += 1
            os.write(file, msgspec.json.encode(answer) + b"\n")


def _made(db: Database, call: Call, began: float, token: str) -> Answer:
    try:
        result = _make(db, call, token)
    except OutcomeUnknown:  # all may be made twice but a create, which would take one more number
        return Answer(0, perf_counter() - began, "unknown" if call.verb == "remark" else "again")
    except Unavailable:
        return Answer(0, perf_counter() - began, "again")
    return Answer(result, perf_counter() - began)


def _make(db: Database, call: Call, token: str) -> int:
    line = call.line
    if line is not None and call.verb == "buy":
        db.save(next(cleaning.purchases([line])))
    elif line is not None and call.verb == "change":
        db.patch(
            Purchase, line.invoice, line.line, quantity=line.quantity, amount=line.quantity * line.unit_price
        )  # fmt: skip
    elif line is not None:
        db.delete(Purchase, line.invoice, line.line)
    elif call.verb == "count":
        return int(db.counter(call.key).add(1, once=token))
    elif call.verb == "remark":
        return db.create(Remark(code=call.key, text=call.text)).number
    else:
        db.patch(Product, call.key, name=call.text)
    return 0


def _calls(me: int, writers: int, lines: list[Line]) -> Iterator[Call]:
    """What a writer does. Its purchases and the names that it gives are its own: so the last of them is known."""
    chance = Random(me)
    sold = [line for line in lines if line.customer is not None and line.customer % 2]
    remarked = sorted({line.code for line in lines})[:REMARKED]
    renamed = _most_sold(lines)[me : 5 * writers : writers]
    mine: list[Line] = []
    for number in count():
        kind = chance.random()
        if kind < 0.4 or len(mine) < 10:
            line = chance.choice(sold)
            line = line._replace(invoice=f"W{me}-{number // 8}", line=number, at=_now(), quantity=chance.randint(1, 9))
            mine.append(line)
            yield Call("buy", line)
        elif kind < 0.6:
            place = chance.randrange(len(mine))
            mine[place] = mine[place]._replace(quantity=chance.randint(-9, 9))
            yield Call("change", mine[place])
        elif kind < 0.7:
            yield Call("remove", mine.pop(chance.randrange(len(mine))))
        elif kind < 0.9:
            yield Call("count", key=f"visits:{chance.randrange(COUNTERS)}")
        elif kind < 0.998:
            yield Call("remark", key=chance.choice(remarked), text=f"{me} {number}")
        else:
            yield Call("rename", key=chance.choice(renamed), text=f"NAME {me} {number}")


def _now() -> datetime:
    now = datetime.now(UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def _most_sold(lines: list[Line]) -> list[str]:
    """Codes of products, those first that most purchases show."""
    holders: dict[str, int] = defaultdict(int)
    for line in lines:
        holders[line.code] += 1
    return sorted(holders, key=lambda code: (-holders[code], code))


class Answered:
    """What the logs of all writers say: what must be stored, and no more than that."""

    def __init__(self, logs: list[Path]) -> None:
        self.writes = self.refused = 0
        self.longest = 0.0
        self.lines: dict[tuple[str, int], Line] = {}
        self.names: dict[str, str] = {}
        self.counted: dict[str, list[str]] = defaultdict(list)
        self.remarks: dict[tuple[str, int], str] = {}
        self.unknown: set[str] = set()
        self.twice = 0
        for me, log in enumerate(logs):
            number = -1
            call = Call("count")
            for text in log.read_bytes().splitlines():
                if text.startswith(b'{"verb"'):
                    number, call = number + 1, _call(text)
                else:
                    self._take(call, _answer(text), f"{me} {number}")

    def _take(self, call: Call, answer: Answer, token: str) -> None:
        self.longest = max(self.longest, answer.seconds)
        if answer.error:
            self.refused += 1
            self.unknown |= {call.text} if answer.error == "unknown" else set()
            return
        self.writes += 1
        if call.line is not None:
            key = call.line.invoice, call.line.line
            self.lines.pop(key, None)
            if call.verb != "remove":
                self.lines[key] = call.line
        elif call.verb == "count":
            self.counted[call.key].append(token)
        elif call.verb == "remark":
            self.twice += (call.key, answer.result) in self.remarks
            self.remarks[call.key, answer.result] = call.text
        else:
            self.names[call.key] = call.text


# --- Readers ---------------------------------------------------------------------------------------------------------


class Cursor(NamedTuple):
    """A list that was read up to a place, and whether the store had moved by then."""

    customer: int
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


def read(db: Database, me: int, lines: list[Line]) -> Pages:
    """Pages through lists that stay as they are, each for a long time, and compares their rows with the lines."""
    chance, pages, kept = Random(me), Pages(), list[Cursor]()
    listed: dict[int, list[tuple[str, int]]] = defaultdict(list)
    unchanged = [line for line in lines if line.customer is not None and not line.customer % 2]
    for line in newest_first(unchanged, lambda line: line.customer or 0):
        listed[line.customer or 0].append((line.invoice, line.line))
    customers = [each for each, rows in listed.items() if len(rows) > ROWS]

    def read_on(at: Cursor | None) -> None:
        customer, place = (chance.choice(customers), 0) if at is None else (at.customer, at.place)
        found = db.page(PurchasesOfBuyer, customer, limit=ROWS, cursor=None if at is None else at.cursor)
        moved, right = db.moved, [each.source.key for each in found] == listed[customer][place : place + ROWS]
        pages.read += 1
        pages.wrong += not right
        if at is not None and at.moved != moved:
            pages.over_a_switch += 1
            pages.continued += right
        if found.next is not None:
            kept.append(Cursor(customer, place + ROWS, found.next, moved))

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
