"""The call that decides saves: hostile tables, documents and rows end in a reason or an error, never in a crash.

`test_sanitized` runs these with every wrong access to memory ending the process.
"""

import random
from contextlib import suppress
from itertools import chain
from types import SimpleNamespace

import pytest

from oneread import connect
from oneread.engines.lmdb import binding
from oneread.engines.lmdb.transaction import Attempt
from oneread.errors import Conflict, OnereadError
from oneread.store.engine import CORE_TABLES, DELETED, PATCHED, SAVED, UPSERTED
from oneread.transactions.native import NativeCommitter
from tests.unit.derivations.known_to_core import FED, KNOWN, Chance, FedChance
from tests.unit.derivations.test_core_programs import do

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

ROUNDS = 4000
NOW = 1_000_000
INLINE = 50


@pytest.fixture(scope="module", params=[(KNOWN, Chance), (FED, FedChance)], ids=["known", "fed"])
def store(request, tmp_path_factory):
    """A store of the models that the core knows, and questions about it."""
    if not binding.NATIVE:
        pytest.skip("a process has one binding to LMDB, and this one has the other")
    schema, chance_of = request.param
    folder, chance = tmp_path_factory.mktemp("store"), chance_of(random.Random(1))
    with connect(f"lmdb://{folder}?durability=none", schema, clock=lambda: NOW, workers=0) as db:
        kept = []
        for _ in range(300):
            with suppress(OnereadError):
                kept.append(db.save(chance.entity()))
        questions, followed = questions_about(db, chance, kept)
    with native.open(str(folder), max_dbs=8, map_size=1 << 26, sync=False) as environment:
        tables = {name: environment.open_db(name.encode(), create=False) for name in CORE_TABLES}
        yield SimpleNamespace(environment=environment, tables=tables, questions=questions, followed=followed)


