"""Variants in JSON: what says which one it is, in responses, bodies and shapes, in both frameworks."""

import json
from types import new_class

import msgspec
import pytest
from openapi_spec_validator import validate
from pydantic import BaseModel, TypeAdapter, ValidationError

from oneread import Aggregate, Index, Key, Model, Page, Ref, Schema, by, connect, count, to_json
from oneread.database import shapes
from oneread.errors import InvalidDeclaration, InvalidValue, UsageError
from oneread.models.json_form import form
from oneread.web import CreateShape, PatchShape, PublicShape, component_schemas, etag
from tests.unit.web.applications import TestClient
from tests.unit.web.questions import (
    SCHEMA,
    Answer,
    Author,
    Comment,
    Doubt,
    NewPost,
    Poll,
    Post,
    PublicPost,
    Question,
    User,
    fastapi,
    starlette,
)

AT = "#/components/schemas/"
ASKED = {"type": "Question", "number": 1, "author": {"ref": 1}, "text": "x", "title": "t"}
POLLED = {"type": "vote", "number": 2, "author": {"ref": 1}, "title": "p", "choices": 3}
ANSWERED = {"type": "Answer", "number": 3, "author": {"ref": 1}, "question": 1}
SAID = {"type": "Post", "number": 4, "author": {"ref": 1}}
NAMES = ["Post", "Question", "vote", "Answer"]
ANY = "expected 'Post', 'Question', 'vote' or 'Answer'"


@pytest.fixture(params=[starlette, fastapi], ids=["starlette", "fastapi"])
def client(request, url):
    with TestClient(request.param(url)) as client:
        client.portal.call(client.app_state["db"].save, User(number=1, name="Ada"))
        yield client


@pytest.fixture
def filled(client):
    for body in (ASKED, POLLED, ANSWERED, SAID):
        assert client.put("/posts", json=body).status_code == 200
    return client


def refused(response):
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {tuple(each["loc"]): each["msg"] for each in response.json()["errors"]}


def test_a_body_names_its_class_and_what_is_read_can_be_sent_back(client):
    for body, cls in ((ASKED, Question), (POLLED, Poll), (ANSWERED, Answer), (SAID, Post)):
        made = client.put("/posts", json=body)
        assert made.status_code == 200, made.text
        assert next(iter(made.json().items())) == ("type", body["type"])
        stored = client.portal.call(client.app_state["db"].get, Post, body["number"])
        assert type(stored) is cls
        assert client.get(f"/posts/{body['number']}").json() == made.json() == json.loads(to_json(stored))
        assert client.put("/posts", json=made.json()).json() == made.json()
    assert [each["type"] for each in client.get("/posts").json()["rows"]] == NAMES[1:] + NAMES[:1]


HOSTILE = [
    None, 3, True, [], {}, ["Question"], "", "question", "Poll", "User", "X" * 900_000, "Question\0", "Quest\u200bion",
]  # fmt: skip


@pytest.mark.parametrize("given", HOSTILE, ids=lambda given: repr(given)[:20])
def test_what_names_no_class_is_refused_where_it_is_and_not_repeated(client, given):
    response = client.put("/posts", json=ASKED | {"type": given, "number": "x"})
    assert refused(response) == {("body", "type"): ANY}
    assert len(response.content) < 600
    assert refused(client.put("/questions", json=ASKED | {"type": given})).keys() == {("body", "type")}


def test_a_body_that_names_none_learns_which_there_are(client):
    for path, message in (("/posts", ANY), ("/questions", "expected 'Question' or 'vote'")):
        body = {name: each for name, each in ASKED.items() if name != "type"}
        assert refused(client.put(path, json=body)) == {("body", "type"): message}
    for wrong in ("[]", "3", "null", '"Question"', '[{"type": "Question"}]'):
        assert refused(client.put("/posts", content=wrong, headers={"Content-Type": "application/json"})).keys() <= {
            ("body",)
        }


