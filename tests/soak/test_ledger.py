"""What the soak would call lost or wrong: each of these is planted, and found."""

import json
from contextlib import suppress
from random import Random

import pytest

from oneread import connect
from oneread.counters.rows import SETTINGS
from oneread.errors import StoreError
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange
from oneread.testing.logical_rows import LogicalRows
from oneread.transactions.root import BODY
from tests.soak.acts import draw, perform
from tests.soak.ledger import Ledger
from tests.soak.models import SCHEMA, fill
from tests.soak.recount import Found, Rows, faults, read_back, settle

PUT, LIKE = {"do": "put", "to": [1, "a title", 7, 0]}, {"do": "add", "to": ["likes", 1]}
DROP, MOVE = {"do": "drop"}, {"do": "set", "to": ["author", 2]}
SAVED, LIKED, MOVED = (1, "a title", 7, 0), (1, "a title", 7, 1), (2, "a title", 7, 0)
ALL, MANY = RowRange(b"", b""), 1 << 30


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(tmp_path / "ledger", longest=30.0)
    yield ledger
    ledger.close()


def tell(ledger, *said, program="writer"):
    ledger.note(program, [json.dumps(each).encode() for each in said])


def tell_acts(ledger, *acts):
    """Acts of book 5, each with how it ended: `killed` when its program was."""
    for act, ended in acts:
        tell(ledger, {"tries": "t", "act": {"kind": "book", "key": 5, **act}})
        if ended == "killed":
            ledger.end("writer")
        else:
            tell(ledger, {"ended": ended, "tag": "t", "number": None, "seconds": 0.1})


@pytest.mark.parametrize(
    ("acts", "possible"),
    [
        ([(PUT, "done")], {SAVED}),
        ([(PUT, "no")], {None}),
        ([(PUT, "taken")], {None}),
        ([(PUT, "killed")], {None, SAVED}),
        ([(PUT, "unknown")], {None, SAVED}),
        ([(PUT, "done"), (LIKE, "done"), (LIKE, "killed")], {LIKED, (1, "a title", 7, 2)}),
        ([(PUT, "killed"), (LIKE, "done")], {LIKED}),
        ([(PUT, "done"), (MOVE, "killed"), (DROP, "done")], {None}),
        ([(PUT, "killed"), (DROP, "absent")], {None, SAVED}),
        # A delete that may have found nothing is not a commit, so the request of the killed program may still come.
        ([(PUT, "killed"), (DROP, "done")], {None, SAVED}),
        ([(PUT, "killed"), (DROP, "done"), (PUT, "done"), (LIKE, "done")], {LIKED}),
        # The same of values that are there: a change that may have changed nothing.
        ([(PUT, "done"), (MOVE, "killed"), (PUT, "done")], {SAVED, MOVED}),
    ],
)
def test_what_an_entity_may_be_follows_from_what_was_said(ledger, acts, possible):
    tell_acts(ledger, *acts)
    assert ledger.possible["book", 5] == possible
    assert not ledger.lost
    assert not ledger.wrong


@pytest.mark.parametrize(
    "acts", [[(PUT, "done"), (DROP, "absent")], [(LIKE, "done")], [(PUT, "done"), (DROP, "done"), (LIKE, "done")]]
)
def test_an_act_that_finds_what_cannot_be_is_found(ledger, acts):
    tell_acts(ledger, *acts)
    assert len(ledger.lost) == 1


def found_by(ledger, entities=(), messages=(), votes=()):
    """How many faults a comparison finds; of the authors that are there from the start, none."""
    there = {place: min(possible) for place, possible in ledger.possible.items() if place[0] == "author"}
    ledger.compare(Found(there | dict(entities), {0: [], **dict(messages)}, dict(votes)))
    return len(ledger.lost), len(ledger.wrong)


def test_an_entity_that_is_not_as_it_may_be_is_found(ledger):
    tell_acts(ledger, (PUT, "done"), (LIKE, "done"))
    assert found_by(ledger, {("book", 5): LIKED}) == (0, 0)
    assert found_by(ledger, {("book", 5): SAVED}) == (1, 0)
    assert found_by(ledger) == (2, 0)


def test_an_entity_that_was_never_saved_is_found(ledger):
    assert found_by(ledger, {("book", 6): SAVED}) == (1, 0)


def test_what_a_program_reads_back_must_be_possible(ledger):
    tell_acts(ledger, (PUT, "done"))
    tell(ledger, {"reads": list(SAVED), "kind": "book", "key": 5})
    assert not ledger.lost
    tell(ledger, {"reads": None, "kind": "book", "key": 5})
    assert len(ledger.lost) == 1


def create(ledger, text, ended, number=None):
    tell(ledger, {"tries": text, "act": {"kind": "message", "key": 0, "do": "create", "to": text}})
    if ended == "killed":
        ledger.end("writer")
    else:
        tell(ledger, {"ended": ended, "tag": text, "number": number, "seconds": 0.1})


