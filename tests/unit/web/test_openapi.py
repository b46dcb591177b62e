"""OpenAPI: named components, defaults, constraints and problems, in FastAPI's document and in one written by hand."""

import json
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import new_class
from typing import Annotated
from uuid import UUID

import msgspec
import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate
from pydantic import TypeAdapter

from oneread import Aggregate, Copy, Key, Model, Page, Ref, Schema, by, connect, count, rollup, to_json
from oneread.errors import InvalidDeclaration, InvalidValue
from oneread.models.json_form import form
from oneread.web import CreateShape, PatchShape, PublicShape, component_schemas, problem_responses
from oneread.web.fastapi import use_problems
from oneread.web.openapi import add_problems
from tests.unit.web.applications import TestClient, Thing
from tests.unit.web.posts import EditedPost, NewPost, Post, PostsOfAuthor, PublicUser, User, fastapi

AT = "#/components/schemas/"


@pytest.fixture(scope="module")
def document():
    return fastapi().openapi()


@pytest.fixture(scope="module")
def schemas(document):
    return document["components"]["schemas"]


def refs(found):
    """Every reference in a document."""
    if isinstance(found, dict):
        own = {found["$ref"]} if isinstance(found.get("$ref"), str) else set()
        return own.union(*map(refs, found.values()))
    return set().union(*map(refs, found)) if isinstance(found, (list, tuple)) else set()


def test_the_document_is_valid_and_whole(document, schemas):
    validate(document)
    assert {each.removeprefix(AT) for each in refs(document)} == set(schemas)


def test_every_class_is_a_component_that_is_referred_to(schemas):
    assert set(schemas) == {
        "Author", "EditedPost", "FieldProblem", "Listed", "Mood", "NewPost", "Place-Input", "Place-Output", "Post",
        "PostsOfAuthor", "PostsOfAuthorPage", "Problem", "PublicUser", "PublicUserPage", "User", "UserCreate",
        "UserPatch",
    }  # fmt: skip
    assert schemas["Post"]["properties"]["author"] == {"$ref": AT + "Author"}
    assert schemas["Post"]["description"] == "Something written."
    assert schemas["PostsOfAuthorPage"]["properties"]["rows"] == {
        "type": "array", "items": {"$ref": AT + "PostsOfAuthor"}, "maxItems": 40,
    }  # fmt: skip
    assert schemas["PublicUserPage"]["properties"]["rows"]["maxItems"] == 1000
    assert schemas["Listed"]["properties"]["posts"] == {"$ref": AT + "PostsOfAuthorPage"}
    assert schemas["Place-Output"]["properties"]["near"]["items"] == {"$ref": AT + "Place-Output"}


def test_fields_have_their_defaults_constraints_and_types(schemas):
    new = schemas["NewPost"]
    assert new["required"] == ["topic", "title"]
    assert new["additionalProperties"] is False
    assert {name: each["default"] for name, each in new["properties"].items() if "default" in each} == {
        "tags": [], "score": 0, "price": "1.50", "mood": "glad", "spelledHere": 0,
    }  # fmt: skip
    assert new["properties"]["tags"] == {"type": "array", "items": {"type": "string"}, "maxItems": 5, "default": []}
    assert not {"id", "author", "made_at", "changed_at", "if_version"} & new["properties"].keys()
    edited = schemas["EditedPost"]
    assert "required" not in edited
    assert not any("default" in each for each in edited["properties"].values())
    assert schemas["UserCreate"]["properties"]["name"] == {"type": "string", "minLength": 1, "maxLength": 20}
    assert schemas["Author"]["required"] == ["ref"]
    assert schemas["Author"]["properties"]["ref"] == {"type": "integer"}


