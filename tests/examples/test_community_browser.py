"""The community in a real browser: events arrive in a page that is open, and the unread count rises and falls.

Needs Chromium and its driver, as the browser tests of the questions and answers do.
"""

from datetime import UTC, datetime
from urllib.parse import quote

import httpx
import pytest
from selenium.webdriver.common.by import By

from examples.community.schema import COMMUNITY, Event, Group, GroupName, Member, Membership, Participation
from examples.community.site import application
from oneread import connect
from tests.examples.browsing import PHONE, resize, served, shown, wait_until

GROUP, WRITER = "nashville:1", "lean:1"


@pytest.fixture
def db(community_copy):
    with connect(community_copy, COMMUNITY) as opened:
        yield opened


@pytest.fixture
def home(community_copy, browser):
    with served(application(community_copy)) as address:
        yield address
        browser.get("about:blank")  # ends its streams, which would log that the server is gone in the next test
        browser.get_log("browser")


@pytest.fixture
def member(db):
    """A member of the group."""
    return next(each.person for page in db.scan(Membership) for each in page if each.place == GROUP)


def at(kind, key, rest=""):
    return f"/{kind}/{quote(key, safe='')}{rest}"


def rows(browser):
    return [text.splitlines()[0] for text in shown(browser, "main ol > li")]


def unread(browser):
    """The number that a person sees; nothing where there is none."""
    return "".join(shown(browser, "#unread"))


def remembers(browser):
    """Whether the page is the one that was marked, so that it was not loaded again."""
    return browser.execute_script("return window.marked === true")


def test_two_events_arrive_in_an_open_home_page(browser, home, db, member):
    browser.get(home + at("members", member))
    browser.execute_script("window.marked = true")
    before = rows(browser)
    first, second = "<b>First</b> & new", "Second"
    answer = httpx.post(home + at("groups", GROUP, "/events"), data={"member": WRITER, "title": first})
    assert answer.status_code == 303
    wait_until(browser, lambda: rows(browser) == [f"{WRITER} {first}", *before])
    event = Event(activity="second", group=GroupName.of(GROUP), posted_at=datetime.now(UTC), title=second)
    db.create(event)  # as another program writes it
    wait_until(browser, lambda: rows(browser) == [second, f"{WRITER} {first}", *before])
    db.patch(Event, "second", title="Second, at another place")
    wait_until(browser, lambda: rows(browser)[0] == "Second, at another place")
    db.delete(Event, "second")
    wait_until(browser, lambda: rows(browser) == [f"{WRITER} {first}", *before])
    assert remembers(browser)
    assert browser.get_log("browser") == []
    browser.refresh()
    assert rows(browser)[: len(before)] == [f"{WRITER} {first}", *before][: len(before)]  # a page has twenty rows


def test_the_unread_count_rises_with_each_thread_and_falls_when_it_is_seen(browser, home, db):
    threads = [each.thread for page in db.scan(Participation) for each in page if each.person == WRITER][:2]
    other = next(each.member for page in db.scan(Member) for each in page if each.member.startswith("qc:"))
    httpx.post(home + at("members", WRITER, "/seen"))
    browser.get(home + at("members", WRITER, "/notifications"))
    browser.execute_script("window.marked = true")
    assert unread(browser) == ""
    for count, thread in enumerate(threads, 1):
        answer = httpx.post(f"{home}/threads/{thread}/messages", data={"member": other, "text": "Hello"})
        assert answer.status_code == 303
        wait_until(browser, lambda count=count: unread(browser) == str(count))
        wait_until(browser, lambda thread=thread: f"topic <{thread}>" in rows(browser)[0])
    assert remembers(browser)
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    wait_until(browser, lambda: not remembers(browser) and unread(browser) == "")
    httpx.post(f"{home}/threads/{threads[0]}/messages", data={"member": other, "text": "Once more"})
    wait_until(browser, lambda: unread(browser) == "1")
    assert browser.get_log("browser") == []


def test_who_joins_a_group_is_one_line_for_its_members(browser, home, db, member):
    name = db.get(Group, GROUP).name
    people = [each.member for page in db.scan(Member) for each in page if each.member.startswith("qc:")][:5]
    for count, person in enumerate(people, 1):
        assert httpx.post(home + at("groups", GROUP, "/members"), data={"member": person}).status_code == 303
        browser.get(home + at("members", member, "/joins"))
        assert rows(browser)[0] == f"{count} {'person' if count == 1 else 'people'} joined {name}"
    actors = shown(browser, "main ol > li")[0].splitlines()[-1]
    assert actors.startswith(f"{people[4]}, {people[3]}, {people[2]}, and others, ")
    db.delete(Membership, people[4], GROUP)
    browser.refresh()
    assert rows(browser)[0] == f"4 people joined {name}"
    assert browser.get_log("browser") == []


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
        at("members", WRITER, "/notifications"), at("members", member, "/joins"),
        at("members", member, "/groups"),
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
