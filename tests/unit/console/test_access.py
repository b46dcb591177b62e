"""Who may see a console: each way in that is not one is tried."""

import re
import time

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from oneread import connect_async
from oneread.console import TokenAccess, console, proxy_user
from oneread.console.access import HOURS
from oneread.errors import UsageError
from oneread.web import database, lifespan
from tests.unit.console.places import SITE, TOKEN, fill, links, opened
from tests.unit.web.applications import TestClient

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@pytest.fixture(scope="module")
def filled(new_url):
    url = new_url()
    fill(url, 3)
    return url


def client_of(url, address="127.0.0.1", **given):
    """A client of a console that was mounted with these options."""
    app = Starlette(lifespan=lifespan(connect_async(url, SITE, workers=0)))
    app.mount("/", console(database, **{"auth": TokenAccess(TOKEN), **given}))
    return TestClient(app, base_url="http://127.0.0.1", client=(address, 5000), raise_server_exceptions=False)


def test_without_a_token_there_is_nothing(filled):
    with opened(filled) as browser:
        pages = {"/", *links(browser.get("/")), *re.findall(r'"(/static/[^"]*)"', browser.get("/graph"))}
    with client_of(filled) as client:
        for path in [*pages, "/nothing", "/do/verify"]:
            answer = client.get(path)
            assert (answer.status_code, "Nashville" in answer.text) == (401, False), path
        assert client.post("/do/verify").status_code == 401
        assert client.get("/?token=another token of this length").status_code == 401


def test_the_token_is_in_an_address_once_and_in_a_cookie_from_then_on(filled):
    with client_of(filled) as client:
        answer = client.get("/data?x=1&token=a+token+of+some+length", follow_redirects=False)
        assert answer.headers["location"] == "/data?x=1"
        cookie = answer.headers["set-cookie"]
        assert re.fullmatch(r"oneread-[0-9a-f]{8}=\d+\.[0-9a-f]{64}; HttpOnly; Path=/; SameSite=strict", cookie)
        assert TOKEN not in cookie
        assert client.get("/data").status_code == 200
        again = client.get("/data?token=a+token+of+some+length", follow_redirects=False)
        assert (again.status_code, again.headers["location"]) == (303, "/data")


def test_who_is_not_known_reads_what_to_do(filled):
    with client_of(filled) as client:
        assert "--token-file" in client.get("/").text
    with client_of(filled, auth=lambda _connection: None) as client:
        assert "sign in" in client.get("/").text


def test_the_cookie_is_secure_where_the_site_is(filled):
    with client_of(filled) as client:
        answer = client.get("https://127.0.0.1/?token=a+token+of+some+length", follow_redirects=False)
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "change",
    [lambda end, sign: f"{int(end) + 1}.{sign}", lambda end, _sign: end, lambda *_: "x.y"],
    ids=["later", "unsigned", "text"],
)
def test_a_cookie_that_was_changed_is_none(filled, change):
    access = TokenAccess(TOKEN)
    with client_of(filled) as client:
        client.cookies.set(access.cookie, change(*access.session().split(".")))
        assert client.get("/").status_code == 401


def test_a_cookie_ends(filled, monkeypatch):
    access = TokenAccess(TOKEN)
    with client_of(filled) as client:
        client.cookies.set(access.cookie, access.session())
        assert client.get("/").status_code == 200
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + HOURS * 3600 + 1)
        assert client.get("/").status_code == 401


def test_a_token_is_long():
    with pytest.raises(UsageError, match="at least 16 characters"):
        TokenAccess("short")


def test_a_header_counts_only_from_the_proxy(filled):
    auth = proxy_user("x-forwarded-user", trusted="10.0.0.0/8")
    with client_of(filled, "10.1.2.3", auth=auth) as client:
        assert client.get("/", headers={"x-forwarded-user": "ada"}).status_code == 200
        assert client.get("/").status_code == 401
    with client_of(filled, "11.1.2.3", auth=auth) as client:
        assert client.get("/", headers={"x-forwarded-user": "ada"}).status_code == 401
    with client_of(filled, "a socket", auth=auth) as client:
        assert client.get("/", headers={"x-forwarded-user": "ada"}).status_code == 401


