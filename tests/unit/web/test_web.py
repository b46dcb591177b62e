"""A web application over oneread, in both frameworks: JSON, problems, conditions, budgets, and hostile clients."""

import asyncio
import logging
import subprocess
import sys
import types
from datetime import UTC, datetime

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.endpoints import WebSocketEndpoint
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from oneread import Key, Model, Schema, connect, connect_async, errors, to_json
from oneread.errors import BudgetExceeded, InvalidDeclaration, InvalidValue, UsageError
from oneread.models.json_form import JsonForm, form
from oneread.web import (
    BudgetMiddleware,
    PageQuery,
    database,
    database_called,
    entity_of,
    etag,
    exception_handlers,
    if_version,
    lifespan,
)
from oneread.web.problems import PROBLEM_TYPES, problem_type
from tests.unit.evolution.stores import end_lease
from tests.unit.web.applications import (
    SCHEMA,
    Made,
    MadeBy,
    Maker,
    TestClient,
    Thing,
    ThingsOfMaker,
    WebSocketDenialResponse,
    fastapi,
    starlette,
    thing,
)


class Event(Model[datetime]):
    when: Key[datetime]


@pytest.fixture(params=[starlette, fastapi], ids=["starlette", "fastapi"])
def client(request, url):
    with TestClient(request.param(url)) as client:
        db = client.app_state["db"]
        client.portal.call(db.save, Maker(number=1, name="Ada"))
        yield client


def put(client, code="a", *, headers=None, **more):
    return client.put(f"/things/{code}", json=thing(code, **more), headers=headers)


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_what_is_read_can_be_sent_back(client):
    first = put(client).json()
    assert first == {"code": "a", "maker": {"ref": 1, "deleted": False, "name": "Ada"}, "size": 1}
    assert client.put("/things/a", json=first | {"size": 2}).json() == first | {"size": 2}
    assert client.get("/things/a").json() == first | {"size": 2}


def test_pages_are_walked_by_their_cursors(client):
    for code in "abcde":
        put(client, code)
    first = client.get("/things").json()
    assert [row["whole"] for row in first["rows"]] == ["a", "b"]
    assert first["rows"][0] == {"source": "a", "maker": {"ref": 1}, "size": 1, "whole": "a"}
    assert first["previous"] is None
    second = client.get("/things", params={"cursor": first["next"], "limit": 3}).json()
    assert [row["whole"] for row in second["rows"]] == ["c", "d", "e"]
    assert second["next"] is None
    assert client.get("/things", params={"backward": "true", "limit": 1}).json()["rows"][0]["whole"] == "e"


def test_bounds_are_read_by_the_type_of_the_key_field(client):
    for size in (1, 5, 9):
        put(client, f"s{size}", size=size)
    found = client.get("/things", params={"since": "2", "until": "9"}).json()
    assert [row["size"] for row in found["rows"]] == [5]
    found = client.get("/things", params={"after": "1", "through": "9", "limit": 1}).json()
    assert [row["size"] for row in found["rows"]] == [5]
    found = client.get("/things", params={"after": "1", "through": "9", "cursor": found["next"]}).json()
    assert [row["size"] for row in found["rows"]] == [9]
    assert client.get("/things", params={"after": "9", "through": "1"}).json()["rows"] == []
    for name in ("since", "after", "until", "through"):
        assert client.get("/things", params={name: "two"}).json()["field"] == name


def test_a_date_alone_bounds_an_instant(url):
    async def ask(**bounds):
        async with connect_async(url, Schema(Event)) as db:
            for hour in (0, 23):
                await db.save(Event(when=datetime(2018, 7, 1, hour, tzinfo=UTC)))
            return [row.when.hour for row in (await PageQuery(**bounds).page(db, Event)).rows]

    assert asyncio.run(ask(since="2018-07-01")) == [0, 23]
    assert asyncio.run(ask(until="2018-07-01")) == []
    assert asyncio.run(ask(since="2018-07-01T01:00:00Z", until="2018-07-02")) == [23]
    for wrong in ("2018-7-1", "2018-13-01", "2018-07-01T01:00:00", "18-07-01", "\u0662018-07-01", "2018-07-01 "):
        with pytest.raises(errors.InvalidQuery):
            asyncio.run(ask(since=wrong))


def test_fields_that_are_sent_are_patched(client):
    put(client)
    assert client.patch("/things/a", json={"size": 7}).json()["size"] == 7
    refused = client.patch("/things/a", json={"code": "b"})
    assert (refused.status_code, refused.json()["field"]) == (422, "code")


