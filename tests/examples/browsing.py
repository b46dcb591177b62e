"""What tests of several sites share: a server in a thread, a real browser, and the tags of a page."""

import socket
import threading
import time
from contextlib import contextmanager
from html.parser import HTMLParser

import uvicorn
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

from tools.browser import find_browser

DESKTOP, PHONE = (1280, 900), (390, 844)
SECONDS = 30
VOID = {"meta", "link", "br", "img", "input"}


@contextmanager
def served(app):
    """An application on a free port of this machine, served by uvicorn in a thread."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3))
        running = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        running.start()
        try:
            while not server.started:
                assert running.is_alive()
                time.sleep(0.01)
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            running.join(60)


@contextmanager
def chrome(folder):
    """Chromium without a window, with its profile in a folder."""
    found = find_browser()
    options = ChromeOptions()
    options.binary_location = str(found.browser)
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-background-networking",
        "--disable-component-update", "--no-first-run", f"--user-data-dir={folder}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with Chrome(options, Service(str(found.driver))) as driver:
        driver.set_page_load_timeout(60)
        yield driver


def resize(driver, size):
    width, height = size
    sized = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", sized)


def texts(driver, selector):
    return [each.text for each in driver.find_elements(By.CSS_SELECTOR, selector)]


def shown(browser, selector):
    """The texts that a person sees, read at one moment: elements may go while they are asked one by one."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(e => !e.hidden).map(e => e.innerText.trim())"
    return browser.execute_script(script, selector)


def wait_until(browser, holds):
    WebDriverWait(browser, SECONDS, poll_frequency=0.05).until(lambda _: holds())


class Tags(HTMLParser):
    """The tags of a page, the links in it and its text; what is opened and never closed."""

    def __init__(self, html):
        super().__init__()
        self.names, self.links, self.texts, self.open = [], [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.texts.append(data)
