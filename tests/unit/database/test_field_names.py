"""Fields may be called like anything that the library names: parameters, attributes of classes, local variables."""

from __future__ import annotations

import inspect
import keyword
import types
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import find
from hypothesis import strategies as st

from oneread import (
    CREATED,
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Schema,
    add,
    by,
    connect,
    count,
    set_to,
    shown,
    to_json,
)
from oneread.database.async_bulk import AsyncBulk
from oneread.database.async_database import AsyncDatabase
from oneread.database.async_transaction import AsyncTransaction
from oneread.database.explaining import Explainer
from oneread.database.record_texts import fields, plain
from oneread.errors import InvalidDeclaration, UsageError
from oneread.models.json_form import form
from oneread.testing.strategies import entities
from tests.unit.database.faces import Awaited

FACES = (AsyncDatabase, AsyncTransaction, AsyncBulk, Explainer)
IN_GENERATED_CODE = (
    "entity", "entities", "row", "rows", "doc", "e", "u", "k", "m", "t", "v", "c", "s", "ref", "copy", "copy_0", "each",
    "value_0", "PREFIX", "FAULTS", "pack", "unpack", "become", "CLS", "REF", "COPY_0", "write", "take", "encode",
    "decode", "settle", "error", "start0", "out0_0", "ordered", "UTC", "parts", "key", "source", "deleted", "of",
)  # fmt: skip
TYPES = ("list", "str", "int", "type", "dict", "set", "id", "object", "property", "print", "mro", "format", "datetime")
REFUSED = {
    "stored_as", "max_limit", "evolution", "discriminator", "variants_only", "child_of", "ttl", "spread", "logged",
    "enqueue", "type_arguments", "reserved_names",
}  # fmt: skip
"""The options of a model's class, and what it is known as a declaration by."""


def parameters():
    """The names of all parameters of all public verbs."""
    for face in FACES:
        for name, verb in inspect.getmembers(face, inspect.isfunction):
            if not name.startswith("_"):
                yield from inspect.signature(verb).parameters


def public(names):
    return {name for name in names if not name.startswith("_")}


NAMES = sorted(
    public(
        {*dir(Model), *dir(Index), *dir(Aggregate), *dir(Copy), *dir(msgspec.Struct)}
        | {*parameters(), *keyword.softkwlist, *TYPES, *IN_GENERATED_CODE, "Name", "name", "NAME", "naïve", "x" * 300}
    )
    - set(keyword.kwlist)
    - REFUSED
)


def declared(base, fields, **space):
    space |= {"__annotations__": {name: kind for name, (kind, *_default) in fields.items()}, "__module__": __name__}
    space |= {name: default[0] for name, (_kind, *default) in fields.items() if default}
    return types.new_class("Named", (base,), {}, lambda made: made.update(space))


def names_for(base):
    return [name for name in NAMES if name not in base.reserved_names]


Everything = declared(Model[int], {"number_": (Key[int],)} | dict.fromkeys(NAMES, (str, "")))
Everything.__name__ = Everything.__qualname__ = "Everything"


Held = declared(Copy[Everything], dict.fromkeys(names_for(Copy), (str,)))
Holder = declared(Model[int], {"number": (Key[int],), "held": (Held | None, None)})
Holder.__name__ = Holder.__qualname__ = "Holder"


Listed = declared(
    Index[Everything],
    {"number_": (int, by(Everything.number_))}
    | {name: (str, shown(getattr(Everything, name))) for name in names_for(Index)},
)
INDEXES = [
    declared(Index[Everything], {name: (str, by(getattr(Everything, name)))}, stored_as=f"index of {name}")
    for name in names_for(Index)
    if name in ("e", "u", "t", "self", "model", "entity", "at", "ref", "check", "if_version")
]
AGGREGATES = [
    declared(
        Aggregate[Everything],
        {name: (str, by(getattr(Everything, name))), "number_of_them": (int, count())},
        stored_as=f"aggregate of {name}",
    )
    for name in ("at", "check", "source", "key")
]
for place, view in enumerate((*INDEXES, *AGGREGATES)):
    view.__name__ = f"View{place}"
SCHEMA = Schema(Everything, Holder, Listed, *INDEXES, *AGGREGATES)


