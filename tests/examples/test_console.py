"""The console of the community in Chromium: each page at two sizes, light and dark, by keys, and without JavaScript."""

import time

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.expected_conditions import url_contains
from selenium.webdriver.support.ui import WebDriverWait

from tests.examples.browsing import DESKTOP, PHONE, resize
from tests.examples.touring import PAGES, check_pages, enter, go_to, mend_a_fault, messages, said, serve, wait_for


@pytest.fixture
def opened(browser, community_copy):
    """The browser at the console of a store that may be changed; the address of that."""
    with serve(community_copy) as base:
        enter(browser, base)
        yield base


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_each_page_is_readable(browser, opened, size, scheme):
    check_pages(browser, opened, size, scheme)


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
    WebDriverWait(browser, 20).until(url_contains("key=1"))
    go_to(browser, "Message")


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
    WebDriverWait(browser, 20).until(lambda driver: not driver.find_elements(By.TAG_NAME, "dialog"))
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


@pytest.mark.usefixtures("opened")
def test_a_fault_is_found_and_mended_by_clicks(browser, community_copy):
    mend_a_fault(browser, community_copy)


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


PLACES = """
const places = [...document.querySelectorAll("main > *, main tr")].map((each) => each.getBoundingClientRect());
return [window.scrollY, ...places.map((each) => [each.top, each.height])];
"""


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("path", ["/", "/tasks", "/verify", "/schema"])
def test_nothing_moves_when_a_live_page_is_replaced(browser, opened, path, size):
    """By what the server says of the page again; its own stream is not opened, so that this is the one that is sent."""
    resize(browser, size)
    stub = {"source": "window.EventSource = class {}"}
    added = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", stub)
    browser.get(opened + path)
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)
    browser.execute_script("scrollTo(0, 200); document.querySelector('footer').dataset.first = ''")
    before = browser.execute_script(PLACES)
    text = browser.execute_script("return fetch(location.href).then((answer) => answer.text())")
    browser.execute_script("onPage({data: JSON.stringify(arguments[0])})", text)
    assert browser.execute_script("return document.querySelector('footer').dataset.first === undefined")
    assert browser.execute_script(PLACES) == before


def look_as(browser, media="", **features):
    """Has the browser show pages for a medium, or for someone who prefers something."""
    listed = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": listed})


def test_print_leaves_out_what_paper_cannot_use(browser, opened):
    look_as(browser, "print")
    browser.get(f"{opened}/data/Group")
    assert not browser.find_element(By.TAG_NAME, "nav").is_displayed()
    left, width = browser.execute_script(
        "const box = document.querySelector('main').getBoundingClientRect(); return [box.left, box.width]"
    )
    assert (left, width) == (0, browser.execute_script("return document.documentElement.clientWidth"))


def test_nothing_moves_for_who_prefers_that(browser, opened):
    look_as(browser, prefers_reduced_motion="reduce")
    for path in PAGES:
        browser.get(opened + path)
        moving = """return [...document.querySelectorAll("*")].filter((each) => {
          const style = getComputedStyle(each);
          return style.animationName !== "none" || parseFloat(style.transitionDuration) > 0;
        }).length"""
        assert browser.execute_script(moving) == 0
