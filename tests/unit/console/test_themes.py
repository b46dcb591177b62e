"""How pages look is kept in a cookie, and chosen by a form that leads back to its page."""

import re

import pytest

from oneread.console.themes import GRAPH_STYLE, THEMES
from tests.unit.console.places import fill, opened
from tests.unit.console.test_access import client_of


@pytest.fixture(scope="module")
def filled(new_url):
    url = new_url()
    fill(url, 3)
    return url


def test_a_theme_is_kept_and_forgotten(filled):
    with opened(filled) as browser:
        page = browser.get("/data/Circle", limit="1")
        assert "data-theme" not in page
        assert '<input type="hidden" name="back" value="/data/Circle?limit=1">' in page
        browser.post("/theme", [("theme", "dark"), ("back", "/data/Circle?limit=1")], 303)
        assert browser.location == "/data/Circle?limit=1"
        page = browser.get(browser.location)
        assert '<html lang="en" data-theme="dark">' in page
        assert re.findall('value="([a-z]+)" aria-pressed="true"', page) == ["dark"]
        assert re.findall('value="([a-z]+)" aria-pressed', page) == list(THEMES)
        browser.post("/theme", [("theme", "system"), ("back", "/")], 303)
        assert "data-theme" not in browser.get("/")


def test_the_cookie_is_of_the_console_alone(filled):
    with opened(filled, mounted="/admin") as browser:
        assert 'action="/admin/theme"' in browser.get("/admin/graph")
        sent = {"theme": "light", "back": "/admin/graph"}
        answer = browser.client.post("/admin/theme", data=sent, follow_redirects=False)
        kept = answer.headers["set-cookie"]
        assert re.fullmatch("oneread-theme=light; HttpOnly; Max-Age=31536000; Path=/admin; SameSite=strict", kept)
        secure = browser.client.post("https://127.0.0.1/admin/theme", data=sent, follow_redirects=False)
        assert "Secure" in secure.headers["set-cookie"]


@pytest.mark.parametrize(
    ("theme", "back"),
    [
        ("dark", "//attacker.example"),
        ("dark", "/\\attacker.example"),
        ("dark", "https://attacker.example/"),
        ("dark", "/\t/attacker.example"),
        ("dark", ""),
        ('"><script>', "/"),
        ("", "/"),
    ],
)
def test_it_leads_to_no_other_site(filled, theme, back):
    with opened(filled) as browser:
        assert "expected a theme" in browser.post("/theme", [("theme", theme), ("back", back)], 400)


def test_only_who_may_see_the_console_sets_it(filled):
    with opened(filled) as browser:
        sent = [("theme", "dark"), ("back", "/")]
        browser.post("/theme", sent, 403, **{"sec-fetch-site": "cross-site"})
        assert browser.client.get("/theme").status_code == 405
    with client_of(filled) as stranger:
        assert stranger.post("/theme", data=dict(sent)).status_code == 401


def test_a_cookie_of_another_value_is_none(filled):
    with opened(filled) as browser:
        browser.client.cookies.set("oneread-theme", "x")
        assert "data-theme" not in browser.get("/graph")


def test_a_page_that_was_refused_leads_back_to_its_form(filled):
    with opened(filled) as browser:
        again = browser.send("/do/shards", 400, changed={"shards": "x"}, name="views:1")
        assert 'name="back" value="/do/shards?name=views%3A1"' in again


def test_pictures_are_dark_by_the_system_unless_light_was_chosen():
    assert GRAPH_STYLE.count("{") == GRAPH_STYLE.count("}")
    assert ":root:not([data-theme=light]) {" in GRAPH_STYLE
    assert ":root[data-theme=dark] {" in GRAPH_STYLE
