"""Cache-first counters in the console: stored beside cached, without a cache, and with one that does not answer."""

import socket
from contextlib import contextmanager

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from oneread import connect, connect_async
from oneread.console import TokenAccess, console
from oneread.counters.rows import CHANCES, GREATEST
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.web import database, lifespan
from tests.unit.console.places import NAME, SITE, TOKEN, Browser, links
from tests.unit.web.applications import TestClient


@contextmanager
def opened(url, cache=None):
    """A console of a store, beside a cache."""
    made = console(database, auth=TokenAccess(TOKEN), name=NAME)
    app = Starlette(routes=[Mount("/", made)], lifespan=lifespan(connect_async(url, SITE, workers=0, cache=cache)))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        client.get("/", params={"token": TOKEN}, follow_redirects=False)
        yield Browser(client)


@pytest.fixture
def filled(url):
    """A counter of which every add is stored, and one of which only the first is."""
    with connect(url, SITE, workers=0, cache="memory://console") as db:
        for _ in range(4):
            db.cache_counter("hits:1", chance_to_write=1).add()
        rare = db.cache_counter("hits:2", chance_to_write=1e-6)
        rare.add(10)
        rare.add(7)
    return url


def rows(document):
    found = [each for each in document["page"]["blocks"] if each.get("heading") == "Cache-first counters"]
    return [[" ".join(text["text"] for text in cell) for cell in row] for each in found for row in each["rows"]]


def facts(document):
    (found,) = [each for each in document["page"]["blocks"] if each["type"] == "facts"]
    return {name: " ".join(text["text"] for text in cell) for name, cell in found["rows"]}


def test_stored_and_cached_values_are_side_by_side(filled):
    with opened(filled, cache="memory://console") as browser:
        found = browser.json("/counters")
        assert rows(found)[0] == ["hits:1", "4", "4", "1", "0.0", "0.0"]
        assert rows(found)[1][:4] == ["hits:2", "10", "17", "1e-06"]
        assert "/cache-counter?name=hits%3A2" in links(browser.get("/counters"))
        one = facts(browser.json("/cache-counter", name="hits:2"))
        assert (one["stored"], one["in the cache"]) == ("10", "17")
        assert one["would be lost with the cache now"] == "7 added and not stored"
        assert one["a loss of the cache loses, on average"] == "999,999.0 adds"


def test_without_a_cache_it_says_so(filled):
    with opened(filled) as browser:
        found = rows(browser.json("/counters"))
        assert [row[1] for row in found] == ["4", "10"]
        assert [row[2] for row in found] == ["not known", "not known"]
        assert browser.get("/counters").count("start it with --cache URL") == 1
        assert "would be lost" not in browser.get("/cache-counter", name="hits:2")


def test_a_cache_that_does_not_answer_is_shown(filled):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nothing listens there
        with opened(filled, f"memcached://127.0.0.1:{taken.getsockname()[1]}") as browser:
            found = rows(browser.json("/counters"))
            assert [row[1] for row in found] == ["4", "10"]
            assert "the cache does not answer: " in browser.get("/counters")
            assert "the cache does not answer" in browser.get("/cache-counter", name="hits:2")


def test_a_look_puts_nothing_back_into_a_cache_that_lost_it(filled):
    with opened(filled, cache="memory://console-lost") as browser:
        for _ in range(2):
            assert rows(browser.json("/counters"))[1][2] == "not there: the next add or read puts it back"


@pytest.mark.parametrize(
    ("prefix", "said"),
    [(GREATEST, "this row of a counter is unreadable"), (CHANCES, "this row of a counter is unreadable")],
)
def test_a_damaged_row_is_said(filled, prefix, said):
    with connect(filled, SITE, workers=0) as db:
        key, row = db.run(Scan("counts", RowRange.under(prefix), 1).__iter__())[0]
        db.run(Mutate("counts", [RowMutation(key, {VALUE: Cell(b"\xff", row[VALUE].stamp + 1)})]).__iter__())
    with opened(filled) as browser:
        page = browser.get("/counters")
        assert said in page
        assert ("hits:2" in page) == (prefix is GREATEST)


def test_what_is_not_there_is_said(filled):
    with opened(filled, cache="memory://console") as browser:
        assert "no value of this cache-first counter" in browser.get("/cache-counter", 404, name="nothing")


def test_there_is_no_table_without_one(url):
    with connect(url, SITE, workers=0):
        pass
    with opened(url) as browser:
        assert "Cache-first counters" not in browser.get("/counters")


def test_a_list_has_pages(url):
    with connect(url, SITE, workers=0, cache="memory://console") as db:
        for number in range(17):
            db.cache_counter(f"hits:{number:02}", chance_to_write=1).add()
    with opened(url, cache="memory://console") as browser:
        assert len(rows(browser.json("/counters"))) == 15
        (onward,) = [each for each in links(browser.get("/counters")) if "cached_after=" in each]
        assert [row[0] for row in rows(browser.json("/counters", cached_after="hits:14"))] == ["hits:15", "hits:16"]
        assert "hits:15" in browser.get(onward)
        assert browser.json("/counters")["cost"]["requests"] <= 100