@pytest.mark.parametrize("trusted", ["everywhere", ["10.0.0.0/8", "10.0.0.1/8"]])
def test_a_network_that_cannot_be_read_is_refused(trusted):
    with pytest.raises(UsageError, match="networks"):
        proxy_user("x-forwarded-user", trusted=trusted)


def test_a_site_asks_its_own_session(filled):
    async def who(connection: HTTPConnection):
        return connection.session.get("name")

    app = Starlette(
        lifespan=lifespan(connect_async(filled, SITE, workers=0)),
        middleware=[Middleware(SessionMiddleware, secret_key="x")],
    )
    app.mount("/console", console(database, auth=who))

    async def enter(request):
        request.session["name"] = "ada"
        return PlainTextResponse("")

    app.router.routes.insert(0, Route("/enter", enter))
    with TestClient(app) as client:
        assert client.get("/console/").status_code == 401
        client.get("/enter")
        assert client.get("/console/").status_code == 200


def test_a_host_that_is_not_of_the_console_is_refused(filled):
    with client_of(filled, hosts=["127.0.0.1"]) as client:
        client.get("/?token=a+token+of+some+length")
        assert client.get("/").status_code == 200
        assert client.get("/", headers={"host": "attacker.example"}).status_code == 400
        answer = client.get("/", headers={"host": "127.0.0.1.attacker.example"})
        assert answer.status_code == 400
        assert "--allow-host" in answer.text
        assert answer.headers["content-security-policy"] == POLICY


@pytest.mark.parametrize("host", ["[::1]:8460", "[::1]", "Console.Example:80", "console.example"])
def test_a_host_is_compared_without_its_port(filled, host):
    with client_of(filled, hosts=["::1", "console.example"]) as client:
        answer = client.get("/?token=a+token+of+some+length", headers={"host": host}, follow_redirects=False)
        assert answer.status_code == 303


@pytest.mark.parametrize("path", ["/", "/nothing", "/data/Nothing", "/static/x", "/do/nothing", "/?json"])
def test_every_answer_keeps_a_browser_to_the_files_of_the_console(filled, path):
    with opened(filled) as browser, client_of(filled) as stranger:
        for client in (browser.client, stranger):
            answer = client.get(path)
            assert answer.headers["content-security-policy"] == POLICY
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_pages_are_not_kept_and_files_are(filled):
    with opened(filled) as browser:
        page = browser.client.get("/graph")
        assert page.headers["cache-control"] == "no-store"
        for path in ("/data/Evening?json", "/data/Nothing?json", "/do/verify?json"):
            answer = browser.client.get(path)
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["content-type"] == "application/json"
        files = re.findall(r'"(/static/[^"]*)"', page.text)
        assert len(files) == 3
        sizes = 0
        for file in files:
            answer = browser.client.get(file)
            assert "immutable" in answer.headers["cache-control"]
            sizes += len(answer.content)
        assert sizes < 150_000


def test_what_fails_shows_no_traceback(filled, monkeypatch):
    with client_of(filled) as client:
        client.get("/?token=a+token+of+some+length")
        monkeypatch.setattr("oneread.console.pages.data.kind_of", lambda _cls: 1 / 0)
        answer = client.get("/data")
        assert answer.status_code == 500
        assert "the console failed; its log says how" in answer.text
        assert "ZeroDivision" not in answer.text
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"db": 3, "auth": len}, "opened by connect_async"),
        ({"db": len, "auth": "ada"}, "auth takes a function"),
        ({"db": len, "auth": len, "writes": True}, "writes takes a function"),
    ],
)
def test_a_console_says_what_it_takes(given, said):
    with pytest.raises(UsageError, match=said):
        console(given.pop("db"), **given)