def test_of_two_names_the_last_counts_for_the_class_and_for_its_fields(client):
    body = json.dumps(SAID)[1:]
    made = client.put("/posts", content='{"type": "Question", ' + body, headers={"Content-Type": "application/json"})
    assert (made.status_code, made.json()["type"]) == (200, "Post")
    body = json.dumps(ASKED | {"type": "Answer"})[:-1]
    made = client.put("/posts", content=body + ', "type": "Question"}', headers={"Content-Type": "application/json"})
    assert (made.status_code, made.json()["type"]) == (200, "Question")
    escaped = json.dumps(ASKED).replace("Question", "\\u0051uestion")
    assert client.put("/posts", content=escaped, headers={"Content-Type": "application/json"}).status_code == 200


def test_every_wrong_field_of_the_named_class_is_listed(client):
    found = refused(client.put("/posts", json={"type": "Answer", "number": "x", "title": "t", "question": []}))
    assert set(found) == {("body", each) for each in ("number", "author", "title", "question")}


def test_a_concrete_class_needs_no_name_and_refuses_another(filled):
    body = {name: each for name, each in ANSWERED.items() if name != "type"}
    assert filled.put("/answers", json=body).json()["type"] == "Answer"
    assert filled.put("/answers", json=ANSWERED).json()["type"] == "Answer"
    assert refused(filled.put("/answers", json=ANSWERED | {"type": "Question"})).keys() == {("body", "type")}
    assert filled.put("/questions", json=POLLED).json()["type"] == "vote"
    assert refused(filled.put("/questions", json=ANSWERED)) == {("body", "type"): "expected 'Question' or 'vote'"}


def test_another_field_may_say_it_and_the_model_itself_may_be_left_out(url, filled):
    made = filled.put("/comments", json={"@kind": "Praise", "number": 1, "post": 3, "type": "loud"})
    assert made.json() == {"@kind": "Praise", "number": 1, "post": 3, "type": "loud"}
    kinds = "expected 'Praise' or 'Doubt'"
    assert refused(filled.put("/comments", json={"@kind": "Comment", "number": 1, "post": 3})) == {
        ("body", "@kind"): kinds
    }
    assert refused(filled.put("/comments", json={"number": 1, "post": 3})) == {("body", "@kind"): kinds}
    with connect(url, SCHEMA) as db, pytest.raises(UsageError, match="save one of its variants"):
        db.save(Comment(number=1, post=Post.at(1)))


def test_a_created_shape_makes_the_class_that_is_named(filled):
    made = filled.post("/posts", json=ASKED | {"number": 5})
    assert (made.status_code, made.json()["type"], made.json()["author"]["name"]) == (201, "Question", "Ada")
    mine = filled.post("/mine", json={"type": "Answer", "number": 6, "question": 1, "secret": "s"})
    assert mine.json() == {
        "type": "Answer", "number": 6, "author": {"ref": 1, "deleted": False, "name": "Ada"}, "text": "", "question": 1,
    }  # fmt: skip
    for body, places in (
        ({"type": "Answer", "number": 7, "question": 1, "author": {"ref": 1}, "draft": "d"}, {"author", "draft"}),
        ({"number": 7}, {"type"}),
        ({"type": "vote", "number": 7, "question": 1}, {"title", "question"}),
    ):
        assert refused(filled.post("/mine", json=body)).keys() == {("body", each) for each in places}
    assert [each["type"] for each in filled.get("/public").json()["rows"]] == [*NAMES[1:], "Post", "Question", "Answer"]
    assert not {"secret", "draft"}.intersection(*map(set, filled.get("/public").json()["rows"]))


