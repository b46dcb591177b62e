"""Pages that are live: sent again when they have changed, and read once a second however many look."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from oneread import connect, connect_async
from oneread.console import TokenAccess, console
from oneread.console.application import _Pages
from oneread.database.async_database import AsyncDatabase
from oneread.errors import Unavailable
from oneread.verify.noted import note_verified
from oneread.web import database, lifespan
from tests.examples.browsing import served
from tests.unit.console.places import NAME, SITE, TOKEN, fill


@pytest.fixture
def filled(url):
    fill(url, 3)
    return url


@contextmanager
def serving(url, requests):
    """A console that a server serves; what it asks of the store is added to `requests`."""
    opening = connect_async(url, SITE, workers=0, observers=(lambda request, _answer: requests.append(request),))
    made = console(database, auth=TokenAccess(TOKEN), writes=lambda _user: True, name=NAME)
    app = Starlette(routes=[Mount("/", made)], lifespan=lifespan(opening))
    with served(app) as base, httpx.Client(base_url=base, timeout=30) as client:
        client.get("/", params={"token": TOKEN})
        yield client


def events(answer):
    """The pages that a stream sends."""
    for line in answer.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_a_page_is_sent_again_when_it_has_changed(filled):
    with serving(filled, []) as client, client.stream("GET", "/log?live") as plain:
        assert plain.headers["content-type"].startswith("text/html")  # this page is not live
        with client.stream("GET", "/schema?live") as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            sent = events(answer)
            assert "Backfill" not in next(sent)
            page = client.get("/do/backfill").text
            csrf = page.partition('name="csrf" value="')[2].partition('"')[0]
            client.post("/do/backfill", data={"csrf": csrf, "seen": ""})
            assert any("all is built" in each for each in sent)


def look_together(client):
    """Has ten look at a page for three seconds; returns how many seconds it took."""
    began, stop = time.monotonic(), threading.Event()

    def look():
        with client.stream("GET", "/tasks?live") as answer:
            next(events(answer))
            stop.wait(30)

    several = [threading.Thread(target=look) for _each in range(10)]
    for each in several:
        each.start()
    time.sleep(3)
    stop.set()
    seconds = time.monotonic() - began
    for each in several:
        each.join()
    return seconds


def test_what_many_look_at_is_read_once_a_second(filled):
    requests = []
    with serving(filled, requests) as client:
        client.get("/tasks")
        alone = len(requests)
        requests.clear()
        assert look_together(client) >= len(requests) / alone - 2


def test_a_page_that_takes_long_is_made_once_for_all_who_wait_for_it(filled, monkeypatch):
    make, made = _Pages._make, []

    async def make_slowly(self, *asked):
        made.append(asked)
        await asyncio.sleep(1.2)
        return await make(self, *asked)

    monkeypatch.setattr(_Pages, "_make", make_slowly)
    with serving(filled, []) as client:
        assert look_together(client) >= len(made) - 2


def test_a_page_below_the_cookie_of_another_one_is_not_shared(filled):
    """Two people may do different things, and see different links."""
    made = console(database, auth=lambda asked: asked.headers.get("who"), writes=lambda user: user == "ada")
    with connect(filled, SITE, workers=0):
        pass
    app = Starlette(routes=[Mount("/", made)], lifespan=lifespan(connect_async(filled, SITE, workers=0)))
    with served(app) as base, httpx.Client(base_url=base) as client:
        assert "may write" in client.get("/verify", headers={"who": "ada"}).text
        assert "oneread repair" in client.get("/verify", headers={"who": "bob"}).text


def test_a_live_page_says_what_fails_and_is_tried_again(filled, monkeypatch):
    monkeypatch.setattr("oneread.console.application.AGAIN_SECONDS", 1)
    with serving(filled, []) as client, client.stream("GET", "/tasks?live") as answer:
        sent = events(answer)
        assert "Waiting" in next(sent)
        with monkeypatch.context() as broken:

            async def fail(*_args, **_named):
                raise Unavailable("the store does not answer")

            broken.setattr(AsyncDatabase, "survey", fail)
            assert "the store does not answer" in next(sent)
        assert "Waiting" in next(sent)


def test_a_page_of_another_store_is_not_shared(filled, new_url):
    async def looked():
        async with (
            await connect_async(filled, SITE, workers=0) as first,
            await connect_async(new_url(), SITE, workers=0) as second,
        ):
            await first.run(note_verified(await first.verify(), "ada"))
            app = console(lambda asked: first if asked.headers["of"] == "first" else second, auth=lambda _asked: "ada")
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
                return [(await client.get("/verify", headers={"of": each})).text for each in ("first", "second")]

    first, second = asyncio.run(looked())
    assert "Last verification" in first
    assert "Last verification" not in second
