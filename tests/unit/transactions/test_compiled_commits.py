"""Saves that are committed without a function in a transaction: they answer, cost and write what one does."""

import random
from collections import Counter
from contextlib import contextmanager
from typing import Annotated

import msgspec
import pytest

from oneread import Copy, Index, Key, Model, Schema, add, by, connect
from oneread.costs.budgets import budget
from oneread.derivations.changes import Save
from oneread.engines.lmdb import binding, decision
from oneread.engines.lmdb.transaction import JobWork
from oneread.engines.lmdb.turn import Turn
from oneread.errors import AlreadyExists, Conflict, InvalidValue, NotFound, OnereadError, StoreReplaced, Unavailable
from oneread.store.requests import Scan
from oneread.store.rows import TABLES, RowRange
from oneread.transactions.commit import Commit
from oneread.transactions.system_rows import FENCE_ROW
from tests.failures.stores import until
from tests.unit.derivations.known_to_core import FED, FED_BY_PYTHON, KNOWN, Chance, FedChance
from tests.unit.derivations.test_core_programs import Lamp, Lamps, Sale, Shop, ShopOf, Town, TownOf, do, refuse

if not binding.NATIVE:
    pytest.skip(f"no call commits: {binding.NATIVE.why}", allow_module_level=True)

SIDES, SEEDS, STEPS, HANDLES = ("compiled", "function"), 4, 150, 2
SCHEMAS = {"known": (KNOWN, Chance), "fed": (FED, FedChance), "fed by Python": (FED_BY_PYTHON, FedChance)}
ALL = RowRange(b"", b"")


def without_calls(db):
    """The same database, whose commits are functions in transactions."""
    db._driver.at_once = db._driver.commits = None
    return db


class Sides:
    """Two stores, with such commits and without, each opened twice; one clock for all."""

    def __init__(self, folder, schema):
        self.now, self._schema = 1_000_000, schema
        self.opened = {side: [self._open(f"lmdb://{folder}/{side}?durability=none") for _ in "12"] for side in SIDES}
        for db in self.opened["function"]:
            without_calls(db)

    def _open(self, url):
        db = connect(url, self._schema, workers=0, clock=lambda: self.now)
        db._driver.chance = lambda: random.Random(self.now).random()  # of the rows of counters, as often as it is asked
        return db

    def close(self):
        for db in (db for several in self.opened.values() for db in several):
            db.close()

    def rows(self, side):
        until(self.opened[side][0]._driver.engine._environment.writer.is_idle)
        return all_rows(self.opened[side][0])


def all_rows(db):
    """Every row, but the instants in the schema's."""
    engine = db._driver.engine
    found = {table: engine.answer(Scan(table, ALL, 1 << 20, families="dm")) for table in TABLES}
    return {(table, key): row for table, rows in found.items() for key, row in rows if key != b"schema"}


@pytest.fixture(params=SCHEMAS)
def sides(request, tmp_path):
    schema, chance_of = SCHEMAS[request.param]
    sides = Sides(tmp_path, schema)
    yield sides, chance_of
    sides.close()


def outcome(db, chance, kept):
    """What a step gives, or how it is refused: entities, versions, costs."""
    first = len(kept)
    try:
        do(db, chance, kept)
    except OnereadError as error:
        return type(error), str(error)
    return [(each, *of_result(db, each)) for each in kept[first:]]


def of_result(db, entity):
    try:
        return db.version(entity), db.cost(entity)
    except OnereadError:  # of a transaction: it says nothing of its costs
        return ()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_histories_are_the_same(sides, seed):
    sides, chance_of = sides
    chances, chance = {side: chance_of(random.Random(seed)) for side in SIDES}, random.Random(seed)
    kept = {side: [] for side in SIDES}
    for _ in range(STEPS):
        sides.now += chance.choice([0, 0, 1, 5, 900, -3])
        handle = chance.randrange(HANDLES)
        found = {side: outcome(sides.opened[side][handle], chances[side], kept[side]) for side in SIDES}
        assert found["compiled"] == found["function"]
        if not chance.randrange(30):
            assert len({sides.opened[side][handle].drain() for side in SIDES}) == 1
    assert sides.rows("compiled") == sides.rows("function")
    ways = {side: Counter(sides.opened[side][0].native.commits) for side in SIDES}
    assert ways["compiled"]["core"] > STEPS // 4
    assert not sides.opened["compiled"][0].verify().faults


