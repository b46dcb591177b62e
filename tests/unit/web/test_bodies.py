"""Bodies: none is read beyond its bound, however it is sent, and a problem never has more than a few faults of it."""

import asyncio
import json

import pytest
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from oneread import connect_async
from oneread.errors import UsageError
from oneread.web import BodyLimitMiddleware, CreateShape, exception_handlers, lifespan
from oneread.web.fastapi import use_problems
from tests.unit.web.applications import TestClient
from tests.unit.web.posts import SCHEMA, Db, User, fastapi, starlette

MOST = 1_000_000
JSON = (b"content-type", b"application/json")
FORM = (b"content-type", b"application/x-www-form-urlencoded")
FILES = (b"content-type", b"multipart/form-data; boundary=x")
PARTS = 40
PART = b" " * 100_000


def mounted():
    return Starlette(
        routes=[Mount("/api", fastapi())],
        lifespan=lifespan(connect_async("memory://", SCHEMA)),
        exception_handlers=exception_handlers,
    )


def within_functions():
    """A middleware that is a function runs the application in another task, with a `receive` of its own."""
    app = fastapi()

    @app.middleware("http")
    async def around(request, call_next):
        return await call_next(request)

    return app


def without_problems():
    app = FastAPI(lifespan=lifespan(connect_async("memory://", SCHEMA)))
    app.add_middleware(BodyLimitMiddleware)

    @app.post("/users")
    async def register(db: Db, new: CreateShape[User]):
        return await db.create(new.entity())

    return app


APPLICATIONS = {
    "starlette": starlette,
    "fastapi": fastapi,
    "mounted": mounted,
    "within functions": within_functions,
    "without problems": without_problems,
}


async def run(app, messages, *headers, path="/users", method="POST"):
    """The response to a request that is received in these messages: its status, its body and the messages asked for."""
    ready, stopped = asyncio.Event(), asyncio.Event()
    state, sent, asked = {}, [], 0

    async def lifespan_messages():
        if not ready.is_set():
            return {"type": "lifespan.startup"}
        await stopped.wait()
        return {"type": "lifespan.shutdown"}

    async def lifespan_answers(_message):
        ready.set()

    async def receive():
        nonlocal asked
        asked += 1
        return messages[asked - 1] if asked <= len(messages) else {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http"}
    scope |= {"path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "state": state}
    scope |= {"server": ("h", 80), "client": ("c", 1), "headers": [(b"host", b"h"), *headers]}
    living = asyncio.create_task(
        app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}, lifespan_messages, lifespan_answers)
    )
    await ready.wait()
    try:
        await app(scope, receive, send)
    finally:
        stopped.set()
        await living
    starts = [each for each in sent if each["type"] == "http.response.start"]
    assert len(starts) == 1
    return starts[0]["status"], b"".join(each.get("body", b"") for each in sent), asked


def in_parts(start, end):
    parts = [start, *[PART] * PARTS, end]
    return [
        {"type": "http.request", "body": part, "more_body": number < len(parts) - 1}
        for number, part in enumerate(parts)
    ]


@pytest.mark.parametrize("headers", [(JSON,), (JSON, (b"content-length", b"7")), (JSON, (b"content-length", b"x"))])
@pytest.mark.parametrize("kind", APPLICATIONS)
def test_a_body_in_parts_is_refused_where_it_is_too_large_whatever_its_length_is_said_to_be(kind, headers):
    path = "/api/users" if kind == "mounted" else "/users"
    messages = in_parts(b'{"number": 2, "name": "x"', b"}")
    status, body, asked = asyncio.run(run(APPLICATIONS[kind](), messages, *headers, path=path))
    assert status == 413
    assert json.loads(body)["limit"] == MOST
    assert asked == MOST // len(PART) + 1  # the first has a few bytes


@pytest.mark.parametrize("kind", APPLICATIONS)
def test_a_body_that_is_announced_too_large_is_not_read(kind):
    path = "/api/users" if kind == "mounted" else "/users"
    for length in (str(MOST + 1), "9" * 5_000):
        announced = (b"content-length", length.encode())
        status, _, asked = asyncio.run(run(APPLICATIONS[kind](), in_parts(b"{", b"}"), JSON, announced, path=path))
        assert (status, asked) == (413, 0)


@pytest.mark.parametrize("kind", [FORM, FILES, (b"content-type", b"text/plain"), (b"x-none", b"")])
def test_a_body_is_bounded_whatever_its_content_type_is(kind):
    messages = in_parts(b"a=", b"")
    status, _, asked = asyncio.run(run(fastapi(), messages, kind))
    assert status == 413
    assert asked < PARTS


def test_a_route_that_reads_its_request_itself_is_bounded_too():
    app = fastapi()

    @app.post("/raw")
    async def raw(request: Request):
        return PlainTextResponse(str(len(await request.body())))

    status, _, asked = asyncio.run(run(app, in_parts(b"", b""), path="/raw"))
    assert status == 413
    assert asked < PARTS
    assert asyncio.run(run(app, [{"type": "http.request", "body": b"abc"}], path="/raw"))[:2] == (200, b"3")