@pytest.fixture(params=[connect, Awaited])
def db(request, url):
    database = request.param(url, SCHEMA, workers=0)
    yield database
    database.close()


def everything(number, text):
    return Everything(number_=number, **dict.fromkeys(NAMES, text))


def transacted(db, *steps):
    """Does verbs in one transaction, whichever the face."""
    if isinstance(db, Awaited):
        db.transact([(verb, given, named) for verb, given, named in steps])
    else:
        db.transact(lambda transaction: [getattr(transaction, verb)(*given, **named) for verb, given, named in steps])


def bulked(db, *given, **named):
    if not isinstance(db, Awaited):
        with db.bulk() as bulk:
            bulk.patch(*given, **named)
        return

    async def patched():
        async with db.db.bulk() as bulk:
            await bulk.patch(*given, **named)

    db.runner.run(patched())


def given(names, text):
    return {name: set_to(text) if name == "if_version" else text for name in names}


def test_only_options_of_the_class_are_refused():
    assert Model.reserved_names == REFUSED
    for name in REFUSED:
        with pytest.raises(InvalidDeclaration, match="reserved"):
            declared(Model[int], {"number": (Key[int],), name: (str,)})


def test_an_option_in_the_head_of_a_class_is_refused_with_what_to_write():
    for base, option in ((Copy[Everything], {"on_delete": "keep"}), (Model[int], {"max_limit": 5})):
        with pytest.raises(InvalidDeclaration, match="an option of a class is written in its body") as refused:
            types.new_class("Wrong", (base,), option)
        assert refused.value.facts == {"declaration": "Wrong", "option": next(iter(option))}


def test_every_verb_takes_every_name(db):
    saved = db.save(everything(1, "a"))
    assert db.save(Holder(number=1, held=Held.of(1))).held.self == "a"
    patched = db.patch(Everything, 1, **given(NAMES, "b"))
    assert patched == everything(1, "b") == db.get(Everything, 1) != saved
    assert db.upsert(everything(1, "x"), **dict.fromkeys(NAMES, "c")) == everything(1, "c")
    transacted(db, ("patch", (Everything, 1), given(NAMES, "d")))
    assert db.get(Everything, 1) == everything(1, "d")
    bulked(db, Everything, 1, **dict.fromkeys(NAMES, "e"))
    assert db.get(Everything, 1) == everything(1, "e")
    for name in ("self", "model", "entity", "key", "if_version", "changes", "carriers", "at"):
        assert getattr(db.patch(Everything, 1, **given([name], name)), name) == name
        assert db.explain.patch(Everything, 1, **{name: "z"}) is not None
        assert db.explain.upsert(saved, **{name: "z"}) is not None


def test_views_copies_and_documents_have_every_name(db):
    entity = everything(1, "a")
    db.save(entity)
    db.save(Holder(number=1, held=Held.of(1)))
    assert {getattr(db.page(Listed).rows[0], name) for name in names_for(Index)} == {"a"}
    for view in INDEXES:
        assert len(db.page(view, "a").rows) == 1
    for view in AGGREGATES:
        assert db.get(view, "a").number_of_them == 1
    shown_by = db.get(Holder, 1).held
    assert {getattr(shown_by, name) for name in names_for(Copy)} == {"a"}
    db.patch(Everything, 1, **given(NAMES, "b"))
    assert {getattr(db.get(Holder, 1).held, name) for name in names_for(Copy)} == {"b"}
    assert db.verify().clean
    assert plain(entity) == dict.fromkeys(NAMES, "a") | {"number_": 1}
    assert len(fields(db.get(Holder, 1))) > len(NAMES) - 20


def test_json_has_every_name():
    entity = everything(1, "a")
    sent = form(Everything)
    assert sent.decode(to_json(entity)) == entity
    assert sent.changes(msgspec.json.encode(dict.fromkeys(NAMES, "b"))) == dict.fromkeys(NAMES, "b")
    assert set(sent.schema().schema["properties"]) == {*NAMES, "number_"}


