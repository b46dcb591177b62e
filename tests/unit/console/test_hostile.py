"""What strangers store is text: whatever it is, each page shows it whole, harmless, and as JSON too."""

import re

import pytest

from oneread import connect
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation
from tests.unit.console.places import AT, SITE, Circle, CircleCopy, Evening, Notice, links, opened

HOSTILE = {
    "html": "<script>alert(1)</script>",
    "attribute": "\"onerror='alert(1)' x=\"",
    "template": "{{ 7 * 7 }}{% raw %}",
    "right to left": "\u202egnp.exe\u2066",
    "terminal": "\x1b[2J\x07",
    "zero": "a\x00b",
    "lines": "a\nb\r\nc",
    "at": "@none",
    "emoji": "\U0001f926\U0001f3fc\u200d\u2642\ufe0f",
    "path": "../../etc/passwd?x=1#y",
    "long": "long text " * 40_000,
}


@pytest.fixture(params=HOSTILE)
def hostile(request):
    return HOSTILE[request.param]


@pytest.fixture
def stored(url, hostile):
    """A store that has this text wherever a text may be."""
    key = hostile[:80]
    with connect(url, SITE, workers=0) as db:
        db.save(Circle(code=key, name=hostile[:200_000]))
        db.save(
            Evening(
                number=1,
                title=key,
                town=key,
                circle=CircleCopy.of(key),
                starts_at=AT,
                note=hostile[:90_000],
                data=key.encode(),
            )
        )
        db.save(Notice(number=1, text=hostile, made_at=AT))
        db.counter(key[:60] or "x").add(1)
        db.drain()
    return url


def test_a_text_is_shown_as_text_in_each_place(stored):
    with opened(stored) as browser:
        todo, seen = ["/", "/counters", "/data/Circle", "/data/Evening", "/data/EveningsOfTown", "/data/Notice"], set()
        while todo:
            path = todo.pop(0)
            if path in seen or path.startswith("#") or "/do/" in path:
                continue
            seen.add(path)
            page = browser.get(path)
            assert "<script>alert" not in page
            assert not re.search(r"<[^>]*\sonerror=", page)
            assert not set(page) & {"\x1b", "\x07", "\x00", "\u202e"}
            wanted = ("/data/", "/entity/", "/counter?")
            todo += [each for each in links(page) if each.startswith(wanted)]
        entities = [each for each in seen if each.startswith("/entity/Circle") and "check=" not in each]
        assert len(entities) == 1
        assert any(each.startswith("/counter?") for each in seen)


def test_its_entity_is_found_by_the_links_of_its_list(stored, hostile):
    with opened(stored) as browser:
        (link,) = [each for each in links(browser.get("/data/Circle")) if each.startswith("/entity/Circle")]
        text = browser.json(*parts_of(link))["page"]["blocks"][0]["rows"][1][1][0]
        assert (text.get("whole") or text["text"]) == hostile[:200_000]
        assert browser.get("/data/EveningsOfTown", key=key_of(hostile))


def parts_of(link):
    path, _question, query = link.partition("?")
    return (f"{path}?{query}&json=x",)


def key_of(hostile):
    key = hostile[:80]
    return f"@{key}" if key.startswith("@") else key


def test_a_damaged_row_is_shown_and_not_hidden(url):
    with connect(url, SITE, workers=0) as db:
        db.save(Circle(code="chess", name="Chess"))
        key = db.operations.root(Circle, ("chess",))

        def damage():
            (row,) = yield from Read("roots", [key])
            name, cell = next((name, cell) for name, cell in row.items() if name.startswith(b"d:b"))
            yield from Mutate("roots", [RowMutation(key, {name: Cell(b"\xff" + cell.value, cell.stamp)})])

        db.run(damage())
    with opened(url) as browser:
        page = browser.get("/entity/Circle", key="chess")
        assert "Raw row:" in page
        assert '<div class="find bad">' in page
        assert "Circle" in browser.get("/data/Circle", 500)
