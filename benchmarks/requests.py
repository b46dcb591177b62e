"""The table of requests: what writes of a shop and a forum ask of a store of either span, counted while they are done.

Rounds are those after which the commit point has passed, and after which all views are right. The goals are those of
stores that change one row at a time; where a transaction spans rows, a write is one round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

from benchmarks.contention import SHARDS, WRITERS, Contention
from benchmarks.workloads.forum_schema import FORUM, Comment, Discussion, Membership, Post
from benchmarks.workloads.shop_schema import SHOP, Buyer, Customer, Product, Purchase, Sold
from oneread.connect import connect
from oneread.counters.committer import Once
from oneread.counters.rows import SHARDS as COUNTERS
from oneread.counters.rows import CounterSettings, name_key
from oneread.counters.shard_counters import ShardCounters
from oneread.counters.wanted import Add, check_token
from oneread.database._sync.database import Database
from oneread.database.open import opened
from oneread.database.operations import Operations
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.evolution.schema import Schema
from oneread.plans.effects import Now, Random, Reserve, Sleep, Together
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.requests import CheckAndMutate, Mutate
from oneread.transactions.root import BODY
from oneread.transactions.system_commits import RowSystem

HOLDERS: Final = 100
"""Purchases of the product, and of the customer, that gets another name; members of the group that gets a post."""

Act: TypeAlias = Callable[[Operations], Plan[Any]]

_WARMING: Final = 200
"""Adds of a process that has not added before: every row of the counter is there afterwards."""

_BEGUN: Final = datetime(2024, 1, 1, tzinfo=UTC)


class Counted(NamedTuple):
    """Requests, and rounds until the commit and until the views."""

    requests: int
    commit: int
    views: int

    def __str__(self) -> str:
        return "/".join(map(str, self))


class Scene(NamedTuple):
    """A schema, and the writes before the one that is counted."""

    schema: Schema
    filling: Callable[[], list[Act]]


class Write(NamedTuple):
    """One write, and its goal: at most so many requests, and rounds where there are goals for them."""

    name: str
    goal: tuple[float, ...]
    act: Act
    scene: Scene


class Line(NamedTuple):
    """A line of the table; `rows` is the same on a store whose transactions span rows, where that is counted."""

    name: str
    goal: tuple[float, ...]
    found: tuple[float, ...]
    rows: str = ""

    @property
    def is_reached(self) -> bool:
        """Whether each number is at most its goal."""
        return all(number <= most for number, most in zip(self.found, self.goal, strict=False))


def _bought(line: int, buyer: int = 1) -> Purchase:
    return Purchase(
        order="o",
        line=line,
        buyer=Buyer.of(buyer),
        product=Sold.of("a"),
        quantity=1,
        unit_price=Decimal(3),
        ordered_at=_BEGUN,
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


def _shop() -> list[Act]:
    entities = [
        *(Customer(number=number, name="ada", country="at") for number in (1, 2)),
        Product(code="a", name="p"),
        *(_bought(line) for line in range(1, HOLDERS + 1)),
    ]
    return [_save(each) for each in entities]


def _forum() -> list[Act]:
    discussion = Discussion(discussion=1, title="t")
    comment = Comment(discussion=1, text="a", score=1)
    members = [Membership(group=1, member=member) for member in range(HOLDERS)]
    return [_save(each) for each in (discussion, comment, *members)]


_SHOP: Final = Scene(SHOP, _shop)
_TASKS_LATER: Final = Scene(Schema(*SHOP.models, *SHOP.views, inline=0), _shop)
"""Holders are left to workers, so that a commit is counted without them."""
_FORUM: Final = Scene(FORUM, _forum)
_COMMENT: Final = Comment(discussion=1, text="b", score=2)
_POST: Final = Post(number=1, group=1, at=_BEGUN, text="x")

WRITES: Final = (
    Write("nothing derived changes", (2, 2, 2), _patch(Product, "a", description="new"), _SHOP),
    Write("purchase, 6 rows of views", (13, 3, 4), _save(_bought(HOLDERS + 1)), _SHOP),
    Write("patch of a quantity", (9, 3, 4), _patch(Purchase, "o", 1, quantity=5), _SHOP),
    Write("re-point to another buyer", (12,), _patch(Purchase, "o", 1, buyer=Buyer.of(2)), _SHOP),
    Write("delete of a purchase", (11,), _delete(Purchase, "o", 1), _SHOP),
    Write("rename, its holders left to workers", (7,), _patch(Product, "a", name="x"), _TASKS_LATER),
    Write("comment in a group, 3 rows of views", (9, 3), _save(_COMMENT), _FORUM),
    Write(f"post to the feeds of {HOLDERS} members", (13,), _save(_POST), _FORUM),
)

LOOKED_FOR: Final = Write("rename without holders", (), _patch(Customer, 2, name="x"), _SHOP)
RENAMES: Final = (
    Write(f"a holder in views, of {HOLDERS}", (1.2,), _patch(Product, "a", name="x"), _SHOP),
    Write(f"another holder, of {HOLDERS}", (0.02,), _patch(Customer, 1, name="x"), _SHOP),
)


class RoundDriver:
    """Drives plans on a store that changes one row at a time, and notes the round of each request."""

    def __init__(self, schema: Schema = SHOP) -> None:
        self._now, self._chances = 1_700_000_000_000, 0
        self._engine = OneRowMemoryEngine()
        self._driver = SyncDriver(self._engine, self.time, self._chance)
        self.operations = self._driver.run(opened(schema, read_only=False, committer=RowSystem()), Trace())
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
    """Of an entity, or of an add to a counter."""
    if type(asked) is not CheckAndMutate:
        return False
    return (BODY in asked.mutation.puts) if asked.table == "roots" else asked.mutation.key.startswith(COUNTERS)


def _is_derived(asked: Any) -> bool:
    return type(asked) in (Mutate, CheckAndMutate) and asked.table in ("views", "counts")


def _filled(scene: Scene) -> RoundDriver:
    driver = RoundDriver(scene.schema)
    for act in scene.filling():
        driver.count(act)
    return driver


def on_one_row(write: Write) -> Counted:
    """A write on a new store that changes one row at a time, with the entities of its scene."""
    return _filled(write.scene).count(write.act)


def on_rows(write: Write) -> Counted:
    """The same on a store whose transactions span rows."""
    with connect("memory://", write.scene.schema, workers=0) as database:
        for act in write.scene.filling():
            _cost(database, act)
        requests, rounds = _cost(database, write.act)
    return Counted(requests, rounds, rounds)


def _cost(database: Database, act: Act) -> tuple[int, int]:
    trace = Trace()
    database._driver.run(act(database.operations), trace)  # noqa: SLF001 - the verbs do the same
    return trace.requests, trace.rounds


def holder_lines() -> list[Line]:
    """What a rename asks for each of its holders: those in views are committed, the others get cells."""
    without = on_one_row(LOOKED_FOR).requests
    return [Line(each.name, each.goal, ((on_one_row(each).requests - without) / HOLDERS,)) for each in RENAMES]


def counter_lines() -> list[Line]:
    """Adds of a process that has added before, alone and with others."""
    found: list[Line] = []
    for once, requests, retries in ((False, 1, 0.01), (True, 2, 0.3)):
        driver, counters, with_token = RoundDriver(), ShardCounters(), " with a token" if once else ""
        counted = [driver.count(_add(counters, str(number) if once else "")) for number in range(_WARMING)]
        found.append(Line(f"add to a counter{with_token}", (requests,), counted[-1]))
        name = f"retries of an add{with_token}, {WRITERS} writers, {SHARDS} shards"
        found.append(Line(name, (retries,), (Contention(once=once).retries(),)))
    return found


def _add(counters: ShardCounters, token: str) -> Act:
    name = name_key("votes")
    add = Add(name, 1, CounterSettings(1, SHARDS))
    once = Once(name, check_token(token), 3600.0) if token else None
    return lambda _operations: counters.add([add], once)


def row_line() -> Line:
    """The root row of a purchase as its commit writes it, with its intents."""
    driver = _filled(_SHOP)
    driver.count(_save(_bought(HOLDERS + 1)))
    (row,) = [each.mutation for _round, each in driver.made if _is_commit(each)]
    size = len(row.key) + sum(len(column) + len(cell.value) for column, cell in row.puts.items())
    return Line("root row of a purchase, in bytes", (1200,), (size,))


def table() -> list[Line]:
    """Every line, counted."""
    writes = [Line(each.name, each.goal, on_one_row(each), str(on_rows(each))) for each in WRITES]
    return [*writes[:-2], *holder_lines(), *writes[-2:], *counter_lines(), row_line()]


def lines() -> list[str]:
    """The table, as text."""
    rows = [("requests / rounds until the commit / until the views", "one row", "goal", "", "rows")]
    for each in table():
        verdict = "reached" if each.is_reached else "missed"
        rows.append((each.name, _text(each.found), f"<= {_text(each.goal)}", verdict, each.rows))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _text(numbers: Iterable[float]) -> str:
    return "/".join(f"{each:g}" for each in numbers)