class Pile(Model[int]):
    number: Key[int]
    name: str


class Named(Copy[Pile]):
    name: Annotated[str, msgspec.Meta(max_length=9)]


class Line(Model[int]):
    number: Key[int]
    kind: Annotated[str, msgspec.Meta(max_length=60)] = "a"
    pile: Named | None = None
    count: int = 0

    def check(self):
        if self.count < 0:
            raise ValueError("it is below zero")


class Tag(Model[int]):
    number: Key[int]
    pile: Named


class LinesOfKind(Index[Line]):
    kind: str = by(Line.kind)
    number: int = by(Line.number)


LINES = Schema(Pile, Line, Tag, LinesOfKind)


@pytest.fixture
def lines(tmp_path):
    with connect(f"lmdb://{tmp_path}/lines?durability=none", LINES, workers=0) as db:
        db.save_all([Pile(number=number, name=f"{number}") for number in range(3)])
        settle(db)
        yield db
        assert not db.verify().faults


@pytest.fixture
def other(tmp_path):
    """The store, opened a second time."""
    with connect(f"lmdb://{tmp_path}/lines?durability=none", LINES, workers=0) as db:
        yield without_calls(db)


def settle(db):
    until(db._driver.engine._environment.writer.is_idle)


def ways_of(db, work):
    """How the transactions of `work` were committed."""
    settle(db)
    before = Counter(db.native.commits)
    work()
    return dict(Counter(db.native.commits) - before)


def test_every_verb_and_bulk_writers_are_served(lines):
    assert ways_of(lines, lambda: lines.save(Line(number=1))) == {"core": 1}
    assert ways_of(lines, lambda: lines.create(Line(number=2))) == {"core": 1}
    assert ways_of(lines, lambda: lines.patch(Line, 1, count=add(1))) == {"core": 1}
    assert ways_of(lines, lambda: lines.upsert(Line(number=1), count=add(1))) == {"core": 1}
    assert ways_of(lines, lambda: lines.upsert(Line(number=3), count=add(1))) == {"core": 1}
    assert ways_of(lines, lambda: lines.get_or_create(Line(number=4))) == {"core": 1}
    assert ways_of(lines, lambda: lines.delete(Line, 4)) == {"core": 1}
    assert ways_of(lines, lambda: lines.save_all([Line(number=number) for number in range(9)])) == {"core": 1}
    with lines.bulk() as bulk:
        for number in range(300):
            bulk.save(Line(number=number))
        found = ways_of(lines, bulk.flush)
    assert found == {"core": 1}


def test_a_function_is_called_where_it_has_to_be(lines):
    def within_a_budget():
        with budget(requests=100):
            lines.save(Line(number=1))

    assert ways_of(lines, within_a_budget) == {"core": 1}
    with pytest.raises(NotFound):
        lines.patch(Line, 99, count=1)
    with pytest.raises(Conflict):
        lines.save(Line(number=1), if_version=7)
    with pytest.raises(AlreadyExists):
        lines.create(Line(number=1))
    assert lines.get_or_create(Line(number=1, count=9)) == (lines.get(Line, 1), False)


