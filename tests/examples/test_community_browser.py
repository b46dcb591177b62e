"""The community in a real browser: pages on a phone, without scripts, and a form.

Needs Chromium and its driver, as the browser tests of the questions and answers do.
"""

from urllib.parse import quote

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from examples.community.schema import COMMUNITY, Membership
from examples.community.site import application
from oneread import connect
from tests.examples.browsing import PHONE, resize, served

GROUP, WRITER = "nashville:1", "lean:1"
SECONDS = 30


@pytest.fixture
def db(community_copy):
    with connect(community_copy, COMMUNITY) as opened:
        yield opened


@pytest.fixture
def home(community_copy):
    with served(application(community_copy)) as address:
        yield address


@pytest.fixture
def member(db):
    """A member of the group."""
    return next(each.person for page in db.scan(Membership) for each in page if each.place == GROUP)


def at(kind, key, rest=""):
    return f"/{kind}/{quote(key, safe='')}{rest}"


def shown(browser, selector):
    """The texts that a person sees, read at one moment: elements may go while they are asked one by one."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(e => !e.hidden).map(e => e.innerText.trim())"
    return browser.execute_script(script, selector)


def rows(browser):
    return [text.splitlines()[0] for text in shown(browser, "main ol > li")]


def wait_until(browser, holds):
    WebDriverWait(browser, SECONDS, poll_frequency=0.05).until(lambda _: holds())


def test_a_person_publishes_by_the_form_of_a_group(browser, home, member):
    browser.get(home + at("groups", GROUP))
    browser.find_element(By.CSS_SELECTOR, "form [name=member]").send_keys(member)
    browser.find_element(By.CSS_SELECTOR, "form [name=title]").send_keys("Walk around the town")
    browser.find_element(By.CSS_SELECTOR, "form button").click()
    wait_until(browser, lambda: rows(browser)[0] == f"{member} Walk around the town")


def test_pages_are_the_same_without_scripts_and_no_wider_than_a_phone(browser, home, member):
    resize(browser, PHONE)
    paths = [
        "/", "/threads", "/members", at("groups", GROUP), "/threads/1", at("members", member),
        at("members", WRITER, "/notifications"), at("members", member, "/groups"),
    ]  # fmt: skip
    for path in paths:
        browser.get(home + path)
        assert browser.execute_script("return document.documentElement.scrollWidth") == PHONE[0], path
        scripted = browser.find_element(By.TAG_NAME, "main").text
        assert browser.get_log("browser") == [], path
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            browser.get(home + path)
            assert browser.find_element(By.TAG_NAME, "main").text == scripted
        finally:
            browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
