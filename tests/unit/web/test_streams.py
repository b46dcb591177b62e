"""Server-sent events: what a browser gets of the changes of a page, in both frameworks and from a real server."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from datetime import timedelta
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Route

from oneread import AsyncDatabase, Index, Key, Model, Schema, by, connect_async, to_json
from oneread.errors import InvalidQuery
from oneread.web import BudgetMiddleware, EntityTagMiddleware, database, exception_handlers, lifespan, stream_changes
from oneread.web.fastapi import use_problems
from tests.failures.stores import SOURCE, until
from tests.unit.web.applications import TestClient


class Post(Model[int]):
    number: Key[int]
    room: str
    title: str = ""


class Posts(Index[Post]):
    watched = timedelta(hours=1)

    room: str = by(Post.room)
    title: str = by(Post.title)


class Quiet(Index[Post]):
    title: str = by(Post.title)


class Notice(Model[int]):
    logged = timedelta(hours=1)

    number: Key[int]
    text: str


SCHEMA = Schema(Post, Posts, Quiet, Notice)
SHORT = {"pace": 0.01, "lasts": 0.2}


async def room(request):
    options = {name: json.loads(text) for name, text in request.query_params.items() if name != "cursor"}
    return await stream_changes(request, database(request), Posts, request.path_params["room"], **(SHORT | options))


async def titles(request: Request):
    return await stream_changes(
        request, database(request), Posts, show=lambda change: change.row and change.row.title, **SHORT
    )


async def notices(request: Request):
    return await stream_changes(request, database(request), Notice, **SHORT)


async def quiet(request: Request):
    return await stream_changes(request, database(request), Quiet)


def starlette(url):
    return Starlette(
        routes=[
            Route("/rooms/{room}", room),
            Route("/titles", titles),
            Route("/notices", notices),
            Route("/quiet", quiet),
        ],
        lifespan=lifespan(connect_async(url, SCHEMA)),
        exception_handlers=exception_handlers,
        middleware=[Middleware(BudgetMiddleware, requests=3), Middleware(EntityTagMiddleware)],
    )


def fastapi(url):
    app = FastAPI(lifespan=lifespan(connect_async(url, SCHEMA)))
    use_problems(app)

    @app.get("/rooms/{name}")
    async def of_room(name: str, request: Request, db: Annotated[AsyncDatabase, Depends(database)]):
        options = {key: json.loads(text) for key, text in request.query_params.items() if key != "cursor"}
        return await stream_changes(request, db, Posts, name, **(SHORT | options))

    app.add_api_route("/titles", titles, response_model=None)
    app.add_api_route("/notices", notices, response_model=None)
    app.add_api_route("/quiet", quiet, response_model=None)
    app.add_middleware(BudgetMiddleware, requests=3)
    return app


@pytest.fixture(params=[starlette, fastapi], ids=["starlette", "fastapi"])
def client(request, url):
    with TestClient(request.param(url)) as client:
        yield client


def call(client, verb, *given, **named):
    async def called():
        return await getattr(client.app_state["db"], verb)(*given, **named)

    return client.portal.call(called)


def events(response):
    """The events of a stream as (id, data), data None for those that browsers do not see."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    head, *blocks = response.text.split("id: ")
    assert head == "retry: 1000\n"
    found = []
    for block in blocks:
        assert block.endswith("\n\n")
        name, _, data = block[:-2].partition("\ndata: ")
        found.append((name, json.loads(data)["changes"] if data else None))
    return found


def test_a_stream_begins_behind_its_cursor_and_ends_by_itself(client):
    cursor = call(client, "changes_cursor", Posts)
    call(client, "save", Post(number=1, room="a", title="one"))
    call(client, "save", Post(number=2, room="b", title="two"))
    found = events(client.get("/rooms/a", params={"cursor": cursor}))
    row = {"source": 1, "room": "a", "title": "one"}
    assert [data for _id, data in found if data] == [[{"source": 1, "row": row}]]


def test_a_browser_that_connects_again_continues_behind_the_last_event(client):
    cursor = call(client, "changes_cursor", Posts)
    call(client, "save", Post(number=1, room="a", title="one"))
    last, _data = events(client.get("/rooms/a", params={"cursor": cursor}))[-1]
    call(client, "delete", Post, 1)
    found = events(client.get("/rooms/a", params={"cursor": cursor}, headers={"Last-Event-ID": last}))
    assert [data for _id, data in found if data] == [[{"source": 1, "row": None}]]