def test_a_patch_is_of_the_model_or_of_the_class_that_it_names(filled):
    assert filled.patch("/posts/1", json={"text": "y"}).json()["text"] == "y"
    assert filled.patch("/posts/1", json={"type": "Post", "text": "z"}).json()["text"] == "z"
    assert filled.patch("/posts/1", json={"type": "Question", "title": "u", "text": "v"}).json()["title"] == "u"
    assert filled.patch("/posts/2", json={"type": "Question", "title": "q"}).json()["type"] == "vote"
    assert filled.patch("/posts/1", json={"type": "Answer", "text": "w"}).status_code == 404
    for body, places in (
        ({"title": "u"}, {"title"}),
        ({"type": "Post", "title": "u"}, {"title"}),
        ({"type": "Answer", "title": "u", "number": 1}, {"title", "number"}),
        ({"type": None, "text": "u"}, {"type"}),
        ({"type": "Poll", "text": "u"}, {"type"}),
    ):
        assert refused(filled.patch("/posts/1", json=body)).keys() == {("body", each) for each in places}
    assert filled.get("/posts/1").json()["text"] == "v"


def test_a_patch_of_a_concrete_class_refuses_another(filled):
    assert filled.patch("/answers/3", json={"draft": "d"}).json()["draft"] == "d"
    assert filled.patch("/answers/3", json={"type": "Answer", "draft": "e"}).json()["draft"] == "e"
    assert refused(filled.patch("/answers/3", json={"type": "Post", "draft": "f"})).keys() == {("body", "type")}
    assert filled.patch("/answers/1", json={"draft": "f"}).status_code == 404


def test_changes_of_the_model_are_of_its_own_fields(url):
    with TestClient(starlette(url)) as client:
        client.portal.call(client.app_state["db"].save, User(number=1, name="Ada"))
        assert client.put("/posts", json=ASKED).status_code == 200
        assert client.patch("/changes/1", json={"text": "y"}).json()["text"] == "y"
        assert client.patch("/changes/1", json={"type": "Post", "text": "z"}).json()["text"] == "z"
        for body in ({"type": "Question", "text": "w"}, {"type": 3, "text": "w"}):
            assert refused(client.patch("/changes/1", json=body)) == {("body", "type"): "expected 'Post'"}


def test_the_tag_of_an_entity_changes_with_its_class_and_versions_stay(url):
    with connect(url, SCHEMA) as db:
        db.save(User(number=1, name="Ada"))
        found = db.save(Post(number=1, author=Author.of(1)))
        assert etag(found).startswith(f'"v{db.version(found)}-')


class Alone(Model[int]):
    """A model without variants."""

    number: Key[int]
    type: str = "mine"


class AllAlone(Index[Alone]):
    type: str = by(Alone.type)


class CountAlone(Aggregate[Alone]):
    type: str = by(Alone.type)
    alone: int = count()


def test_a_model_without_variants_and_its_views_are_as_they_were(url):
    with connect(url, Schema(Alone, AllAlone, CountAlone)) as db:
        assert to_json(db.save(Alone(number=1))) == b'{"number":1,"type":"mine"}'
        assert to_json(db.page(AllAlone, "mine")) == (
            b'{"rows":[{"source":1,"type":"mine"}],"next":null,"previous":null}'
        )
        assert to_json(db.get(CountAlone, "mine")) == b'{"type":"mine","alone":1}'
    assert component_schemas(Alone, sent=[Alone, PatchShape[Alone]])["Alone"] == {
        "type": "object", "properties": {"number": {"type": "integer"}, "type": {"type": "string"}},
        "required": ["number", "type"], "description": "A model without variants.",
    }  # fmt: skip
    with pytest.raises(InvalidValue):
        form(Alone).decode(b'{"number": 1, "kind": "Alone"}')


def test_an_empty_total_of_a_variant_and_a_reference_are_written_as_of_any_model():
    found = to_json([Answer(number=1, author=Author.of(1), question=Question.at(1)), User(number=1, name="Ada")])
    assert found.startswith(b'[{"type":"Answer","number":1,"author":{"ref":1},')
    assert found.endswith(b',{"number":1,"name":"Ada"}]')


@pytest.fixture(scope="module")
def schemas():
    return fastapi().openapi()["components"]["schemas"]


