"""Compiled code compares what Python compares: the same findings, in the same order, and as many entities and rows."""

import random
from contextlib import suppress
from decimal import Decimal

import msgspec
import pytest

from oneread import connect
from oneread.costs.budgets import budget
from oneread.engines.lmdb import binding
from oneread.errors import Corrupt, OnereadError
from oneread.plans.trace import Trace
from oneread.store.engine import CORE_TABLES
from oneread.store.requests import Scan
from oneread.verify.core_pass import CorePass
from oneread.verify.verify import VerifyOptions
from tests.schemas.trial import make, run
from tests.unit.derivations.known_to_core import FED, KNOWN, Chance, FedChance, Person, Place
from tests.unit.derivations.test_core_programs import DAY, do, visit_of
from tests.unit.engines.lmdb.test_decide import mutated
from tests.unit.verify.twin import Twin, not_known

SEEDS = 60
HISTORIES = 6
STEPS = 250
DAMAGES = 60
VISITS = 250
FORM_ROOT, FORM_OWN = 3, 4
COMPARED_WHOLE = {Chance: {"Place", "Person", "Visit"}, FedChance: {"Club", "Fan", "Joining"}}
COMPARED = [each for each in CORE_TABLES if each != "system"]

pytestmark = pytest.mark.skipif(binding.Comparison is None, reason="oneread-native is not installed")


def test_random_schemas(monkeypatch):
    twin = Twin(monkeypatch)
    for seed in range(SEEDS):
        run(make(seed), ("lmdb",))
    assert len(twin.content) > 5
    assert min(twin.content.total(), twin.rows.total()) > SEEDS


@pytest.fixture(params=range(HISTORIES))
def chance(request):
    return (FedChance if request.param % 3 == 2 else Chance)(random.Random(request.param))


@pytest.fixture
def db(chance, tmp_path):
    """A store after a random history of entities of random values."""
    now, kept = [1_000_000], []
    schema = FED if isinstance(chance, FedChance) else KNOWN
    with connect(f"lmdb://{tmp_path}/store?durability=none", schema, clock=lambda: now[0], workers=0) as opened:
        for _ in range(STEPS):
            now[0] += 1000
            with suppress(OnereadError):
                do(opened, chance, kept)
        opened.drain()
        yield opened


class Rows:
    """The bytes of all rows of a store, which are put behind everybody's back."""

    def __init__(self, db):
        self._engine = db._driver.engine

    def read(self):
        def all_of(inside):
            stored = [inside._transaction.cursor(inside._tables[table]) for table in COMPARED]
            return {table: dict(list(each)) for table, each in zip(COMPARED, stored, strict=True)}

        return self._engine.transaction(all_of, 30)

    def put(self, table, rows):
        self._engine.transaction(lambda inside: inside._written.setdefault(table, {}).update(rows), 30)


def damage(chance, rows):
    """Rows of one table that are put in place of the stored ones: gone, changed, in another's place, or too many."""
    table = chance.choice([each for each in COMPARED if rows[each]])
    key, other = chance.choice([*rows[table]]), chance.choice([*rows[table]])
    value = rows[table][key]
    match chance.randrange(6):
        case 0:
            return table, {key: None}
        case 1:
            return table, {key: rows[table][other]}
        case 2:
            return table, {(mutated(chance, key) or b"\0")[:500]: value}
        case 3:
            return table, {key[: -len(other) // 3] + other[-len(other) // 3 :]: value}
        case 4:
            return table, {key: value[:6] + mutated(chance, value[6:])}
        case _:
            return table, {key: mutated(chance, value) or b"\0"}


def test_random_damage(db, chance, monkeypatch):
    twin, rows, found = Twin(monkeypatch), Rows(db), set()
    stored = rows.read()
    assert not db.verify().faults
    assert set(twin.content) >= COMPARED_WHOLE[type(chance)]
    for _ in range(DAMAGES):
        changed = [damage(chance.random, stored) for _ in range(chance.one(1, 1, 1, 3))]
        for table, some in changed:
            rows.put(table, some)
        with suppress(Corrupt):
            found |= set(db.verify().found)
        for table, some in changed:
            rows.put(table, {key: stored[table].get(key) for key in some})
    assert rows.read() == stored
    assert len(found) > 8


def test_an_own_version_above_that_of_the_row(db, monkeypatch):
    Twin(monkeypatch)
    rows = Rows(db)
    key, value = next((key, value) for key, value in rows.read()["roots"].items() if value[0] >> 5 == FORM_ROOT)
    head = int.from_bytes(value[:8])
    own = head >> 16 & ((1 << 45) - 1)
    spelled = (head & ((1 << 61) - 1) | FORM_OWN << 61).to_bytes(8)
    rows.put("roots", {key: spelled + own.to_bytes(6) + value[8:]})
    assert not db.verify().faults
    rows.put("roots", {key: spelled + (own + 1).to_bytes(6) + value[8:]})
    assert db.verify().found == {"version": {"different": 1}}


def test_it_costs_what_python_makes_of_it(monkeypatch, tmp_path):
    chance = Chance(random.Random(1))
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, workers=0) as db:
        db.save(Place(code="A", name="", area=None, since=DAY))
        db.save(Person(number=1, name="", home=None))
        visits = [visit_of(chance, number) for number in range(VISITS)]
        db.save_all([msgspec.structs.replace(each, price=Decimal("1.50")) for each in visits])
        with budget() as compiled:
            by_core = db.verify()
        monkeypatch.setattr(CorePass, "run", not_known)
        with budget() as python:
            assert db.verify() == by_core
    assert by_core.clean
    assert compiled.cost == python.cost


def test_what_python_looks_at_costs_its_reads_as_well(db, monkeypatch):
    with budget() as compiled:
        by_core = db.verify()
    monkeypatch.setattr(CorePass, "run", not_known)
    with budget() as python:
        assert db.verify() == by_core
    assert python.cost.requests <= compiled.cost.requests < 1.1 * python.cost.requests


def test_observers_see_all_requests(tmp_path):
    seen = []
    with connect(f"lmdb://{tmp_path}/store?durability=none", KNOWN, workers=0) as db:
        db.save(Place(code="A", name="", area=None, since=DAY))
        plan = db.operations.parts.inspector.verify(VerifyOptions())
        found = db._driver.run(plan, Trace((lambda asked, answer: seen.append((asked, answer)),)))
    assert found.clean
    assert any(type(asked) is Scan and asked.table == "roots" and answer for asked, answer in seen)
