"""The pages of the events in a real browser: on a desktop and a phone, in light and dark, and used by their forms."""

from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By

from examples.events.schema import EVENTS, EventsAhead
from examples.events.site import application
from oneread import connect
from tests.examples.browsing import DESKTOP, PHONE, resize, served, shown, wait_until

MEMBER, GROUP = "nashville:1", "nashville:1"


@pytest.fixture
def home(events_copy, browser):
    with served(application(events_copy)) as address:
        yield address
        browser.get("about:blank")


@pytest.fixture
def event(events_copy):
    with connect(events_copy, EVENTS, workers=0) as db:
        return db.page(EventsAhead, limit=1)[0].source.key[0]


def at(kind, key):
    return f"/{kind}/{quote(key, safe='')}"


def scheme(browser, name):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": name}]}
    )


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_fit_the_screen_in_light_and_dark(browser, home, event, size):
    resize(browser, size)
    papers = set()
    try:
        for path in ("/", at("groups", GROUP), at("events", event), at("members", MEMBER), "/tags/dancing"):
            for name in ("light", "dark"):
                scheme(browser, name)
                browser.get(home + path)
                wide, there = browser.execute_script(
                    "const of = document.documentElement; return [of.scrollWidth, of.clientWidth]"
                )
                assert wide == there <= size[0], path
                paper, ink = browser.execute_script(
                    "const of = getComputedStyle(document.body); return [of.backgroundColor, of.color]"
                )
                assert paper != ink
                papers.add(paper)
                assert browser.get_log("browser") == [], path
    finally:
        scheme(browser, "")
    assert len(papers) == 2


PERSON = "nashville:101"


def submit(browser, form, **fields):
    shown_form = browser.find_element(By.CSS_SELECTOR, f'form[action$="/{form}"]')
    for name, value in fields.items():
        shown_form.find_element(By.NAME, name).send_keys(value)
    shown_form.find_element(By.TAG_NAME, "button").click()


def test_a_member_comes_and_leaves_by_the_forms_of_an_event(browser, home, event):
    browser.get(home + at("events", event))
    before = shown(browser, "#guests a")
    submit(browser, "guests", member=PERSON)
    wait_until(browser, lambda: PERSON in shown(browser, "#guests a, #line a"))
    submit(browser, "leave", member=PERSON)
    wait_until(browser, lambda: shown(browser, "#guests a") == before)
    submit(browser, "comments", member=PERSON, text="Another time")
    wait_until(browser, lambda: shown(browser, "[aria-label=Comments] .text")[-1:] == ["Another time"])


def test_a_home_is_new_until_it_is_seen(browser, home):
    browser.get(home + at("members", MEMBER))
    assert shown(browser, "#unread") != []
    submit(browser, "seen")
    wait_until(browser, lambda: shown(browser, "h1") == [MEMBER])