def test_without_a_cursor_a_stream_begins_now(client):
    call(client, "save", Post(number=1, room="a", title="one"))
    found = events(client.get("/rooms/a"))
    assert found
    assert not [data for _id, data in found if data]


def test_a_quiet_stream_beats_without_data(client):
    found = events(client.get("/rooms/a", params={"heartbeat": 0.05}))
    assert len(found) >= 3
    assert {data for _id, data in found} == {None}


def test_what_is_shown_of_a_change_is_the_programs_choice(client):
    cursor = call(client, "changes_cursor", Posts)
    call(client, "save", Post(number=1, room="a", title="a\nb\rdata: x\u2028"))
    found = events(client.get("/titles", params={"cursor": cursor}))
    assert [data for _id, data in found if data] == [["a\nb\rdata: x\u2028"]]


def test_entities_of_a_logged_model_are_streamed(client):
    cursor = call(client, "changes_cursor", Notice)
    call(client, "save", Notice(number=1, text="one"))
    call(client, "delete", Notice, 1)
    call(client, "save", Notice(number=2, text="two"))
    found = events(client.get("/notices", params={"cursor": cursor}))
    assert [data for _id, data in found if data] == [
        [{"source": 1, "row": None}, {"source": 2, "row": {"number": 2, "text": "two"}}]
    ]


def test_large_changes_come_in_several_events(client):
    cursor = call(client, "changes_cursor", Posts)
    call(client, "save_all", [Post(number=number, room="a", title=f"{number}") for number in range(5)])
    found = events(client.get("/rooms/a", params={"cursor": cursor, "limit": 2}))
    assert [len(data) for _id, data in found if data] == [2, 2, 1]


def test_a_head_request_has_no_stream(client):
    if isinstance(client.app, Starlette) and not isinstance(client.app, FastAPI):
        response = client.head("/rooms/a")
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("path", "params", "status", "kind"),
    [
        ("/rooms/a", {"cursor": "x"}, 400, "InvalidCursor"),
        ("/rooms/a", {"cursor": "x" * 5000}, 400, "InvalidCursor"),
        ("/rooms/a", {"limit": 0}, 400, "InvalidQuery"),
        ("/rooms/a", {"pace": 0}, 400, "InvalidQuery"),
        ("/rooms/a", {"heartbeat": -1}, 400, "InvalidQuery"),
        ("/rooms/a", {"lasts": 0}, 400, "InvalidQuery"),
        ("/rooms/a", {"lasts": "true"}, 400, "InvalidQuery"),
        ("/quiet", {}, 400, "InvalidQuery"),
    ],
)
def test_a_refusal_is_a_problem_before_the_stream_begins(client, path, params, status, kind):
    response = client.get(path, params=params)
    assert response.status_code == status
    assert response.json()["type"] == f"urn:oneread:error:{kind}"


def test_a_cursor_that_is_too_old_is_gone(client):
    cursor = call(client, "changes_cursor", Posts)

    async def of_another_generation():
        db = client.app_state["db"]
        known = db._cipher.decrypt(cursor)
        return db._cipher.encode(type(known)(known.view, 2, False, known.equality, known.key))

    response = client.get("/rooms/a", params={"cursor": client.portal.call(of_another_generation)})
    assert response.status_code == 410
    assert response.json()["errors"] == [{"loc": ["query", "cursor"], "msg": response.json()["detail"]}]


def test_a_database_that_is_closed_ends_the_stream(url):
    async def scenario():
        db = await connect_async(url, SCHEMA)
        request = Request({"type": "http", "method": "GET", "headers": [], "query_string": b""})
        response = await stream_changes(request, db, Posts, pace=0.01)
        pieces = response.body_iterator
        assert (await anext(pieces)).startswith(b"retry")
        await db.close()
        assert [piece async for piece in pieces] == []

    asyncio.run(scenario())


