"""The site in a real browser, Chromium without a window: texts, layout on a phone, keyboard, console, costs.

Needs Chromium and its driver: `make browser` installs Debian's packages. Without them these tests fail and say so.
"""

import re

import httpx
import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from examples.qa.recount import recount
from examples.qa.site import application
from tests.examples.browsing import PHONE, resize, served, texts

LISTS = ["/", "/unanswered", "/users", "/tags"]


@pytest.fixture(scope="module")
def home(site):
    with served(application(site[0])) as address:
        yield address


@pytest.fixture(scope="module")
def expected(site):
    return recount(site[1])


@pytest.fixture(scope="module")
def paths(site, expected):
    """Every kind of page; those with text that is hostile or long among them."""
    questions, number = (
        {each.number: each for each in site[1].questions},
        max(expected.answers, key=expected.answers.get),
    )
    odd = [each.number for each in questions.values() if re.search(r"[<{]|\w{80}", each.title + each.text)]
    assert len(odd) > 3
    user = expected.top_users[0]
    return [
        *LISTS, *(f"/questions/{each}" for each in (number, *odd)), f"/questions/{number}/comments", f"/users/{user}",
        f"/users/{user}/questions", f"/users/{user}/answers", "/tags/qubit",
    ]  # fmt: skip


def number(text):
    return int(text.replace("\N{MINUS SIGN}", "-").replace(",", ""))


def test_lists_show_what_the_data_say(browser, home, site, expected):
    titles = {each.number: " ".join(each.title.split()) for each in site[1].questions}
    browser.get(f"{home}/?limit=100")
    assert browser.title == "Questions by score - Questions and answers"
    assert [" ".join(each.split()) for each in texts(browser, "main li h2")] == [titles[at] for at in expected.by_score]
    assert [number(each) for each in texts(browser, ".list .score b")] == [
        expected.scores[at] for at in expected.by_score
    ]
    browser.get(f"{home}/unanswered?limit=100")
    shown = [" ".join(each.split()) for each in texts(browser, "main li h2")]
    assert shown == [titles[at] for at in expected.unanswered]
    browser.get(f"{home}/users?limit=100")
    assert [number(each) for each in texts(browser, "tbody td:nth-child(2)")] == [
        expected.reputations[at] for at in expected.top_users
    ]
    browser.get(f"{home}/tags")
    month = max(expected.tags_of_month)
    assert texts(browser, "h1") == [f"Tags of {month:%B %Y}"]
    assert texts(browser, "tbody th") == expected.tags_of_month[month]
    assert [number(each) for each in texts(browser, "tbody td")] == [
        expected.tag_months[month, word] for word in expected.tags_of_month[month]
    ]


def test_no_page_is_wider_than_a_phone_nor_writes_to_the_console(browser, home, paths):
    resize(browser, PHONE)
    for path in paths:
        browser.get(home + path)
        wide = browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide == [PHONE[0], PHONE[0]], path
        cut = browser.execute_script(
            "return [...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth)"
            ".map(e => e.outerHTML.slice(0, 200))"
        )
        assert cut == [], path
        assert browser.get_log("browser") == [], path
        assert browser.title.endswith(" - Questions and answers")  # no text has taken the page over


def test_every_list_is_one_range_read_by_its_header_and_at_its_foot(browser, home):
    for path in LISTS:
        browser.get(home + path)
        answer = httpx.get(browser.current_url)
        found = re.fullmatch(r"requests=1, rows=(\d+), bytes=\d+", answer.headers["X-Oneread-Cost"])
        assert found, path
        assert texts(browser, "#cost") == [f"1 request, {found[1]} rows"]
        timing = browser.execute_script("return performance.getEntriesByType('navigation')[0].serverTiming")
        assert [each["description"] for each in timing] == [f"1 requests, {found[1]} rows"]  # what the browser was told


def test_a_person_finds_the_way_with_the_keyboard(browser, home):
    browser.get(f"{home}/?limit=7")

    def press(*keys):
        for key in keys:
            browser.switch_to.active_element.send_keys(key)

    press(Keys.TAB)
    assert browser.switch_to.active_element.text == "Skip to the content"
    press(Keys.ENTER)
    assert browser.execute_script("return document.activeElement.id") == "main"
    first = texts(browser, "main li h2")
    while browser.switch_to.active_element.get_attribute("rel") != "next":
        press(Keys.TAB)
    outline = browser.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    press(Keys.ENTER)
    assert texts(browser, "main li h2") != first
    browser.find_element(By.CSS_SELECTOR, "a[rel=prev]").click()
    assert texts(browser, "main li h2") == first


def test_pages_are_the_same_without_scripts(browser, home, paths):
    def read():
        browser.get(home + paths[4])
        return browser.find_element(By.TAG_NAME, "main").text

    scripted = read()
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        assert read() == scripted
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_text_is_readable_in_the_light_and_in_the_dark(browser, home, paths):
    """The contrast of text and paper is at least 4.5 (WCAG 2.2, 1.4.3), of all elements that have text."""
    script = """
        const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b };
        const behind = e => { while (e && getComputedStyle(e).backgroundColor.endsWith(', 0)')) e = e.parentElement;
            return getComputedStyle(e || document.body).backgroundColor };
        return Math.min(...[...document.querySelectorAll('body *')].filter(e => e.innerText).map(e => {
            const two = [light(getComputedStyle(e).color), light(behind(e))];
            return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05) }))"""
    for scheme in ("light", "dark"):
        sized = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", sized)
        for path in ("/", paths[4], "/users"):
            browser.get(home + path)
            assert browser.execute_script(script) >= 4.5, (scheme, path)
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(253, 253, 252)") == (scheme == "light")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_what_is_to_be_touched_is_large_enough_on_a_phone(browser, home):
    """At least 24 pixels high, or with as much space around (WCAG 2.2, 2.5.8); links inside a sentence excepted."""
    resize(browser, PHONE)
    browser.get(f"{home}/?limit=7")
    for selector in ("header nav a", ".ways a", ".tags a"):
        heights = browser.execute_script(
            f"return [...document.querySelectorAll('{selector}')].map(e => e.getBoundingClientRect().height)"
        )
        assert min(heights) >= 24, selector
