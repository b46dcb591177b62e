"""Every public verb, given what it cannot take in each of its parameters, raises an error of ours that prints.

The verbs and their parameters are found by their signatures, so that a new one is covered by itself.
"""

from __future__ import annotations

import inspect
import math
from datetime import datetime, timedelta, timezone
from decimal import Decimal

import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Job,
    JobHandlers,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    bucket,
    by,
    connect,
    connect_async,
    count,
    migration,
    newest,
    on,
)
from oneread.counters.batch import CounterBatch
from oneread.database._sync.bulk import Bulk
from oneread.database._sync.counters import Counter
from oneread.database._sync.database import Database
from oneread.database._sync.launches import Launches
from oneread.database._sync.transaction import Transaction
from oneread.database.explaining import Explainer
from oneread.errors import OnereadError, UsageError
from oneread.feeds.marks import Marks
from oneread.testing.clock import START


class Thing(Model[int]):
    number: Key[int]
    name: str = ""
    at: datetime | None = None


class Shown(Copy[Thing]):
    name: str


class Holder(Model[int]):
    number: Key[int]
    thing: Shown | None = None


class ByName(Index[Thing]):
    name: str = by(Thing.name)


class ByWeek(Index[Thing]):
    week: datetime = bucket(Thing.at, "week")


class Weeks(Aggregate[Thing]):
    week: datetime = bucket(Thing.at, "week")
    things: int = count()


class Follower(Model[int, str]):
    person: Key[int]
    name: Key[str]


class Work(Job):
    number: int


class Home(Feed[Thing]):
    person: int = by(Follower.person)
    at: datetime = newest(Thing.at)
    joined = on(Thing.name, Follower.name)
    marks = True


SCHEMA = Schema(Thing, Holder, ByName, ByWeek, Weeks, Follower, Home, Work)
DEEP = []
for _ in range(20_000):
    DEEP = [DEEP]


class Broken:
    """An object whose methods raise."""

    def __repr__(self):
        raise LookupError("repr")

    __eq__ = __bool__ = __len__ = __iter__ = __str__ = lambda _self, *_others: 1 / 0
    __hash__ = None


HOSTILE = {
    "None": None, "an empty list": [], "an empty dict": {}, "a huge int": 10**5000, "a negative one": -(10**5000),
    "-1": -1, "0": 0, "nan": math.nan, "infinity": math.inf, "a float": 1.5, "a bool": True, "a deep list": DEEP,
    "an object": object(), "a class": int, "a class of no model": Broken, "bytes with zeros": b"\x00\x00",
    "a naive instant": datetime(2020, 1, 1),
    "the first instant": datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    "the last instant": datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))), "huge text": "x" * 1_000_000,
    "a surrogate": "\ud800", "a zero": "\x00", "empty text": "", "text": "text", "a Decimal": Decimal("NaN"),
    "a generator": (each for each in ()), "a function of nothing": lambda: None, "a broken object": Broken(),
    "a set": {1}, "a list of an object": [object()], "a tuple": (1, 2), "a list of tuples": [(None,)],
    "any of": any_of(1, 2),
    "a model": Thing, "an entity": Thing(number=1), "a holder": Holder(number=1, thing=Shown.of(None)),
    "an entity of wrong values": Thing(number=None, name=5), "a copy": Shown.of(1),
}  # fmt: skip
GOOD = {
    "model": Thing, "models": Thing, "key": 1, "keys": [(1,)], "view": ByName, "equal": "a", "entity": Thing(number=1),
    "entities": [Thing(number=1)], "body": lambda _transaction: None, "wanted": Thing, "result": Thing(number=1),
    "write": lambda _line: None, "changes": {"name": "b"}, "target": None, "position": 1, "numbers": None,
    "name": "votes:42", "size": "hour", "feed": Home, "member": 1, "declared": ByName,
    "job": Work(number=1), "handlers": JobHandlers(),
}  # fmt: skip
MOST_BYTES = 10_000
INNER = {"run", "apply", "verb", "renew", "end"}
"""They take plans, changes and bounds of the library's own rooms."""
CALLED = {"body", "clock", "write", "progress", "on_fault", "on_refused"}
"""Functions of the caller, which are called: what they raise is the caller's."""


def verbs(face):
    return [
        (name, verb)
        for name, verb in inspect.getmembers(face, inspect.isfunction)
        if not name.startswith("_") and name not in INNER
    ]


def cases(face):
    for name, verb in verbs(face):
        for parameter in list(inspect.signature(verb).parameters.values())[1:]:
            yield pytest.param(name, parameter, id=f"{name}-{parameter.name}")


def call(verb, parameter, value, folder):
    """Calls a verb with good arguments wherever it must have one, and `value` for one parameter."""
    given, named = [], {}
    for each in inspect.signature(verb).parameters.values():
        hostile = each.name == parameter.name
        if each.kind is each.VAR_KEYWORD:
            named |= {"name": value} if hostile else GOOD["changes"]
        elif each.kind is each.KEYWORD_ONLY:
            named |= {each.name: value} if hostile else {}
            if each.default is each.empty and not hostile:
                named[each.name] = len  # a function, which no verb calls by itself
        elif each.kind is each.VAR_POSITIONAL:
            given += [value] if hostile else ([GOOD[each.name]] if each.name in ("key", "member") else [])
        elif hostile or each.default is each.empty:
            given.append(value if hostile else str(folder / "copy") if each.name == "target" else GOOD[each.name])
    result = verb(*given, **named)
    if inspect.isgenerator(result):
        return next(result, None)
    if inspect.iscoroutine(result):
        result.close()
    return result


