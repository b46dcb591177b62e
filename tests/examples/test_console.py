"""The console of the community in Chromium: each page at two sizes, light and dark, by keys, and without JavaScript."""

import time

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from starlette.applications import Starlette
from starlette.routing import Mount

from examples.community.schema import COMMUNITY, TopThreads
from oneread import connect, connect_async
from oneread.console import TokenAccess, console
from oneread.console.pages import SHOWN_PAGES
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange
from oneread.web import database, lifespan
from tests.examples.browsing import DESKTOP, PHONE, resize, served

TOKEN = "a token of some length"
PAGES = [
    *[each.path for each in SHOWN_PAGES],
    "/data/Group",
    "/data/TopThreads",
    "/entity/Group?key=nashville:1",
    "/entity/Thread?key=1&check=yes",
    "/feeds/Home?key=nashville:1",
    "/do/patch?of=Group&key=nashville:1&field=name",
    "/do/verify",
    "/nothing",
]
MEASURE = """
const light = (c) => {
  const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const colour = (text) => text.match(/[\\d.]+/g).map(Number);
const behind = (each) => {
  for (let at = each; at; at = at.parentElement) {
    const found = colour(getComputedStyle(at).backgroundColor);
    if (found.length < 4 || found[3] === 1) return found;
  }
  return [255, 255, 255];
};
const own = (each) => [...each.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
const seen = (each) => each.checkVisibility() && each.getBoundingClientRect().width > 1;
const written = [...document.querySelectorAll("body *")].filter((e) => own(e) && seen(e) && !e.closest("svg"));
const pale = written.filter((each) => {
  const [a, b] = [light(colour(getComputedStyle(each).color)), light(behind(each))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
});
const unnamed = [...document.querySelectorAll("a, button, input:not([type=hidden]), select")].filter(
  (each) => !(each.textContent.trim() || each.labels?.length || each.ariaLabel));
const small = written.filter((each) => parseFloat(getComputedStyle(each).fontSize) < 12);
return {
  pale: pale.map((each) => each.outerHTML.slice(0, 200)),
  unnamed: unnamed.map((each) => each.outerHTML),
  small: small.map((each) => each.outerHTML.slice(0, 200)),
  wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  headings: document.querySelectorAll("h1").length,
  landmarks: ["nav", "main", "header", "footer"].filter((each) => !document.querySelector(each)),
};
"""
FINE = {"pale": [], "unnamed": [], "small": [], "wide": 0, "headings": 1, "landmarks": []}


def serve(url):
    made = console(database, auth=TokenAccess(TOKEN), writes=lambda _user: True, name="community")
    return served(Starlette(routes=[Mount("/", made)], lifespan=lifespan(connect_async(url, COMMUNITY, workers=0))))


@pytest.fixture
def opened(browser, community_copy):
    """The browser at the console of a store that may be changed; the address of that."""
    with serve(community_copy) as base:
        browser.get(f"{base}/?token={TOKEN.replace(' ', '+')}")
        yield base


