"""Any row may be damaged: verify and repair end, what is left is named, and no write fails for good without saying why.

Each case damages one row, or one cell of it, of a store with every kind of row. A run takes a sample of them, the same
each time; `ONEREAD_DAMAGES=all` takes all, `ONEREAD_DAMAGES=SEED` another sample.
"""

import os
import random
import sys
from typing import NamedTuple

import lmdb
import pytest

from oneread import Copy, Index, Key, Model, Schema, by, connect
from oneread.engines import memory, one_row_memory
from oneread.errors import (
    AlreadyExists,
    Corrupt,
    Expired,
    MissingReference,
    NotFound,
    OnereadError,
    SchemaMismatch,
    StillReferenced,
)
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, Cell, RowRange
from oneread.testing.clock import Clock
from oneread.transactions.intents import USED
from oneread.transactions.root import BODY, VERSION
from oneread.transactions.system_rows import FENCE_ROW, SCHEMA_ROW
from oneread.verify import looks, sums
from tests.failures.damage_models import attempt, fill, opened, read_all, write_all

SAMPLE = 40
"""Cases of each store."""

GONE = (NotFound, MissingReference, AlreadyExists, StillReferenced)
"""What a write may raise when a damaged entity counts as deleted, or has another one's value."""


class Case(NamedTuple):
    table: str
    key: bytes
    what: str
    row: dict | bytes | None
    """The damaged row; of LMDB also its bytes."""

    def __repr__(self):
        return f"{self.table} {self.key!r} {self.what}"


class Store:
    """A filled store, which returns to what it was."""

    def __init__(self, kind, folder):
        self.kind = kind
        self.folder = folder / "store"
        self.url = {"row": "memory://damaged?span=row", "memory": "memory://damaged", "lmdb": f"lmdb://{self.folder}"}[
            kind
        ]
        if kind == "lmdb":
            self.url += "?map_size=32M&durability=none"
        self.clock = Clock()
        for each in (memory, one_row_memory):
            each.forget("damaged")
        with self.open() as db:
            fill(db, self.clock)
            self.rows = self.read(db)
            self.known = {fault.text for fault in db.verify().faults}
        self.begun = self.clock.now

    def open(self):
        return opened(self.url, self.clock)

    def read(self, db):
        ask = db._driver.engine.answer
        return {table: dict(ask(Scan(table, RowRange(b"", b""), 10_000, families="dm"))) for table in TABLES}

    def put(self, db, table, rows):
        engine = db._driver.engine
        inner = engine._store if self.kind == "row" else engine
        inner.transaction(lambda inside: inside.replace(table, rows), 30)
        if self.kind == "row":
            engine.compact()

    def damage(self, case):
        if isinstance(case.row, bytes):
            with lmdb.open(str(self.folder), max_dbs=10, map_size=1 << 25) as raw, raw.begin(write=True) as inside:
                inside.put(case.key, case.row, db=raw.open_db(case.table.encode(), inside, create=False))
            return
        with self.open() as db:
            self.put(db, case.table, {case.key: case.row})

    def restore(self, case):
        self.clock.set(self.begun)
        if isinstance(case.row, bytes):  # it may not be readable
            self.damage(Case(case.table, case.key, "", self.raw()[case.table, case.key]))
        with self.open() as db:
            now = self.read(db)
            for table in TABLES:
                before = self.rows[table]
                changed = dict.fromkeys(now[table].keys() - before.keys())
                changed |= {key: row for key, row in before.items() if now[table].get(key) != row}
                self.put(db, table, changed)

    def raw(self):
        """The bytes of all rows of LMDB."""
        if not hasattr(self, "_raw"):
            with lmdb.open(str(self.folder), max_dbs=10, map_size=1 << 25) as raw, raw.begin() as inside:
                self._raw = {
                    (table, bytes(key)): bytes(value)
                    for table in TABLES
                    for key, value in inside.cursor(raw.open_db(table.encode(), inside, create=False))
                }
        return self._raw

    def cases(self, draw):
        """Every damage of every row, but of those without which a store is not opened."""
        for table in TABLES:
            for key, row in self.rows[table].items():
                if table == "system" and key in (SCHEMA_ROW, FENCE_ROW):
                    continue
                others = [other for each, other in self.rows[table].items() if each[:2] == key[:2] and other != row]
                for what, damaged in damages(draw, row, others):
                    yield Case(table, key, what, damaged)
        for (table, key), value in self.raw().items() if self.kind == "lmdb" else ():
            if table != "system" or key not in (SCHEMA_ROW, FENCE_ROW):
                for what, damaged in damaged_values(draw, value):
                    if damaged:
                        yield Case(table, key, f"bytes {what}", damaged)