@pytest.mark.parametrize("wrong", [{"kind": 7}, {"kind": "k" * 61}, {"count": -1}, {"count": "1"}], ids=str)
def test_what_is_refused_is_not_written(lines, wrong):
    """It is decoded before it is committed, and not behind that."""
    before = all_rows(lines)
    for verb in (lines.save, lines.create, lambda line: lines.save_all([Line(number=2), line])):
        with pytest.raises(InvalidValue):
            verb(Line(number=1, **wrong))
    with pytest.raises(InvalidValue), lines.bulk() as bulk:
        bulk.save(Line(number=1, **wrong))
    assert all_rows(lines) == before
    lines.save(Line(number=1))
    before = all_rows(lines)
    with pytest.raises(InvalidValue):
        lines.patch(Line, 1, **wrong)
    assert all_rows(lines) == before


def test_a_name_that_no_copy_can_hold_is_not_written(lines):
    lines.save(Line(number=1, pile=Named.of(1)))
    before = all_rows(lines)
    with pytest.raises(InvalidValue, match="cannot hold the new value"):
        lines.save(Pile(number=1, name="n" * 10))
    assert all_rows(lines) == before
    with pytest.raises(InvalidValue, match="cannot hold the new value"):
        lines.save(Pile(number=2, name="n" * 10))  # without holders
    lines.save(Pile(number=1, name="new"))
    assert lines.get(Line, 1).pile.name == "new"


def test_holders_that_others_copy_are_looked_at_before_they_are_written(tmp_path):
    url, schema = f"lmdb://{tmp_path}/store?durability=none", Schema(Town, Shop, Lamp, Lamps, Sale)
    with connect(url, schema, workers=0) as db:
        db.save(Town(number=1, name="Ulm"))
        db.save(Shop(number=1, town=TownOf.of(1), sign="abc"))
        db.save(Sale(number=1, shop=ShopOf.of(1)))
        assert ways_of(db, lambda: db.patch(Town, 1, name="Bonn")) == {"core": 1}
        assert db.get(Sale, 1).shop.town == "Bonn"
        db.operations.catalog.entity_types[Shop].layout._take = refuse
        assert "core" not in ways_of(db, lambda: db.patch(Town, 1, name="Trier"))
        assert db.survey().set_aside == 1


def test_rows_that_are_not_to_be_followed_are_left_to_python(lines):
    changes = [Save(lines.operations.catalog, Line(number=1))]
    for unfollowed, way in ((), "core"), ((b"p",), "snapshot"):
        plan = lines.operations.committer.commit(Commit(changes, unfollowed=unfollowed))
        assert ways_of(lines, lambda plan=plan: lines._driver.run(plan, lines._trace())) == {way: 1}


def meanwhile(monkeypatch, target, name, act):
    """Does something behind the next call of a function, once."""
    call, todo = getattr(target, name), [act]

    def changed(*given, **named):
        found = call(*given, **named)
        if todo:
            todo.pop()()
        return found

    monkeypatch.setattr(target, name, changed)


def test_no_change_of_another_is_lost_behind_the_look_at_the_row(lines, other, monkeypatch):
    lines.save(Line(number=1))
    settle(lines)
    meanwhile(monkeypatch, lines._driver.engine, "point", lambda: other.patch(Line, 1, count=add(10)))
    assert lines.patch(Line, 1, count=add(1)).count == 11
    meanwhile(monkeypatch, lines._driver.engine, "point", lambda: other.delete(Line, 1))
    with pytest.raises(OnereadError, match="no such entity"):
        lines.patch(Line, 1, count=add(1))


@contextmanager
def committing(lines, monkeypatch, tmp_path, act):
    """Something is committed behind the next decision, as by another process: by the writer's thread."""
    environment = lines._driver.engine._environment

    def commit_of_another():
        callers, environment.callers = environment.callers, None
        try:
            with connect(f"lmdb://{tmp_path}/lines?durability=none", LINES, workers=0) as other:
                act(without_calls(other))
        finally:
            environment.callers = callers
        settle(lines)

    settle(lines)
    with monkeypatch.context() as patch:
        meanwhile(patch, decision, "decide", commit_of_another)
        yield


