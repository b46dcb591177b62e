"""Two fields of one class: its schema is one component in every shape, read, sent, paged and grouped."""

import json
from types import new_class
from typing import Annotated

import msgspec
import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate
from pydantic import TypeAdapter

from oneread import Aggregate, Copy, Index, Key, Model, Page, Ref, Schema, by, connect, count, shown, to_json
from oneread.errors import InvalidDeclaration
from oneread.models.json_form import form
from oneread.web import CreateShape, PatchShape, PublicShape, component_schemas
from oneread.web.fastapi import use_problems

AT = "#/components/schemas/"


class Ground(msgspec.Struct, frozen=True):
    name: str = ""


class Club(Model[str]):
    code: Key[str]
    name: str = ""


class Side(Copy[Club]):
    name: str


class Elsewhere(Copy[Club]):
    name: str


Elsewhere.__name__ = "Side"  # as of another module


class Match(Model[int]):
    number: Key[int]
    home: Side
    away: Side
    third: Side | None = None
    host: Ref[Club] | None = None
    guest: Ref[Club] | None = None
    seen_by: Annotated[list[Ref[Club]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)
    known_to: Annotated[frozenset[Ref[Club]], msgspec.Meta(max_length=3)] = frozenset()
    first: Ground = Ground()
    second: Ground | None = None


class MatchesOfHome(Index[Match]):
    home: Side
    away: Side = shown(Match.away)


class MatchesBySides(Aggregate[Match]):
    home: Side = by(Match.home)
    away: Side = by(Match.away)
    matches: int = count()


class Tie(Model[int]):
    number: Key[int]
    home: Side
    away: Side


class CupTie(Tie):
    turn: int
    winner: Side | None = None


class LeagueTie(Tie):
    season: int


class Mixed(Model[int]):
    number: Key[int]
    home: Side
    away: Elsewhere


class ShownMatch(PublicShape[Match]):
    pass


class NewTie(CreateShape[Tie], exclude=("home",)):
    pass


SENT = [
    Match, Tie, Mixed, CreateShape[Match], PatchShape[Match], CreateShape[Tie], PatchShape[Tie], NewTie,
    CreateShape[CupTie], CreateShape[Mixed],
]  # fmt: skip
SHOWN = [
    Match, Tie, CupTie, Mixed, Side, ShownMatch, MatchesOfHome, MatchesBySides, Page[Match], Page[Tie],
    Page[MatchesOfHome], Page[MatchesBySides],
]  # fmt: skip


def refs(found):
    if isinstance(found, dict):
        own = {found["$ref"]} if isinstance(found.get("$ref"), str) else set()
        return own.union(*map(refs, found.values()))
    return set().union(*map(refs, found)) if isinstance(found, (list, tuple)) else set()


@pytest.mark.parametrize("mode", ["validation", "serialization"])
@pytest.mark.parametrize("cls", [*SENT, *(each for each in SHOWN if each not in SENT)], ids=str)
def test_every_shape_has_a_schema_in_both_modes(cls, mode):
    found = TypeAdapter(cls).json_schema(mode=mode)
    assert {each.removeprefix("#/$defs/") for each in refs(found)} == set(found.get("$defs", {}))


@pytest.mark.parametrize("cls", SENT, ids=str)
def test_every_sent_shape_is_whole_in_a_document_by_hand(cls):
    found = component_schemas(sent=[cls])
    assert refs(found) <= {AT + name for name in found}


@pytest.mark.parametrize("cls", SHOWN, ids=str)
def test_every_shown_shape_is_whole_in_a_document_by_hand(cls):
    found = component_schemas(cls)
    assert refs(found) <= {AT + name for name in found}


def test_the_class_is_one_component():
    found = component_schemas(Match, sent=[CreateShape[Match]])
    assert [name for name in found if "Side" in name] == ["Side", "SideInput"]
    assert found["Match"]["properties"]["home"] == found["Match"]["properties"]["away"] == {"$ref": AT + "Side"}
    assert found["Match"]["properties"]["third"]["anyOf"][0] == {"$ref": AT + "Side"}
    assert list(found["Side"]["properties"]) == ["ref", "deleted", "name"]
    assert list(found["SideInput"]["properties"]) == ["ref"]
    assert found["MatchCreate"]["required"] == ["number", "home", "away"]


def test_two_classes_of_one_name_are_named_with_their_modules():
    found = component_schemas(Mixed)["Mixed"]["properties"]
    assert found["home"]["$ref"].endswith("test_fields_of_one_class.Side")
    assert found["away"]["$ref"].endswith("test_fields_of_one_class.Elsewhere")


def test_two_classes_of_one_full_name_are_refused():
    other = new_class("Side", (Copy[Club],), {}, lambda body: body.update(__annotations__={"name": str}))
    other.__module__, other.__qualname__ = Side.__module__, Side.__qualname__
    annotations = {"number": Key[int], "home": Side, "away": other}
    both = new_class("Both", (Model[int],), {}, lambda body: body.update(__annotations__=annotations))
    with pytest.raises(InvalidDeclaration, match="two classes in the fields of this one have one name"):
        form(both).schema()


def test_a_document_of_fastapi_is_valid():
    app = FastAPI()
    use_problems(app)

    @app.post("/matches")
    def create(match: CreateShape[Match]) -> Match: ...

    @app.patch("/ties/{number}")
    def patch(number: int, changes: PatchShape[Tie]) -> Tie: ...

    @app.get("/matches")
    def matches() -> Page[MatchesOfHome]: ...

    @app.get("/groups")
    def groups() -> Page[MatchesBySides]: ...

    document = json.loads(json.dumps(app.openapi()))
    validate(document)
    assert {each.removeprefix(AT) for each in refs(document)} == set(document["components"]["schemas"])


@pytest.mark.parametrize("body", [b'{"number":1,"home":{"ref":"a"},"away":{"ref":["b"]}}'])
def test_what_is_sent_is_read_as_before(url, body):
    sent = TypeAdapter(CreateShape[Match]).validate_json(body)
    with connect(url, Schema(Club, Match)) as db:
        db.save_all([Club(code="a", name="A"), Club(code="b", name="B")])
        kept = db.save(sent.entity())
        found = msgspec.json.decode(to_json(kept))
    assert (found["home"], found["away"]["name"]) == ({"ref": "a", "deleted": False, "name": "A"}, "B")