def test_operations_have_their_problems(document):
    def statuses(path, method):
        return list(document["paths"][path][method]["responses"])

    assert statuses("/posts", "post") == ["201", "409", "413", "422", "503"]
    assert statuses("/posts", "get") == ["200", "400", "422", "503"]
    assert statuses("/posts/{key}", "get") == ["200", "404", "422", "503"]
    assert statuses("/posts/{key}", "patch") == ["200", "404", "409", "412", "413", "422", "503"]
    found = document["paths"]["/posts"]["post"]["responses"]["422"]["content"]
    assert found == {"application/problem+json": {"schema": {"$ref": AT + "Problem"}}}
    assert "Retry-After" in document["paths"]["/posts"]["post"]["responses"]["503"]["headers"]


def test_problems_are_added_once_and_leave_what_a_route_declares():
    app = FastAPI()

    @app.get("/{key}", responses={404: {"description": "mine"}, **problem_responses(409)})
    async def get(key: int) -> int:
        return key

    use_problems(app)
    first = json.dumps(app.openapi())
    assert json.dumps(app.openapi()) == first
    responses = app.openapi()["paths"]["/{key}"]["get"]["responses"]
    assert responses["404"] == {"description": "mine"}
    assert list(responses) == ["200", "404", "409", "422", "503"]
    validate(app.openapi())
    with pytest.raises(InvalidDeclaration, match="no problem has this status"):
        problem_responses(404, 418)


def test_a_class_called_as_a_problem_is_refused():
    with pytest.raises(InvalidDeclaration, match="another component"):
        add_problems({"components": {"schemas": {"Problem": {"type": "object"}}}})


def test_a_body_that_fastapi_refuses_is_a_problem_that_repeats_no_input():
    with TestClient(fastapi()) as client:
        refused = client.post("/users", json={"number": "secret", "x": 1})
        assert refused.headers["content-type"] == "application/problem+json"
        assert (refused.status_code, refused.json()["status"]) == (422, 422)
        assert refused.json()["errors"] == [
            {"loc": ["body", "number"], "msg": "Expected `int`, got `str`"},
            {"loc": ["body", "name"], "msg": "Field required"},
            {"loc": ["body", "x"], "msg": "Extra inputs are not permitted"},
        ]
        assert "secret" not in refused.text
        wrong = {"title": "t", "topic": "a", "place": {"city": "x", "near": [{}]}, "tags": [1]}
        inside = client.post("/posts", json=wrong)
        assert inside.json()["errors"] == [
            {"loc": ["body", "tags", 0], "msg": "Expected `str`, got `int`"},
            {"loc": ["body", "place", "near", 0], "msg": "Object missing required field `city`"},
        ]
        assert client.get("/users/x").json()["errors"][0]["loc"] == ["path", "number"]
        assert client.get("/users?limit=x").json()["errors"][0]["loc"] == ["query", "limit"]


def test_components_of_a_document_written_by_hand():
    found = component_schemas(
        Post,
        Page[PostsOfAuthor],
        PublicUser,
        sent=[Post, NewPost, EditedPost, CreateShape[User], PatchShape[User], User],
    )
    assert {each.removeprefix(AT) for each in refs(found)} <= set(found)
    assert found["PostInput"]["properties"]["author"] == {"$ref": AT + "AuthorInput"}
    assert found["Post"]["properties"]["author"] == {"$ref": AT + "Author"}
    assert found["NewPost"]["properties"]["mood"] == {"$ref": AT + "Mood", "default": "glad"}
    assert {"PostsOfAuthorPage", "Problem", "UserCreate", "UserPatch"} <= set(found)
    paths = {"/": {"get": {"responses": {str(key): value for key, value in problem_responses(404, 503).items()}}}}
    hand_written = {"openapi": "3.1.0", "info": {"title": "Posts", "version": "1"}, "paths": paths}
    validate(json.loads(msgspec.json.encode(hand_written | {"components": {"schemas": found}})))


