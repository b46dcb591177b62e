"""A site whose entities are shown in every way that there is, filled; its console, and what a browser would send."""

import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.routing import Mount

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Schema,
    by,
    connect,
    connect_async,
    count,
    expires,
    newest,
    on,
    shown,
)
from oneread.console import TokenAccess, console
from oneread.web import database, lifespan
from tests.unit.web.applications import TestClient

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Circle(Model[str]):
    code: Key[str]
    name: str


class CircleCopy(Copy[Circle]):
    name: str


class Evening(Model[int]):
    number: Key[int]
    title: str
    town: str
    circle: CircleCopy
    starts_at: datetime
    note: str | None = None
    data: bytes = b""


class EveningsOfTown(Index[Evening]):
    town: str = by(Evening.town)
    starts_at: datetime = newest(Evening.starts_at)
    title: str = shown(Evening.title)


class EveningTitle(Index[Evening]):
    unique = True
    title: str = by(Evening.title)


class EveningsOfCircle(Aggregate[Evening]):
    circle: CircleCopy = by(Evening.circle)
    evenings: int = count()


class Belonging(Model[str, str]):
    person: Key[str]
    code: Key[str]


class News(Feed[Evening]):
    person: str = by(Belonging.person)
    starts_at: datetime = newest(Evening.starts_at)
    title: str = shown(Evening.title)
    joined = on(Evening.town, Belonging.code)
    expires_after = None


class Notice(Model[int]):
    number: Key[int]
    text: str
    made_at: datetime
    ttl = expires("made_at", after=timedelta(days=3650))


SITE = Schema(Circle, Evening, EveningsOfTown, EveningTitle, EveningsOfCircle, Belonging, News, Notice)
TOKEN = "a token of some length"
NAME = "evenings"


def fill(url, evenings=60):
    """A store with a circle, its evenings in two towns, and who belongs to them."""
    with connect(url, SITE, workers=0) as db:
        db.save(Circle(code="chess", name="Chess & more"))
        of_chess = CircleCopy.of("chess")
        for number in range(1, evenings + 1):
            town = "Nashville" if number % 2 else "Leeds"
            at = AT + timedelta(hours=number)
            db.save(Evening(number=number, title=f"Evening {number}", town=town, circle=of_chess, starts_at=at))
        db.save(Belonging(person="ada", code="Leeds"))
        db.save(Notice(number=1, text="hello", made_at=AT))
        db.counter("views:1", shards=2, keep={"day": 3}).add(5)
        db.drain()


class Browser:
    """What a browser does: it keeps the cookie, follows links and sends forms."""

    def __init__(self, client):
        self.client = client
        self.location = ""

    def get(self, path, status=200, **query):
        answer = self.client.get(f"{path}?{urlencode(query, doseq=True)}" if query else path, follow_redirects=False)
        assert answer.status_code == status, (path, answer.status_code, answer.text[-900:])
        return answer.text

    def json(self, path, **query):
        text = self.get(path, json="", **query)
        answer = self.client.get(f"{path}?{urlencode({**query, 'json': ''}, doseq=True)}")
        assert text == answer.text or "live" in text
        return answer.json()

    def send(self, path, status=200, changed=(), **query):
        """Opens the page of an action, and sends its form with what it has, or what is `changed`."""
        return self.submit(self.get(path, **query), status, changed)

    def submit(self, page, status=200, changed=()):
        """Sends the form of a page."""
        found = re.search(r'<form method="post" action="([^"]*)">(.*?)</form>', page, re.DOTALL)
        assert found, page
        sent = [(name, value) for name, value in inputs_of(found[2]) if name not in dict(changed)]
        return self.post(unescape(found[1]), [*sent, *dict(changed).items()], status)

    def post(self, path, sent, status=200, **headers):
        """Sends a form, and follows to the page that says what was done."""
        answer = self.client.post(
            path,
            content=urlencode(sent),
            headers={"content-type": "application/x-www-form-urlencoded", **headers},
            follow_redirects=False,
        )
        self.location = answer.headers.get("location", "")
        if answer.status_code == status:
            return answer.text
        assert (answer.status_code, status) == (303, 200), (path, answer.status_code, answer.text[-900:])
        return self.get(self.location)


@contextmanager
def opened(url, *, writes=True, personal=False, schema=SITE, mounted="", observers=()):
    """A console of the store at a URL, and a browser that has its cookie."""
    may = {"writes": lambda _user: writes, "personal": lambda _user: personal}
    made = console(database, auth=TokenAccess(TOKEN), name=NAME, **may)
    opening = connect_async(url, schema, workers=0, observers=observers)
    app = Starlette(routes=[Mount(mounted or "/", made)], lifespan=lifespan(opening))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get(f"{mounted}/", params={"token": TOKEN}, follow_redirects=False)
        assert answer.status_code == 303
        yield Browser(client)


def inputs_of(page):
    return [(name, unescape(value)) for name, value in re.findall(r'<input [^>]*?name="([^"]*)" value="([^"]*)"', page)]


def links(page):
    return [unescape(each) for each in re.findall(r'<a [^>]*?href="([^"]*)"', page)]
