"""OpenAPI: named components, defaults, constraints and problems, in FastAPI's document and in one written by hand."""

import json
from typing import Annotated

import msgspec
import pytest
from fastapi import FastAPI
from openapi_spec_validator import validate
from pydantic import TypeAdapter

from oneread import Copy, Key, Model, Page, Ref
from oneread.errors import InvalidDeclaration
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
        inside = client.post(
            "/posts", json={"title": "t", "topic": "a", "place": {"city": "x", "near": [{}]}, "tags": [1]}
        )
        assert inside.json()["errors"] == [
            {"loc": ["body", "tags", 0], "msg": "Expected `str | array`, got `int`"},
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
    several: list[Ref[Pair]] = msgspec.field(default_factory=list)


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
    assert found["OfPair"]["properties"]["ref"]["prefixItems"] == [{"type": "string"}, {"type": "integer"}]
    assert found["HoldsPair"]["properties"]["several"]["items"]["type"] == "array"


def test_a_constraint_of_a_key_is_one_of_its_references():
    found = component_schemas(sent=[RefersToShort])["RefersToShort"]["properties"]["short"]
    assert found == {"type": "string", "maxLength": 3}


class Short(Model[str]):
    name: Key[Annotated[str, msgspec.Meta(max_length=3)]]


class RefersToShort(Model[int]):
    number: Key[int]
    short: Ref[Short]
