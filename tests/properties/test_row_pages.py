"""A bulk writer on a store that changes one row at a time leaves what the same changes leave one after the other."""

from uuid import uuid4

from hypothesis import given, settings
from hypothesis import strategies as st

from oneread import add, connect
from oneread.engines.one_row_memory import forget
from oneread.errors import OnereadError
from tests.unit.database.shop import SCHEMA, SHOP, Customer, Product, Purchase, Tag, customer, fill, product, purchase

NUMBERS = st.integers(1, 4)
NAMES = st.sampled_from("ab")
PURCHASES = st.builds(
    lambda line, buyer, sold, tags: purchase(line, buyer=buyer, sold=sold, tags=[Tag.at(each) for each in tags]),
    NUMBERS,
    st.sampled_from((1, 2, 3)),
    st.sampled_from("pqr"),
    st.lists(st.sampled_from(("new", "old")), unique=True),
)
ENTITIES = PURCHASES | st.builds(lambda number, name: customer(number, name=name), NUMBERS, NAMES)
ENTITIES |= st.builds(lambda code, name: product(code, name=name), st.sampled_from("pqr"), NAMES)
CHANGES = st.one_of(
    st.tuples(st.sampled_from(("save", "create")), ENTITIES).map(lambda each: (each[0], each[1:], {})),
    NUMBERS.map(lambda line: ("patch", (Purchase, "o", line), {"quantity": add(2)})),
    st.tuples(NUMBERS, NAMES).map(lambda each: ("patch", (Customer, each[0]), {"name": each[1]})),
    NUMBERS.map(lambda line: ("delete", (Purchase, "o", line), {})),
    st.sampled_from("pqr").map(lambda code: ("delete", (Product, code), {})),
)


def everything(db):
    return {listed: [row for page in db.scan(listed) for row in page] for listed in SHOP}


def one_by_one(db, changes):
    refused = []
    for verb, arguments, fields in changes:
        try:
            getattr(db, verb)(*arguments, **fields)
        except OnereadError as error:
            refused.append(type(error))
    return refused


def in_bulk(db, changes, batch, checkpoint):
    refused = []
    with db.bulk(batch=batch, checkpoint=checkpoint, on_refused=lambda each: refused.append(type(each.error))) as bulk:
        for number, (verb, arguments, fields) in enumerate(changes):
            getattr(bulk, verb)(*arguments, **fields)
            bulk.reached(number)
    return refused


@settings(max_examples=max(1, settings().max_examples // 2))
@given(st.lists(CHANGES, max_size=25), st.integers(1, 12), st.sampled_from((None, "work")))
def test_pages_leave_what_single_commits_leave(changes, batch, checkpoint):
    found = []
    for write in (one_by_one, lambda db, changes: in_bulk(db, changes, batch, checkpoint)):
        name = str(uuid4())
        with connect(f"memory://{name}?span=row", SCHEMA, workers=0) as db:
            fill(db)
            found.append((write(db, changes), everything(db)))
        forget(name)
    assert found[0] == found[1]