def damages(draw, row, others):
    """Ways to damage a row: whole, and cell by cell."""
    yield "is gone", None
    if others:
        yield "is another row", draw.choice(others)
    yield "has another cell", row | {b"d:z": Cell(b"x", 1)}
    for column, cell in row.items():
        yield f"{column} is gone", {each: other for each, other in row.items() if each != column} or None
        values = list(damaged_values(draw, cell.value))
        same = [other[column].value for other in others if column in other and other[column].value != cell.value]
        values += [("is another row's", draw.choice(same))] if same else []
        for what, value in values:
            yield f"{column} {what}", row | {column: Cell(value, cell.stamp)}


def damaged_values(draw, value):
    """Ways to damage bytes."""
    yield "is noise", draw.randbytes(len(value) or 1)
    yield "is no msgpack", b"\xff\xff"
    yield "is nested", b"\x91" * 3000
    if value:
        place = draw.randrange(len(value))
        yield "is empty", b""
        yield "is cut", value[: draw.randrange(len(value))]
        yield (
            f"has another bit at {place}",
            bytes(byte ^ (1 << draw.randrange(8)) if each == place else byte for each, byte in enumerate(value)),
        )
        yield f"has c1 at {place}", value[:place] + b"\xc1" + value[place + 1 :]


def problems(store, case):
    """What is wrong with how a damaged row is treated."""
    store.damage(case)
    db = attempt(store.open)
    if isinstance(db, Exception):
        return [f"cannot be opened: {db!r}"]
    with db:
        return [*problems_of_readers(db), *problems_of_repair(store, db)]


def problems_of_readers(db):
    """Whether something else is raised than that stored bytes are damaged."""
    for name, found in read_all(db):
        if isinstance(found, Exception) and not isinstance(found, Corrupt | Expired | SchemaMismatch):
            yield f"read of {name}: {found!r}"


def problems_of_repair(store, db):
    """Whether verify, repair and drop name or mend everything, and writes work or say what is the matter."""
    found, repaired, again = (attempt(work) for work in (db.verify, db.repair, db.verify))
    raised = [each for each in (found, repaired, again) if isinstance(each, Exception)]
    if raised:
        yield f"verify or repair: {raised[0]!r}"
        return
    left = [fault for fault in again.faults if fault.text not in store.known]
    yield from (f"skipped: {each}" for each in again.skipped)
    if not repaired.reasons:
        yield from (f"not mended, without a reason: {fault.text}" for fault in left if fault.mendable)
    yield from problems_of_writers(store, db, is_named=bool(left))
    db.drop(*[fault for fault in again.faults if fault.droppable])
    attempt(db.repair)
    yield from problems_of_writers(store, db, is_named=False)
    attempt(db.repair)
    last = attempt(db.verify)
    if isinstance(last, Exception) or last.skipped or any(fault.view != "copy" for fault in last.faults):
        yield f"not clean after drop and repair: {last!r}"


def problems_of_writers(store, db, *, is_named):
    """Whether a write fails for good though no fault is left, or says that it may be tried again."""
    for name, error in write_all(db, store.clock):
        if not isinstance(error, OnereadError) or error.retryable or not (is_named or isinstance(error, GONE)):
            yield f"write of {name}: {error!r}"


@pytest.fixture(scope="module", params=["memory", "lmdb", "row"])
def store(request, tmp_path_factory):
    return Store(request.param, tmp_path_factory.mktemp("damaged"))


def chosen(store):
    asked = os.environ.get("ONEREAD_DAMAGES", "1")
    draw = random.Random(1 if asked == "all" else int(asked))
    cases = list(store.cases(draw))
    return cases if asked == "all" else draw.sample(cases, SAMPLE)


@pytest.fixture
def apart(monkeypatch):
    for module in (looks, sums):
        monkeypatch.setattr(module, "APART", 0.0)