def test_a_page_links_to_the_pages_around_it_relatively(url):
    with TestClient(starlette(url)) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        for code in "abc":
            put(client, code)
        first = client.get("/things?limit=1&colour=a%20b", headers={"Host": "evil.example"})
        assert first.headers["link"].startswith("</things?limit=1&colour=a+b&cursor=")
        assert first.headers["link"].endswith('>; rel="next"')
        assert "evil" not in first.headers["link"]
        second = client.get(first.links["next"]["url"])
        assert {"next", "prev"} == set(second.links)
        assert [row["whole"] for row in second.json()["rows"]] == ["b"]


def test_fastapi_answers_by_a_return_type_as_by_respond(url):
    with TestClient(fastapi(url)) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        put(client)
        assert client.get("/typed/a").json() == client.get("/things/a").json()
        assert client.get("/made").json() == [{"maker": {"ref": 1}, "things": 1}]


def test_to_json_takes_entities_rows_pages_and_what_holds_them(url):
    with connect(url, SCHEMA) as db:
        db.save(Maker(number=1, name="Ada"))
        saved = db.save(Thing(code="a", maker=MadeBy.of(1)))
        held = {"one": saved, "two": [saved, db.get(Made, 1)], "page": db.page(ThingsOfMaker), "none": None, "no": []}
        found = msgspec.json.decode(to_json(held))
    assert found["two"] == [found["one"], {"maker": {"ref": 1}, "things": 1}]
    assert found["page"] == {
        "rows": [{"source": "a", "maker": {"ref": 1}, "size": 1, "whole": "a"}], "next": None, "previous": None,
    }  # fmt: skip
    assert found["none"] is None
    with pytest.raises(TypeError):
        to_json(object())


def test_a_class_that_json_cannot_name_is_refused_with_the_reason():
    class Inside(Maker):
        other: "Nowhere"  # noqa: F821 - that is the point

    with pytest.raises(InvalidDeclaration, match="cannot be resolved"):
        form(Inside)


# --- Problems --------------------------------------------------------------------------------------------------------


def test_errors_are_problems_that_name_the_field_and_tell_nothing_stored(client):
    missing = client.get("/things/secret-key")
    assert missing.status_code == 404
    assert missing.headers["content-type"] == "application/problem+json"
    assert missing.json() == {
        "type": "urn:oneread:error:NotFound", "title": "Not found", "status": 404,
        "detail": "there is no such entity", "retryable": False, "model": "Thing",
    }  # fmt: skip
    missing = client.put("/things/a", json={"code": "a", "maker": {"ref": [4711]}})
    assert (missing.status_code, missing.json()["field"]) == (422, "maker")
    assert "4711" not in missing.text
    checked = put(client, size=-1)
    assert (checked.status_code, "not negative" in checked.json()["reason"]) == (422, True)


def test_every_error_of_the_tree_has_a_status():
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.OnereadError)
    ]
    found = {each.__name__: problem_type(each("no")).status for each in classes}
    assert set(PROBLEM_TYPES) <= set(classes)
    assert {name for name, status in found.items() if status == 500} == {
        "OnereadError", "UsageError", "InvalidDeclaration", "InvalidUrl", "StoreError", "Unsupported",
        "Corrupt", "OutcomeUnknown", "StaleCopies", "StoreReplaced",
    }  # fmt: skip
    assert {name for name, status in found.items() if status == 503} == {
        "Closed", "Unavailable", "NotReady", "BudgetExceeded", "SchemaMismatch", "Outdated", "StoreMoved",
    }  # fmt: skip
    assert problem_type(errors.LimitExceeded("no", limit=1, bytes=2)).status == 413
    assert problem_type(errors.LimitExceeded("no")).status == 507


def test_faults_of_the_server_are_logged_in_full_and_say_when_to_come_back(caplog, url):
    async def fails(_request):
        raise errors.Unavailable("not now", path="/a/secret/path")

    from_route = starlette(url)
    from_route.routes.append(Route("/fails", fails))
    with TestClient(from_route) as client, caplog.at_level(logging.ERROR, logger="oneread.web"):
        answer = client.get("/fails")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["retryable"]) == (503, "1", True)
    assert "secret" not in answer.text
    assert "secret" in caplog.text