def one_of(*names, way="oneOf"):
    """The choice of components by the values that name their classes."""
    values = ["Post", "Question", "vote", "Answer"] if len(names) == 4 else ["Question", "vote"]
    return {
        way: [{"$ref": AT + name} for name in names],
        "discriminator": {
            "propertyName": "type",
            "mapping": {value: AT + name for value, name in zip(values, names, strict=True)},
        },
    }


def test_a_document_has_the_choice_by_the_name_of_the_model(schemas):
    every = {"description": "Anything that is written."}
    assert schemas["Post-Output"] == every | one_of(
        "PlainPost-Output", "PlainQuestion-Output", "Poll-Output", "Answer-Output"
    )
    assert schemas["PostCreate"] == every | one_of(
        "PlainPostCreate", "PlainQuestionCreate", "PollCreate", "AnswerCreate"
    )
    assert schemas["PostPatch"] == every | one_of(
        "PlainPostPatch", "PlainQuestionPatch", "PollPatch", "AnswerPatch", way="anyOf"
    )
    assert schemas["NewPost"] == every | one_of("PlainNewPost", "PlainNewPostQuestion", "NewPostPoll", "NewPostAnswer")
    assert schemas["PublicPost"] == every | one_of(
        "PlainPublicPost", "PlainPublicPostQuestion", "PublicPostPoll", "PublicPostAnswer"
    )
    assert schemas["Question-Input"] == {"description": "A post that asks."} | one_of(
        "PlainQuestion-Input", "Poll-Input"
    )
    assert schemas["PostPage"]["properties"]["rows"]["items"] == {"$ref": AT + "Post-Output"}
    assert schemas["Comment-Input"]["discriminator"] == {
        "propertyName": "@kind", "mapping": {"Praise": AT + "Praise-Input", "Doubt": AT + "Doubt-Input"},
    }  # fmt: skip
    assert "PlainComment" not in str(schemas)


def test_documents_with_variants_are_valid_and_whole():
    document = fastapi().openapi()
    validate(document)
    by_hand = {"openapi": "3.1.0", "info": {"title": "Posts", "version": "1"}, "paths": {}}
    found = component_schemas(Page[Post], PublicPost, Comment, sent=[Post, NewPost, PatchShape[Post], Comment])
    validate(json.loads(msgspec.json.encode(by_hand | {"components": {"schemas": found}})))
    text = json.dumps(document)
    assert {each.split('"')[0] for each in text.split(AT)[1:]} == set(document["components"]["schemas"])


class Talk(BaseModel):
    posts: list[Post]
    first: Question | None = None


def test_a_pydantic_model_may_hold_any_variant():
    found = Talk.model_validate({"posts": [ASKED, ANSWERED], "first": POLLED})
    assert [type(each) for each in (*found.posts, found.first)] == [Question, Answer, Poll]
    assert [each["type"] for each in json.loads(to_json(found))["posts"]] == ["Question", "Answer"]
    assert json.loads(to_json(found)) == found.model_dump(mode="json")
    with pytest.raises(ValidationError) as error:
        Talk.model_validate({"posts": [ASKED, {"number": 1}], "first": ANSWERED})
    assert [each["loc"] for each in error.value.errors()] == [("posts", 1, "type"), ("first", "type")]
    schema = Talk.model_json_schema()
    assert schema["properties"]["posts"]["items"] == {"$ref": "#/$defs/Post"}
    assert schema["$defs"]["Post"]["discriminator"]["mapping"]["vote"] == "#/$defs/Poll"


def test_each_component_says_its_class(schemas):
    named = {"type": "string", "const": "vote", "default": "vote"}
    for name in ("Poll-Input", "Poll-Output", "PollCreate", "PollPatch", "NewPostPoll", "PublicPostPoll"):
        properties = schemas[name]["properties"]
        assert next(iter(properties.items())) == ("type", named), name
        assert schemas[name]["required"][0] == "type"
    for name, value in (("PlainPostPatch", "Post"), ("PlainQuestionPatch", "Question")):  # a patch may name none
        assert schemas[name]["properties"]["type"] == {"type": "string", "const": value}
        assert "required" not in schemas[name]
    assert "draft" not in schemas["NewPostAnswer"]["properties"]
    assert "question" in schemas["NewPostAnswer"]["properties"]


