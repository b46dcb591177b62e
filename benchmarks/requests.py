"""The table of requests: what each write of the shop asks of a store of either span, counted while it is done.

Rounds are those after which the commit point has passed, and after which all views are right. The goals are those of
stores that change one row at a time; where a transaction spans rows, a write is one round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks.workloads.shop_schema import SHOP, Buyer, Customer, Product, Purchase, Sold
from oneread.connect import connect
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.database.operations import Operations
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.plans.effects import Now, Random, Reserve, Sleep, Together
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.transactions.root import BODY
from oneread.transactions.row_recovery import ROW_SYSTEM

HOLDERS: Final = 100
"""Purchases of the product, and of the customer, that gets another name."""

Act: TypeAlias = Callable[[Operations], Plan[Any]]


class Counted(NamedTuple):
    """Requests, and rounds until the commit and until the views."""

    requests: int
    commit: int
    views: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


class Write(NamedTuple):
    """One write of the shop, and its goal: requests, and rounds where there are goals for them."""

    name: str
    goal: str
    act: Act


def _bought(line: int, buyer: int = 1) -> Purchase:
    return Purchase(
        order="o",
        line=line,
        buyer=Buyer.of(buyer),
        product=Sold.of("a"),
        quantity=1,
        unit_price=Decimal(3),
        ordered_at=datetime(2024, 1, 1, tzinfo=UTC),
    )


def _save(entity: Any) -> Act:
    def act(operations: Operations) -> Plan[Any]:
        return operations.save(entity)

    return act


def _patch(model: type, *key: object, **changes: object) -> Act:
    def act(operations: Operations) -> Plan[Any]:
        return operations.patch(model, key, changes, None)

    return act


def _delete(model: type, *key: object) -> Act:
    def act(operations: Operations) -> Plan[Any]:
        return operations.delete(model, key, None)

    return act


WRITES: Final = (
    Write("nothing derived changes", "2/2/2", _patch(Product, "a", description="new")),
    Write("purchase, 6 rows of views", "<= 13/3/4", _save(_bought(HOLDERS + 1))),
    Write("patch of a quantity", "<= 9/3/4", _patch(Purchase, "o", 1, quantity=5)),
    Write("re-point to another buyer", "<= 12", _patch(Purchase, "o", 1, buyer=Buyer.of(2))),
    Write("delete of a purchase", "<= 11", _delete(Purchase, "o", 1)),
    Write("rename without holders", "<= 7 and what looks for holders", _patch(Customer, 2, name="x")),
    Write(f"rename with {HOLDERS} holders in views", "<= 7 and 1.2 each", _patch(Product, "a", name="x")),
    Write(f"rename with {HOLDERS} other holders", "<= 7 and 0.02 each", _patch(Customer, 1, name="x")),
)


class RoundDriver:
    """Drives plans on a store that changes one row at a time, and notes the round of each request."""

    def __init__(self) -> None:
        self._now, self._chances = 1_700_000_000_000, 0
        self._engine = OneRowMemoryEngine()
        self._driver = SyncDriver(self._engine, self.time, self._chance)
        self.operations = self._driver.run(opened(SHOP, read_only=False, committer=ROW_SYSTEM), Trace())
        self.made: list[tuple[int, Any]] = []

    def count(self, act: Act) -> Counted:
        """Does a write and counts it."""
        self.made = []
        self._now += 1000
        self._run(iter(act(self.operations)), 0)
        commit = next(number for number, each in self.made if _is_commit(each))
        views = [number for number, each in self.made if _is_derived(each)]
        return Counted(len(self.made), commit, max([commit, *views]))

    def _chance(self) -> float:
        self._chances += 1
        return self._chances % 997 / 997

    def _run(self, plan: Iterator[Any], after: int) -> tuple[Any, int]:
        """Plans that run together begin in the same round."""
        steps: Any = plan
        answer: Any = None
        while True:
            try:
                asked = steps.send(answer)
            except StopIteration as stop:
                return stop.value, after
            if type(asked) is Together:
                ended = [self._run(iter(each), after) for each in asked.plans]
                answer = [value for value, _round in ended]
                after = max([after, *(number for _value, number in ended)])
            elif type(asked) in (Now, Random, Sleep, Reserve):
                answer = _EFFECTS[type(asked)](self)
            else:
                after += 1
                self.made.append((after, asked))
                answer = self._engine.answer(asked)

    def time(self) -> int:
        """The clock, which stands still during a write."""
        return self._now


_EFFECTS: Final[dict[Any, Callable[[RoundDriver], Any]]] = {
    Now: RoundDriver.time,
    Random: RoundDriver._chance,  # noqa: SLF001 - the driver's own table
    Sleep: lambda _driver: None,
    Reserve: lambda _driver: None,
}


def _is_commit(asked: Any) -> bool:
    return type(asked) is CheckAndMutate and asked.table == "roots" and BODY in asked.mutation.puts


def _is_derived(asked: Any) -> bool:
    return type(asked) in (Mutate, CheckAndMutate) and asked.table in ("views", "counts")


def _filling() -> list[Act]:
    """The writes before the one that is counted."""
    entities = [
        *(Customer(number=number, name="ada", country="at") for number in (1, 2)),
        Product(code="a", name="p"),
        *(_bought(line) for line in range(1, HOLDERS + 1)),
    ]
    return [_save(each) for each in entities]


def on_one_row(write: Write) -> Counted:
    """A write on a new store that changes one row at a time, with the shop's entities."""
    driver = RoundDriver()
    for act in _filling():
        driver.count(act)
    return driver.count(write.act)


def on_rows(write: Write) -> Counted:
    """The same on a store whose transactions span rows."""
    with connect("memory://", SHOP, workers=0) as database:
        for act in _filling():
            _cost(database, act)
        requests, rounds = _cost(database, write.act)
    return Counted(requests, rounds, rounds)


def _cost(database: Database, act: Act) -> tuple[int, int]:
    trace = Trace()
    database._driver.run(act(database.operations), trace)  # noqa: SLF001 - the verbs do the same
    return trace.requests, trace.rounds


def lines() -> list[str]:
    """The table, as text."""
    rows = [("requests / rounds until the commit / until the views", "one row", "goal", "rows")]
    rows += [(each.name, str(on_one_row(each)), each.goal, str(on_rows(each))) for each in WRITES]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