def test_generated_entities_have_every_name():
    Small = declared(Model[int], {"number": (Key[int],), "model": (str,), "schema": (str,), "pool": (str,)})  # noqa: N806
    names = ("model", "schema", "pool")
    found = find(entities(Small, **{name: st.just(name) for name in names}), lambda _entity: True)
    assert [getattr(found, name) for name in names] == list(names)


class Car(Model[int]):
    number: Key[int]
    if_version: int | None = 0
    doors: int = 4


class TestAFieldCalledIfVersion:
    @pytest.fixture(params=[connect, Awaited])
    def db(self, request, url):
        database = request.param(url, Schema(Car))
        database.save(Car(number=1))
        yield database
        database.close()

    @pytest.mark.parametrize("value", [0, 5, None])
    def test_a_value_that_may_be_a_version_is_refused(self, db, value):
        before = db.get(Car, 1)
        with pytest.raises(UsageError, match="set_to"):
            db.patch(Car, 1, if_version=value, doors=5)
        with pytest.raises(UsageError, match="set_to"):
            transacted(db, ("patch", (Car, 1), {"if_version": value, "doors": 5}))
        assert db.get(Car, 1) == before

    def test_steps_change_the_field(self, db):
        assert db.patch(Car, 1, if_version=set_to(7), doors=5) == Car(number=1, if_version=7, doors=5)
        assert db.patch(Car, 1, if_version=add(1)).if_version == 8
        assert db.patch(Car, 1, if_version=set_to(None)).if_version is None
        assert db.patch(Car, 1, doors=3).doors == 3

    def test_the_version_is_given_to_save(self, db):
        version = db.version(db.get(Car, 1))
        assert db.save(Car(number=1, doors=2), if_version=version).doors == 2


class Event(Model[str]):
    code: Key[str]
    at: datetime = CREATED
    check: str | None = None
    ref: str = ""
    source: str = ""


class Variant(Event):
    more: int = 0


def test_helpers_that_fields_hide_have_another_way(url):
    with connect(url, Schema(Event, Variant)) as db:
        saved = db.save(Variant(code="a", check="passed", ref="r", source="s"))
        assert (saved.check, saved.ref, saved.source) == ("passed", "r", "s")
        assert saved.at <= datetime.now(UTC)
        assert db.find(Event, "a") == saved


ODD = {
    "a keyword": "class",
    "a soft name of the language": "None",
    "an underscore": "_hidden",
    "a dunder": "__dict__",
    "two words": "two words",
    "code": "x; import os",
    "nothing": "",
    "a number": "1st",
    "a name that Python reads as another": "\ufb01eld",
    "a dot": "a.b",
    "a surrogate": "a\ud800",
}


@pytest.mark.parametrize("base", [Model[int], Index[Event], Aggregate[Event], Copy[Event]])
@pytest.mark.parametrize("case", ODD)
def test_names_that_cannot_be_fields_are_refused_when_declared(base, case):
    with pytest.raises(InvalidDeclaration) as caught:
        declared(base, {"number": (Key[int],), ODD[case]: (str,)})
    assert caught.value.facts["field"] == ODD[case]
    assert str(caught.value)


@pytest.mark.parametrize("hiding", [3, property(id), len])
def test_an_attribute_that_hides_a_field_is_refused(hiding):
    with pytest.raises(InvalidDeclaration, match="hides a field"):
        types.new_class("Hiding", (Event,), {}, lambda space: space.update(source=hiding))


def test_names_may_differ_by_case_and_in_json(url):
    class Cased(Model[int], rename="upper"):
        number: Key[int]
        name: str = ""
        Name: str = msgspec.field(default="", name="other name")
        kept: str = msgspec.field(default="", name="stored_as")

    with connect(url, Schema(Cased)) as db:
        db.save(Cased(number=1))
        changes = form(Cased).changes(b'{"stored_as": "a", "NAME": "b", "other name": "c"}')
        assert db.patch(Cased, 1, **changes) == Cased(number=1, name="b", Name="c", kept="a")


def test_names_that_are_one_in_json_are_refused_when_declared():
    with pytest.raises(InvalidDeclaration, match="cannot be declared"):
        types.new_class(
            "Twice", (Model[int],), {"rename": "lower"},
            lambda space: space.update(__annotations__={"number": Key[int], "a": str, "A": str}, __module__=__name__),
        )  # fmt: skip
