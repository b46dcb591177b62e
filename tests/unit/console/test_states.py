"""Pages of a store in which something is under way or wrong: launches, heat, tasks, moves, an older schema."""

import re
import time

import pytest

from oneread import Copy, Index, Key, Model, Schema, connect, descending, shown
from oneread.console.pages.tasks import COUNTED
from oneread.heat.rows import row_of_process
from oneread.plans.clock import wall_clock
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import VALUE, RowMutation, RowRange
from oneread.transactions.system_rows import HEAT
from tests.unit.console.places import SITE, Circle, fill, links, opened


class Song(Model[int]):
    number: Key[int]
    title: str
    plays: int


class TopSongs(Index[Song]):
    plays: int = descending(Song.plays)
    title: str = shown(Song.title)


class BestSongs(Index[Song]):
    replaces = TopSongs
    plays: int = descending(Song.plays)
    title: str = shown(Song.title)


SONGS = Schema(Song, TopSongs, BestSongs)


@pytest.fixture
def launched(url):
    """A store of songs whose list is launched, and compared for each page."""
    with connect(url, SONGS, workers=0) as db:
        for number in range(5):
            db.save(Song(number=number, title=f"Song {number}", plays=number))
        db.backfill()
        db.page(TopSongs)
        db.launches.set("BestSongs", shadow=100, by="ada")
    return url


def test_a_launch_is_changed_taken_back_and_stopped_by_forms(launched):
    with opened(launched, schema=SONGS) as browser:
        assert "/launches/BestSongs" in links(browser.get("/launches"))
        page = browser.get("/launches/BestSongs")
        assert "100 % of the old side&#39;s answers are compared" in page
        done = browser.send("/do/launch", changed={"reads": "5", "check": "10"}, name="BestSongs")
        assert "reads 0 % -&gt; 5 %" in done
        assert "5 % of keys" in browser.get("/launches/BestSongs")
        assert "reads 5 % -&gt; 0 %" in browser.send("/do/back", name="BestSongs")
        (undo, *_others) = [each for each in links(browser.get("/log")) if "reads=5" in each]
        assert 'name="reads" value="5"' in browser.get(undo)
        assert "nothing was changed" in browser.send("/do/launch", name="BestSongs")
        assert "a number of per cent" in browser.send("/do/launch", 400, changed={"reads": "x"}, name="BestSongs")
        assert "is stopped" in browser.send("/do/stop-launch", name="BestSongs")
        assert "no launch of this name" in browser.get("/do/back", 404, name="Nothing")


def test_two_who_change_a_launch_at_once(launched):
    with opened(launched, schema=SONGS) as browser:
        page = browser.get("/do/launch", name="BestSongs")
        browser.send("/do/launch", changed={"reads": "5"}, name="BestSongs")
        hidden = [(name, page.partition(f'name="{name}" value="')[2].partition('"')[0]) for name in ("csrf", "seen")]
        sent = [("writes", "100"), ("shadow", "1"), ("reads", "50"), ("check", "0"), *hidden]
        said = browser.post("/do/launch?name=BestSongs", sent, 409)
        assert "reads 0 % -&gt; 5 %" in said


def test_heat_is_drawn_with_what_the_doctor_says(url):
    fill(url, 5)
    with connect(url, SITE, workers=0, heat=1.0) as db:
        for _each in range(200):
            db.get(Circle, "chess")
    with opened(url) as browser:
        page = browser.get("/heat")
        assert '<svg class="heat"' in page
        assert "Circle" in page
        one = browser.get("/heat", of="Circle", operation="read", last="1 hour")
        assert "The same as numbers" in one
        assert "by</bdi></th>" in page
        assert "by</bdi></th>" not in one
        assert re.search(r"1 program, [\d.]+ % of their time recorded", page)
        times = [each for each in page.split("<rect ") if "<title>" in each]
        assert times
        assert not [each for each in times if 'class="c0"' in each]
        assert "nothing of this name to choose" in browser.get("/heat", 404, of="Nothing")
        assert "there is no such operation" in browser.get("/heat", 400, operation="x")
        assert "get" in browser.get("/slow")
        assert "/s" in browser.get("/")


def test_heat_of_many_programs_is_shown(url):
    with connect(url, SITE, workers=0, heat=1.0) as db:
        db.save(Circle(code="chess", name="Chess"))
    minute = int(time.time() // 60)

    def copy():
        ((_key, row),) = yield from Scan("system", RowRange(row_of_process(0, b""), HEAT.stop), 1)
        keys = [
            row_of_process(minute - back, program.to_bytes(8, "big")) for back in range(40) for program in range(15)
        ]
        yield from Mutate("system", [RowMutation(key, {VALUE: row[VALUE]}) for key in keys])

    with connect(url, SITE, workers=0) as db:
        db.run(copy())
    with opened(url) as browser:
        assert browser.client.get("/heat?json").json()["cost"]["rows"] > 1_000  # of the map, and for the doctor
        for path in ("/", "/heat", "/slow"):
            assert browser.json(path)["cost"]["rows"] >= 600


class Old(Model[int]):
    number: Key[int]
    name: str


class OldCopy(Copy[Old]):
    name: str


class Holding(Model[int]):
    number: Key[int]
    of: OldCopy


MANY = Schema(Old, Holding, inline=1)


def test_what_waits_is_counted_up_to_a_bound_and_run(url):
    with connect(url, MANY, workers=0) as db:
        for number in range(COUNTED + 20):
            db.save(Old(number=number, name="a"))
            for holder in range(2):
                db.save(Holding(number=number * 2 + holder, of=OldCopy.of(number)))
        db.drain()
        for number in range(COUNTED + 20):
            db.patch(Old, number, name="b")
    with opened(url, schema=MANY) as browser:
        page = browser.get("/tasks")
        assert "at least" in page
        assert "over 100" in browser.get("/")
        assert "The first 20" in page
        assert "not begun" in page
        assert browser.json("/tasks")["cost"]["rows"] <= 1_000
        browser.send("/do/drain")
        until = time.monotonic() + 60
        while "batches done" not in browser.get("/tasks"):
            assert time.monotonic() < until
            time.sleep(0.1)
        assert "0.0 s behind" in browser.get("/tasks")


def test_a_store_that_is_behind_says_so(url):
    now = wall_clock()
    with connect(url, MANY, workers=0, clock=lambda: now - 60_000) as db:
        db.save(Old(number=1, name="a"))
        for holder in range(3):
            db.save(Holding(number=holder, of=OldCopy.of(1)))
        db.patch(Old, 1, name="b")
    with opened(url, schema=MANY) as browser:
        assert "are workers running?" in browser.get("/")


def test_what_is_built_is_said(url):
    with connect(url, Schema(Song, TopSongs), workers=0) as db:
        db.save(Song(number=1, title="a", plays=1))
    with connect(url, SONGS, workers=0):
        pass
    with opened(url, schema=SONGS) as browser:
        assert "views are to be built" in browser.get("/")
        assert "building" in browser.get("/schema")
        assert "a backfill has work to do" in browser.get("/schema")