def test_a_process_that_a_newer_program_has_cut_off_is_unavailable(new_url):
    """The same request is answered by the newer program's process, so a proxy or client may try again."""
    url, later = new_url(), made("Maker", {"number": Key[int], "name": str | None})

    async def write(_request):
        return PlainTextResponse(old.save(Maker(number=2, name="Bea")).name)

    from_route = starlette(new_url())
    from_route.routes.append(Route("/write", write))
    with connect(url, Schema(Maker), workers=0) as old, TestClient(from_route) as client:
        assert client.get("/write").status_code == 200
        connect(url, Schema(later), workers=0).close()
        end_lease(old)
        answer = client.get("/write")
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["retryable"]) == (503, "10", True)
    assert answer.json()["type"] == "urn:oneread:error:Outdated"


def made(name, fields):
    space = {"__annotations__": fields, "__module__": __name__}
    return types.new_class(name, (Model,), {}, lambda into: into.update(space))


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=21", "limit=x", "limit=", "limit=" + "9" * 5000, "limit=1e3", "cursor=",
        "cursor=%00", "cursor=" + "A" * 9000, "cursor=AQ==", "backward=maybe", "since=%ff", "since=" + "9" * 5000,
        "starts_with=a",
    ],
)  # fmt: skip
def test_a_hostile_query_is_the_clients_fault(client, query):
    answer = client.get(f"/things?{query}")
    assert answer.status_code in (400, 422), answer.text


@pytest.mark.parametrize("query", ["limit=1&limit=2", "limt=1", "cursor=a&cursor=b", "%00=1"])
def test_a_parameter_twice_or_unknown_is_refused(query, url):
    with TestClient(starlette(url)) as client:
        assert client.get(f"/things?{query}").status_code == 400


@pytest.mark.parametrize("query", ["limit=1&limit=2", "cursor=a&cursor=b", "backward=1&backward=1"])
def test_a_parameter_twice_is_refused_as_a_dependency_too(client, query):
    answer = client.get(f"/things?{query}")
    assert (answer.status_code, answer.json()["errors"][0]["loc"][0]) == (400, "query")
    assert answer.json()["detail"] == "the parameter is given twice"


def test_nonsense_is_an_invalid_cursor(client):
    answer = client.get("/things?cursor=nonsense").json()
    assert (answer["title"], answer["detail"]) == ("Invalid cursor", "not a cursor; start from the first page")


