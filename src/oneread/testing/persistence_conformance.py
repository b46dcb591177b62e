"""What closing an engine does, and what a persistent one holds afterwards, in executable form.

Part of `EngineConformance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias, get_args

import pytest

from oneread.errors import Closed
from oneread.store.engine import Engine, HoldsCursorKey, LocalReads, RowTransaction, SendsAhead, Snapshots, finish
from oneread.store.requests import ABSENT, CheckAndMutate, Increment, Mutate, Read, Scan
from oneread.store.rows import REMOVED, TABLES, Cell, EntityRow, Families, RowMutation, Table
from oneread.testing.local_conformance import ALL, put
from oneread.testing.transaction_conformance import require

ReopenEngine: TypeAlias = Callable[[Engine], Engine]
"""Opens the store of an engine that was closed."""

Reopen: TypeAlias = Callable[[], Engine]
"""Closes the engine under test, or the one that this made before, and opens its store again."""

HOW: Final = (
    "the engine declares `persistent`: define the fixture `reopen_engine` beside `open_engine`, a function of a closed "
    "engine that opens its store again, as in `return lambda engine: MyEngine(engine.path)`"
)
LARGE: Final = b"\x00large" * 50_000
KEY_BYTES: Final = 32
ADDED: Final = 5
LATE: Final = 1_700_000_000_001


class PersistenceConformance:
    """A closed engine answers nothing; what is there after a close is asked of those that declare `persistent`."""

    @pytest.fixture
    def reopen(self, engine: Engine, request: pytest.FixtureRequest) -> Iterator[Reopen]:
        require(engine, "persistent")
        try:
            open_again: ReopenEngine = request.getfixturevalue("reopen_engine")
        except pytest.FixtureLookupError as error:
            if error.argname != "reopen_engine":
                raise
            pytest.fail(HOW, pytrace=False)
        opened = [engine]

        def reopen() -> Engine:
            opened[-1].close()
            opened.append(open_again(opened[-1]))
            return opened[-1]

        yield reopen
        opened[-1].close()

    def test_a_closed_engine_says_so(self, open_engine: Callable[[], Engine]) -> None:
        engine = open_engine()
        engine.close()
        engine.close()
        asked: list[Callable[[], Any]] = [
            lambda: engine.answer(Read("roots", [b"a"])),
            lambda: engine.answer(Scan("roots", ALL, 1)),
            lambda: engine.answer(Mutate("roots", [put(b"a", b"1")])),
            lambda: engine.answer(CheckAndMutate("roots", b"d:b", ABSENT, put(b"a", b"1"))),
            lambda: engine.answer(Increment("counts", b"a", b"d:n", 1)),
        ]
        if engine.capabilities.spans_rows:
            asked.append(partial(engine.transaction, lambda rows: rows.replace("roots", {}), 1))
        if isinstance(engine, Snapshots):
            asked.append(partial(engine.snapshot, lambda rows: rows.read("roots", [b"a"])))
        if isinstance(engine, LocalReads):
            asked.append(partial(engine.point, "roots", b"a", b"d:b"))
            asked.append(partial(engine.column, "roots", ALL, 1, b"d:b"))
            asked.append(partial(engine.together, "counts", b"a", b"d:n", [("roots", b"", 1)]))
        if isinstance(engine, SendsAhead):
            asked.append(lambda: finish(engine.begin(Read("roots", [b"a"]))))
        for call in asked:
            with pytest.raises(Closed):
                call()

    @pytest.mark.parametrize("table", TABLES)
    def test_what_was_written_is_there_after_a_close(self, engine: Engine, reopen: Reopen, table: Table) -> None:
        for asked in written(table):
            engine.answer(asked)
        before = stored(engine)
        again = reopen()
        assert stored(again) == before
        assert [key for key, _row in before[table, "dm"]] == [
            b"\x00", b"a", b"a\x00b", b"part", b"partly", b"removed", b"\xff\xff"
        ]  # fmt: skip
        if isinstance(again, LocalReads):
            assert again.point(table, b"a", b"d:c:x") == (bytes(range(256)), 9)

    def test_a_store_that_is_opened_again_keeps_its_rules(self, engine: Engine, reopen: Reopen) -> None:
        """Its stamps and its removed cells still win over what is older; checks and increments find what was there."""
        for asked in written("counts"):
            engine.answer(asked)
        assert engine.answer(Increment("counts", b"n", b"d:n", ADDED)) == ADDED
        again = reopen()
        late = [put(b"a", b"late", 7), put(b"removed", b"late", 5), put(b"part", b"late", 4, b"d:v")]
        again.answer(Mutate("counts", [*late, RowMutation(b"\xff\xff", delete_row=2)]))
        assert again.answer(CheckAndMutate("counts", b"d:b", b"1", put(b"a", b"no", 20))) is False
        assert again.answer(CheckAndMutate("counts", b"d:b", b"3", put(b"a", b"4", 20))) is True
        assert again.answer(Increment("counts", b"n", b"d:n", 1)) == ADDED + 1
        again = reopen()
        found = again.answer(Read("counts", [b"a", b"removed", b"part", b"\xff\xff", b"gone"], "dm"))
        assert [row and {column: cell.value for column, cell in row.items()} for row in found] == [
            {b"d:b": b"4", b"d:c:x": bytes(range(256)), b"m:e": b"2"},
            {b"d:b": REMOVED},
            {b"d:v": b"2"},
            {b"d:b": LARGE},
            None,
        ]
        assert again.answer(Increment("counts", b"n", b"d:n", 0)) == ADDED + 1

    def test_a_transaction_is_there_after_a_close(self, engine: Engine, reopen: Reopen) -> None:
        require(engine, "spans_rows")

        def write(rows: RowTransaction) -> None:
            rows.replace("system", {b"s": {b"d:b": Cell(b"", 1), b"m:e": Cell(REMOVED, LATE)}, b"a": None})
            rows.replace_values("views", {b"v\x00": b"", b"w": LARGE, b"a": None}, LATE)
            rows.replace_roots({b"r": EntityRow(7, b"body", b"record", 7), b"d": EntityRow(5, None, b"record")})

        for table in TABLES:
            engine.answer(Mutate(table, [put(b"a", b"1")]))
        engine.transaction(write, 30)
        before = stored(engine)
        assert [len(before[table, "dm"]) for table in ("roots", "views", "counts", "system")] == [3, 2, 1, 1]
        assert stored(reopen()) == before
        assert stored(reopen()) == before

    def test_a_new_store_is_empty_whatever_others_hold(
        self, engine: Engine, open_engine: Callable[[], Engine], reopen: Reopen
    ) -> None:
        engine.answer(Mutate("roots", [put(b"a", b"1")]))
        reopen()
        other = open_engine()
        try:
            assert other.answer(Read("roots", [b"a"], "dm")) == [None]
        finally:
            other.close()

    def test_the_cursor_key_is_that_of_the_store(self, engine: Engine, reopen: Reopen) -> None:
        if not isinstance(engine, HoldsCursorKey):
            pytest.skip("the engine holds no key of cursors")
        key = engine.cursor_key()
        assert len(key) == KEY_BYTES
        again = reopen()
        assert isinstance(again, HoldsCursorKey)
        assert again.cursor_key() == key


def written(table: Table) -> list[Mutate | CheckAndMutate]:
    """Requests of each kind that changes rows: stamps, removed cells, deletes, and values of every size."""
    cells = {b"d:b": Cell(b"1", 7), b"d:c:x": Cell(bytes(range(256)), 9), b"m:e": Cell(b"2", LATE)}
    return [
        Mutate(table, [put(b"\x00", b"zero"), put(b"a\x00b", b"", 5), RowMutation(b"a", cells)]),
        Mutate(table, [put(b"\xff\xff", LARGE, 3), put(b"gone", b"1", 5), put(b"removed", b"1", 5)]),
        Mutate(table, [put(b"part", b"1", 5), put(b"part", b"2", 5, b"d:v"), put(b"removed", REMOVED, 6)]),
        Mutate(table, [RowMutation(b"gone", delete_row=5), RowMutation(b"part", deletes={b"d:b": 5})]),
        Mutate(table, [RowMutation(b"partly", {b"d:b": Cell(b"1", 2), b"m:e": Cell(REMOVED, 3)})]),
        CheckAndMutate(table, b"d:b", b"1", put(b"a", b"3", 8)),
        CheckAndMutate(table, b"d:b", b"1", put(b"a", b"refused", 9)),
    ]


def stored(engine: Engine) -> dict[tuple[Table, Families], Any]:
    """The rows of every table, as readers and as writers see them."""
    kinds: list[tuple[Table, Families]] = [(table, families) for table in TABLES for families in get_args(Families)]
    return {(table, families): engine.answer(Scan(table, ALL, 100, families=families)) for table, families in kinds}
