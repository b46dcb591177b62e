"""What tests of the console in Chromium share: a server, its pages and what is measured of each, and how one clicks."""

import time

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from starlette.applications import Starlette
from starlette.routing import Mount

from examples.community.schema import COMMUNITY, TopThreads
from oneread import connect, connect_async
from oneread.console import TokenAccess, console
from oneread.console.pages import SHOWN_PAGES
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange
from oneread.web import database, lifespan
from tests.examples.browsing import resize, served

TOKEN = "a token of some length"
PAGES = [
    *[each.path for each in SHOWN_PAGES],
    "/data/Group",
    "/data/TopThreads",
    "/entity/Group?key=nashville:1",
    "/entity/Thread?key=1&check=yes",
    "/feeds/Home?key=nashville:1",
    "/graph?costs=yes&heat=6+hours",
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


def enter(browser, base):
    """Opens the console by the link that it would print."""
    browser.get(f"{base}/?token={TOKEN.replace(' ', '+')}")


def messages(browser):
    """What the browser says of pages, but for their status."""
    return [each["message"] for each in browser.get_log("browser") if "Failed to load resource" not in each["message"]]


def check_pages(browser, base, size, scheme):
    """Each page is readable at this size and in this scheme, and the browser says nothing of it."""
    resize(browser, size)
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    found = {}
    for path in PAGES:
        browser.get(base + path)
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


def remove_a_row(url):
    """Deletes a row of an index behind the library's back."""
    with connect(url, COMMUNITY, workers=0) as db:
        within = RowRange.under(db.operations.catalog.views[TopThreads].prefix)

        def remove():
            ((key, row),) = yield from Scan("views", within, 1)
            yield from Mutate("views", [RowMutation(key, deletes={name: cell.stamp for name, cell in row.items()})])

        db.run(remove())


def click(browser, text):
    """Clicks a link; a live page may replace it just then."""
    until = time.monotonic() + 20
    while True:
        try:
            browser.find_element(By.LINK_TEXT, text).click()
        except StaleElementReferenceException:
            assert time.monotonic() < until, text
        else:
            return


def wait_for(browser, words, seconds=60):
    """Waits until the page says something, without loading it again."""
    until = time.monotonic() + seconds
    while words not in said(browser, "main"):
        assert time.monotonic() < until, said(browser, "main")
        time.sleep(0.05)


def mend_a_fault(browser, url):
    """Makes a fault, and finds and repairs it by clicks, until the overview says that all is well."""
    remove_a_row(url)
    click(browser, "Verify")
    click(browser, "verify everything")
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    wait_for(browser, "the verification of everything was begun")
    wait_for(browser, "1 fault in")
    assert "TopThreads" in said(browser, "main")
    click(browser, "repair what verify finds")
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    wait_for(browser, "1 fault mended")
    click(browser, "verify everything")
    browser.find_element(By.CSS_SELECTOR, "main form button").click()
    wait_for(browser, "no faults in")
    browser.find_element(By.TAG_NAME, "body").send_keys("go")
    wait_for(browser, "everything is as it should be")
    assert messages(browser) == []