@pytest.mark.parametrize("cls", [Post, Question, Answer, Comment, Doubt])
@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_pydantic_and_components_by_hand_say_the_same(cls, mode):
    adapted = TypeAdapter(cls).json_schema(mode=mode, ref_template="{model}")
    definitions = adapted.pop("$defs", {})
    sent = mode == "validation"
    ours = component_schemas(*(() if sent else (cls,)), sent=[cls] if sent else [])
    ours = json.loads(msgspec.json.encode(ours).decode().replace(AT, ""))
    assert adapted == ours[cls.__name__]
    assert definitions == {name: ours[name] for name in definitions}


def test_components_by_hand_have_every_variant():
    found = component_schemas(Page[Post], PublicPost, sent=[Post, NewPost, PatchShape[Post]])
    assert found["PostPage"]["properties"]["rows"]["items"] == {"$ref": AT + "Post"}
    assert found["Post"]["discriminator"]["mapping"]["vote"] == AT + "Poll"
    assert found["PostInput"]["discriminator"]["mapping"]["vote"] == AT + "PollInput"
    assert {"PlainPost", "PlainPostInput", "AnswerPatch", "NewPostAnswer", "PublicPostAnswer"} <= set(found)
    encoded = msgspec.json.encode(found).decode()
    assert {each.split('"')[0] for each in encoded.split(AT)[1:]} <= set(found)


def test_pydantic_reads_entities_and_refuses_by_place():
    adapter = TypeAdapter(Post)
    found = Question(number=1, author=Author.of(1), title="t")
    assert adapter.validate_python(found) is found
    assert type(adapter.validate_json(json.dumps(ASKED))) is Question
    with pytest.raises(ValidationError) as error:
        adapter.validate_python(ASKED | {"number": "x", "colour": 1})
    assert [each["loc"] for each in error.value.errors()] == [("number",), ("colour",)]
    assert [each["type"] for each in error.value.errors()] == ["value_error", "extra_forbidden"]


def declare(name, *bases, **space):
    annotations = space.pop("fields", {})
    space |= {"__annotations__": annotations, "__module__": __name__}
    return new_class(name, bases, {}, lambda made: made.update(space))


def root(**space):
    return declare("Root", Model[int], fields={"number": Key[int]} | space.pop("fields", {}), **space)


def test_a_field_that_is_called_as_the_discriminator_is_refused():
    with pytest.raises(InvalidDeclaration, match="set another name in the model") as error:
        Schema(base := root(fields={"type": str}), declare("Leaf", base))
    assert (error.value.facts["field"], error.value.facts["declaration"]) == ("type", base)
    base = root()
    with pytest.raises(InvalidDeclaration, match="set another name"):
        Schema(base, declare("Leaf", base, fields={"kind": str}, kind=msgspec.field(name="type")))
    base = root()
    with pytest.raises(InvalidDeclaration, match="set another name"):
        Schema(base, declare("Leaf", base, fields={"type": str}, type=msgspec.field(name="kind")))
    base = root(discriminator="kind", fields={"type": str})
    Schema(base, leaf := declare("Leaf", base))
    assert to_json([base(number=1, type="x"), leaf(number=1, type="y")]) == (
        b'[{"kind":"Root","number":1,"type":"x"},{"kind":"Leaf","number":1,"type":"y"}]'
    )


@pytest.mark.parametrize("given", ["", 3, None, b"type"])
def test_a_discriminator_without_a_name_is_refused(given):
    base = root(discriminator=given)
    with pytest.raises(InvalidDeclaration, match="expected a name"):
        Schema(base, declare("Leaf", base))


def test_a_variant_has_the_discriminator_of_its_model():
    base = root()
    with pytest.raises(InvalidDeclaration, match="set it there"):
        Schema(base, declare("Leaf", base, discriminator="kind"))


