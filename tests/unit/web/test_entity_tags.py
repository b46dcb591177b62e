"""Entity tags of what routes return without `respond`: pages beside their links, entities with their version."""

import pytest
from fastapi import FastAPI, Response
from pydantic import BaseModel, TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from oneread import connect_async
from oneread.web import EntityTagMiddleware, if_version, lifespan
from oneread.web.fastapi import use_problems
from tests.unit.web.applications import TestClient
from tests.unit.web.posts import SCHEMA, Db, Tag, User, routes

UNSAVED = User(number=9, name="Eve")


class Holder(BaseModel):
    user: User


def application(url):
    app = FastAPI(lifespan=lifespan(connect_async(url, SCHEMA)))
    app.include_router(routes)
    use_problems(app)
    app.add_middleware(EntityTagMiddleware)

    @app.put("/conditional/{number}")
    async def conditional(db: Db, number: int, request: Request) -> User:
        return await db.patch(User, number, name="Cy", if_version=if_version(request))

    @app.get("/unsaved")
    async def unsaved() -> User:
        return UNSAVED

    @app.get("/held")
    async def held(db: Db) -> Holder:
        return Holder(user=await db.get(User, 1))

    @app.get("/several")
    async def several(db: Db) -> list[User]:
        return [await db.get(User, 1), await db.get(User, 1)]

    @app.get("/own")
    async def own() -> Response:
        return JSONResponse({}, headers={"ETag": '"mine"'})

    @app.get("/cookies")
    async def cookies(response: Response) -> int:
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        response.headers["Content-Location"] = "/there"
        return 1

    @app.get("/compressed")
    async def compressed(db: Db) -> Response:
        TypeAdapter(User).dump_python(await db.get(User, 1))
        return Response(b"\x1f\x8b", media_type="application/json", headers={"Content-Encoding": "identity"})

    @app.get("/parts")
    async def parts() -> Response:
        return StreamingResponse(iter([b"[1,", b"2]"]), media_type="application/json")

    @app.get("/text")
    async def text() -> Response:
        return Response("x", media_type="text/plain")

    app.add_api_route("/made", own_number, methods=["POST"], status_code=201)
    return app


async def own_number() -> int:
    return 1


@pytest.fixture
def client(url):
    with TestClient(application(url)) as client:
        call, db = client.portal.call, client.app_state["db"]
        call(db.save, Tag(name="a"))
        call(db.save, User(number=1, name="Ada", email="a@b"))
        for title in "tu":
            assert client.post("/posts", json={"title": title, "topic": "a"}).status_code == 201
        yield client


def version(client):
    call, db = client.portal.call, client.app_state["db"]
    return db.version(call(db.get, User, 1))


def test_a_page_has_a_tag_beside_its_links_and_is_not_sent_twice(client):
    for path in ("/posts", "/listed", "/struct", "/several", "/held"):
        first = client.get(path)
        assert first.status_code == 200, first.text
        assert first.headers["etag"].startswith('"')
        assert not first.headers["etag"].startswith('"v')
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
        assert again.headers.get("link") == first.headers.get("link")
        assert "content-length" not in again.headers
    assert {"link", "etag"} <= client.get("/posts").headers.keys()


def test_a_tag_follows_what_is_shown(client):
    path = f"/posts/{client.post('/posts', json={'title': 't', 'topic': 'a'}).json()['id']}"
    page, tag = (client.get(each).headers["etag"] for each in ("/posts", path))
    assert client.patch("/users/1", json={"name": "Bea"}).status_code == 200
    again = client.get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.json()["author"]["name"]) == (200, "Bea")
    assert again.headers["etag"] != tag
    assert again.headers["etag"].split("-")[0] == tag.split("-")[0]  # a copy follows, the version stays
    assert client.get("/posts", headers={"If-None-Match": page}).status_code == 304  # its rows show no name


def test_an_entity_and_its_shape_have_their_version_in_every_response(client):
    known = version(client)
    assert client.get("/users/1").headers["etag"].startswith(f'"v{known}-')
    renamed = client.patch("/users/1", json={"name": "Bea"})
    assert renamed.headers["etag"].startswith(f'"v{version(client)}-')
    stale = client.put("/conditional/1", headers={"If-Match": f'"v{known}-{"0" * 32}"'})
    assert (stale.status_code, stale.headers.get("etag")) == (412, None)
    assert client.put("/conditional/1", headers={"If-Match": renamed.headers["etag"]}).json()["name"] == "Cy"
    created = client.post("/users", json={"number": 2, "name": "Di"})
    assert created.headers["etag"].startswith('"v')


def test_what_is_not_one_entity_has_no_version(client):
    assert client.get("/unsaved").headers["etag"].count("v") == 0
    assert "etag" not in client.post("/made").headers
    assert "v" not in client.get("/compressed").headers["etag"]
    assert client.get("/own").headers.get_list("etag") == ['"mine"']
    assert client.get("/own", headers={"If-None-Match": '"mine"'}).status_code == 200
    for path in ("/parts", "/text", "/users/99"):
        assert "etag" not in client.get(path).headers
    assert client.get("/parts").json() == [1, 2]


def test_other_headers_stay_in_a_304(client):
    tag = client.get("/cookies").headers["etag"]
    again = client.get("/cookies", headers={"If-None-Match": f'W/"x", W/{tag}'})
    assert again.status_code == 304
    assert len(again.headers.get_list("set-cookie")) == 2
    assert again.headers["content-location"] == "/there"