def test_components_that_cannot_be_are_refused():
    class Post(Model[int]):
        number: Key[int]

    with pytest.raises(InvalidDeclaration, match="called the same"):
        component_schemas(Post, PublicUser, Page[PostsOfAuthor], PostElsewhere)
    for wrong in (int, Page, list[Post], None):
        with pytest.raises(InvalidDeclaration):
            component_schemas(wrong)
    with pytest.raises(InvalidDeclaration):
        component_schemas(sent=[int])


class PostElsewhere(PublicShape[User]):
    pass


PostElsewhere.__name__ = "Post"


class Pair(Model[str, int]):
    first: Key[str]
    second: Key[int]
    other: Ref["Pair"] | None = None


class OfPair(Copy[Pair]):
    other: Ref[Pair] | None


class HoldsPair(Model[int]):
    number: Key[int]
    pair: OfPair
    several: Annotated[list[Ref[Pair]], msgspec.Meta(max_length=3)] = msgspec.field(default_factory=list)
    names: Annotated[frozenset[Ref["Short"]], msgspec.Meta(max_length=3)] | None = None


@pytest.mark.parametrize("cls", [Pair, HoldsPair, OfPair, Thing, Post])
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_pydantic_and_components_by_hand_say_the_same(cls, mode):
    adapted = TypeAdapter(cls).json_schema(mode=mode, ref_template="{model}")
    definitions = adapted.pop("$defs", {})
    sent = mode == "validation"
    ours = component_schemas(*(() if sent else (cls,)), sent=[cls] if sent else [])
    ours = json.loads(msgspec.json.encode(ours).decode().replace(AT, ""))
    assert adapted == ours[cls.__name__]
    assert definitions == {name: ours[name] for name in definitions}


def test_a_key_of_several_parts_is_a_list():
    found = component_schemas(HoldsPair)
    ref = found["OfPair"]["properties"]["ref"]
    assert ref["prefixItems"] == [{"type": "string"}, {"type": "integer"}]
    assert (ref["minItems"], ref["maxItems"], "items" in ref) == (2, 2, False)  # generators refuse `"items": false`
    assert found["HoldsPair"]["properties"]["several"]["items"]["type"] == "array"


def test_references_in_lists_and_sets_are_written_and_read_as_any_other(url):
    names = frozenset(map(Short.at, "ba"))
    held = HoldsPair(number=1, pair=OfPair.of("x", 1), several=[Pair.at("y", 2)], names=names)
    found = msgspec.json.decode(to_json(held))
    assert found == {"number": 1, "pair": {"ref": ["x", 1]}, "several": [["y", 2]], "names": ["a", "b"]}
    assert form(HoldsPair).decode(to_json(held)) == held
    assert form(HoldsPair).convert(found | {"names": [["a"], "b"]}) == held
    assert component_schemas(HoldsPair)["HoldsPair"]["properties"]["names"]["anyOf"][0] == {
        "type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 3, "uniqueItems": True,
    }  # fmt: skip
    with connect(url, Schema(Pair, HoldsPair, Short)) as db:
        db.save_all([Short(name="a"), Short(name="b"), Pair(first="x", second=1), Pair(first="y", second=2)])
        assert msgspec.json.decode(to_json(db.save(held))) == found | {
            "pair": {"ref": ["x", 1], "deleted": False, "other": None}
        }


def test_a_constraint_of_a_key_is_one_of_its_references():
    found = component_schemas(sent=[RefersToShort])["RefersToShort"]["properties"]["short"]
    assert found == {"type": "string", "maxLength": 3}


class Short(Model[str]):
    name: Key[Annotated[str, msgspec.Meta(max_length=3)]]


class Colour(Enum):
    RED = "red"


