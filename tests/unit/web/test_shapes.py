"""Shapes: what may be sent and what is shown, derived from a model, in both frameworks; links of what holds a page."""

import asyncio
import dataclasses

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from oneread import connect, connect_async, to_json
from oneread.errors import InvalidDeclaration, InvalidValue, UsageError
from oneread.web import CreateShape, PageQuery, PatchShape, PublicShape, body_of, etag, respond
from tests.unit.web.applications import TestClient
from tests.unit.web.posts import (
    SCHEMA,
    Author,
    EditedPost,
    NewPost,
    Post,
    PostsOfAuthor,
    PublicUser,
    Tag,
    User,
    fastapi,
    starlette,
)


@pytest.fixture(params=[starlette, fastapi], ids=["starlette", "fastapi"])
def client(request, url):
    with TestClient(request.param(url)) as client:
        call, db = client.portal.call, client.app_state["db"]
        for name in ("a", "b"):
            call(db.save, Tag(name=name))
        call(db.save, User(number=1, name="Ada", email="a@b", likes=Tag.at("a")))
        yield client


def places(response):
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return [each["loc"] for each in response.json()["errors"]]


def test_an_entity_is_created_from_what_was_sent_and_what_the_program_adds(client):
    made = client.post("/posts", json={"title": "t", "topic": "a", "tags": ["a", ["b"]], "spelledHere": 4})
    assert made.status_code == 201
    found = made.json()
    assert found["author"] == {"ref": 1, "deleted": False, "name": "Ada", "likes": "a"}
    assert (found["topic"], found["tags"], found["spelledHere"], found["score"]) == ("a", ["a", "b"], 4, 0)
    assert found["made_at"] == found["changed_at"]
    assert client.get(f"/posts/{found['id']}").json() == found


def test_what_the_database_or_the_program_sets_cannot_be_sent(client):
    for name in ("id", "made_at", "changed_at", "author", "if_version"):
        assert places(client.post("/posts", json={"title": "t", "topic": "a", name: "x"})) == [["body", name]]
    assert places(client.patch("/users/1", json={"number": 2})) == [["body", "number"]]


def test_every_field_of_a_body_that_is_wrong_is_named(client):
    wrong = {"tags": ["a"] * 6, "price": "x", "mood": "angry", "place": {"city": 1}, "colour": 1}
    found = places(client.post("/posts", json=wrong))
    assert {each[1] for each in found} == {"title", "topic", "tags", "price", "mood", "place", "colour"}


def test_a_huge_value_or_name_is_not_repeated(client):
    huge = "X" * 400_000
    found = client.post("/posts", json={"title": "t", "topic": "a", "mood": huge})
    assert places(found) == [["body", "mood"]]
    assert found.json()["errors"][0]["msg"].startswith("Invalid enum value 'XXX")
    named = client.post("/posts", json={"title": "t", "topic": "a", huge: 1})
    assert places(named) == [["body", huge[:64]]]
    inside = client.post(
        "/posts", json={"title": "t", "topic": "a", "place": {"city": "c", "near": [{"city": huge, "near": huge}]}}
    )
    assert places(inside) == [["body", "place", "near", 0, "near"]]
    assert max(len(each.content) for each in (found, named, inside)) < 2_000


def test_fields_are_patched_and_cleared(client):
    assert client.patch("/users/1", json={"name": "Ada L", "likes": None}).json() == {
        "number": 1, "name": "Ada L", "email": "a@b", "likes": None,
    }  # fmt: skip
    assert client.patch("/users/1", json={}).status_code == 422
    assert places(client.patch("/users/1", json={"name": None})) == [["body", "name"]]


def test_a_public_shape_leaves_fields_out_everywhere(client):
    shown = {"number": 1, "name": "Ada", "likes": "a"}
    assert client.get("/users/1").json() == shown
    assert client.get("/users").json()["rows"] == [shown]
    assert client.post("/users", json={"number": 2, "name": "Bea", "email": "b@b"}).json() == {
        "number": 2, "name": "Bea", "likes": None,
    }  # fmt: skip


