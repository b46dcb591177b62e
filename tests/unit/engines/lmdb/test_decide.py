"""The call that decides saves: hostile tables, documents and rows end in a reason or an error, never in a crash.

`test_sanitized` runs these with every wrong access to memory ending the process.
"""

import random
from contextlib import suppress
from itertools import chain
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from oneread import connect
from oneread.engines.lmdb import binding
from oneread.engines.lmdb.transaction import Attempt
from oneread.errors import Conflict, OnereadError
from oneread.store.engine import CORE_TABLES, DELETED, PATCHED, SAVED, UPSERTED
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
        tables = tuple(environment.open_db(name.encode(), create=False) for name in CORE_TABLES)
        yield SimpleNamespace(environment=environment, tables=tables, questions=questions, followed=followed)


def questions_about(db, chance, kept):
    """What is asked by verbs of which none is carried out, and the table of what follows."""
    questions, followed = [], set()

    def note(_attempt, asked):
        questions.append(asked.saves[0])
        followed.add(asked.followed)
        raise Conflict("asked, and no more")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Attempt, "decide_saves", note)
        while len(questions) < 300:
            with suppress(OnereadError):
                do(db, chance, kept)
    return questions, followed.pop()


def question_of(asked):
    """A question as the call takes it."""
    given = asked.key, asked.document, asked.sources, asked.expected, asked.holds, asked.verb, asked.number
    return (native.Program(asked.program), *given, asked.counters)


def followers_of(asked):
    return tuple(map(native.Program, asked.followers))


def decide(store, transaction, asked):
    return transaction.decide(
        store.tables, (question_of(asked),), NOW, followers_of(asked), INLINE, (), True, store.followed
    )


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
    assert sum(is_complete for *_decided, is_complete in saved) > 40
    for [(_version, document, *_of)], _reads, writes, requests, *_said in saved:
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
            found = decide(store, reading, replace(asked, document=document, key=key))
            assert type(found) in (str, tuple)


def test_mutated_rows(store):
    chance = random.Random(3)
    for _ in range(ROUNDS // 10):
        writing = store.environment.begin(write=True)
        for _ in range(10):
            asked = chance.choice(store.questions)
            for table in store.tables:
                rows = list(writing.cursor(table))
                for key, value in chance.sample(rows, min(len(rows), 4)):
                    writing.put(key, mutated(chance, value) or b"\0", db=table)
            for key in (asked.key, *chain(*asked.sources)):
                value = writing.get(key, None, store.tables[0])
                if value is not None and chance.random() < 0.5:
                    writing.put(key, mutated(chance, value) or b"\0", db=store.tables[0])
            assert type(decide(store, writing, asked)) in (str, tuple)
        writing.abort()


def test_mutated_tables(store):
    chance, refused = random.Random(4), 0
    with store.environment.begin() as reading:
        for _ in range(ROUNDS):
            asked = chance.choice(store.questions)
            try:
                program = native.Program(mutated(chance, asked.program))
            except ValueError:
                refused += 1
                continue
            count = len(asked.sources)
            for sources in (asked.sources, (*asked.sources, ())[: count + 1], asked.sources[:-1]):
                question = (program, asked.key, asked.document, sources, *question_of(asked)[4:])
                with suppress(TypeError):  # another number of references
                    reading.decide(
                        store.tables, (question,), NOW, followers_of(asked), INLINE, (), False, store.followed
                    )
    assert refused > ROUNDS // 4


def test_mutated_tables_of_feeds_and_logs(store):
    chance, refused = random.Random(5), 0
    with store.environment.begin() as reading:
        for _ in range(ROUNDS):
            asked = chance.choice(store.questions)
            followed = mutated(chance, store.followed)
            programs = followers_of(asked)
            found = reading.decide(store.tables, (question_of(asked),), NOW, programs, INLINE, (), True, followed)
            refused += found == "not a program"
    assert not store.followed or refused > ROUNDS // 20


@pytest.mark.parametrize("given", [None, b"", (), 7, "text", (b"",) * 5, [1]])
def test_arguments_of_other_types(store, given):
    question, programs = question_of(store.questions[0]), followers_of(store.questions[0])
    with store.environment.begin() as reading:
        right = [store.tables, (question,), NOW, programs, INLINE, (question[1],), False, store.followed]
        assert reading.decide(*right)
        for place in range(len(question)):
            calls = [[*right[:place], given, *right[place + 1 :]]] if place < len(right) else []
            calls += [[right[0], ((*question[:place], given, *question[place + 1 :]),), *right[2:]]]
            for call in calls:
                with suppress(TypeError, ValueError, OverflowError, binding.Error):
                    assert type(reading.decide(*call)) in (str, tuple)
        with pytest.raises(TypeError):
            native.Program(given if type(given) is not bytes else 7)
    with pytest.raises(binding.Error):
        reading.decide(*right)  # it has ended


def test_patches_of_one_entity_twice_are_for_python(store):
    """The second was made of what is stored."""
    patches = [question_of(each) for each in store.questions if each.verb == PATCHED]
    with store.environment.begin() as reading:

        def decided(*questions):
            return type(reading.decide(store.tables, questions, NOW, (), 0, (), True, b"")) is tuple

        alone = [each for each in patches if decided(each)]
        assert alone
        assert not any(decided(each, each) for each in alone)