@pytest.mark.usefixtures("apart")
def test_no_damaged_row_stops_verify_repair_or_writes(store):
    wrong = {}
    for case in chosen(store):
        found = problems(store, case)
        if found:
            wrong[repr(case)] = found
            sys.stdout.write(f"{case!r}: {found}\n")
        store.restore(case)
    assert not wrong


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("value", [b"", bytes(8)], ids=bytes.hex)
def test_a_version_that_no_commit_can_compare_is_damage(store, value):
    """One row of each model: no request can ask for an empty version, and no number that was read is the others."""
    rows = {key[:2]: (key, row) for key, row in store.rows["roots"].items() if BODY in row and VERSION in row}
    for key, row in rows.values():
        case = Case("roots", key, f"version {value!r}", row | {VERSION: Cell(value, row[VERSION].stamp)})
        assert not problems(store, case), case
        store.restore(case)


class Plain(Model[int]):
    number: Key[int]
    name: str = ""


WRITES = {
    "save": lambda db: db.save(Plain(number=1, name="b")),
    "patch": lambda db: db.patch(Plain, 1, name="b"),
    "upsert": lambda db: db.upsert(Plain(number=1), name="b"),
    "delete": lambda db: db.delete(Plain, 1),
    "transact": lambda db: db.transact(lambda work: work.patch(Plain, 1, name="b")),
}


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("value", [b"", bytes(3), bytes(8), bytes(9)], ids=bytes.hex)
@pytest.mark.parametrize("verb", WRITES)
def test_who_writes_a_row_with_such_a_version_learns_which(verb, value):
    asked = []
    with connect(
        "memory://?span=row", Schema(Plain), workers=0, observers=(lambda request, _answer: asked.append(request),)
    ) as db:
        db.save(Plain(number=1, name="a"))
        ((key, row),) = db.run(Scan("roots", RowRange(b"", b""), 2, families="dm").__iter__())
        engine = db._driver.engine
        damaged = {key: row | {VERSION: Cell(value, row[VERSION].stamp)}}
        engine._store.transaction(lambda inside: inside.replace("roots", damaged), 30)
        asked.clear()
        with pytest.raises(Corrupt, match="run `oneread repair`") as refused:
            WRITES[verb](db)
        assert refused.value.facts["key"] == "Plain(1)"
        assert len(asked) <= 5
        assert db.get(Plain, 1).name == "a"
        assert [fault.entity for fault in db.verify().faults] == ["Plain(1)"]
        assert db.repair().clean
        WRITES[verb](db)
        db.drain()
        assert db.verify().clean


class NameOf(Copy[Plain]):
    missing_ok = True

    name: str


class Holder(Model[int]):
    number: Key[int]
    first: NameOf
    second: NameOf
    title: str = ""

    def check(self) -> None:
        if self.first.name == "refused":
            raise ZeroDivisionError("a mistake in a user's own check")


class Holders(Index[Holder]):
    title: str = by(Holder.title)


@pytest.mark.usefixtures("apart")
@pytest.mark.parametrize("refused", [1, 2])
def test_a_holder_that_refuses_what_it_takes_again_is_mended_but_for_that(refused):
    """The versions of its sources cannot be read, so it takes all values again; repair says which it refuses."""
    schema = Schema(Plain, Holder, Holders)
    with connect("memory://?span=row", schema, workers=0) as db:
        db.save_all([Plain(number=1, name="a"), Plain(number=2, name="b")])
        db.save(Holder(number=1, first=NameOf.of(refused), second=NameOf.of(3 - refused), title="t"))
        db.patch(Plain, refused, name="refused")
        db.drain()
        inner = db._driver.engine._store
        ask = db._driver.engine.answer
        rows = dict(ask(Scan("roots", RowRange(b"", b""), 10, families="dm")))
        key = db.operations.kind(Holder).key((1,))
        damaged = rows[key] | {USED: Cell(b"\xff", rows[key][USED].stamp)}
        index = {place: None for place, _row in ask(Scan("views", RowRange(b"", b""), 10)) if b"t" in place}
        inner.transaction(lambda inside: inside.replace("roots", {key: damaged}), 30)
        inner.transaction(lambda inside: inside.replace("views", index), 30)
        db._driver.engine.compact()
        assert {fault.view for fault in db.verify().faults} == {"commit", "Holders", "copy"}
        repaired = db.repair()
        assert [fault.view for fault in repaired.left] == ["copy"]
        assert repaired.reasons
        for reason in repaired.reasons:
            assert f"Plain({refused})" in reason
            assert "ZeroDivisionError" in reason
        db.patch(Plain, 3 - refused, name="c")
        db.patch(Plain, refused, name="d")
        db.drain()
        assert db.verify().clean
        assert db.get(Holder, 1).second.name == "c"
