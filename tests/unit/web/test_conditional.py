"""Entity tags: a copy that follows makes another tag at the same version, and only the version decides over a write."""

import re

import pytest
from starlette.requests import Request

from oneread import connect
from oneread.errors import InvalidValue
from oneread.web import etag, if_version, respond
from tests.unit.web.applications import (
    SCHEMA,
    MadeBy,
    Maker,
    Note,
    TestClient,
    Thing,
    ThingsOfMaker,
    fastapi,
    starlette,
)

READ = ["/notes/1", "/notes", "/notes?limit=1", "/listed", "/group", "/several"]
WITH_A_COPY = ["/notes/1", "/notes", "/notes?limit=1", "/several"]


@pytest.fixture(params=[starlette, fastapi], ids=["starlette", "fastapi"])
def client(request, url):
    with TestClient(request.param(url)) as client:
        call, db = client.portal.call, client.app_state["db"]
        call(db.save, Maker(number=1, name="Ada"))
        for number in (1, 2):
            call(db.save, Note(number=number, maker=MadeBy.of(1)))
        call(db.save, Thing(code="a", maker=MadeBy.of(1)))
        yield client


def save(client, entity):
    return client.portal.call(client.app_state["db"].save, entity)


def asked(client, path, tag, method="GET"):
    return client.request(method, path, headers={"If-None-Match": tag})