@pytest.mark.parametrize("version", ["2.0", "2.4"])
def test_a_client_that_goes_away_ends_its_stream(url, version):
    """A server says so by a message, or by refusing what is sent."""

    async def scenario():
        async with await connect_async(url, SCHEMA) as db:
            request = Request({"type": "http", "method": "GET", "headers": [], "query_string": b""})
            response = await stream_changes(request, db, Posts, pace=0.01, heartbeat=0.01)
            sent, gone = [], asyncio.Event()

            async def receive():
                await gone.wait()
                return {"type": "http.disconnect"}

            async def send(message):
                sent.append(message)
                if len(sent) == 3:
                    gone.set()
                if len(sent) > 3 and version == "2.4":
                    raise OSError("the connection is closed")

            scope = {"type": "http", "method": "GET", "asgi": {"spec_version": version}}
            with suppress(ClientDisconnect):
                await asyncio.wait_for(response(scope, receive, send), 10)
            assert len(sent) < 20
            for _ in range(20):  # nothing looks at the log any more
                await asyncio.sleep(0.01)
            return len(asyncio.all_tasks())

    assert asyncio.run(scenario()) == 1


def test_changes_have_a_json_form(url):
    async def scenario():
        async with await connect_async(url, SCHEMA) as db:
            cursor = await db.changes_cursor(Posts)
            await db.save(Post(number=1, room="a"))
            return await anext(db.changes(Posts, cursor=cursor))

    changes = asyncio.run(scenario())
    one, found, cursor = json.loads(to_json(changes.rows[0])), json.loads(to_json(changes)), changes.cursor
    assert one == {"source": 1, "row": {"source": 1, "room": "a", "title": ""}}
    assert found == {"changes": [one], "cursor": cursor, "more": False}


def test_a_budget_is_not_spent_by_a_stream(client):
    """Of 3 requests; a stream of 0.2 seconds makes some 20."""
    assert events(client.get("/rooms/a", params={"heartbeat": 0.01}))


SERVER = """
import sys
from datetime import timedelta
from starlette.applications import Starlette
from starlette.routing import Route
from oneread import Index, Key, Model, Schema, by, connect_async
from oneread.web import database, lifespan, respond, stream_changes

class Post(Model[int]):
    number: Key[int]
    room: str
    title: str = ""

class Posts(Index[Post]):
    watched = timedelta(hours=1)
    room: str = by(Post.room)
    title: str = by(Post.title)

async def room(request):
    return await stream_changes(request, database(request), Posts, request.path_params["room"], pace=0.02)

async def save(request):
    number = int(request.path_params["number"])
    return respond(request, await database(request).save(Post(number=number, room="a", title="new")))

app = Starlette(
    routes=[Route("/rooms/{room}", room), Route("/posts/{number}", save, methods=["PUT"])],
    lifespan=lifespan(connect_async(sys.argv[1], Schema(Post, Posts))),
)
import uvicorn
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning", timeout_graceful_shutdown=1)
"""


@pytest.fixture
def port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def test_a_real_server_streams_and_stops(tmp_path, port):
    url, place = f"http://127.0.0.1:{port}", f"lmdb://{tmp_path}/store?durability=none"
    environment = dict(os.environ) | {"PYTHONPATH": SOURCE}
    server = subprocess.Popen([sys.executable, "-c", SERVER, place, str(port)], env=environment)
    try:
        until(lambda: _answers(port))
        with urllib.request.urlopen(f"{url}/rooms/a", timeout=30) as stream:
            assert stream.readline() == b"retry: 1000\n"
            urllib.request.urlopen(urllib.request.Request(f"{url}/posts/1", method="PUT"), timeout=30).close()
            while not (line := stream.readline()).startswith(b"data: "):
                assert line
            (change,) = json.loads(line[6:])["changes"]
            assert change["row"]["title"] == "new"
            began = time.monotonic()
            server.send_signal(signal.SIGTERM)
            while stream.readline():
                pass
        server.wait(30)
        assert time.monotonic() - began < 10
    finally:
        server.kill()
        server.wait()


def _answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_wrong_options_are_refused_by_name(url):
    async def scenario():
        async with await connect_async(url, SCHEMA) as db:
            request = Request({"type": "http", "method": "GET", "headers": [], "query_string": b""})
            with pytest.raises(InvalidQuery, match="above 0"):
                await stream_changes(request, db, Posts, lasts=float("nan"))

    asyncio.run(scenario())