def test_a_model_of_variants_only_needs_one():
    with pytest.raises(InvalidDeclaration, match="no variant"):
        Schema(root(variants_only=True))


def test_what_was_made_before_a_variant_is_made_again():
    base = root()
    assert to_json(base(number=1)) == b'{"number":1}'
    shape = new_class("Shown", (PublicShape[base],), {})
    assert to_json(shape(base(number=1))) == b'{"number":1}'
    leaf = declare("Leaf", base)
    assert to_json([base(number=1), leaf(number=2)]) == b'[{"type":"Root","number":1},{"type":"Leaf","number":2}]'
    assert to_json([shape(base(number=1)), shape(leaf(number=2))]) == (
        b'[{"type":"Root","number":1},{"type":"Leaf","number":2}]'
    )
    newer = declare("Leaf", base, fields={"more": int})  # a notebook's cell that ran again
    assert form(base).decode(b'{"type":"Leaf","number":2,"more":3}') == newer(number=2, more=3)


@pytest.mark.parametrize(
    "use",
    [lambda cls: cls, lambda cls: CreateShape[cls], lambda cls: PatchShape[cls]],
    ids=["model", "create", "patch"],
)
def test_a_variant_declared_after_a_route_is_refused(use):
    base = root()
    TypeAdapter(use(base))
    with pytest.raises(InvalidDeclaration, match="declare its variants before") as error:
        declare("Late", base)
    assert (error.value.facts["variant"], error.value.facts["model"]) == ("Late", base)
    assert to_json(base(number=1)) == b'{"number":1}'


def test_a_shape_leaves_out_fields_of_variants_and_of_nothing_else():
    for wrong in (("nowhere",), ("name",)):
        shape = new_class("Wrong", (PublicShape[Post],), {"exclude": wrong})
        with pytest.raises(InvalidDeclaration, match="does not have"):
            shapes.form_of(shape)
    new = shapes.decode(NewPost, b'{"type": "Answer", "number": 1, "question": 1}')
    assert repr(new) == "NewPostAnswer(number=1, question=Question.at(1))"
    with pytest.raises(UsageError) as error:
        new.entity()
    assert error.value.facts["field"] == "author"
    with pytest.raises(UsageError):
        new.entity(author=Author.of(1), title="t")
    assert new.entity(author=Author.of(1), draft="d").draft == "d"


def test_two_classes_of_one_name_inside_variants_are_refused():
    one, two = (msgspec.defstruct("Inner", [("number", kind)]) for kind in (int, str))
    base = root()
    declare("Left", base, fields={"inner": one})
    declare("Right", base, fields={"inner": two})
    with pytest.raises(InvalidDeclaration, match="one name"):
        component_schemas(base)


class Linked(Model[int]):
    number: Key[int]
    to: Ref[Post] | None = None


def test_a_reference_to_any_variant_is_its_key():
    assert to_json(Linked(number=1, to=Question.at(7))) == b'{"number":1,"to":7}'


def test_a_patch_names_no_model_that_has_only_variants():
    shape = PatchShape[Comment]
    found = component_schemas(sent=[shape])
    assert list(found["CommentPatch"]["discriminator"]["mapping"]) == ["Praise", "Doubt"]
    assert len(found["CommentPatch"]["anyOf"]) == 3
    assert list(found["PlainCommentPatch"]["properties"]) == ["post"]
    for read in (lambda body: shapes.decode(shape, body), TypeAdapter(shape).validate_json):
        assert (read(b'{"post":1}').model, read(b'{"@kind":"Doubt","post":1}').model) == (Comment, Doubt)
        with pytest.raises((InvalidValue, ValidationError), match="expected 'Praise' or 'Doubt'"):
            read(b'{"@kind":"Comment","post":1}')
    with pytest.raises(InvalidValue):
        form(Comment).changes(b'{"@kind":"Comment","post":1}')
    assert form(Comment).changes(b'{"post":1}') == {"post": Post.at(1)}
