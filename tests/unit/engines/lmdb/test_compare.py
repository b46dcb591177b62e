"""The calls that compare rows: hostile rows and arguments end in an answer, a reason or an error, never in a crash.

`test_sanitized` runs these with every wrong access to memory ending the process.
"""

import random
from contextlib import suppress
from types import SimpleNamespace

import pytest

from oneread import connect
from oneread.derivations.schema_rows import stored_schema
from oneread.engines.lmdb import binding
from oneread.errors import OnereadError
from oneread.store.engine import CORE_TABLES
from oneread.store.rows import RowRange
from oneread.verify.keyspace import StoreKeyspaces, pointers_of
from oneread.verify.scanner import BATCH, MOST_BATCHES
from tests.unit.derivations.known_to_core import KNOWN, MODELS, Chance
from tests.unit.engines.lmdb.test_decide import mutated

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

ROUNDS = 400
NOW = 1_000_000
SECRET = bytes(range(16))
ALL = (b"", 0, 0)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store of the models that the core knows, the programs of each kind, and its ranges of rows."""
    if not binding.NATIVE:
        pytest.skip("a process has one binding to LMDB, and this one has the other")
    folder, chance = tmp_path_factory.mktemp("store"), Chance(random.Random(1))
    with connect(f"lmdb://{folder}?durability=none", KNOWN, clock=lambda: NOW, workers=0) as db:
        for _ in range(300):
            with suppress(OnereadError):
                db.save(chance.entity())
        catalog = db.operations.catalog
        keyspaces = StoreKeyspaces(catalog, db.run(stored_schema()))
        kinds = [kind_of(keyspaces, catalog.kinds[model], catalog.core_programs[model].table) for model in MODELS]
    with native.open(str(folder), max_dbs=8, map_size=1 << 26, sync=False) as environment:
        tables = {name: environment.open_db(name.encode(), create=False) for name in CORE_TABLES}
        yield SimpleNamespace(environment=environment, tables=tables, kinds=kinds)


def kind_of(keyspaces, kind, table):
    rows = [(each.table, RowRange.under(each.prefix), each.width, ALL) for each in keyspaces.of_kind(kind)]
    for each in pointers_of(keyspaces, kind):
        _table, width, kinds, *places = each.wanted
        rows.append(("views", each.within, width, (b"".join(kinds), *places)))
    return SimpleNamespace(table=table, roots=RowRange.under(kind.prefix), rows=rows)


def compare(store, transaction, kind, *, batch=BATCH, most=100, latest=NOW):
    """What the calls answer about a kind, and whether all was as expected."""
    comparison = native.Comparison((native.Program(kind.table),), SECRET, batch, most)
    tables = tuple(store.tables.values())
    ends = kind.roots.start, kind.roots.stop
    answers = [transaction.compare_roots(tables, comparison, *ends, MOST_BATCHES, latest)]
    for table, within, width, pointers in kind.rows:
        asked = store.tables[table], comparison, within.start, within.stop, MOST_BATCHES
        answers.append(transaction.compare_rows(*asked, width, pointers))
    return answers, comparison


def test_each_kind_is_compared(store):
    with store.environment.begin() as reading:
        found = [compare(store, reading, each)[0] for each in store.kinds]
        again = [compare(store, reading, each, batch=1)[0] for each in store.kinds]
    assert all(type(each) is tuple for answers in found for each in answers)
    assert sum(answers[0][0] for answers in found) > 20
    assert {answer[0] for answers in again for answer in answers} <= set(range(MOST_BATCHES + 1))


def test_a_range_is_compared_in_parts(store):
    kind = store.kinds[-1]
    tables, program = tuple(store.tables.values()), native.Program(kind.table)
    with store.environment.begin() as reading:
        parts, whole = (native.Comparison((program,), SECRET, each, 100) for each in (1, BATCH))
        at_once = reading.compare_roots(tables, whole, kind.roots.start, kind.roots.stop, MOST_BATCHES, NOW)
        start, documents, left = kind.roots.start, [], []
        while start is not None:
            rows, last, _groups, some, others, _requests = reading.compare_roots(
                tables, parts, start, kind.roots.stop, 1, NOW
            )
            documents, left = documents + some, left + [each[:3] for each in others]
            start = None if last is None else last + b"\0"
            assert rows == (last is not None)
    assert (documents, left) == (at_once[3], [each[:3] for each in at_once[4]])


def test_mutated_rows(store):
    chance, answered = random.Random(3), 0
    for _ in range(ROUNDS):
        writing = store.environment.begin(write=True)
        for table in store.tables.values():
            rows = list(writing.cursor(table))
            for key, value in chance.sample(rows, min(len(rows), 4)):
                moved = mutated(chance, key)[:511] or b"\0" if chance.random() < 0.2 else key
                writing.put(moved, mutated(chance, value) or b"\0", db=table)
        for kind in store.kinds:
            answers, comparison = compare(store, writing, kind, most=chance.choice((0, 1, 100)))
            answered += sum(type(each) is tuple for each in answers)
            assert type(comparison.is_even()) is bool
        writing.abort()
    assert answered > ROUNDS


def test_mutated_tables(store):
    chance, compared = random.Random(4), 0
    with store.environment.begin() as reading:
        for _ in range(10 * ROUNDS):
            kind = chance.choice(store.kinds)
            with suppress(ValueError):
                compare(store, reading, SimpleNamespace(**{**vars(kind), "table": mutated(chance, kind.table)}))
                compared += 1
    assert compared > ROUNDS // 4


def test_mutated_ranges_and_pointers(store):
    chance = random.Random(5)
    with store.environment.begin() as reading:
        for _ in range(ROUNDS):
            kind = chance.choice([each for each in store.kinds if each.rows])
            table, within, width, (kinds, start, parts) = chance.choice(kind.rows)
            within = RowRange(mutated(chance, within.start), chance.choice((b"", within.stop)))
            pointers = (chance.randbytes(chance.randrange(5)) + kinds, chance.choice((start, 0, 16)), parts)
            some = [(table, within, chance.choice((width, 0, 1, 24)), pointers)]
            changed = SimpleNamespace(table=kind.table, roots=within, rows=some)
            answers, _comparison = compare(store, reading, changed)
            assert {type(each) for each in answers} <= {str, tuple}


def test_what_is_expected_and_found_is_even(store):
    persons = store.kinds[1]
    with store.environment.begin() as reading:
        _answers, comparison = compare(store, reading, persons, latest=2 * NOW)
        assert comparison.is_even()
    comparison.expect(((b"key", b"value"),), ())
    assert not comparison.is_even()
    numbers = native.Comparison((), SECRET, 1, 0)
    numbers.expect((), ((b"group", (1, 2, 2**61 - 3)),))
    assert not numbers.is_even()
    numbers.expect((), ((b"group", (2**61 - 2, 2**61 - 3, 2)),))
    assert numbers.is_even()


@pytest.mark.parametrize(
    "given",
    [
        ((), b"", 1, 0),
        ((), SECRET, 0, 0),
        ((), SECRET, 1, -1),
        ((), SECRET, 1, 1 << 30),
        ((), SECRET, 1 << 30, 1),
        ((None,), SECRET, 1, 0),
        ([], SECRET, 1, 0),
        ((), "text", 1, 0),
        ((), SECRET),
    ],
)
def test_a_comparison_is_not_made_of(given):
    with pytest.raises((TypeError, ValueError)):
        native.Comparison(*given)


def test_arguments_that_are_none(store):
    comparison, tables = native.Comparison((), SECRET, 1, 0), tuple(store.tables.values())
    with store.environment.begin() as reading:
        for given in [
            (tables, None, b"", b"", 1, 1),
            (tables, comparison, None, b"", 1, 1),
            (tables, comparison, b"", b"", 11111, 1),
            (tables, comparison, b"", b"", 1, -1),
            (tables[:2], comparison, b"", b"", 1, 1),
            ((1, 2, 3), comparison, b"", b"", 1, 1),
        ]:
            with pytest.raises((TypeError, ValueError, OverflowError, native.Error)):
                reading.compare_roots(*given)
        wrong = [None, (b"", 0), (b"", 99, 0), (b"", 0, 99), ("", 0, 0)]
        for rest in [(-1, ALL), (99, ALL), *[(0, each) for each in wrong]]:
            with pytest.raises((TypeError, ValueError)):
                reading.compare_rows(tables[0], comparison, b"", b"", 1, *rest)
        wrong = [None, (1,), ((b"", 1),), ((b"", (1,) * 99),), ((b"", (-1,)),)]
        for rows, numbers in [*[(each, ()) for each in wrong], *[((), each) for each in wrong]]:
            with pytest.raises((TypeError, ValueError, OverflowError)):
                comparison.expect(rows, numbers)
    with pytest.raises(native.Error):
        reading.compare_roots(tables, comparison, b"", b"", 1, 1)