def test_messages_are_there_once_and_numbered_without_holes(ledger):
    create(ledger, "a", "done", 1)
    create(ledger, "b", "killed")
    create(ledger, "c", "no")
    assert found_by(ledger, messages={0: [(1, "a")]}) == (0, 0)
    assert found_by(ledger, messages={0: [(1, "a"), (2, "b")]}) == (0, 0)
    assert found_by(ledger, messages={0: []}) == (1, 0), "an acknowledged one is lost"
    assert found_by(ledger, messages={0: [(1, "b"), (2, "a")]}) == (2, 0), "it has another number"
    assert found_by(ledger, messages={0: [(1, "a"), (2, "b"), (3, "b")]}) == (3, 0), "one is there twice"
    assert found_by(ledger, messages={0: [(1, "a"), (2, "c")]}) == (4, 0), "a refused one is there"
    assert found_by(ledger, messages={0: [(1, "a"), (3, "b")]}) == (4, 1), "the numbers have a hole"


def vote(ledger, token, ended):
    tell(ledger, {"tries": token, "act": {"kind": "poll", "key": 0, "do": "vote", "to": token}})
    tell(ledger, {"ended": ended, "tag": token, "number": None, "seconds": 0.1})


def test_each_token_counts_once(ledger):
    vote(ledger, "a", "unknown")
    assert [each["to"] for each in ledger.pending_tokens()] == ["a"]
    vote(ledger, "a", "done")
    vote(ledger, "b", "done")
    assert ledger.pending_tokens() == []
    assert found_by(ledger, votes={0: 2}) == (0, 0)
    assert found_by(ledger, votes={0: 3}) == (1, 0)
    assert found_by(ledger, votes={0: 1}) == (2, 0)


def test_a_call_beyond_its_deadline_is_found(ledger):
    tell(ledger, {"looked": 1, "seconds": 29.0})
    assert not ledger.wrong
    tell(ledger, {"looked": 1, "seconds": 31.0})
    assert len(ledger.wrong) == 1


def test_an_error_is_counted_with_what_it_says(ledger):
    tell(ledger, *[{"saw": "Unavailable", "why": "no server", "during": "books"}] * 2)
    assert ledger.seen == {("Unavailable", "books", "no server"): 2}
    assert not ledger.wrong


@pytest.mark.parametrize(
    ("name", "during"), [("OutcomeUnknown", "books"), ("Corrupt", "home"), ("LimitExceeded", None)]
)
def test_an_error_without_a_reason_is_found(ledger, name, during):
    said = {"saw": name, "why": "because"}
    tell(ledger, said if during is None else {**said, "during": during})
    assert len(ledger.wrong) == 1


@pytest.fixture
def worked(ledger):
    """A store on which two writers did what they do in a soak."""
    chance = Random(7)
    with connect("memory://?span=row&deletes=remove", SCHEMA, workers=0) as db:
        fill(db)
        for turn in range(90):
            act = draw(chance, turn % 2, turn, f"{turn % 2}-{turn}")
            tell(ledger, {"tries": act.get("to"), "act": act})
            try:
                number, ended = perform(db, act), "done"
            except Exception as error:  # noqa: BLE001 - the ledger says which are expected
                number, ended = None, {"NotFound": "absent", "NotUnique": "taken"}[type(error).__name__]
            tell(ledger, {"ended": ended, "tag": "", "number": number, "seconds": 0.0})
        settle(db, ledger, 60)
        yield db


def count_faults(db, ledger):
    found = read_back(db)
    ledger.compare(found)
    return len(ledger.lost) + len(ledger.wrong) + len(faults(db, found)) + len(Rows(db).faults())


def test_each_row_that_is_missing_is_found(worked, ledger):
    """All rows that readers see, or that writers rely on: not those of the settings of counters."""
    assert ledger.acknowledged > 50
    assert count_faults(worked, ledger) == 0
    engine = worked._driver.engine
    meant = LogicalRows(engine, worked.operations.catalog)
    for table in ("roots", "views", "counts"):
        names = {
            key for key, row in meant.answer(Scan(table, ALL, MANY, families="dm")) if table != "roots" or BODY in row
        }
        rows = {key: row for key, row in engine.answer(Scan(table, ALL, MANY, families="dm")) if key in names}
        rows = {key: row for key, row in rows.items() if not key.startswith(SETTINGS)}
        assert len(rows) > 5
        for key, row in rows.items():
            stamps = {column: cell.stamp for column, cell in row.items()}
            engine.answer(Mutate(table, [RowMutation(key, deletes=stamps)]))
            with suppress(StoreError):  # a page that says itself that something is missing
                assert count_faults(worked, ledger), (table, key, row)
            engine.answer(Mutate(table, [RowMutation(key, dict(row))]))
            ledger.lost.clear()
            ledger.wrong.clear()
    assert count_faults(worked, ledger) == 0
