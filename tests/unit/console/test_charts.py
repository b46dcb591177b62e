"""Pictures that the server makes: what they have is what the table behind them has."""

import re
import time
from xml.etree import ElementTree as ET

from oneread import connect
from oneread.console.charts import bars, two_sides
from tests.unit.console.places import SITE, opened
from tests.unit.console.test_states import SONGS, TopSongs, launched  # noqa: F401 - a fixture

SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


def titles(svg):
    return [each.text for each in ET.fromstring(svg).iter() if each.tag == "title"]


def blocks(browser, path, kind, **query):
    return [each for each in browser.json(path, **query)["page"]["blocks"] if each["type"] == kind]


def text_rows(table):
    return [[cell[0]["text"] for cell in row] for row in table["rows"]]


def test_both_sides_of_a_launch_are_drawn_above_each_other(launched):  # noqa: F811
    with connect(launched, SONGS, workers=0) as db:
        until = time.monotonic() + 30
        while not any(db.launches.report("BestSongs").sides["new"].latencies):
            assert time.monotonic() < until
            db.page(TopSongs)
            time.sleep(0.05)
    with connect(launched, SONGS, workers=0) as db:
        sides = db.launches.report("BestSongs").sides
    with opened(launched, schema=SONGS) as browser:
        (picture,) = blocks(browser, "/launches/BestSongs", "picture")
        table = blocks(browser, "/launches/BestSongs", "table")[1]
        rows = text_rows(table)
        assert sum(int(row[1].replace(",", "")) for row in rows) == sum(sides["old"].latencies) > 0
        assert sum(int(row[2].replace(",", "")) for row in rows) == sum(sides["new"].latencies) > 0
        drawn = titles(picture["svg"])
        assert {f"old, {row[0]}: {row[3]}" for row in rows} | {f"new, {row[0]}: {row[4]}" for row in rows} <= {*drawn}
        page = browser.get("/launches/BestSongs")
        assert "style=" not in SVG.search(page)[0]


def test_the_windows_of_a_counter_are_drawn(url):
    with connect(url, SITE, workers=0) as db:
        db.counter("visits", keep={"hour": 48, "day": 30}).add(7)
    with opened(url) as browser:
        pictures = blocks(browser, "/counter", "picture", name="visits")
        tables = blocks(browser, "/counter", "table", name="visits")[1:]
        assert [each["heading"] for each in pictures] == ["By hour", "By day"]
        assert [len(titles(each["svg"])) for each in pictures] == [48, 30]
        assert [titles(each["svg"])[-1].rpartition(": ")[2] for each in pictures] == ["7", "7"]
        assert [row[1] for each in tables for row in text_rows(each)] == ["7", "7"]


def test_bars_are_within_the_picture():
    svg = "".join(two_sides(["a", "<b>", "c"], ("old", "new"), [0.0, 0.5, 0.5], [1.0, 0.0, 0.0]))
    assert titles(svg)[2:4] == ["old, <b>: 50.0%", "new, <b>: 0.0%"]
    for drawn in (svg, "".join(bars([], [], "none")), "".join(bars([0, 3], ["x", "y"], "two"))):
        root = ET.fromstring(drawn)
        _x, _y, width, height = map(float, root.get("viewBox").split())
        for each in root.iter("rect"):
            x, y, wide, high = (float(each.get(name)) for name in ("x", "y", "width", "height"))
            assert 0 <= x <= x + wide <= width
            assert 0 <= y <= y + high <= height
    assert "".join(two_sides([], ("old", "new"), [], []))