def test_an_application_sets_another_limit():
    app = FastAPI(lifespan=lifespan(connect_async("memory://", SCHEMA)))
    use_problems(app, most_bytes=100_000_000)

    @app.post("/raw")
    async def raw(request: Request):
        return PlainTextResponse(str(len(await request.body())))

    assert asyncio.run(run(app, in_parts(b"", b""), path="/raw"))[:2] == (200, str(PARTS * len(PART)).encode())
    for wrong in (-1, True, 1.5, None):
        with pytest.raises(UsageError, match="whole number of bytes"):
            use_problems(FastAPI(), most_bytes=wrong)
        with pytest.raises(UsageError, match="whole number of bytes"):
            BodyLimitMiddleware(app, most_bytes=wrong)


def test_an_application_without_handlers_is_bounded_and_its_own_errors_stay():
    async def read(request):
        return PlainTextResponse(str(len(await request.body())))

    async def fail(_request):
        raise ZeroDivisionError

    app = Starlette(
        routes=[Route("/", read, methods=["POST"]), Route("/fail", fail, methods=["POST"])],
        lifespan=lifespan(connect_async("memory://", SCHEMA)),
        middleware=[Middleware(BodyLimitMiddleware, most_bytes=2)],
    )
    assert asyncio.run(run(app, [{"type": "http.request", "body": b"abc"}], path="/"))[0] == 413
    assert asyncio.run(run(app, [{"type": "http.request", "body": b"ab"}], path="/"))[:2] == (200, b"2")
    with pytest.raises(ZeroDivisionError):
        asyncio.run(run(app, [], path="/fail"))


def test_a_client_that_sends_too_much_after_the_response_began_counts_as_gone():
    received = []

    async def app(_scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        received.extend([await receive(), await receive()])
        await send({"type": "http.response.body", "body": b"whole"})

    async def ask():
        sent, messages = [], iter(in_parts(b"abc", b""))

        async def receive():
            return next(messages)

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": "/", "headers": []}
        await BodyLimitMiddleware(app, most_bytes=2)(scope, receive, send)
        return sent

    sent = asyncio.run(ask())
    assert received == [{"type": "http.disconnect"}] * 2
    assert [each["type"] for each in sent] == ["http.response.start", "http.response.body"]


# --- Problems --------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[starlette, fastapi], ids=["starlette", "fastapi"])
def client(request):
    with TestClient(request.param()) as client:
        yield client


def faults(response):
    assert response.status_code == 422, response.text
    assert len(response.content) < 10_000
    return response.json()["errors"]


@pytest.mark.parametrize("also", [{}, {"number": 2, "name": "x"}, {"number": "x"}], ids=["none", "right", "wrong"])
def test_twenty_faults_of_a_body_are_named_at_most(client, also):
    unknown = {f"{number}{'k' * 100}": "v" * 500 for number in range(1_200)}
    found = faults(client.post("/users", json=unknown | also))
    assert len(found) == 20
    assert all(len(each["loc"][1]) <= 64 for each in found)
    found = faults(client.patch("/users/1", json=unknown))
    assert len(found) == 20


def test_pydantic_is_given_few_of_the_unknown_fields():
    with TestClient(without_problems()) as client:
        response = client.post("/users", json={f"k{number}": number for number in range(5_000)} | {"name": "x"})
    assert response.status_code == 422
    assert [each["loc"][1] for each in response.json()["detail"]] == ["number", *(f"k{number}" for number in range(20))]


def test_twenty_faults_of_what_fastapi_checks_itself_are_named():
    app = fastapi()

    @app.post("/all")
    async def save_all(news: list[CreateShape[User]], also: list[int]):
        raise NotImplementedError

    with TestClient(app) as client:
        wrong = {"news": [{"number": "x", "name": "y" * 100_000}] * 5, "also": ["z"] * 1_000}
        assert len(faults(client.post("/all", json=wrong))) == 20


@pytest.mark.parametrize(
    "body",
    [b"[" * 200_000, b'{"number": ' + b"[" * 100_000, b'{"number": 1\xff}', b'{"number": ' + b"9" * 5_000 + b"}", b"{"],
    ids=["deep", "deep inside", "not UTF-8", "many digits", "cut off"],
)
def test_a_body_that_cannot_be_parsed_is_a_problem_of_the_body(client, body):
    found = faults(client.post("/users", content=body, headers={"Content-Type": "application/json"}))
    assert found[0]["loc"][0] == "body"


@pytest.mark.parametrize("body", [b"[]", b"[{}]", b"1", b"null", b'"x"', b"true"])
def test_a_body_that_is_not_an_object_is_a_problem(client, body):
    found = client.post("/users", content=body, headers={"Content-Type": "application/json"})
    assert found.status_code == 422
    assert found.headers["content-type"] == "application/problem+json"


def test_other_refusals_of_fastapi_stay_and_an_applications_own_too():
    app = fastapi()

    @app.get("/none")
    async def none():
        raise HTTPException(418)

    with TestClient(app) as client:
        assert client.get("/none").json() == {"detail": "I'm a Teapot"}

    async def own(_request, error):
        return PlainTextResponse("own", error.status_code)

    mine = FastAPI(exception_handlers={HTTPException: own}, lifespan=lifespan(connect_async("memory://", SCHEMA)))
    use_problems(mine)
    with TestClient(mine) as client:
        assert client.get("/nowhere").text == "own"
