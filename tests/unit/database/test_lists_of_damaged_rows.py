"""A row that cannot be read is named by its key, by whatever reads it."""

import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.errors import Corrupt
from oneread.store.rows import Cell
from oneread.transactions.root import BODY
from tests.unit.verify.hands import STORES, put, stored_rows, url_of


class Thing(Model[int]):
    number: Key[int]
    name: str


class ThingsOfName(Index[Thing]):
    name: str = by(Thing.name)


READS = {
    "get": lambda db: db.get(Thing, 2),
    "find": lambda db: db.find(Thing, 2),
    "page": lambda db: db.page(Thing).rows,
    "scan": lambda db: [row for page in db.scan(Thing) for row in page],
    "dump": lambda db: db.dump(lambda _line: None),
}


@pytest.fixture(params=STORES)
def db(request, tmp_path):
    with connect(url_of(request.param, tmp_path), Schema(Thing, ThingsOfName), workers=0) as db:
        db.save_all([Thing(number=number, name=f"name {number}") for number in (1, 2, 3)])
        yield db


@pytest.mark.parametrize("read", READS)
def test_a_document_that_cannot_be_read_is_named(db, read):
    place = db.operations.catalog.kinds[Thing].key((2,))
    ((_key, row),) = stored_rows(db, "roots", place)
    put(db, "roots", place, row | {BODY: Cell(row[BODY].value[:-2], row[BODY].stamp)})
    with pytest.raises(Corrupt) as caught:
        READS[read](db)
    assert caught.value.facts["row"] == "Thing(2)"
    assert [fault.entity for fault in db.verify().faults] == ["Thing(2)"]