def test_a_bound_behind_the_last_key_field_is_refused(url):
    async def ask():
        async with connect_async(url, SCHEMA) as db:
            return await PageQuery(since="1").page(db, ThingsOfMaker, 1, 2)

    with pytest.raises(errors.InvalidQuery, match="every key field is given"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", None), (b"{", None), (b"[]", None), (b"\xff\xfe", None), (b"[" * 900, None), (b"null", None),
        (b'{"code": 1, "maker": {"ref": [1]}}', "code"), (b'{"code": "a"}', "maker"),
        (b'{"code": "a", "maker": {"ref": []}}', "maker"),
        (b'{"code": "a", "maker": {"ref": [1]}, "colour": 1}', "colour"),
        (b'{"code": "a", "maker": {"ref": [1]}, "size": 99999999999999999999999999.5}', "size"),
    ],
)  # fmt: skip
def test_a_hostile_body_is_refused_and_names_its_field(body, field, url):
    with TestClient(starlette(url)) as client:
        answer = client.put("/things/a", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422
        assert answer.json().get("field") == field


def test_every_wrong_field_is_named_with_its_place(url):
    wrong = {"code": 1, "maker": {"ref": [1, 2]}, "size": "x", "colour": 1}
    with TestClient(starlette(url)) as client:
        found = client.put("/things/a", json=wrong).json()["errors"]
        assert found == [
            {"loc": ["body", "code"], "msg": "Expected `str`, got `int`"},
            {"loc": ["body", "maker", "ref"], "msg": "Expected `int`, got `array`"},
            {"loc": ["body", "size"], "msg": "Expected `int`, got `str`"},
            {"loc": ["body", "colour"], "msg": "there is no such field"},
        ]
        missing = client.put("/things/a", json={}).json()["errors"]
        assert [each["loc"] for each in missing] == [["body", "code"], ["body", "maker"]]
        assert client.put("/things/a", json=[]).json()["errors"][0]["loc"] == ["body"]
        unknown = client.put("/things/a", json={f"{n}" * 200: 1 for n in range(2)} | thing()).json()["errors"]
        assert {len(each["loc"][1]) for each in unknown} == {64}
        many = client.patch("/things/a", json={f"f{n}": 1 for n in range(99)}).json()["errors"]
        assert len(many) == 20
        assert client.put("/things/a", json={"code": "a", "maker": {"ref": 9}}).json()["errors"] == [
            {"loc": ["body", "maker"], "msg": "this refers to an entity that does not exist"}
        ]
        assert client.get("/things?since=x").json()["errors"][0]["loc"] == ["query", "since"]
        assert client.get("/things?limit=0").json()["errors"][0]["loc"] == ["query", "limit"]
        assert client.get("/things?cursor=x").json()["errors"][0]["loc"] == ["query", "cursor"]
        assert client.put("/things/a", json=thing(), headers={"If-Match": "x"}).json()["errors"][0]["loc"] == [
            "header", "If-Match",
        ]  # fmt: skip


def test_fastapi_names_every_wrong_field_as_for_its_own_models(url):
    wrong = {"maker": {"ref": "x"}, "size": "x", "colour": 1}
    with TestClient(fastapi(url)) as client:
        found = client.put("/things/a", json=wrong).json()["detail"]
    assert [(each["type"], each["loc"]) for each in found] == [
        ("missing", ["body", "code"]), ("value_error", ["body", "maker"]), ("value_error", ["body", "size"]),
        ("extra_forbidden", ["body", "colour"]),
    ]  # fmt: skip


def test_a_reference_is_taken_in_both_forms(client):
    for ref in (1, [1]):
        assert client.put("/things/a", json={"code": "a", "maker": {"ref": ref}}).json()["maker"]["ref"] == 1
    for wrong in ("1", [], [1, 1], [[1]], None, {}, 1.5):
        assert client.put("/things/a", json={"code": "a", "maker": {"ref": wrong}}).status_code == 422


def test_other_content_than_json_is_refused(client):
    answer = client.patch("/things/a", content=b"size=1", headers={"Content-Type": "text/plain"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (415, "application/problem+json")
    assert answer.json()["title"] == "Not JSON"
    assert client.patch("/things/a", content=b"{}", headers={"Content-Type": "application/x+json"}).status_code != 415


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_large_is_not_read_to_its_end(announced, url):
    sent = []

    def body():
        for _ in range(100):
            sent.append(1)
            yield b" " * 100

    with TestClient(starlette(url)) as client:
        content = b" " * 10_000 if announced else body()
        answer = client.put("/things/a", content=content, headers={"Content-Type": "application/json"})
        assert answer.status_code == 413
        assert answer.json()["limit"] == 1000


def test_a_client_that_hangs_up_ends_its_request_only():
    async def ask():
        async def receive():
            return {"type": "http.disconnect"}

        scope = {"type": "http", "headers": [(b"content-type", b"application/json")], "method": "PUT"}
        with pytest.raises(ClientDisconnect):
            await entity_of(Request(scope, receive), Thing)

    asyncio.run(ask())


def test_a_cancelled_request_tears_no_write_and_keeps_no_budget(url):
    async def ask():
        async with connect_async(url, SCHEMA) as db:
            await db.save(Maker(number=1, name="Ada"))

            async def app(_scope, _receive, _send):
                await db.save(Thing(code="a", maker=MadeBy.of(1)))
                await asyncio.Event().wait()

            running = asyncio.ensure_future(BudgetMiddleware(app, requests=99)({"type": "http"}, None, None))
            while not await db.exists(Thing, "a"):  # noqa: ASYNC110 - the store sets no event
                await asyncio.sleep(0)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await db.drain()  # one row at a time what follows is left to recovery
            assert (await db.get(Made, 1)).things == 1

    asyncio.run(ask())


# --- Conditions ------------------------------------------------------------------------------------------------------


def test_a_write_under_a_condition_is_refused_when_it_no_longer_holds(client):
    assert put(client, headers={"If-None-Match": "*"}).status_code == 200
    again = put(client, headers={"If-None-Match": "*"})
    assert (again.status_code, again.json()["retryable"]) == (412, False)
    tag = client.get("/things/a").headers["etag"]
    assert client.get("/things/a", headers={"If-None-Match": f'"x", W/{tag}'}).status_code == 304
    assert put(client, size=2, headers={"If-Match": tag}).status_code == 200
    assert put(client, size=3, headers={"If-Match": tag}).status_code == 412
    assert client.get("/things/a", headers={"If-None-Match": tag}).json()["size"] == 2


@pytest.mark.parametrize("tag", ['W/"v1"', '"other"', '""', '"v99999999999999999999"'])
def test_a_tag_of_others_never_matches(client, tag):
    put(client)
    assert put(client, headers={"If-Match": tag}).status_code == 412
    weak = "W/" + client.get("/things/a").headers["etag"]
    assert put(client, headers={"If-Match": weak}).status_code == 412


@pytest.mark.parametrize("tag", ["*", '"v1", "v2"', "v1", '"', ""])
def test_a_condition_that_cannot_be_kept_is_refused(client, tag):
    answer = put(client, headers={"If-Match": tag})
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")


def test_a_request_without_conditions_has_no_version():
    assert if_version(Request({"type": "http", "headers": []})) is None
    with pytest.raises(UsageError):
        etag(Maker(number=1, name="made here"))


# --- Budgets ---------------------------------------------------------------------------------------------------------


def test_a_request_reports_its_cost_and_ends_beyond_its_budget(url):
    with TestClient(starlette(url)) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        found = client.get("/summary")
        assert found.headers["x-oneread-cost"].startswith("requests=2, rows=2, bytes=")
        assert found.headers["server-timing"] == 'oneread;desc="2 requests, 2 rows"'
        dear = client.get("/dear")
        assert (dear.status_code, dear.json()["retryable"]) == (503, False)
        assert "retry-after" not in dear.headers
        assert client.get("/bounded").status_code == 200
        assert client.get("/summary").headers["x-oneread-cost"].startswith("requests=2,")


async def answer(websocket, text):
    """Reads as often as the text says."""
    if not text.isdigit():
        raise InvalidValue("expected a number", field="text")
    for _ in range(int(text)):
        await database(websocket).get(Maker, 1)
    await websocket.send_text("done")


class Endpoint(WebSocketEndpoint):
    encoding = "text"

    async def on_receive(self, websocket, data):
        await answer(websocket, data)


def sockets(url, *, middleware, as_class=False, exception_handlers=None, before=None):
    """An application of one web socket: each text is a number of reads, and is answered when they are done."""

    async def socket(websocket):
        if before is not None:
            raise before
        await websocket.accept()
        async for text in websocket.iter_text():
            await answer(websocket, text)

    return Starlette(
        routes=[WebSocketRoute("/", Endpoint if as_class else socket)],
        lifespan=lifespan(connect_async(url, SCHEMA)),
        middleware=middleware,
        exception_handlers=exception_handlers,
    )


def test_a_web_socket_has_one_budget_from_its_handshake_to_its_end(url):
    with TestClient(sockets(url, middleware=[Middleware(BudgetMiddleware, requests=3)])) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        for _connection in range(2):
            with pytest.raises(BudgetExceeded), client.websocket_connect("/") as socket:  # noqa: PT012
                assert (b"x-oneread-cost", b"requests=0, rows=0, bytes=0") in socket.extra_headers
                for reads in (1, 2):
                    socket.send_text(str(reads))
                    assert socket.receive_text() == "done"
                socket.send_text("1")
                socket.receive_text()


def ask_socket(client, *reads):
    """What a socket answers to each message, and the code with which it is closed."""
    answers = []
    with client.websocket_connect("/") as socket:
        try:
            for each in reads:
                socket.send_text(str(each))
                answers.append(socket.receive_text())
        except WebSocketDisconnect as closed:
            return answers, closed.code
    return answers, None


def test_a_web_socket_may_have_a_budget_for_each_message(url):
    with TestClient(sockets(url, middleware=[Middleware(BudgetMiddleware, requests=2, per_message=True)])) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        assert ask_socket(client, 2, 1, 2, 2) == (["done"] * 4, None)
        with pytest.raises(BudgetExceeded):
            ask_socket(client, 1, 3)


def test_a_budget_around_that_of_a_message_is_for_the_whole_socket(url):
    middleware = [Middleware(BudgetMiddleware, requests=3), Middleware(BudgetMiddleware, requests=2, per_message=True)]
    with TestClient(sockets(url, middleware=middleware)) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        with pytest.raises(BudgetExceeded):
            ask_socket(client, 2, 2)


@pytest.mark.parametrize("as_class", [False, True])
def test_a_web_socket_beyond_its_budget_is_closed_with_a_code(url, as_class):
    limited = [Middleware(BudgetMiddleware, requests=2, per_message=True)]
    app = sockets(url, middleware=limited, as_class=as_class, exception_handlers=exception_handlers)
    with TestClient(app) as client:
        client.portal.call(client.app_state["db"].save, Maker(number=1, name="Ada"))
        assert ask_socket(client, 2, 1, 3, 1) == (["done"] * 2, 1013)
        assert ask_socket(client, 1, "x") == (["done"], 1008)


def test_a_web_socket_that_is_refused_before_it_is_open_has_a_response(url):
    app = sockets(url, middleware=[], exception_handlers=exception_handlers, before=errors.NotReady("not yet"))
    with TestClient(app) as client, pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect("/"):
        pass
    assert (refused.value.status_code, refused.value.headers["retry-after"]) == (503, "5")


def test_requests_at_the_same_time_spend_their_own_budgets(url):
    async def ask():
        async with connect_async(url, SCHEMA) as db:
            await db.save(Maker(number=1, name="Ada"))
            costs = []

            async def app(_scope, _receive, send):
                for _ in range(3):
                    await db.get(Maker, 1)
                    await asyncio.sleep(0)
                await send({"type": "http.response.start", "status": 200, "headers": []})

            async def send(message):
                costs.append(dict(message["headers"])[b"x-oneread-cost"][:10])

            bounded = BudgetMiddleware(app, requests=3)
            await asyncio.gather(*(bounded({"type": "http"}, None, send) for _ in range(20)))
            assert costs == [b"requests=3"] * 20

    asyncio.run(ask())


def test_a_budget_that_cannot_be_is_refused_when_the_application_is_made():
    with pytest.raises(UsageError):
        BudgetMiddleware(None, requests=-1)


# --- Databases -------------------------------------------------------------------------------------------------------


def test_each_start_opens_again_and_each_end_closes(url):
    app = starlette(url)
    for turn in range(2):
        with TestClient(app) as client:
            db = client.app_state["db"]
            if turn == 0:
                client.portal.call(db.save, Maker(number=1, name="Ada"))
            put(client)
            assert client.get("/things/a").status_code == 200
        with pytest.raises(errors.Closed):
            asyncio.run(db.get(Maker, 1))


def test_several_databases_are_found_by_name_inside_another_lifespan(new_url):
    events = []

    class Around:
        def __init__(self, _app):
            pass

        async def __aenter__(self):
            events.append("in")
            return {"kept": 1}

        async def __aexit__(self, *_):
            events.append("out")

    opened = lifespan(one=connect_async(new_url(), SCHEMA), two=connect_async(new_url(), Schema(Maker)), within=Around)

    async def names(request):
        with pytest.raises(UsageError, match="without this database"):
            database(request)
        assert database_called("one")(request) is not database_called("two")(request)
        return PlainTextResponse(str(request.state.kept))

    with TestClient(Starlette(routes=[Route("/", names)], lifespan=opened)) as client:
        assert client.get("/").text == "1"
        assert events == ["in"]
    assert events == ["in", "out"]


def test_a_database_that_cannot_be_opened_leaves_none_open(url, tmp_path):
    first = connect_async(url, SCHEMA)
    second = connect_async(f"lmdb://{tmp_path}/no/such/folder", SCHEMA)
    opened = []

    class Watched:
        def __await__(self):
            opened.append((yield from first.__await__()))
            return opened[0]

    async def start():
        async with lifespan(one=Watched(), two=second)(None):
            pass

    with pytest.raises(errors.OnereadError):
        asyncio.run(start())
    with pytest.raises(errors.Closed):
        asyncio.run(opened[0].get(Maker, 1))


@pytest.mark.parametrize("wrong", [{}, {"db": "memory://"}, {"db": None}])
def test_a_lifespan_without_a_database_is_refused(wrong):
    with pytest.raises(UsageError):
        lifespan(**wrong)


def test_the_form_of_a_class_is_made_once_and_refuses_invalid_json():
    assert form(Thing) is form(Thing)
    assert isinstance(form(Thing), JsonForm)
    with pytest.raises(InvalidValue):
        form(Thing).convert({"code": object()})


@pytest.mark.parametrize(("room", "module"), [("web", "starlette.exceptions"), ("console", "jinja2")])
def test_without_its_packages_the_import_says_what_to_install(room, module):
    code = f"import sys\nsys.modules[{module!r}] = None\nimport oneread.{room}\n"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.endswith(f"install what oneread.{room} needs: pip install 'oneread[{room}]'\n")
