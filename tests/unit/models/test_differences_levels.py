"""How deep a value may be nested is one number, whatever verb stores it and however deep the caller's stack is."""

from typing import Any

import msgspec
import pytest

from oneread import Key, Model, Schema, connect
from oneread.errors import InvalidValue
from oneread.models.differences import MOST_LEVELS


class Branch(msgspec.Struct):
    inner: "Branch | None" = None


class Event(Model[int]):
    number: Key[int]
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    branch: Branch | None = None


SCHEMA = Schema(Event)


def lists(levels):
    value: Any = 1
    for _ in range(levels - 1):
        value = [value]
    return {"payload": {"a": value}}


def dicts(levels):
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return {"payload": value}


def branches(levels):
    value = Branch()
    for _ in range(levels - 1):
        value = Branch(inner=value)
    return {"branch": value}


def at_depth(frames, call):
    return call() if frames == 0 else at_depth(frames - 1, call)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA, workers=0) as opened:
        opened.save(Event(number=0))
        yield opened


def save_in_bulk(db, number, fields):
    with db.bulk() as bulk:
        bulk.save(Event(number=number, **fields))


VERBS = {
    "save": lambda db, number, fields: db.save(Event(number=number, **fields)),
    "create": lambda db, number, fields: db.create(Event(number=number, **fields)),
    "save_all": lambda db, number, fields: db.save_all([Event(number=number, **fields)]),
    "patch": lambda db, _number, fields: db.patch(Event, 0, **fields),
    "bulk": save_in_bulk,
    "transact": lambda db, number, fields: db.transact(lambda tx: tx.save(Event(number=number, **fields))),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("make", [lists, dicts, branches])
def test_values_are_stored_up_to_the_bound_and_refused_beyond(db, verb, make):
    for frames in (0, 300):
        number = 0 if verb == "patch" else frames + 1
        at_depth(frames, lambda: VERBS[verb](db, number, make(MOST_LEVELS)))  # noqa: B023
        found = db.get(Event, number)
        assert {name: getattr(found, name) for name in make(MOST_LEVELS)} == make(MOST_LEVELS)
        db.save(found)
        for levels in (MOST_LEVELS + 1, 250, 400, 900, 1500):
            with pytest.raises(InvalidValue) as error:
                at_depth(frames, lambda: VERBS[verb](db, frames + 2, make(levels)))  # noqa: B023
            assert error.value.facts["field"] == next(iter(make(1)))
        assert db.get(Event, number) == found
        assert db.find(Event, frames + 2) is None


def test_one_that_is_refused_in_bulk_takes_no_other_along(db):
    refused = []
    with db.bulk(on_refused=refused.append) as bulk:
        for number, levels in enumerate((3, 300, 4, 900, 5), 1):
            bulk.save(Event(number=number, **lists(levels)))
    assert [each.number for each in db.page(Event)] == [0, 1, 3, 5]
    assert [type(each.error) for each in refused] == [InvalidValue] * 2


def test_a_value_that_holds_itself_is_refused(db):
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InvalidValue):
        db.save(Event(number=1, payload={"a": endless}))