KEYS = [
    (Annotated[str, msgspec.Meta(max_length=3, pattern="^[a-z]*$")], "abc", ["abcd", "A", 1]),
    (Annotated[int, msgspec.Meta(ge=1, le=9)], 7, [10, "7", 1.5]),
    (float, 1.5, ["x", True]),
    (Decimal, "12345678901234567.89", ["x", {}]),
    (bytes, "YQ==", ["?", 1]),
    (datetime, "2018-07-01T00:00:00Z", ["2018-07-01T00:00:00", "x"]),
    (date, "2018-07-01", ["x", 1]),
    (timedelta, "PT1S", ["x"]),
    (UUID, "01a20238-5a01-7604-b098-95738c6d4715", ["x"]),
    (Colour, "red", ["green", 1]),
    (bool, True, [1, "true"]),
]


@pytest.mark.parametrize(("kind", "right", "wrong"), KEYS, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("shape", ["ref", "optional", "list", "set", "copy"])
def test_a_reference_by_a_key_of_any_type_is_read_in_both_forms_and_nothing_else(kind, right, wrong, shape):
    """One process: a union of both forms would crash it, for a text with a constraint."""
    target = new_class("Target", (Model[kind],), {}, lambda space: space.update(__annotations__={"key": Key[kind]}))
    copy = new_class("CopyOf", (Copy[target],), {}, lambda space: space.update(__annotations__={}))
    many = msgspec.Meta(max_length=3)
    types = {
        "ref": Ref[target], "optional": Ref[target] | None, "list": Annotated[list[Ref[target]], many],
        "set": Annotated[set[Ref[target]], many], "copy": copy,
    }  # fmt: skip
    around = {"list": lambda ref: [ref], "set": lambda ref: [ref], "copy": lambda ref: {"ref": ref}}
    wrap = around.get(shape, lambda ref: ref)
    fields = {"number": Key[int], "to": types[shape], "price": Decimal}
    read = form(new_class("Holder", (Model[int],), {}, lambda space: space.update(__annotations__=fields)))

    def body(ref):
        # A number, not a text: the second look must not make a float of it.
        return f'{{"number": 1, "price": 12345678901234567.89, "to": {json.dumps(wrap(ref))}}}'.encode()

    held = read.decode(body(right))
    assert held.price == Decimal("12345678901234567.89")
    assert read.decode(body([right])) == held
    assert read.convert(json.loads(body([right]), parse_float=Decimal)) == held
    refused = [*wrong, *([each] for each in wrong), [[right]], [right, right], [], [None], {}]
    for each in [*refused, *([] if shape == "optional" else [None])]:
        with pytest.raises(InvalidValue) as error:
            read.decode(body(each))
        assert {fault.place[0] for fault in error.value.facts["faults"]} == {"to"}, each


class RefersToShort(Model[int]):
    number: Key[int]
    short: Ref[Short]


class Answer(Model[int]):
    number: Key[int]
    question: Ref["Question"]


class AnswersOf(Aggregate[Answer]):
    question: Ref["Question"] = by(Answer.question)
    answers: int = count()


class Question(Model[int]):
    number: Key[int]
    title: str
    answers: int = rollup(AnswersOf.answers)


def test_totals_are_shown_and_cannot_be_sent():
    found = component_schemas(Question, sent=[CreateShape[Question], PatchShape[Question]])
    assert list(found["Question"]["properties"]) == ["number", "title", "answers"]
    assert found["Question"]["required"] == ["number", "title"]  # a total is left out while it is not built
    assert list(found["QuestionCreate"]["properties"]) == ["number", "title"]
    assert list(found["QuestionPatch"]["properties"]) == ["title"]


def test_a_total_of_an_entity_that_was_not_saved_is_left_out(url):
    asked = Question(number=1, title="t")
    assert to_json(asked) == b'{"number":1,"title":"t"}'
    assert to_json([asked, Question(number=2, title="u", answers=3)]) == (
        b'[{"number":1,"title":"t"},{"number":2,"title":"u","answers":3}]'
    )
    with connect(url, Schema(Answer, AnswersOf, Question)) as db:
        assert to_json(db.save(asked)) == b'{"number":1,"title":"t","answers":0}'
