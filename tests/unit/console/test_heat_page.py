"""The page of heat: what it draws, and that others are answered while it is computed."""

import asyncio
import re
import threading
from datetime import UTC, datetime, timedelta
from importlib import import_module

import httpx
import pytest

from oneread import connect, connect_async
from oneread.console import console
from oneread.console.charts import heat_lines
from oneread.database.async_database import AsyncDatabase
from oneread.heat.drawing import lines_by_declaration
from oneread.heat.map import HeatMap, HeatPart, HeatRange
from tests.unit.console.places import SITE, Circle, Evening, fill, links, opened

COMPUTED = [
    ("oneread.database.async_heat", "spans_of"),
    ("oneread.database.async_heat", "build_map"),
    ("oneread.database.async_heat", "recorded_loads"),
    ("oneread.database.async_heat", "find_all"),
    ("oneread.console.pages.heat", "heat_lines"),
]


@pytest.fixture
def recorded(url):
    fill(url, 3)
    with connect(url, SITE, workers=0, heat=1.0) as db:
        for _each in range(20):
            db.get(Circle, "chess")
        db.patch(Evening, 1, town="York")
    return url


@pytest.mark.parametrize(("module", "name"), COMPUTED)
def test_another_page_is_answered_while_heat_is_computed(recorded, monkeypatch, module, name):
    compute, began, answered = getattr(import_module(module), name), threading.Event(), threading.Event()

    def wait_for_the_other_page(*given):
        began.set()
        assert answered.wait(20)
        return compute(*given)

    monkeypatch.setattr(f"{module}.{name}", wait_for_the_other_page)

    async def look():
        async with await connect_async(recorded, SITE, workers=0) as db:
            app = console(db, auth=lambda _asked: "ada")
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
                heat = asyncio.create_task(client.get("/heat"))
                assert await asyncio.to_thread(began.wait, 20)
                assert (await client.get("/data/Circle")).status_code == 200
                answered.set()
                return (await heat).text

    assert '<svg class="heat"' in asyncio.run(look())


def test_findings_are_asked_for_once_in_half_a_minute(recorded, monkeypatch):
    asked, doctor = [], AsyncDatabase.doctor

    async def count(db, *, last):
        asked.append(last)
        return await doctor(db, last=last)

    monkeypatch.setattr(AsyncDatabase, "doctor", count)
    with opened(recorded) as browser:
        browser.get("/heat", last="1 hour")
        browser.get("/heat", last="1 hour", of="Circle")
        browser.get("/")
        assert asked == [timedelta(hours=1)]
        browser.get("/heat", last="1 day")
        assert asked == [timedelta(hours=1), timedelta(days=1)]


def heat_of(amounts):
    """A map of one declaration that was asked for so often in each minute."""
    begin = datetime(2026, 11, 30, tzinfo=UTC)
    times = tuple([begin + timedelta(minutes=place) for place in range(len(amounts))])
    parts = tuple([HeatPart(0, place, "get", "Circle", amount) for place, amount in enumerate(amounts)])
    ranges = (HeatRange("roots", "Circle", "", ""),)
    return HeatMap(times, timedelta(minutes=1), ranges, (tuple(amounts),), parts, False, 1.0, 1)


@pytest.mark.parametrize(("minutes", "squares"), [(1, 1), (120, 120), (121, 61), (360, 120), (361, 91)])
def test_a_line_has_as_many_squares_as_can_be_seen(minutes, squares):
    heat = heat_of([float(minute + 1) for minute in range(minutes)])
    drawn = "\n".join(heat_lines(heat, lines_by_declaration(heat)))
    amounts = re.findall("UTC: ([0-9.,]+) a second", drawn)
    assert len(amounts) == squares
    per = -(-minutes // squares)
    assert amounts[0] == f"{(per + 1) / 2:,.1f}"
    rest = minutes - per * (squares - 1)
    assert amounts[-1] == f"{minutes - (rest - 1) / 2:,.1f}"
    assert drawn.count('class="c7"') >= 1


def test_nothing_is_drawn_of_no_time():
    heat = heat_of([])
    assert "UTC:" not in "\n".join(heat_lines(heat, lines_by_declaration(heat)))


def test_the_graph_has_costs_and_heat_where_they_are_asked_for(recorded):
    with opened(recorded) as browser:
        plain = browser.json("/graph")
        assert plain["cost"]["requests"] == 0
        page = browser.get("/graph", heat="1 hour", costs="yes", around="Evening")
        assert "rows written a second" in page
        assert "save: up to" in page
        assert "rows written a second, as 1 program recorded them" in page
        assert browser.json("/graph", heat="1 hour")["cost"]["requests"] == 5
        assert "/graph?around=EveningsOfTown&costs=yes&heat=1+hour" in links(page)
        assert "nothing of this name to choose" in browser.get("/graph", 404, heat="1 year")
    assert "rows written a second" not in str(plain)
    assert "save: up to" not in str(plain)


def test_a_graph_of_a_store_without_heat_says_so(url):
    fill(url, 1)
    with opened(url) as browser:
        page = browser.get("/graph", heat="6 hours")
        assert "not recorded: programs record with" in page
        assert "<svg" in page