def questions_about(db, chance, kept):
    """What is asked by verbs of which none is carried out, and the table of what follows."""
    questions, followed = [], set()

    def note(_attempt, asked):
        questions.append(asked.saves[0])
        followed.add(asked.followed)
        raise Conflict("asked, and no more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NativeCommitter, "commit_now", lambda *_given: None)
        patch.setattr(Attempt, "decide_saves", note)
        while len(questions) < 300:
            with suppress(OnereadError):
                do(db, chance, kept)
    return questions, followed.pop()


def programs_of(*questions):
    """The programs of questions and of their followers."""
    tables = {table for asked in questions for table in (asked.program, *asked.followers)}
    return {table: native.Program(table) for table in tables}


def decide(store, by, *questions, rows=(), **given):
    """What a transaction decides of questions, or the environment if rows are given."""
    asked = {
        "tables": store.tables, "questions": questions, "now": NOW, "programs": programs_of(*questions),
        "most_holders": INLINE, "known": (), "is_in_turn": True, "followed": store.followed,
    }  # fmt: skip
    return by.decide(**asked | given, **({"rows": rows} if by is store.environment else {}))


def mutated(chance, data):
    """Bytes with one to three changes: another byte, some that are cut off, repeated or from elsewhere."""
    changed = bytearray(data)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(5):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = bytes(changed[at : at + chance.randrange(9)])
            case 2:
                changed[at : at + 1] = bytes([chance.choice((0, 0x7F, 0x80, 0xC0, 0xC1, 0xC7, 0xDD, 0xDF, 0xFF))])
            case 3:
                del changed[at : at + chance.randrange(9)]
            case _:
                changed[at : at + 1] = chance.randbytes(1)
    return bytes(changed)


def test_each_question_is_answered(store):
    with store.environment.begin() as reading:
        answers = [decide(store, reading, each) for each in store.questions]
    saved = [each for each in answers if type(each) is not str]
    assert len(saved) > 60
    assert len({each for each in answers if type(each) is str}) > 1
    verbs = {asked.verb for asked, each in zip(store.questions, answers, strict=True) if each in saved}
    assert verbs == {SAVED, PATCHED, DELETED, UPSERTED}
    assert sum(each[-1] for each in saved) > 40, "complete ones"
    for [(_version, document, *_of)], requests, _scanned, decided, *_said in saved:
        writes = decided.writes()
        assert [len(table) for table in decided.reads()] > [0] * len(CORE_TABLES)
        assert any((document or b"m:e") in row for _key, row in writes[0])
        assert all([key for key, _row in rows] == sorted({key for key, _row in rows}) for rows in writes)
        assert sum(count for count, _size in requests[1:]) >= sum(map(len, writes))


def test_mutated_documents_and_keys(store):
    chance = random.Random(2)
    with store.environment.begin() as reading:
        for _ in range(ROUNDS):
            asked = chance.choice(store.questions)
            document, key = mutated(chance, asked.document), asked.key
            if chance.random() < 0.3:
                key = mutated(chance, key)
            found = decide(store, reading, asked._replace(document=document, key=key))
            assert type(found) in (str, tuple)


def test_mutated_rows(store):
    chance = random.Random(3)
    for _ in range(ROUNDS // 10):
        writing = store.environment.begin(write=True)
        for _ in range(10):
            asked = chance.choice(store.questions)
            for table in map(store.tables.get, CORE_TABLES):
                rows = list(writing.cursor(table))
                for key, value in chance.sample(rows, min(len(rows), 4)):
                    writing.put(key, mutated(chance, value) or b"\0", db=table)
            for key in (asked.key, *chain(*asked.sources)):
                value = writing.get(key, None, store.tables["roots"])
                if value is not None and chance.random() < 0.5:
                    writing.put(key, mutated(chance, value) or b"\0", db=store.tables["roots"])
            assert type(decide(store, writing, asked)) in (str, tuple)
        writing.abort()


def test_mutated_tables(store):
    chance, refused = random.Random(4), 0
    with store.environment.begin() as reading:
        for _ in range(ROUNDS):
            asked = chance.choice(store.questions)
            table = mutated(chance, asked.program)
            try:
                programs = programs_of(asked) | {table: native.Program(table)}
            except ValueError:
                refused += 1
                continue
            count = len(asked.sources)
            for sources in (asked.sources, (*asked.sources, ())[: count + 1], asked.sources[:-1]):
                question = asked._replace(program=table, sources=sources)
                with suppress(TypeError):  # another number of references
                    decide(store, reading, question, programs=programs, is_in_turn=False)
    assert refused > ROUNDS // 4


def test_mutated_tables_of_feeds_and_logs(store):
    chance, refused = random.Random(5), 0
    with store.environment.begin() as reading:
        for _ in range(ROUNDS):
            asked = chance.choice(store.questions)
            found = decide(store, reading, asked, followed=mutated(chance, store.followed))
            refused += found == "not a program"
    assert not store.followed or refused > ROUNDS // 20


@pytest.mark.parametrize("given", [None, b"", (), 7, "text", (b"",) * 5, [1]])
def test_arguments_of_other_types(store, given):
    asked, programs = store.questions[0], programs_of(store.questions[0])
    rows = (("system", b"fence", True),)
    right = [store.tables, (asked,), NOW, programs, INLINE, (asked.key,), False, store.followed]
    with store.environment.begin() as reading:
        for call, arguments in ((reading.decide, right), (store.environment.decide, [*right, rows])):
            assert call(*arguments)
            wrong = [[*arguments[:place], given, *arguments[place + 1 :]] for place in range(len(arguments))]
            for place in range(len(asked)):
                question = (*asked[:place], given, *asked[place + 1 :])
                wrong.append([right[0], (question,), *arguments[2:]])
            wrong += [[*arguments[:3], programs | {asked.program: given}, *arguments[4:]]]
            wrong += [[right[0] | {"views": given}, *arguments[1:]], [*right, (rows[0], given)], [*right, (given,)]]
            for each in wrong:
                with suppress(TypeError, ValueError, OverflowError, KeyError, binding.Error):
                    assert type(call(*each)) in (str, tuple, type(NotImplemented))
        with pytest.raises(TypeError):
            native.Program(given if type(given) is not bytes else 7)
    with pytest.raises(binding.Error):
        reading.decide(*right)  # it has ended


def test_programs_that_are_not_given(store):
    asked = next(each for each in store.questions if each.followers)
    with store.environment.begin() as reading:
        for table in (asked.program, *asked.followers):
            programs = programs_of(asked)
            del programs[table]
            assert decide(store, reading, asked, programs=programs) is NotImplemented
            programs[table] = None
            found = decide(store, reading, asked, programs=programs)
            assert (found is NotImplemented) == (table == asked.program)


def test_an_environment_decides_as_its_transactions_do(store):
    for asked in store.questions:
        with store.environment.begin() as reading:
            found = decide(store, reading, asked)
        alone = decide(store, store.environment, asked)
        if type(found) is str:
            assert alone == found
        else:
            assert (alone[:3], alone[4:]) == (found[:3], found[4:])
            assert (alone[3].reads(), alone[3].writes()) == (found[3].reads(), found[3].writes())


@pytest.mark.parametrize("count", [1, 16, 17])
def test_rows_that_are_needed(store, count):
    asked = next(each for each in store.questions if type(of_environment(store, each, ())) is tuple)
    with store.environment.begin(write=True) as writing:
        for number in range(count):
            writing.put(b"n%02d" % number, ROW + b"as it is", db=store.tables["system"])
        writing.put(b"spelled", b"\0", db=store.tables["system"])
    right = tuple(("system", b"n%02d" % number, b"as it is") for number in range(count))
    found = of_environment(store, asked, right)
    assert (found == "other rows") == (count == 17)
    for last in (b"as it was", None):
        assert of_environment(store, asked, (*right[1:], ("system", b"n00", last))) == "other rows"
    for last in (True, b""):
        assert of_environment(store, asked, (("system", b"absent", last), *right[1:])) == "other rows"
    assert of_environment(store, asked, (("system", b"spelled", True),)) == "other rows"
    assert type(of_environment(store, asked, (("system", b"absent", None), ("system", b"n00", True)))) is tuple


ROW = (1 << 45 | 7).to_bytes(6, "big")


def of_environment(store, asked, rows):
    return decide(store, store.environment, asked, rows=rows)


def test_patches_of_one_entity_twice_are_for_python(store):
    """The second was made of what is stored."""
    patches = [each for each in store.questions if each.verb == PATCHED]
    with store.environment.begin() as reading:

        def decided(*questions):
            return type(decide(store, reading, *questions, most_holders=0)) is tuple

        alone = [each for each in patches if decided(each)]
        assert alone
        assert not any(decided(each, each) for each in alone)