@pytest.mark.parametrize("path", READ)
def test_what_did_not_change_is_known(client, path):
    first = client.get(path)
    again = asked(client, path, first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    assert again.headers.get("link") == first.headers.get("link")
    assert client.get(path).headers["etag"] == first.headers["etag"]


@pytest.mark.parametrize("path", WITH_A_COPY)
def test_a_copy_that_followed_is_new_content(client, path):
    first = client.get(path)
    version = client.portal.call(client.app_state["db"].get, Note, 1)
    save(client, Maker(number=1, name="Ada Lovelace"))
    followed = client.portal.call(client.app_state["db"].get, Note, 1)
    assert client.app_state["db"].version(followed) == client.app_state["db"].version(version)
    again = asked(client, path, first.headers["etag"])
    assert again.status_code == 200
    assert "Ada Lovelace" in again.text
    assert again.headers["etag"] != first.headers["etag"]
    assert asked(client, path, again.headers["etag"]).status_code == 304
    save(client, Maker(number=1, name="Ada"))
    assert asked(client, path, first.headers["etag"]).status_code == 304  # its JSON is what it was


def test_rows_and_groups_that_changed_are_new_content(client):
    tags = {path: client.get(path).headers["etag"] for path in ("/listed", "/group", "/several")}
    save(client, Thing(code="b", maker=MadeBy.of(1)))
    assert {path: asked(client, path, tag).status_code for path, tag in tags.items()} == dict.fromkeys(tags, 200)


def test_a_page_that_ends_elsewhere_is_new_content(client):
    tag = client.get("/notes?limit=2").headers["etag"]
    save(client, Note(number=3, maker=MadeBy.of(1)))
    again = asked(client, "/notes?limit=2", tag)
    assert (again.status_code, again.json()["next"] is None) == (200, False)  # the same rows, and now a way on


def test_an_entitys_tag_begins_with_its_version(client):
    answer = client.get("/notes/1")
    version = client.app_state["db"].version(client.portal.call(client.app_state["db"].get, Note, 1))
    assert re.fullmatch(rf'"v{version}-[0-9a-f]{{32}}"', answer.headers["etag"])
    assert re.fullmatch(r'"[0-9a-f]{32}"', client.get("/notes").headers["etag"])


@pytest.mark.parametrize(
    "given", ["*", "{tag}", "W/{tag}", '"x", {tag}', '"x",W/"y",W/{tag}', ' "with,comma" , {tag} ', '"", {tag}']
)
@pytest.mark.parametrize("path", ["/notes/1", "/notes"])
def test_a_tag_is_found_among_several(client, path, given):
    tag = client.get(path).headers["etag"]
    assert asked(client, path, given.format(tag=tag)).status_code == 304


@pytest.mark.parametrize("given", ['"x"', 'W/"v1"', "x", "", '"', "{bare}", '"{cut}"'])
@pytest.mark.parametrize("path", ["/notes/1", "/notes"])
def test_another_tag_is_not_known(client, path, given):
    tag = client.get(path).headers["etag"]
    assert asked(client, path, given.format(bare=tag.strip('"'), cut=tag[1:-2])).status_code == 200


def test_tags_may_stand_in_several_lines(client):
    tag = client.get("/notes/1").headers["etag"]
    lines = [("If-None-Match", '"x"'), ("If-None-Match", tag)]
    assert client.get("/notes/1", headers=lines).status_code == 304
    written = client.put("/notes/1", json=note(), headers=[("If-Match", tag), ("If-Match", tag)])
    assert (written.status_code, written.json()["field"]) == (422, "If-Match")


def test_a_head_is_answered_as_a_get_is(url):
    with TestClient(starlette(url)) as client:
        save(client, Maker(number=1, name="Ada"))
        save(client, Note(number=1, maker=MadeBy.of(1)))
        first = client.head("/notes/1")
        assert (first.status_code, first.content) == (200, b"")
        assert first.headers["etag"] == client.get("/notes/1").headers["etag"]
        assert asked(client, "/notes/1", first.headers["etag"], "HEAD").status_code == 304


def test_what_is_refused_has_no_tag_and_is_never_known(client):
    assert "etag" not in client.get("/refused").headers
    assert asked(client, "/refused", "*").status_code == 404


def test_a_tag_of_ones_own_is_sent_and_compared():
    def answer(given):
        lines = [(b"if-none-match", given)]
        request = Request({"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": lines})
        return respond(request, {"a": 1}, headers={"etag": '"mine"'})

    assert [(name, value) for name, value in answer(b'"other"').raw_headers if name == b"etag"] == [
        (b"etag", b'"mine"')
    ]
    assert (answer(b'"other"').status_code, answer(b'"mine"').status_code) == (200, 304)
    assert answer(b'"mine"').headers["etag"] == '"mine"'


def note(**more):
    return {"number": 1, "maker": {"ref": [1]}} | more


def test_a_copy_that_followed_makes_no_write_fail(client):
    tag = client.get("/notes/1").headers["etag"]
    save(client, Maker(number=1, name="Ada Lovelace"))
    written = client.put("/notes/1", json=note(text="first"), headers={"If-Match": tag})
    assert (written.status_code, written.json()["maker"]["name"]) == (200, "Ada Lovelace")
    assert written.headers["etag"] == client.get("/notes/1").headers["etag"]
    assert client.put("/notes/1", json=note(text="second"), headers={"If-Match": tag}).status_code == 412
    other = client.get("/notes").headers["etag"]
    assert client.put("/notes/1", json=note(), headers={"If-Match": other}).status_code == 412  # of a page


@pytest.mark.parametrize("given", ['"v1"', '"x", "y"', "x", ""])
def test_a_write_is_not_done_under_a_condition_that_is_not_looked_at(client, given):
    refused = client.put("/notes/1", json=note(text="new"), headers={"If-None-Match": given})
    assert (refused.status_code, refused.json()["field"]) == (422, "If-None-Match")
    assert client.get("/notes/1").json()["text"] == ""


def test_a_write_that_must_be_new_and_old_is_refused(client):
    tag = client.get("/notes/1").headers["etag"]
    answer = client.put("/notes/1", json=note(), headers={"If-Match": tag, "If-None-Match": "*"})
    assert answer.status_code == 412


def request(method="PUT", **headers):
    lines = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "headers": lines})


@pytest.mark.parametrize("given", ['"v17"', f'"v17-{"a" * 32}"', f' "v17-{"0" * 32}" '])
def test_a_tag_is_read_back_as_the_version(given):
    assert if_version(request(if_match=given)) == 17


@pytest.mark.parametrize(
    "given", ['"v17-"', f'"v17-{"a" * 31}"', f'"v17-{"A" * 32}"', f'"v-{"a" * 32}"', f'"{"a" * 32}"']
)
def test_a_tag_of_another_form_is_a_version_that_no_entity_has(given):
    assert if_version(request(if_match=given)) == -1


def test_a_read_has_no_version_to_be_created_under():
    assert if_version(request("GET", if_none_match='"v1"')) is None
    with pytest.raises(InvalidValue):
        if_version(request("PUT", if_none_match='"v1"'))


def test_both_faces_make_the_same_tags(url, client):
    with connect(url, SCHEMA) as db:
        db.save(Maker(number=1, name="Ada"))
        db.save(Thing(code="a", maker=MadeBy.of(1)))
        assert etag(db.page(ThingsOfMaker, 1)) == client.get("/listed").headers["etag"]
        assert etag({"rows": db.page(ThingsOfMaker, 1).rows}) != etag(db.page(ThingsOfMaker, 1))