def test_the_page_that_the_query_chose_is_linked_whatever_holds_it(client):
    for title in "tu":
        client.post("/posts", json={"title": title, "topic": "a"})
    for path in ("/posts", "/listed", "/struct"):
        first = client.get(path)
        assert set(first.links) == {"next"}, path
        second = client.get(first.links["next"]["url"])
        assert set(second.links) == {"prev"}
        rows = [each.json().get("posts", each.json())["rows"] for each in (first, second)]
        assert [row["title"] for (row,) in rows] == ["u", "t"]
    assert "link" not in client.get("/users").headers
    assert len(client.get("/posts").headers.get_list("link")) == 1


def test_a_public_shape_has_the_tag_of_its_entity_for_conditions(url):
    with connect(url, SCHEMA) as db:
        user = db.save(User(number=1, name="Ada"))
        assert etag(PublicUser(user)).startswith(f'"v{db.version(user)}-')
        assert etag(PublicUser(user)) != etag(user)


def test_a_rename_is_a_new_representation_of_what_shows_the_name(url):
    with TestClient(starlette(url)) as client:
        call, db = client.portal.call, client.app_state["db"]
        call(db.save, Tag(name="a"))
        call(db.save, User(number=1, name="Ada"))
        key = client.post("/posts", json={"title": "t", "topic": "a"}).json()["id"]
        tag = client.get(f"/posts/{key}").headers["etag"]
        assert client.get(f"/posts/{key}", headers={"If-None-Match": tag}).status_code == 304
        call(db.save, User(number=1, name="Bea"))
        again = client.get(f"/posts/{key}", headers={"If-None-Match": tag})
        assert (again.status_code, again.json()["author"]["name"]) == (200, "Bea")
        assert client.get(f"/posts/{key}", headers={"If-None-Match": again.headers["etag"]}).status_code == 304


# --- Alone -----------------------------------------------------------------------------------------------------------


def sent(shape, body):
    async def receive():
        return {"type": "http.request", "body": body if isinstance(body, bytes) else msgspec.json.encode(body)}

    lines = [(b"content-type", b"application/json")]
    return asyncio.run(body_of(Request({"type": "http", "method": "POST", "headers": lines}, receive), shape))


def test_a_shape_is_a_mapping_of_what_was_sent():
    new = sent(CreateShape[User], {"number": 1, "name": "Ada", "likes": "a"})
    assert dict(new) == {"number": 1, "name": "Ada", "likes": Tag.at("a")}
    assert (len(new), new["name"], "email" in new) == (3, "Ada", False)
    assert repr(new).startswith("UserCreate(number=1, name='Ada', ")
    assert new.entity(name="Bea") == User(number=1, name="Bea", likes=Tag.at("a"))
    assert repr(sent(EditedPost, {"score": 1})) == "EditedPost(score=1)"
    assert repr(PublicUser(User(number=1, name="Ada"))).startswith("PublicUser(User(number=1")


def test_the_program_adds_exactly_what_is_missing():
    new = sent(NewPost, {"title": "t", "topic": "a"})
    with pytest.raises(UsageError, match="leaves out") as missing:
        new.entity()
    assert missing.value.facts["field"] == "author"
    with pytest.raises(UsageError, match="no such field"):
        new.entity(author=Author.of(1), colour="red")


def test_a_field_like_a_parameter_of_patch_is_patched(url):
    class Whole(PatchShape[Post]):
        pass

    assert {"if_version", "score"} == set(sent(Whole, {"if_version": 7, "score": 1}))
    with connect(url, SCHEMA) as db:
        db.save(Tag(name="a"))
        db.save(User(number=1, name="Ada"))
        post = db.create(sent(NewPost, {"title": "t", "topic": "a"}).entity(author=Author.of(1)))
        assert db.patch(Post, post.id, **sent(Whole, {"if_version": 7})).if_version == 7


@pytest.mark.parametrize("wrong", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 900, b'"a"', b"1", b'{"a": 1e999}'])
def test_a_hostile_body_is_refused(wrong):
    for shape in (CreateShape[User], PatchShape[User], NewPost):
        with pytest.raises(InvalidValue):
            sent(shape, wrong)


