"""The store contract in executable form: what every engine has to pass.

An engine's test file is a few lines: a class that extends `EngineConformance` and a fixture `open_engine`; where the
engine declares `persistent`, a fixture `reopen_engine` too. See "The store contract" of the architecture page.

    class TestMine(EngineConformance):
        @pytest.fixture
        def open_engine(self, tmp_path):
            return lambda: MyEngine(tmp_path / uuid4().hex)

        @pytest.fixture
        def reopen_engine(self):
            return lambda engine: MyEngine(engine.path)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any, ClassVar, Final, TypeAlias, get_args

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from oneread.errors import InvalidKey, LimitExceeded, Unavailable, Unsupported, UsageError
from oneread.plans.async_driver import AsyncDriver
from oneread.plans.counted import CountedStore
from oneread.plans.effects import Atomically, Now, Sleep, Snapshot, Together
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Trace
from oneread.store.engine import (
    Engine,
    LocalReads,
    RowReads,
    RowTransaction,
    Snapshots,
    read_by,
)
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Replace, Scan
from oneread.store.rows import REMOVED, Cell, Families, Row, RowMutation, RowRange, Table
from oneread.testing.ahead_conformance import SendsAheadConformance
from oneread.testing.local_conformance import ALL, Ask, LocalReadsConformance, put
from oneread.testing.persistence_conformance import PersistenceConformance
from oneread.testing.rows_conformance import RowsConformance
from oneread.testing.store_machine import Drive, StoreMachine, UndoneOnPurpose
from oneread.testing.transaction_conformance import TransactionConformance, require

OpenEngine: TypeAlias = Callable[[], Engine]
"""Opens a new and empty store."""

Drives: TypeAlias = Callable[[Engine], Drive]
"""How plans are run against an engine."""

THREADS: Final = 6


def snapshots(engine: Engine) -> Snapshots:
    """The engine as one with snapshots; skips the test when it declares none."""
    require(engine, "snapshot")
    assert isinstance(engine, Snapshots)
    return engine


def show_removed(engine: Engine) -> None:
    """Skips the test when removed cells are nothing special: where transactions span rows, rows are deleted."""
    if engine.capabilities.spans_rows:
        pytest.skip("the engine has transactions")


def number(value: int) -> bytes:
    return b"%d" % value


class EngineConformance(
    RowsConformance, LocalReadsConformance, SendsAheadConformance, TransactionConformance, PersistenceConformance
):
    """Everything an engine has to do; extend it and define the fixture `open_engine`.

    An engine that declares `persistent` needs the fixture `reopen_engine` as well: a function of an engine that was
    closed, which opens its store again.

    Every test runs by the synchronous driver and by the asynchronous one.
    """

    examples: ClassVar[int | None] = None
    """Sequences of requests that are tried; as many as hypothesis is set to unless fewer are given here."""

    decides_in_turn: ClassVar[bool] = True
    """Whether a transaction's function is called in its turn alone; else another one may be in time while it runs."""

    @pytest.fixture(params=["sync", "async"])
    def driver(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def engine(self, open_engine: OpenEngine) -> Iterator[Engine]:
        engine = open_engine()
        yield engine
        engine.close()

    @pytest.fixture
    def runs(self) -> Iterator[list[Callable[[], None]]]:
        """Functions to call when the test has ended."""
        endings: list[Callable[[], None]] = []
        yield endings
        for end in reversed(endings):
            end()

    @pytest.fixture
    def drives(self, driver: str, runs: list[Callable[[], None]]) -> Drives:
        def by_thread(engine: Engine) -> Drive:
            face = SyncDriver(engine)
            return lambda plan: face.run(plan, Trace())

        runner = asyncio.Runner()
        runs.append(runner.close)

        def by_loop(engine: Engine) -> Drive:
            face = AsyncDriver(engine)
            runs.append(lambda: runner.run(face.aclose()))
            return lambda plan: runner.run(face.run(plan, Trace()))

        return by_thread if driver == "sync" else by_loop

    @pytest.fixture
    def drive(self, engine: Engine, drives: Drives) -> Drive:
        return drives(engine)

    @pytest.fixture
    def ask(self, drive: Drive) -> Ask:
        return lambda request: drive(iter(request))

    # Rows and stamps

    def test_an_absent_row_is_none(self, ask: Ask) -> None:
        assert ask(Read("roots", [b"a"])) == [None]

    def test_rows_come_in_the_order_of_the_keys_asked_for(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1"), put(b"b", b"2")]))
        answer = ask(Read("roots", [b"b", b"x", b"a", b"b"]))
        assert [row and row[b"d:b"].value for row in answer] == [b"2", None, b"1", b"2"]

    def test_tables_are_apart(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1")]))
        assert ask(Read("views", [b"a"])) == [None]
        assert ask(Scan("views", ALL, 10)) == []

    @pytest.mark.parametrize(("first", "second", "stands"), [(5, 6, b"2"), (5, 5, b"2"), (5, 4, b"1")])
    def test_the_newest_stamp_wins_and_an_equal_one_is_overwritten(
        self, ask: Ask, first: int, second: int, stands: bytes
    ) -> None:
        ask(Mutate("roots", [put(b"a", b"1", first)]))
        ask(Mutate("roots", [put(b"a", b"2", second)]))
        assert ask(Read("roots", [b"a"])) == [{b"d:b": Cell(stands, max(first, second))}]

    def test_cells_of_a_row_keep_their_own_stamps(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 5)]))
        ask(Mutate("roots", [put(b"a", b"2", 3, b"d:c:x")]))
        assert ask(Read("roots", [b"a"])) == [{b"d:b": Cell(b"1", 5), b"d:c:x": Cell(b"2", 3)}]

    @pytest.mark.parametrize(("deleted", "stands"), [(4, True), (5, False), (6, False)])
    def test_a_column_delete_takes_what_is_not_newer(self, ask: Ask, deleted: int, *, stands: bool) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 5), put(b"a", b"2", 9, b"d:v")]))
        ask(Mutate("roots", [RowMutation(b"a", deletes={b"d:b": deleted})]))
        (row,) = ask(Read("roots", [b"a"]))
        assert (b"d:b" in row, b"d:v" in row) == (stands, True)

    def test_a_row_delete_takes_every_cell_that_is_not_newer(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 5), put(b"a", b"2", 9, b"d:v"), put(b"b", b"3", 1)]))
        ask(Mutate("roots", [RowMutation(b"a", delete_row=5), RowMutation(b"b", delete_row=5)]))
        assert ask(Read("roots", [b"a", b"b"])) == [{b"d:v": Cell(b"2", 9)}, None]

    def test_a_mutation_deletes_first_and_puts_then(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 5, b"d:v")]))
        ask(Mutate("roots", [RowMutation(b"a", {b"d:b": Cell(b"2", 6)}, {b"d:v": 5}, 5)]))
        assert ask(Read("roots", [b"a"])) == [{b"d:b": Cell(b"2", 6)}]

    def test_a_row_without_cells_is_absent(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 5)]))
        ask(Mutate("roots", [RowMutation(b"a", deletes={b"d:b": 5})]))
        assert ask(Read("roots", [b"a"], "dm")) == [None]
        assert ask(Scan("roots", ALL, 10, families="dm")) == []

    def test_an_empty_value_is_a_value(self, ask: Ask, engine: Engine) -> None:
        ask(Mutate("roots", [put(b"a", b"")]))
        assert ask(Read("roots", [b"a"])) == [{b"d:b": Cell(b"", 1)}]
        assert cell_of(engine, "roots", b"a", b"d:b") == Cell(b"", 1)

    # Families

    def test_readers_get_the_family_d_and_writers_both(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1"), put(b"a", b"2", 1, b"m:e")]))
        assert [set(row) for row in ask(Read("roots", [b"a"]))] == [{b"d:b"}]
        assert [set(row) for row in ask(Read("roots", [b"a"], "dm"))] == [{b"d:b", b"m:e"}]
        assert [set(row) for _, row in ask(Scan("roots", ALL, 10))] == [{b"d:b"}]

    def test_a_row_that_only_writers_need_is_absent_for_readers(self, ask: Ask) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 1, b"m:e"), put(b"b", b"2")]))
        assert ask(Read("roots", [b"a"])) == [None]
        assert [key for key, _ in ask(Scan("roots", ALL, 1))] == [b"b"]
        assert [key for key, _ in ask(Scan("roots", ALL, 1, families="dm"))] == [b"a"]

    def test_removed_cells_are_shown_to_writers_alone(self, ask: Ask, engine: Engine) -> None:
        show_removed(engine)
        partly = RowMutation(b"b", {b"d:b": Cell(REMOVED, 2), b"d:v": Cell(b"1", 1), b"m:e": Cell(REMOVED, 1)})
        ask(Mutate("roots", [put(b"a", REMOVED), partly, put(b"c", REMOVED + b"1")]))
        assert ask(Read("roots", [b"a", b"b", b"c"])) == [
            None,
            {b"d:v": Cell(b"1", 1)},
            {b"d:b": Cell(REMOVED + b"1", 1)},
        ]
        whole = ask(Read("roots", [b"a", b"b"], "dm"))
        assert [set(row) for row in whole] == [{b"d:b"}, {b"d:b", b"d:v", b"m:e"}]
        assert [key for key, _ in ask(Scan("roots", ALL, 9))] == [b"b", b"c"]
        assert [key for key, _ in ask(Scan("roots", ALL, 9, families="dm"))] == [b"a", b"b", b"c"]

    @pytest.mark.parametrize("limit", [0, 1, 2, 3, 9])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_scan_counts_the_rows_that_it_shows(self, ask: Ask, engine: Engine, limit: int, *, reverse: bool) -> None:
        show_removed(engine)
        if reverse:
            require(engine, "reverse_scan")
        rows = [put(bytes([key]), b"1" if bytes([key]) in b"cfg" else REMOVED) for key in b"abcdefghi"]
        ask(Mutate("roots", rows))
        found = b"".join(key for key, _ in ask(Scan("roots", ALL, limit, reverse)))
        assert found == (b"gfc" if reverse else b"cfg")[:limit]
        part = b"".join(key for key, _ in ask(Scan("roots", RowRange(b"b", b"g"), limit, reverse)))
        assert part == (b"fc" if reverse else b"cf")[:limit]

    def test_a_removed_cell_that_is_put_again_is_shown(self, ask: Ask, engine: Engine) -> None:
        show_removed(engine)
        for stamp, value in enumerate([b"1", REMOVED, b"2"], 1):
            ask(Mutate("roots", [put(b"a", value, stamp)]))
        assert ask(Read("roots", [b"a"])) == [{b"d:b": Cell(b"2", 3)}]

    def test_a_check_compares_a_removed_cell_with_its_value(self, ask: Ask, engine: Engine) -> None:
        show_removed(engine)
        ask(Mutate("roots", [put(b"a", REMOVED)]))
        assert ask(CheckAndMutate("roots", b"d:b", ABSENT, put(b"a", b"1", 2))) is False
        assert ask(CheckAndMutate("roots", b"d:b", REMOVED, put(b"a", b"1", 2))) is True

    def test_an_engine_has_the_protocols_that_it_declares(self, engine: Engine) -> None:
        assert isinstance(engine, Snapshots) or not engine.capabilities.snapshot
        assert engine.capabilities.local or not isinstance(engine, LocalReads)

    # Scans

    def test_a_scan_goes_in_byte_order(self, ask: Ask) -> None:
        keys = [b"\x00", b"a", b"a\x00", b"aa", b"a\xff", b"b", b"\xff", b"\xff\xff"]
        ask(Mutate("roots", [put(key, b"1") for key in reversed(keys)]))
        assert [key for key, _ in ask(Scan("roots", ALL, 100))] == keys

    @pytest.mark.parametrize(
        ("within", "found"),
        [
            (RowRange(b"", b""), b"abcd"),
            (RowRange(b"b", b""), b"bcd"),
            (RowRange(b"", b"c"), b"ab"),
            (RowRange(b"b", b"c"), b"b"),
            (RowRange(b"a\x00", b"c\x00"), b"bc"),
            (RowRange(b"c", b"c"), b""),
            (RowRange(b"d", b"a"), b""),
            (RowRange(b"e", b""), b""),
            (RowRange(b"z" * 600, b""), b""),
        ],
    )
    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_range_holds_its_start_and_not_its_stop(
        self, ask: Ask, engine: Engine, within: RowRange, found: bytes, *, reverse: bool
    ) -> None:
        if reverse:
            require(engine, "reverse_scan")
        ask(Mutate("roots", [put(bytes([key]), b"1") for key in b"abcd"]))
        answer = ask(Scan("roots", within, 10, reverse))
        assert b"".join(key for key, _ in answer) == (found[::-1] if reverse else found)

    @pytest.mark.parametrize("limit", [0, 1, 2, 3, 4])
    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_scan_answers_at_most_its_limit(self, ask: Ask, engine: Engine, limit: int, *, reverse: bool) -> None:
        if reverse:
            require(engine, "reverse_scan")
        ask(Mutate("roots", [put(bytes([key]), b"1") for key in b"abc"]))
        keys = b"".join(key for key, _ in ask(Scan("roots", ALL, limit, reverse)))
        assert keys == (b"cba" if reverse else b"abc")[:limit]

    # Checks and increments

    def test_a_check_of_an_absent_column_holds_once(self, ask: Ask) -> None:
        claim = CheckAndMutate("counts", b"d:o", ABSENT, put(b"a", b"me", 1, b"d:o"))
        assert [ask(claim), ask(claim)] == [True, False]

    @pytest.mark.parametrize(("expected", "applied"), [(b"1", True), (b"2", False), (b"11", False), (ABSENT, False)])
    def test_a_check_compares_the_whole_value(self, ask: Ask, expected: bytes | None, *, applied: bool) -> None:
        ask(Mutate("roots", [put(b"a", b"1", 1, b"m:v")]))
        assert ask(CheckAndMutate("roots", b"m:v", expected, put(b"a", b"new", 2))) is applied
        assert (b"d:b" in ask(Read("roots", [b"a"], "dm"))[0]) is applied

    def test_one_of_many_concurrent_checks_wins(self, engine: Engine) -> None:
        def claim(who: int) -> bool:
            return bool(engine.answer(CheckAndMutate("counts", b"d:o", ABSENT, put(b"a", number(who), 1, b"d:o"))))

        assert sum(at_once(claim, range(THREADS))) == 1

    def test_check_and_mutate_counts_exactly(self, engine: Engine) -> None:
        def add(_who: int) -> None:
            for _ in range(10):
                while not self._added(engine):
                    pass

        at_once(add, range(THREADS))
        assert held(engine, "counts", b"d:n") == number(10 * THREADS)

    @staticmethod
    def _added(engine: Engine) -> bool:
        cell = cell_of(engine, "counts", b"a", b"d:n")
        old, stamp = (0, 0) if cell is None else (int(cell.value), cell.stamp)
        expected = None if cell is None else cell.value
        changed = put(b"a", number(old + 1), stamp + 1, b"d:n")
        return bool(engine.answer(CheckAndMutate("counts", b"d:n", expected, changed)))

    def test_increments_add_up(self, ask: Ask, engine: Engine) -> None:
        assert [ask(Increment("counts", b"a", b"d:n", amount)) for amount in (5, -7, 2**40)] == [5, -2, 2**40 - 2]
        assert held(engine, "counts", b"d:n") == (2**40 - 2).to_bytes(8, "big", signed=True)

    def test_increments_of_many_threads_add_up(self, engine: Engine) -> None:
        at_once(lambda _who: [engine.answer(Increment("counts", b"a", b"d:n", 1)) for _ in range(10)], range(THREADS))
        assert engine.answer(Increment("counts", b"a", b"d:n", 0)) == 10 * THREADS

    # Plans

    def test_plans_together_answer_in_their_order(self, ask: Ask, drive: Drive) -> None:
        ask(Mutate("roots", [put(b"a", b"1"), put(b"b", b"2")]))
        plans = [iter(Read("roots", [key])) for key in (b"b", b"a", b"x")]
        (two,), (one,), (none,) = drive(iter(Together(plans)))
        assert (two[b"d:b"].value, one[b"d:b"].value, none) == (b"2", b"1", None)

    # Transactions

    def test_engines_without_transactions_say_so(self, engine: Engine) -> None:
        if engine.capabilities.spans_rows:
            pytest.skip("the engine has transactions")
        with pytest.raises(Unsupported):
            engine.transaction(lambda _answer: None, 1)

    def test_replace_needs_a_transaction(self, ask: Ask) -> None:
        with pytest.raises(Unsupported):
            ask(Replace("roots", {b"a": None}))

    def test_a_transaction_writes_all_its_rows(self, ask: Ask, drive: Drive, engine: Engine) -> None:
        require(engine, "spans_rows")
        ask(Mutate("roots", [put(b"gone", b"1"), put(b"kept", b"1", 9, b"m:e")]))

        def run(store: CountedStore) -> str:
            store.replace("roots", {b"a": {b"d:b": Cell(b"2", 1)}, b"gone": None, b"kept": {b"d:v": Cell(b"3", 1)}})
            store.replace("views", {b"v": {b"d:b": Cell(b"4", 1)}})
            return "done"

        assert drive(iter(Atomically(run))) == "done"
        assert dict(ask(Scan("roots", ALL, 10, families="dm"))) == {
            b"a": {b"d:b": Cell(b"2", 1)},
            b"kept": {b"d:v": Cell(b"3", 1)},
        }
        assert ask(Read("views", [b"v"])) == [{b"d:b": Cell(b"4", 1)}]

    @pytest.mark.parametrize("writes", [False, True])
    def test_a_transaction_that_raises_leaves_nothing(
        self, ask: Ask, drive: Drive, engine: Engine, *, writes: bool
    ) -> None:
        require(engine, "spans_rows")
        ask(Mutate("roots", [put(b"a", b"1")]))

        def run(store: CountedStore) -> None:
            store.read("roots", [b"a"])
            if writes:
                store.replace("roots", {b"a": None, b"b": {b"d:b": Cell(b"2", 1)}})
                store.replace("counts", {b"n": {b"d:n": Cell(number(1), 1)}})
            raise UndoneOnPurpose

        with pytest.raises(UndoneOnPurpose):
            drive(iter(Atomically(run)))
        assert ask(Scan("roots", ALL, 10)) == [(b"a", {b"d:b": Cell(b"1", 1)})]
        assert ask(Read("counts", [b"n"])) == [None]

    def test_a_transaction_alone_sees_its_writes(self, engine: Engine) -> None:
        require(engine, "spans_rows")

        def run(rows: RowTransaction) -> list[Any]:
            rows.replace("roots", {b"b": {b"d:b": Cell(b"2", 1)}, b"c": {b"d:b": Cell(b"3", 1)}})
            rows.replace("roots", {b"c": None})
            outside = engine.answer(Scan("roots", ALL, 10)), cell_of(engine, "roots", b"b", b"d:b")
            inside = rows.scan("roots", ALL, 10), rows.read("roots", [b"b", b"c"])
            rows.replace("roots", {b"b": {b"d:b": Cell(b"4", 2)}})
            return [outside, inside, rows.scan("roots", ALL, 1, reverse=True)]

        engine.answer(Mutate("roots", [put(b"a", b"1")]))
        old = (b"a", {b"d:b": Cell(b"1", 1)})
        row: Row = {b"d:b": Cell(b"2", 1)}
        outside, inside, last = engine.transaction(run, 5)
        assert outside == ([old], None)
        assert inside == ([old, (b"b", row)], [row, None])
        assert last == [(b"b", {b"d:b": Cell(b"4", 2)})]

    def test_transactions_of_many_threads_count_exactly(self, engine: Engine) -> None:
        require(engine, "spans_rows")

        def add(rows: RowTransaction) -> None:
            (row,) = rows.read("counts", [b"a"])
            old = int(row[b"d:n"].value) if row else 0
            rows.replace("counts", {b"a": {b"d:n": Cell(number(old + 1), 1)}})

        at_once(lambda _who: [engine.transaction(add, 30) for _ in range(20)], range(THREADS))
        assert held(engine, "counts", b"d:n") == number(20 * THREADS)

    def test_a_failing_transaction_does_not_touch_the_ones_beside_it(self, engine: Engine) -> None:
        require(engine, "spans_rows")

        def run(who: int) -> bool:
            def work(rows: RowTransaction) -> None:
                rows.replace("roots", {number(who): {b"d:b": Cell(b"1", 1)}})
                if who % 2:
                    raise UndoneOnPurpose

            try:
                engine.transaction(work, 30)
            except UndoneOnPurpose:
                return False
            return True

        assert at_once(run, range(THREADS)) == [True, False] * (THREADS // 2)
        assert [int(key) for key, _ in engine.answer(Scan("roots", ALL, 100))] == list(range(0, THREADS, 2))

    def test_a_transaction_without_a_turn_in_time_writes_nothing(self, engine: Engine) -> None:
        """Or all of it, where a function is called before its turn: then it keeps no other one waiting."""
        require(engine, "spans_rows")
        inside, done = threading.Event(), threading.Event()

        def hold(_rows: RowTransaction) -> None:
            inside.set()
            assert done.wait(30)

        refusal, row = None, {b"d:b": Cell(b"1", 1)}
        holder = threading.Thread(target=engine.transaction, args=(hold, 5))
        holder.start()
        try:
            assert inside.wait(30)
            try:
                engine.transaction(lambda rows: rows.replace("roots", {b"a": row}), 0.01)
            except Unavailable as failure:
                refusal = failure
        finally:
            done.set()
            holder.join()
        assert engine.answer(Scan("roots", ALL, 2)) == ([(b"a", row)] if refusal is None else [])
        assert not self.decides_in_turn if refusal is None else refusal.retryable

    # Snapshots

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
            drive(Snapshot(asked.__iter__).__iter__())
        assert ask(Scan("roots", ALL, 10)) == []

    def test_a_checked_scan_finds_the_same_rows(self, engine: Engine, ask: Ask) -> None:
        snapshot = snapshots(engine).snapshot
        rows = [put(b"%03d" % each, b"%d" % each, column=(b"d:b", b"m:b")[each % 2]) for each in range(150)]
        ask(Mutate("roots", rows))
        ranges, limits = (ALL, RowRange(b"003", b"140"), RowRange(b"z", b"")), (0, 1, 64, 65, 200)
        for within, limit, reverse, families in product(ranges, limits, (False, True), get_args(Families)):
            asked = Scan("roots", within, limit, reverse, families)
            checked = Scan("roots", within, limit, reverse, families, checked=True)
            assert snapshot(partial(read_by, asked=checked)) == snapshot(partial(read_by, asked=asked))

    def test_a_snapshot_raises_the_error_of_its_plan_and_ends(self, engine: Engine, ask: Ask) -> None:
        snapshot = snapshots(engine).snapshot

        def failing(_rows: RowReads) -> None:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            snapshot(failing)
        ask(Mutate("roots", [put(b"a", b"1")]))
        assert snapshot(lambda rows: len(rows.scan("roots", ALL, 10))) == 1

    # Limits

    def test_the_longest_key_fits_and_a_longer_one_does_not(self, ask: Ask, engine: Engine) -> None:
        longest = b"k" * engine.capabilities.max_key
        ask(Mutate("roots", [put(longest, b"1")]))
        assert ask(Read("roots", [longest, longest + b"k"])) == [{b"d:b": Cell(b"1", 1)}, None]
        with pytest.raises(LimitExceeded):
            ask(Mutate("roots", [put(longest + b"k", b"1")]))

    def test_a_row_has_a_key(self, ask: Ask) -> None:
        with pytest.raises(InvalidKey):
            ask(Mutate("roots", [put(b"", b"1")]))

    def test_the_largest_value_fits_and_a_larger_one_does_not(self, ask: Ask, engine: Engine) -> None:
        largest = bytes(engine.capabilities.max_value)
        ask(Mutate("roots", [put(b"a", largest)]))
        assert held(engine, "roots", b"d:b") == largest
        with pytest.raises(LimitExceeded):
            ask(Mutate("roots", [put(b"a", largest + b"1", 2)]))
        assert held(engine, "roots", b"d:b") == largest

    def test_a_row_has_its_limit_too(self, ask: Ask, engine: Engine) -> None:
        largest = bytes(min(engine.capabilities.max_value, engine.capabilities.max_row // 2 + 1))
        ask(Mutate("roots", [put(b"a", largest)]))
        with pytest.raises(LimitExceeded):
            ask(Mutate("roots", [put(b"a", largest, 1, b"d:v"), put(b"a", largest, 1, b"d:w")]))

    def test_a_column_is_of_a_family(self, ask: Ask) -> None:
        with pytest.raises(UsageError):
            ask(Mutate("roots", [put(b"a", b"1", 1, b"x:b")]))

    # Everything at once

    def test_any_sequence_of_requests_answers_as_a_plain_dict_does(
        self, open_engine: OpenEngine, drives: Drives
    ) -> None:
        class Machine(StoreMachine):
            def __init__(self) -> None:
                engine = open_engine()
                super().__init__(engine, drives(engine))

        run_state_machine_as_test(Machine, settings=settings(max_examples=self.examples or settings().max_examples))


def held(engine: Engine, table: Table, column: bytes) -> bytes | None:
    """The value of that column of row `a`."""
    cell = cell_of(engine, table, b"a", column)
    return None if cell is None else cell.value


def cell_of(engine: Engine, table: Table, key: bytes, column: bytes) -> Cell | None:
    """One cell, read as every engine can."""
    row: Row | None = engine.answer(Read(table, [key], "dm"))[0]
    return None if row is None else row.get(column)


def at_once(work: Callable[[int], Any], given: range) -> list[Any]:
    """Runs `work` in as many threads as there are arguments, all starting at the same moment."""
    gate = threading.Barrier(len(given))

    def enter(argument: int) -> object:
        gate.wait(30)
        return work(argument)

    with ThreadPoolExecutor(len(given)) as pool:
        return list(pool.map(enter, given))
