"""Numbers: read strictly, kept apart by machine, and a prediction is the sum of what the terms of a bound take."""

import msgspec
import pytest

from oneread.costs import declared
from oneread.costs.numbers import BASICS, read_numbers, seconds_text, this_machine, write_numbers
from oneread.errors import UsageError
from tests.unit.costs.numbers import some
from tests.unit.database.shop import SCHEMA, Product, Purchase, PurchasesOfBuyer, SalesOfBuyer

COSTS = declared.of(SCHEMA)


def weighing(**seconds):
    """Numbers that are 0 but for these."""
    return msgspec.structs.replace(some(), seconds=dict.fromkeys(BASICS, 0.0) | seconds)


TAKEN = [
    ("a get is a point", COSTS.get(Purchase), {"point": 5.0}, 5.0),
    ("a get has no page", COSTS.get(Purchase), {"page": 5.0, "row": 1.0}, 0.0),
    ("a page has rows", COSTS.page(PurchasesOfBuyer, limit=10), {"page": 5.0, "row": 1.0}, 16.0),
    ("a page of entities has dearer ones", COSTS.page(Purchase, limit=10, budget=0), {"entity row": 2.0}, 22.0),
    ("a group is a request and a scan", COSTS.get(SalesOfBuyer), {"request": 1.0, "page": 10.0, "row": 100.0}, 111.0),
    ("each key is a row", COSTS.get_many(Purchase, 7), {"point": 10.0, "entity row": 1.0}, 16.0),
    ("one commit", COSTS.create(Purchase), {"commit": 1.0}, 1.0),
    ("an entity", COSTS.create(Purchase), {"entity": 1.0}, 1.0),
    ("five entities", COSTS.save(Purchase, entities=5), {"entity": 1.0}, 5.0),
    ("references", COSTS.create(Purchase), {"source": 1.0}, 5.0),
    ("index rows", COSTS.create(Purchase), {"index row": 1.0}, 5.0),
    ("groups are counted once", COSTS.create(Purchase), {"group": 1.0}, 2.0),
    ("holders are entities", COSTS.patch(Product, "name", carriers=3), {"entity": 1.0}, 4.0),
    ("holders have index rows", COSTS.patch(Product, "name", carriers=3), {"index row": 1.0}, 3.0),
]


@pytest.mark.parametrize(
    ("bound", "numbers", "expected"), [each[1:] for each in TAKEN], ids=[each[0] for each in TAKEN]
)
def test_a_prediction_adds_up_terms(bound, numbers, expected):
    assert weighing(**numbers).predicted(bound) == expected


def test_a_commit_of_one_row_is_its_rounds_and_its_rows():
    """A purchase reads its row and its sources; it commits, applies, clears its intents and its marker."""
    bound = declared.of(SCHEMA, span="row").create(Purchase)
    taken = weighing(commit=100.0, request=1.0, entity=0.5)
    assert msgspec.structs.replace(taken, span="row").predicted(bound) == 402.5
    assert taken.predicted(bound) == 100.5


def test_bytes_count_beyond_those_of_small_rows():
    bound = COSTS.get(Purchase)
    assert weighing(**{"byte read": 1.0}).predicted(bound) == max(0, bound.typical - 100)
    assert weighing(**{"byte written": 1.0}).predicted(COSTS.create(Purchase)) >= 0


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "folder" / "numbers.json"
    write_numbers(some(), path)
    assert read_numbers(path) == some()


TORN = {
    "empty": b"",
    "cut": b'{"format": 1',
    "another release": msgspec.json.encode(msgspec.structs.replace(some(), format=2)),
    "lacking": msgspec.json.encode(msgspec.structs.replace(some(), seconds={"point": 1.0})),
    "before the start": msgspec.json.encode(weighing(point=-1.0)),
    "endless": msgspec.json.encode(some()).replace(b"1e-6", b"1e999"),
    "text": b"\xff\x00",
}


@pytest.mark.parametrize("what", TORN)
def test_a_file_that_holds_none_is_refused(tmp_path, what):
    path = tmp_path / "numbers.json"
    path.write_bytes(TORN[what])
    with pytest.raises(UsageError, match="path="):
        read_numbers(path)


def test_no_file_says_how_to_measure(tmp_path):
    with pytest.raises(UsageError, match="oneread numbers"):
        read_numbers(tmp_path / "none")
    with pytest.raises(UsageError):
        read_numbers(tmp_path)


def test_numbers_say_why_they_may_be_wrong():
    assert some().mismatches("rows") == []
    assert some().mismatches("row") == ["span: rows (memory), not row"]
    assert some(python="2.7").mismatches("rows") == [f"python: 2.7, not {this_machine().python}"]


def test_times_are_read_in_their_largest_unit():
    assert [seconds_text(each) for each in (2.5, 0.0021, 0.0000034)] == ["2.5 s", "2.1 ms", "3.4 us"]
