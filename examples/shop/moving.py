"""A shop that is moved to another store while it is in use, and while what moves it is killed again and again.

`python -m examples.shop.moving --from lmdb:///srv/a --to lmdb:///srv/b`; see `examples.moving`.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain, count
from pathlib import Path
from random import Random

from examples.commands import Parser
from examples.comparing import all_rows, print_compared, print_verified
from examples.moving import Site, add_number, main
from examples.moving_programs import COUNTERS, ROWS, Answered, Call, Made, Pages, count_again, now, read, write
from examples.shop import cleaning, loading, source
from examples.shop.checking import check
from examples.shop.recount import newest_first
from examples.shop.schema import SHOP, Product, Purchase, PurchasesOfBuyer
from examples.shop.source import Line
from oneread import GENERATED, Database, Key, Model, Schema, connect

REMARKED = 20
"""Products about which all writers make remarks, so that they compete for numbers."""


class Remark(Model[str, int]):
    """What a customer says of a product: its remarks are numbered from 1 by the store."""

    child_of = Product

    code: Key[str]
    number: Key[int] = GENERATED
    text: str


MOVED = Schema(*SHOP.models, Remark, *SHOP.views, portable=True)


class ShopCall(Call, frozen=True):
    """`line` is the whole purchase, `key` a counter or the code of a product."""

    line: Line | None = None
    key: str = ""
    text: str = ""

    @property
    def once(self) -> bool:
        """All may be made twice but a create, which would take one more number."""
        return self.verb == "remark"


class Shop(Site):
    """The shop of `examples.shop`, with remarks and counters of visits."""

    module = "examples.shop.moving"
    schema = MOVED
    call = ShopCall
    loaded = Purchase

    def __init__(self, given: argparse.Namespace) -> None:
        super().__init__(given)
        self._lines = list(source.lines(given.data, limit=given.lines, seed=given.seed))

    @staticmethod
    def add_arguments(parser: Parser) -> None:
        parser.add_argument("--data", type=Path, default=source.default_folder(), help=f"folder of {source.FILE}")
        add_number(parser, "--lines", 20_000, "invoice lines that are loaded first")

    def load(self, url: str) -> None:
        given = self.given
        with connect(url, MOVED) as db:
            loading.load(db, loading.Source(given.data, given.lines, given.seed))

    def write(self, db: Database, me: int) -> None:
        given = self.given
        calls = _calls(me, given.writers, self._lines)
        write(
            calls,
            lambda call, token: _make(db, call, token),
            given.rate / given.writers,
            given.folder / f"calls-{me}",
            me,
        )

    def read(self, db: Database, me: int) -> Pages:
        listed: dict[int, list[tuple[str, int]]] = defaultdict(list)
        unchanged = [line for line in self._lines if line.customer is not None and not line.customer % 2]
        for line in newest_first(unchanged, lambda line: line.customer or 0):
            listed[line.customer or 0].append((line.invoice, line.line))
        return read(db, me, lambda buyer, cursor: db.page(PurchasesOfBuyer, buyer, limit=ROWS, cursor=cursor), listed)

    def compare(self, db: Database, answered: Answered[ShopCall]) -> int:
        return compare(db, self._lines, answered)


# --- Writers ---------------------------------------------------------------------------------------------------------


def _make(db: Database, call: ShopCall, token: str) -> int:
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


def _calls(me: int, writers: int, lines: list[Line]) -> Iterator[ShopCall]:
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
            line = line._replace(invoice=f"W{me}-{number // 8}", line=number, at=now(), quantity=chance.randint(1, 9))
            mine.append(line)
            yield ShopCall("buy", line)
        elif kind < 0.6:
            place = chance.randrange(len(mine))
            mine[place] = mine[place]._replace(quantity=chance.randint(-9, 9))
            yield ShopCall("change", mine[place])
        elif kind < 0.7:
            yield ShopCall("remove", mine.pop(chance.randrange(len(mine))))
        elif kind < 0.9:
            yield ShopCall("count", key=f"visits:{chance.randrange(COUNTERS)}")
        elif kind < 0.998:
            yield ShopCall("remark", key=chance.choice(remarked), text=f"{me} {number}")
        else:
            yield ShopCall("rename", key=chance.choice(renamed), text=f"NAME {me} {number}")


def _most_sold(lines: list[Line]) -> list[str]:
    """Codes of products, those first that most purchases show."""
    holders = Counter(line.code for line in lines)
    return sorted(holders, key=lambda code: (-holders[code], code))


# --- What must be stored ---------------------------------------------------------------------------------------------


class Expected:
    """What must be stored, by what was answered."""

    def __init__(self, answered: Answered[ShopCall]) -> None:
        self.lines: dict[tuple[str, int], Line] = {}
        self.names: dict[str, str] = {}
        self.counted: dict[str, list[str]] = defaultdict(list)
        self.remarks: dict[tuple[str, int], str] = {}
        self.unknown = {each.call.text for each in answered.unknown}
        self.twice = 0
        for each in answered.made:
            self._take(each)

    def _take(self, made: Made[ShopCall]) -> None:
        call, answer, token = made
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


def compare(db: Database, base: list[Line], answered: Answered[ShopCall]) -> int:
    """Compares the store with what was acknowledged; returns how much differs."""
    expected = Expected(answered)
    lost, twice = count_again(db, expected.counted)
    lost += len(expected.lines.keys() - {(each.order, each.line) for each in all_rows(db, Purchase)})
    stored = {(each.code, each.number): each.text for each in all_rows(db, Remark)}
    lost += sum(stored.get(key) != text for key, text in expected.remarks.items())
    texts = list(stored.values())
    twice += expected.twice + len(texts) - len(set(texts))
    unexpected = len(set(texts) - set(expected.remarks.values()) - expected.unknown)
    last = dict(sorted(stored))
    holes = sum(last.values()) - len(stored)
    print(f"lost {lost}, twice {twice}")
    print(f"numbers: {len(stored):,} in {len(last)} sequences, {holes} holes, {unexpected} never asked for")
    adds = sum(map(len, expected.counted.values()))
    print(f"counters: {adds:,} adds in {len(expected.counted)}; pages beside a model in plain Python:")
    differ = print_compared([*check(db, chain(expected.lines.values(), base), expected.names)])
    return differ + lost + twice + unexpected + max(0, holes - len(expected.unknown)) + (not print_verified(db))


if __name__ == "__main__":
    sys.exit(main(Shop))
