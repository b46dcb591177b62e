"""Functions of a store as plans: a simulator can stop such a function at each of its requests.

The function runs in a thread of its own, which runs only while the plan waits for it: so a history stays the same for
the same seed.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any, TypeVar

from oneread.plans.counted import CountedStore
from oneread.plans.effects import Now, Random, Separately
from oneread.plans.plan import Plan
from oneread.plans.trace import Trace
from oneread.store.engine import RowTransaction
from oneread.store.requests import Found, Read, Replace, Scan
from oneread.store.rows import (
    Families,
    Row,
    RowRange,
    Table,
)
from oneread.store.uninterrupted import Completion

T = TypeVar("T")


class _Stopped(BaseException):
    """Ends a function whose plan is closed; a BaseException, so that nothing catches it."""


class _Asking(RowTransaction):
    """The rows of a function: each request goes to the plan, which has its answer."""

    def __init__(self) -> None:
        self.asked: SimpleQueue[Any] = SimpleQueue()
        self.answers: SimpleQueue[Completion] = SimpleQueue()

    def ask(self, request: Any) -> Any:
        self.asked.put(request)
        return self.answers.get().outcome()

    def read(self, table: Table, keys: list[bytes], families: Families = "d") -> list[Row | None]:
        found: list[Row | None] = self.ask(Read(table, keys, families))
        return found

    def scan(
        self, table: Table, within: RowRange, limit: int, *, reverse: bool = False, families: Families = "d"
    ) -> list[Found]:
        found: list[Found] = self.ask(Scan(table, within, limit, reverse, families))
        return found

    def replace(self, table: Table, rows: Mapping[bytes, Row | None]) -> None:
        self.ask(Replace(table, rows))


def stepped(run: Callable[[CountedStore], T]) -> Plan[T]:
    """Runs a function of a store, and yields its requests as a plan does."""
    rows, result = _Asking(), Completion()
    store = CountedStore(rows, lambda: rows.ask(Now()), lambda: rows.ask(Random()), Trace())
    context = contextvars.copy_context()

    def work() -> None:
        result.run(lambda: context.run(run, store))
        rows.asked.put(result)

    thread = threading.Thread(target=work, name="oneread-stepped", daemon=True)
    thread.start()
    try:
        while (asked := rows.asked.get()) is not result:
            answer = Completion()
            try:
                answer.result = yield asked
            except GeneratorExit:
                answer.failure = _Stopped()
                rows.answers.put(answer)
                raise
            except BaseException as failure:  # noqa: BLE001 - raised inside the function, which may handle it
                answer.failure = failure
            rows.answers.put(answer)
    finally:
        thread.join()
    outcome: T = result.outcome()
    return outcome


def with_steps(plan: Plan[T]) -> Plan[T]:
    """A plan with the requests of its functions in place of `Separately`."""
    answer: Any = None
    failure: BaseException | None = None
    try:
        while True:
            try:
                asked = plan.send(answer) if failure is None else plan.throw(failure)
            except StopIteration as stop:
                result: T = stop.value
                return result
            answer = failure = None
            try:
                answer = (yield from stepped(asked.run)) if type(asked) is Separately else (yield asked)
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001 - raised inside the plan, which may handle it
                failure = error
    finally:
        plan.close()