def refused(verb, parameter, folder, fresh=None):
    """An error that is not one of ours, or does not print."""
    found = {}
    for what, value in HOSTILE.items():
        if parameter.name in CALLED and callable(value):
            continue
        try:
            call(verb if fresh is None else fresh(), parameter, value, folder)
        except OnereadError as error:
            if len(str(error).encode()) > MOST_BYTES:
                found[what] = "its text is too long"
        except ZeroDivisionError:
            continue  # raised by a method of what was given, and passed through
        except Exception as error:  # noqa: BLE001 - any error that is not ours is a finding
            found[what] = f"{type(error).__name__}: {str(error)[:100]}"
    return found


@pytest.fixture(scope="module")
def db(new_url):
    with connect(new_url(), SCHEMA, workers=0) as opened:
        opened.save(Thing(number=1, name="a"))
        yield opened


@pytest.mark.parametrize(("name", "parameter"), list(cases(Database)))
def test_database(db, name, parameter, tmp_path):
    assert refused(getattr(db, name), parameter, tmp_path) == {}


@pytest.mark.parametrize(("name", "parameter"), list(cases(Launches)))
def test_launches(db, name, parameter, tmp_path):
    launch = db.launch("votes:42", old=len, new=len, key=len)
    launch("a")
    assert refused(getattr(db.launches, name), parameter, tmp_path) == {}


@pytest.mark.parametrize(("name", "parameter"), list(cases(Explainer)))
def test_explain(db, name, parameter, tmp_path):
    assert refused(getattr(db.explain, name), parameter, tmp_path) == {}


@pytest.mark.parametrize(("name", "parameter"), list(cases(Transaction)))
def test_transaction(db, name, parameter, tmp_path):
    found = {}

    def body(transaction):
        found.update(refused(getattr(transaction, name), parameter, tmp_path))
        raise UsageError("nothing is to be written")

    with pytest.raises(UsageError):
        db.transact(body)
    assert found == {}


@pytest.mark.parametrize(("name", "parameter"), list(cases(Bulk)))
def test_bulk(db, name, parameter, tmp_path):
    def fresh():
        def verb(*given, **named):
            with db.bulk() as bulk:
                return getattr(bulk, name)(*given, **named)

        verb.__signature__ = inspect.signature(getattr(Bulk, name)).replace(
            parameters=list(inspect.signature(getattr(Bulk, name)).parameters.values())[1:]
        )
        return verb

    assert refused(None, parameter, tmp_path, fresh) == {}


@pytest.mark.parametrize(("name", "parameter"), list(cases(Counter)))
def test_counter(db, name, parameter, tmp_path):
    db.counter("votes:42", keep={"hour": 2}).add(1)
    assert refused(getattr(db.counter("votes:42"), name), parameter, tmp_path) == {}
    assert db.counter("votes:42").shards()


@pytest.mark.parametrize(("name", "parameter"), list(cases(CounterBatch)))
def test_counter_batch(db, name, parameter, tmp_path):
    with db.counter_batch(seconds=3600) as batch:
        assert refused(getattr(batch, name), parameter, tmp_path) == {}


OPENING = [
    pytest.param(function, each, id=f"{function.__name__}-{each.name}")
    for function in (connect, connect_async, migration, Schema)
    for each in inspect.signature(function).parameters.values()
]


@pytest.mark.parametrize(("function", "parameter"), OPENING)
def test_opening(url, function, parameter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(GOOD, "url", url)
    monkeypatch.setitem(GOOD, "schema", SCHEMA)
    monkeypatch.setitem(GOOD, "declarations", Thing)

    assert refused(function, parameter, tmp_path) == {}


WRONG_ENTRIES = [
    Home(source=Ref((None,)), person=1, at=START),
    Home(source=Ref(None), person=1, at=START),
    Home(source=Ref((1,)), person=1, at=datetime(2020, 1, 1)),
    Home(source=Ref((1,)), person=1, at=None),
    Home(source=None, person=1, at=START),
    Home(source=Ref(("1",)), person=1, at=START),
    Home(source=Ref((1,)), person="1", at=START),
    Home(source=Ref((1,)), person=2, at=START),
    Home(source=Ref((1,)), person=1, at=datetime.min.replace(tzinfo=timezone(timedelta(hours=14)))),
]


@pytest.mark.parametrize("entry", WRONG_ENTRIES)
def test_marks_take_entries_of_the_member(db, entry):
    for verb in (lambda: db.mark(Home, 1, seen=entry), lambda: db.mark(Home, 1, read=entry, seen=True)):
        with pytest.raises(OnereadError) as refused_with:
            verb()
        assert len(str(refused_with.value)) < MOST_BYTES
    assert db.marks(Home, 1) == Marks()


@pytest.mark.parametrize("what", HOSTILE)
def test_a_page_of_a_feed(db, what):
    for option in ("includes", "lag"):
        if what == "None" or (option, what) == ("lag", "a bool"):
            continue
        with pytest.raises(OnereadError) as refused_with:
            db.page(Home, 1, **{option: HOSTILE[what]})
        assert len(str(refused_with.value)) < MOST_BYTES


def test_a_dump_to_a_name_says_what_to_give(db):
    for dump in (db.dump, lambda write: db.dump_csv(write, Thing)):
        with pytest.raises(UsageError, match=r'open\("FILE", "wb"\)\.write; or use the command `oneread dump`'):
            dump("file")
