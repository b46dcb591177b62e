"""What an engine with snapshots has to do: one moment of the whole store, for as long as a plan looks at it.

See "The store contract" of the architecture page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from oneread.errors import Unsupported
from oneread.plans.effects import Now, Sleep, Snapshot
from oneread.plans.plan import Plan
from oneread.store.engine import Answerer, Engine, Snapshots
from oneread.store.requests import Increment, Mutate, Read, Replace, Request, Scan
from oneread.store.rows import Cell, RowMutation, RowRange
from oneread.testing.store_machine import Drive, asking

Ask: TypeAlias = Callable[[Request[Any]], Any]
"""Makes one request of the engine under test, by a plan."""

ALL = RowRange(b"", b"")


def put(key: bytes, value: bytes, stamp: int = 1, column: bytes = b"d:b") -> RowMutation:
    return RowMutation(key, {column: Cell(value, stamp)})


def require(engine: Engine, capability: str) -> None:
    """Skips the test when the engine says it cannot."""
    if not getattr(engine.capabilities, capability):
        pytest.skip(f"the engine does not declare {capability}")


def snapshots(engine: Engine) -> Snapshots:
    """The engine as one with snapshots; skips the test when it declares none."""
    require(engine, "snapshot")
    assert isinstance(engine, Snapshots)
    return engine


class SnapshotConformance:
    """What `EngineConformance` asks of snapshots; it has the fixtures."""

    def test_a_snapshot_sees_one_moment_of_every_table(self, engine: Engine, ask: Ask, drive: Drive) -> None:
        require(engine, "snapshot")
        ask(Mutate("roots", [put(b"a", b"old")]))

        def looked() -> Plan[Any]:
            before = yield from Scan("roots", ALL, 10)
            engine.answer(Mutate("roots", [put(b"a", b"new", 2), put(b"b", b"new")]))
            engine.answer(Mutate("views", [put(b"v", b"new")]))
            after = yield from Scan("roots", ALL, 10)
            views = yield from Scan("views", ALL, 10, families="dm")
            return before, after, (yield from Read("roots", [b"a", b"b"])), views

        row = {b"d:b": Cell(b"old", 1)}
        assert drive(Snapshot(looked).__iter__()) == ([(b"a", row)], [(b"a", row)], [row, None], [])
        assert [key for key, _row in ask(Scan("roots", ALL, 10))] == [b"a", b"b"]

    def test_a_snapshot_may_ask_for_time_and_wait(self, engine: Engine, drive: Drive) -> None:
        require(engine, "snapshot")

        def looked() -> Plan[Any]:
            yield from Sleep(0.0)
            return (yield from Now())

        assert drive(Snapshot(looked).__iter__()) > 0

    @pytest.mark.parametrize(
        "asked",
        [Mutate("roots", [put(b"a", b"1")]), Replace("roots", {b"a": None}), Increment("counts", b"n", b"d:n", 1)],
    )
    def test_a_snapshot_refuses_everything_but_reads(self, engine: Engine, ask: Ask, drive: Drive, asked: Any) -> None:
        require(engine, "snapshot")
        with pytest.raises(Unsupported):
            drive(Snapshot(lambda: asking(asked)).__iter__())
        assert ask(Scan("roots", ALL, 10)) == []

    def test_a_snapshot_answers_no_write_past_the_drivers_either(self, engine: Engine) -> None:
        with pytest.raises(Unsupported):
            snapshots(engine).snapshot(lambda answer: answer(Mutate("roots", [put(b"a", b"1")])))

    def test_what_a_snapshot_raises_comes_out_and_ends_it(self, engine: Engine, ask: Ask) -> None:
        looking = snapshots(engine)

        def failing(_answer: Answerer) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            looking.snapshot(failing)
        ask(Mutate("roots", [put(b"a", b"1")]))
        assert looking.snapshot(lambda answer: len(answer(Scan("roots", ALL, 10)))) == 1
