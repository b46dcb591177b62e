import threading

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count
from oneread.costs.budgets import budget
from oneread.errors import UsageError
from oneread.store.requests import CheckAndMutate, Increment, Mutate
from oneread.store.rows import RowMutation
from oneread.testing.meter import Meter, WrongCost


class Note(Model[int]):
    number: Key[int]
    word: str = ""


class NotesOfWord(Index[Note]):
    word: str = by(Note.word)


class WordUse(Aggregate[Note]):
    word: str = by(Note.word)
    notes: int = count()


NOTES = Schema(Note, NotesOfWord, WordUse)


def refusal(meter, db, block):
    """What is said of a block that may not ask for anything."""

    def measured():
        with meter(requests=0):
            block(db)

    with pytest.raises(WrongCost) as caught:
        measured()
    return str(caught.value)


@pytest.fixture
def meter():
    return Meter()


@pytest.fixture
def db(meter):
    with connect("memory://", NOTES, observers=(meter.observe,)) as opened:
        opened.save_all([Note(number=number, word="a") for number in range(5)])
        yield opened


def test_a_block_that_costs_what_it_may_passes(meter, db):
    with meter(requests=1, rows=1):
        db.get(Note, 1)
    with meter(requests=1, rows=4) as spent:
        page = db.page(NotesOfWord, "a", limit=3)
    assert spent.cost.bytes == page.cost.bytes > 0
    with meter(requests=0, rows=0, bytes=0):
        pass


@pytest.mark.parametrize("wrong", [{"requests": 0}, {"requests": 2}, {"rows": 3}, {"rows": 5}, {"bytes": 1}])
def test_more_or_less_is_an_error(meter, db, wrong):
    with pytest.raises(WrongCost, match="this costs exactly"), meter(**wrong):
        db.page(NotesOfWord, "a", limit=3)


def test_a_bound_is_reached_but_not_passed(meter, db):
    with meter.at_most(requests=1, rows=5):
        db.page(NotesOfWord, "a", limit=3)
    with meter.at_most(rows=4):
        db.page(NotesOfWord, "a", limit=3)
    with pytest.raises(WrongCost, match="at most 3 rows, not 4"), meter.at_most(requests=1, rows=3):
        db.page(NotesOfWord, "a", limit=3)


def test_the_message_lists_what_was_asked_in_the_words_of_the_declarations(meter, db):
    def block(db):
        db.get(Note, 1)
        db.get_many(Note, [(number,) for number in range(5)])
        db.page(NotesOfWord, "a")
        db.page(Note)
        db.get(WordUse, "a")
        db.save(Note(number=9))

    meter.catalog = db.operations.catalog
    text = refusal(meter, db, block)
    for line in (
        "1. Read roots Note(1): 1 rows,",
        "2. Read roots Note(0), Note(1), Note(2) ...: 5 rows,",
        "3. Scan views NotesOfWord: 5 rows,",
        "4. Scan roots Note: 5 rows,",
        "5. Read counts WordUse: 1 rows,",
        "Replace views NotesOfWord: 1 rows,",
    ):
        assert line in text


def test_a_key_of_nothing_declared_is_shown_as_it_is(meter, db):
    def block(_db):
        meter.observe(Mutate("roots", [RowMutation(b"\xff\xff", {}, {})]), None)
        meter.observe(CheckAndMutate("views", b"d:b", None, RowMutation(b"\xff\xff", {}, {})), True)
        meter.observe(Increment("counts", b"\xff\xff", b"d:n", 1), 1)
        meter.observe(Increment("system", b"task:\xff", b"d:n", 1), 1)

    meter.catalog = db.operations.catalog
    lines = refusal(meter, db, block).splitlines()
    assert [line.split(":")[0] for line in lines[1:]] == [
        "1. Mutate roots ffff",
        "2. CheckAndMutate views ffff",
        "3. Increment counts ffff",
        "4. Increment system task",
    ]


def test_without_a_catalog_tables_are_named_and_a_long_list_is_cut(meter, db):
    lines = refusal(meter, db, lambda db: [db.get(Note, 1) for _ in range(30)]).splitlines()
    assert lines[0] == "this costs exactly 0 requests, not 30; requests:"
    assert lines[1].startswith("1. Read roots: 1 rows, ")
    assert lines[-1] == "... 10 more"
    assert len(lines) == 22


def test_nothing_asked_is_said_to_be_nothing(meter):
    with pytest.raises(WrongCost, match="not 0; requests:\nnone"), meter(requests=1):
        pass


def test_blocks_lie_in_each_other(meter, db):
    with meter(requests=2), meter.watch() as outer:
        with meter(requests=1):
            db.get(Note, 1)
        db.get(Note, 2)
    assert outer.cost.requests == 2


def test_what_the_block_raises_is_not_hidden_by_its_cost(meter):
    with pytest.raises(ZeroDivisionError), meter(requests=1):
        raise ZeroDivisionError
    with meter.watch() as spent:
        pass
    assert spent.cost.requests == 0


def test_requests_of_all_threads_are_counted(meter, db):
    def reading():
        for _ in range(50):
            db.get(Note, 1)

    with meter(requests=200):
        threads = [threading.Thread(target=reading) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()


def test_a_block_must_say_what_it_may_cost(meter):
    with pytest.raises(UsageError, match="say what"), meter():
        pass
    for wrong in (-1, 1.5, True, "1"):
        with pytest.raises(UsageError, match="whole number"), meter.at_most(rows=wrong):
            pass


def test_what_runs_at_the_same_time_is_one_round(meter):
    with connect("memory://?span=row", NOTES, observers=(meter.observe,), workers=0) as db:
        with meter(requests=8, rounds=6) as spent:
            note = db.save(Note(number=1, word="a"))
        assert spent.cost.rounds == db.cost(note).rounds == 6


def test_a_transaction_is_one_round(meter, db):
    with budget() as around, meter.at_most(rounds=1) as spent:
        db.save(Note(number=1, word="b"))
    assert spent.cost.requests == around.requests > 1