def test_a_wrong_shape_is_refused_where_it_is_used():
    class Foreign(PublicShape[User], exclude=("nothing",)):
        pass

    class Bare(PublicShape):
        pass

    for wrong in (CreateShape, CreateShape[int], PatchShape["User"], Bare, Foreign):
        with pytest.raises(InvalidDeclaration):
            wrong(None).plain() if issubclass(wrong_class(wrong), PublicShape) else sent(wrong, {})


def wrong_class(annotation):
    return getattr(annotation, "__origin__", annotation)


def test_a_shape_of_a_shape_leaves_out_what_both_leave_out():
    class Shorter(NewPost, exclude=("score",)):
        pass

    for name in ("author", "score"):
        with pytest.raises(InvalidValue) as refused:
            sent(Shorter, {"title": "t", "topic": "a", name: 1})
        assert refused.value.facts["field"] == name


@given(
    st.dictionaries(st.sampled_from(["name", "email", "number", "x", "likes"]), st.none() | st.text() | st.integers())
)
def test_a_body_is_taken_exactly_where_the_model_takes_it(body):
    """The naive oracle: build the entity and look at each field by itself."""
    fits = {
        "number": lambda value: type(value) is int,
        "name": lambda value: isinstance(value, str) and 1 <= len(value) <= 20,
        "email": lambda value: isinstance(value, str),
        "likes": lambda value: value is None or isinstance(value, str),
    }
    wrong = {name for name, value in body.items() if name not in fits or not fits[name](value)}
    wrong |= {"number", "name"} - body.keys()
    try:
        new = sent(CreateShape[User], body)
    except InvalidValue as refused:
        assert {each.place[0] for each in refused.facts["faults"]} == wrong  # noqa: PT017 - either is right
    else:
        assert not wrong
        assert msgspec.json.decode(to_json(new.entity())) == {"email": "", "likes": None} | body


# --- JSON of what holds results --------------------------------------------------------------------------------------


@dataclasses.dataclass
class Around:
    user: User
    public: PublicUser


class Tagged(msgspec.Struct, tag=True):
    total: int


def test_results_inside_structs_and_dataclasses_have_their_json():
    user = User(number=1, name="Ada")
    public = {"number": 1, "name": "Ada", "likes": None}
    assert msgspec.json.decode(to_json(Around(user, PublicUser(user)))) == {
        "user": public | {"email": ""},
        "public": public,
    }
    assert msgspec.json.decode(to_json([Tagged(3), {1, 2}])) == [{"type": "Tagged", "total": 3}, [1, 2]]
    with pytest.raises(TypeError, match="object has no JSON form"):
        to_json({"what": object()})


def test_a_page_keeps_its_cursors_and_cost_when_its_rows_are_changed(url):
    with connect(url, SCHEMA) as db:
        for number in (1, 2, 3):
            db.save(User(number=number, name="Ada"))
        page = db.page(User, limit=2)
        shown = page.map(PublicUser)
        assert [row.entity.number for row in shown] == [1, 2]
        assert (shown.next, shown.previous, shown.cost, shown.truncated) == (
            page.next, page.previous, page.cost, page.truncated,
        )  # fmt: skip


def test_a_result_without_the_page_of_the_query_has_no_link(url):
    async def ask(*, through_query):
        request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"limit=1", "headers": []})
        async with connect_async(url, SCHEMA) as db:
            for number in (1, 2):
                await db.save(User(number=number, name="Ada"))
            query = PageQuery.of(request)
            found = await (query.page(db, User) if through_query else db.page(User, limit=1))
            return respond(request, {"users": found}).headers.get("link")

    assert "next" in asyncio.run(ask(through_query=True))
    assert asyncio.run(ask(through_query=False)) is None  # its cursor may be none of this route's


def test_a_page_is_written_in_its_shape(url):
    with connect(url, SCHEMA) as db:
        db.save(User(number=1, name="Ada", likes=None))
        assert b'"name":"Ada"' in to_json(db.page(User).map(PublicUser))
        assert not db.page(PostsOfAuthor, 1).rows