def messages(browser):
    """What the browser says of pages, but for their status."""
    return [each["message"] for each in browser.get_log("browser") if "Failed to load resource" not in each["message"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_each_page_is_readable(browser, opened, size, scheme):
    resize(browser, size)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    found = {}
    for path in PAGES:
        browser.get(opened + path)
        found[path] = browser.execute_script(MEASURE)
    assert found == dict.fromkeys(PAGES, FINE)
    assert messages(browser) == []


def said(browser, selector):
    """The text of an element as it is now: live pages replace their elements."""
    return browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)


def go_to(browser, title):
    """Waits for a page of this title, and its script."""
    until = time.monotonic() + 20
    while said(browser, "h1") != title or browser.execute_script("return document.readyState") != "complete":
        assert time.monotonic() < until, said(browser, "h1")
        time.sleep(0.05)


@pytest.mark.usefixtures("opened")
def test_pages_and_rows_are_reached_by_keys(browser):
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("gd")
    go_to(browser, "Data")
    body = browser.find_element(By.TAG_NAME, "body")
    body.send_keys("jjk", Keys.ENTER)
    go_to(browser, "Message")
    browser.find_element(By.TAG_NAME, "body").send_keys("/")
    assert browser.switch_to.active_element.get_attribute("name") == "key"
    browser.switch_to.active_element.send_keys("1", Keys.ENTER)
    go_to(browser, "Message")
    assert "key=1" in browser.current_url


@pytest.mark.usefixtures("opened")
def test_keys_are_listed_and_the_focus_comes_back(browser):
    link = browser.find_element(By.LINK_TEXT, "Data")
    browser.execute_script("arguments[0].focus()", link)
    link.send_keys("?")
    dialog = browser.find_element(By.TAG_NAME, "dialog")
    assert dialog.accessible_name == "Keys"
    assert {"g o Overview", "j k the next and the previous row"} <= set(dialog.text.splitlines())
    assert browser.execute_script("return document.querySelector('dialog').contains(document.activeElement)")
    browser.switch_to.active_element.send_keys("gd")  # within it they do nothing
    assert said(browser, "h1") == "Overview"
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not browser.find_elements(By.TAG_NAME, "dialog")
    assert browser.switch_to.active_element == link
    assert messages(browser) == []


COLOURS = """
const of = (selector, name) => getComputedStyle(document.querySelector(selector))[name];
return [of("body", "backgroundColor"), of("svg", "backgroundColor"), of("svg text", "fill")];
"""
LIGHT = ["rgb(255, 255, 255)", "rgb(255, 255, 255)", "rgb(27, 31, 36)"]
DARK = ["rgb(20, 23, 26)", "rgb(13, 17, 23)", "rgb(230, 237, 243)"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "without"])
def test_a_page_is_light_or_dark_as_it_was_chosen(browser, opened, scheme, scripts):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    system = LIGHT if scheme == "light" else DARK
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    try:
        browser.get(f"{opened}/graph?around=Group")
        assert browser.execute_script(COLOURS) == system
        for choice, wanted in (("dark", DARK), ("light", LIGHT), ("system", system)):
            browser.find_element(By.XPATH, f"//button[text()='{choice}']").click()
            until = time.monotonic() + 20
            while said(browser, "[aria-pressed=true]") != choice:
                assert time.monotonic() < until, choice
            assert browser.current_url == f"{opened}/graph?around=Group"
            assert browser.execute_script(COLOURS) == wanted
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def remove_a_row(url):
    with connect(url, COMMUNITY, workers=0) as db:
        within = RowRange.under(db.operations.catalog.views[TopThreads].prefix)

        def remove():
            ((key, _row),) = yield from Scan("views", within, 1)
            yield from Mutate("views", [RowMutation(key, delete_row=2**62)])

        db.run(remove())


def click(browser, text):
    browser.find_element(By.LINK_TEXT, text).click()


def wait_for(browser, words, seconds=60):
    """Waits until the page says something, without loading it again."""
    until = time.monotonic() + seconds
    while words not in said(browser, "main"):
        assert time.monotonic() < until, said(browser, "main")
        time.sleep(0.05)


@pytest.mark.usefixtures("opened")
def test_a_fault_is_found_and_mended_by_clicks(browser, community_copy):
    remove_a_row(community_copy)
    click(browser, "Verify")
    click(browser, "verify everything")
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    wait_for(browser, "verifying everything")
    wait_for(browser, "1 fault in")
    assert "TopThreads" in said(browser, "main")
    click(browser, "repair what verify finds")
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    wait_for(browser, "1 fault mended")
    assert messages(browser) == []


def test_without_javascript_pages_and_forms_work(browser, opened):
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.get(f"{opened}/data/Group")
        browser.find_element(By.LINK_TEXT, "nashville:1").click()
        browser.find_element(By.LINK_TEXT, "change").click()
        field = browser.find_element(By.NAME, "value")
        field.clear()
        field.send_keys("Chess <b>club</b>")
        browser.find_element(By.CSS_SELECTOR, "main form button").click()
        wait_for(browser, "Where it is shown")
        assert "Group nashville:1: name is Chess <b>club</b> undo" in said(browser, "main")
    finally:
        browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_times_are_those_of_the_viewer(browser, opened):
    browser.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    browser.get(f"{opened}/entity/Thread?key=1")
    (shown, *_more) = browser.find_elements(By.TAG_NAME, "time")
    assert "ago" in shown.text
    assert shown.get_attribute("title").endswith("+00:00")