@pytest.mark.parametrize("act", ["changes it", "deletes it", "changes its source", "changes another"])
def test_no_change_of_another_is_lost_behind_the_decision(lines, tmp_path, monkeypatch, act):
    lines.save(Line(number=1, pile=Named.of(1)))
    acts = {
        "changes it": lambda db: db.patch(Line, 1, count=add(10)),
        "deletes it": lambda db: db.delete(Line, 1),
        "changes its source": lambda db: db.patch(Pile, 1, name="new"),
        "changes another": lambda db: db.patch(Pile, 2, name="new"),
    }
    with committing(lines, monkeypatch, tmp_path, acts[act]):
        saved = lines.save(Line(number=1, count=1, pile=Named.of(1)))
    assert saved == lines.get(Line, 1)
    assert (saved.count, saved.pile.name) == (1, "new" if act == "changes its source" else "1")


def test_holders_that_come_behind_the_decision(lines, monkeypatch, tmp_path):
    """What was decided has looked for them."""
    lines.save(Tag(number=1, pile=Named.of(1)))
    assert ways_of(lines, lambda: lines.save(Pile(number=1, name="newer"))) == {"core": 1}
    with committing(lines, monkeypatch, tmp_path, lambda db: db.save(Tag(number=2, pile=Named.of(1)))):
        lines.save(Pile(number=1, name="newest"))
    assert [lines.get(Tag, number).pile.name for number in (1, 2)] == ["newest"] * 2


def test_a_fence_that_changes_behind_the_decision(lines, monkeypatch, tmp_path):
    def change(db):
        write = db._driver.engine._environment.writer.transaction
        tables = db._driver.engine._tables
        write(JobWork(lambda rows: rows.replace_values("system", {FENCE_ROW: encode([7, 7])}, 1), tables), 5)

    before = Counter(lines.native.commits)
    with committing(lines, monkeypatch, tmp_path, change):
        lines.save(Line(number=1))
    assert dict(Counter(lines.native.commits) - before) == {"snapshot": 1}


def test_a_turn_that_does_not_come(lines, tmp_path):
    elsewhere = Turn(f"{tmp_path}/lines/writer.lock")
    assert elsewhere.take(0, lambda: True)
    lines._driver.timeout = 0.2
    with pytest.raises(Unavailable):
        lines.save(Line(number=1))
    elsewhere.close()
    assert not lines.exists(Line, 1)
    lines.save(Line(number=1))


def test_files_that_were_replaced(lines, tmp_path):
    (tmp_path / "lines/lock.mdb").rename(tmp_path / "moved")
    for verb in (lines.save, lambda line: lines.save_all([line])):
        with pytest.raises(StoreReplaced):
            verb(Line(number=1))
    (tmp_path / "moved").rename(tmp_path / "lines/lock.mdb")
    lines.save(Line(number=1))


def test_a_fence_that_has_to_be_read(lines):
    """As one that a newer program has changed."""
    """As where a newer program has changed it, or the store is moved."""
    engine, fence = lines._driver.engine, lines.operations.fence
    known = fence.needed[2]
    assert ways_of(lines, lambda: lines.save(Line(number=1))) == {"core": 1}
    for number, changed in enumerate(([7, 7], [7, 7, 1])):
        engine.transaction(lambda rows, to=changed: rows.replace_values("system", {FENCE_ROW: encode(to)}, 1), 5)
        assert ways_of(lines, lambda number=number: lines.save(Line(number=number))) == {"snapshot": 1}
    engine.transaction(lambda rows: rows.replace_values("system", {FENCE_ROW: known}, 1), 5)
    fence.is_stale = True
    assert fence.needed is None
    assert "core" not in ways_of(lines, lambda: lines.save(Line(number=2)))
    assert ways_of(lines, lambda: lines.save(Line(number=3))) == {"core": 1}


encode = msgspec.msgpack.encode
