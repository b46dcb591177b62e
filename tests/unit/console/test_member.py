"""A member's feed beside what it should be."""

import pytest

from oneread import connect
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import RowMutation, RowRange
from tests.unit.console.places import SITE, News, fill, links, opened
from tests.unit.console.test_acting import wait_for


@pytest.fixture
def filled(url):
    fill(url, evenings=6)
    return url


def remove_entries(url, places):
    with connect(url, SITE, workers=0) as db:
        view = db.operations.catalog.views[News]
        within = RowRange.under(view.prefix + view.member_codec.encode(("ada",)))
        keys = [key for key, _row in db.run(Scan("views", within, 100).__iter__())]
        for place in places:
            (row,) = db.run(Read("views", [keys[place]], "dm").__iter__())
            later = max(cell.stamp for cell in row.values())
            db.run(Mutate("views", [RowMutation(keys[place], delete_row=later)]).__iter__())


def rows(document):
    (found,) = [each for each in document["page"]["blocks"] if each["type"] == "table"]
    return [[" ".join(text["text"] for text in cell) for cell in row] for row in found["rows"]]


def test_a_feed_that_is_right_says_so(filled):
    with opened(filled) as browser:
        page = browser.get("/feeds/News", key="ada")
        assert "every entry that is compared is as it should be" in page
        assert "/do/repair" not in page
        assert [row[0] for row in rows(browser.json("/feeds/News", key="ada"))] == [
            "Evening 6",
            "Evening 4",
            "Evening 2",
        ]
        assert "/entity/Evening?key=6" in links(page)


def test_what_is_missing_is_in_its_place_and_is_mended(filled):
    remove_entries(filled, [1])
    with opened(filled) as browser:
        found = browser.json("/feeds/News", key="ada")
        assert [row[-2] for row in rows(found)] == ["right", "missing", "right"]
        assert rows(found)[1][0] == "Evening 4"
        assert "title=&#39;Evening 4&#39;" in browser.get("/feeds/News", key="ada")
        assert found["cost"]["requests"] <= 200
        assert "/do/repair?of=News" in links(browser.get("/feeds/News", key="ada"))
        browser.send("/do/repair", of="News")
        wait_for(browser, "/feeds/News?key=ada", "every entry that is compared is as it should be")


def test_a_reader_is_shown_the_command(filled):
    remove_entries(filled, [0, 1, 2])
    with opened(filled, writes=False) as browser:
        page = browser.get("/feeds/News", key="ada")
        assert "oneread repair News" in page
        assert page.count("missing") >= 3


def test_pages_of_feeds_lead_to_it(filled):
    with opened(filled) as browser:
        assert "/feeds/News" in links(browser.get("/feeds"))
        assert "/feeds/News?key=ada" in links(browser.get("/data/News", key="ada"))
        assert "say whose feed" in browser.get("/feeds/News")
        assert "this member has no entries, and should have none" in browser.get("/feeds/News", key="eve")
        assert "this is not a feed" in browser.get("/feeds/Evening", 400, key="1")
