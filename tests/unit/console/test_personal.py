"""Personal values are masked on every page in each of its forms, and shown for one entity by a form that is logged."""

from __future__ import annotations

import re
import time
from base64 import urlsafe_b64decode
from collections import Counter
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Annotated
from urllib.parse import unquote

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Job,
    JobHandlers,
    Key,
    Model,
    Personal,
    Ref,
    Schema,
    by,
    connect,
    count,
    counter,
    greatest,
    newest,
    on,
    rollup,
    shown,
    total,
    within,
)
from oneread.console.masking import MASK, Masking
from oneread.console.sealing import Seal
from oneread.errors import InvalidQuery
from oneread.evolution.privacy import personal_places
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions.system_rows import CONSOLE_LOG
from tests.unit.console.places import links, opened
from tests.unit.console.test_acting import wait_for

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)
PER_KIND = 3
EMAILS = ("zqxwvadaemail@example.com", "zqxwvbobemail@example.com", "zqxwvcatemail@example.com")
PAY = 481_516
MARKS = ("zqxwv", f"{PAY}", f"{PAY:,}", f"{2 * PAY}", f"{2 * PAY:,}", "1911-11-11")
"""What each personal value has in it, and nothing else."""


class Home(msgspec.Struct, frozen=True):
    street: Annotated[str, Personal()]
    town: str


class Citizen(Model[str]):
    logged = timedelta(days=7)

    email: Key[Annotated[str, Personal()]]
    name: Annotated[str, Personal()]
    home: Home
    pay: Annotated[int, Personal()] = PAY
    born: Annotated[datetime, Personal()] = datetime(1911, 11, 11, tzinfo=UTC)
    hidden: Annotated[str, Personal()] = "zqxwvhidden"
    photo: Annotated[bytes, Personal()] = b"zqxwvphoto"
    tags: Annotated[list[str], Personal()] = msgspec.field(default_factory=list)
    country: str = "UK"
    visits: int = rollup(counter("visits:{email}"))


class Writer(Copy[Citizen]):
    called: str = shown(Citizen.name)
    country: str


class Column(Model[int]):
    number: Key[int]
    writer: Writer
    room: int
    at: datetime = NOON
    text: str = "plain text"
    note: Annotated[str, Personal()] = "zqxwvnote"

    def check(self):
        if self.writer.deleted and self.number == 13:
            raise ValueError(f"{self.writer.ref.key[0]} has to be asked first")


class Sitting(Model[int]):
    number: Key[int]
    member: Ref[Citizen]
    room: int


class Chair(Model[Ref[Citizen], int]):
    member: Key[Ref[Citizen]]
    room: Key[int]
    colour: str = "red"


class ColumnsByName(Index[Column]):
    watched = timedelta(hours=1)

    name: str = by(within(Column.writer, Writer.called))
    secret: str = shown(within(Column.writer, Citizen.hidden))
    text: str = shown(Column.text)


class NamesOfColumns(Index[Column]):
    replaces = ColumnsByName
    name: str = by(within(Column.writer, Writer.called))
    secret: str = shown(within(Column.writer, Citizen.hidden))
    text: str = shown(Column.text)


class CitizenOfStreet(Index[Citizen]):
    unique = True

    street: str = by(within(Citizen.home, Home.street), hashed=True)


class CitizenOfName(Index[Citizen]):
    unique = True

    name: str = by(Citizen.name)


class ColumnsOf(Aggregate[Column]):
    writer: Writer = by(Column.writer)
    columns: int = count()
    longest: str | None = greatest(within(Column.writer, Writer.called))


class PayOf(Aggregate[Citizen]):
    country: str = by(Citizen.country)
    citizens: int = count()
    pay: int = total(Citizen.pay)


class Reader(Feed[Column]):
    joined = on(Column.room, Sitting.room)
    expires_after = None

    member: Ref[Citizen] = by(Sitting.member)
    at: datetime = newest(Column.at)
    writer: Writer = shown(Column.writer)


class SendLetter(Job):
    to: str


TOWN = Schema(
    Citizen, Column, Sitting, Chair, ColumnsByName, NamesOfColumns, CitizenOfStreet, CitizenOfName, ColumnsOf, PayOf,
    Reader, SendLetter, inline=0,
)  # fmt: skip


def citizen(email):
    name = f"zqxwvname{email[5:8]}"
    return Citizen(email=email, name=name, home=Home(f"zqxwvstreet {email[5:8]}", "Leeds"), tags=[name, "zqxwvtag"])


def fill(url):
    """A store in which a personal value stands wherever one can."""
    handlers = JobHandlers()

    @handlers.handles(SendLetter, tries=1)
    def fail(job, _run):
        raise ValueError(job.to)

    ada, bob, cat = EMAILS
    with connect(url, TOWN, workers=0, heat=1.0) as db:
        for email in EMAILS:
            db.save(citizen(email))
            db.counter(f"visits:{email}", keep={"day": 2}).add(1)
            db.save(Chair(member=Citizen.at(email), room=1))
        for number in range(60):
            db.save(
                Citizen(
                    email=f"zqxwv{number:03}@example.com", name=f"zqxwvn{number}", home=Home(f"zqxwvs{number}", "York")
                )
            )
        for number in (1, 2, 13):
            db.save(Column(number=number, writer=Writer.of(bob if number == 13 else ada), room=1))
        db.save(Sitting(number=1, member=Citizen.at(cat), room=1))
        db.backfill()
        db.enqueue(SendLetter(to=ada))
        assert db.run_jobs(handlers).set_aside == 1
        db.drain()
        db.launches.set("NamesOfColumns", shadow=100, by="ada")
        for _each in range(300):
            db.get(Citizen, ada)
        spoil(db, "NamesOfColumns")
        until = time.monotonic() + 30
        while not db.launches.differences("NamesOfColumns"):
            assert time.monotonic() < until
            db.page(ColumnsByName, "zqxwvnameada")  # a page that is read while the store is busy is not compared
            time.sleep(0.1)
        db.delete(Citizen, bob)
        db.drain()
        db.erase(Citizen, "zqxwv001@example.com")
        db.cache_counters("", limit=1)
    return url


def spoil(db, name):
    """Makes a row of a view wrong, which its launch and a verification then say."""
    place = next(each for each in db.places(Column, 1).places if each.view == name)
    (row,) = db.run(Read(place.table, [place.row], "dm").__iter__())
    cell = row[VALUE]
    wrong = Cell(cell.value.replace(b"zqxwvhidden", b"zqxwvhxdden"), cell.stamp)
    assert wrong != cell
    db.run(Mutate(place.table, [RowMutation(place.row, {VALUE: wrong})]).__iter__())


@pytest.fixture(scope="module")
def town(new_url):
    return fill(new_url())


def said_in(text):
    """An answer as it is, as its reader sees it, and what its codes and numbers hide."""
    yield text
    yield unescape(unquote(text))
    yield re.sub(r"(?<=[0-9a-f]) (?=[0-9a-f])", "", text).replace(" ", "")
    for each in re.findall(r"[\w-]{8,}", unquote(text)):
        yield urlsafe_b64decode(each + "=" * (-len(each) % 4)).decode("latin1") if len(each) % 4 != 1 else ""


def found_in(text):
    """The personal values that an answer has, in whatever form."""
    marks = {*MARKS, *(each.encode().hex() for each in MARKS if each == "zqxwv")}
    return {
        (mark, each[max(0, each.find(mark) - 60) :][:160]) for each in said_in(text) for mark in marks if mark in each
    }


def crawl(browser):
    """Pages that links lead to, three of each kind, with what each answers in each of its forms."""
    todo, seen, kinds = ["/", "/feeds/Reader", "/nothing", "/do/drain", "/entity/Citizen"], {}, Counter()
    while todo:
        path = todo.pop(0)
        kind = re.sub(r"=(%40~|\w+%3A)?[\w%-]{20,}|=\d+|(?<=counter\?name=).*", "=", path)
        if path in seen or path.startswith("#") or kinds[kind] == PER_KIND:
            continue
        kinds[kind] += 1
        for form in ("", "json", "live"):
            sign = "&" if "?" in path else "?"
            address = f"{path}{sign if form else ''}{form}"
            seen[address] = browser.client.get(address, follow_redirects=False).text
        todo += links(seen[path])
    return seen


@pytest.fixture(scope="module")
def answers(town):
    """What a console answers, with a verification, a launch that differs and actions done."""
    with pytest.MonkeyPatch.context() as patch, opened(town, schema=TOWN) as browser:
        patch.setattr("oneread.console.application.STREAM_SECONDS", 0.01)
        browser.send("/do/verify")
        wait_for(browser, "/verify", "Last verification")
        (first, *_others) = [each for each in links(browser.get("/data/Citizen")) if each.startswith("/entity/Citizen")]
        page = browser.get(first)
        (change,) = [each for each in links(page) if each.startswith("/do/patch") and "field=country" in each]
        browser.submit(browser.get(change), changed={"value": "IE"})
        (change,) = [each for each in links(page) if each.startswith("/do/patch") and "field=hidden" in each]
        browser.submit(browser.get(change), changed={"value": "zqxwvother"})
        (count_, *_others) = [each for each in links(browser.get("/counters")) if each.startswith("/counter?")]
        (spread,) = [each for each in links(browser.get(count_)) if each.startswith("/do/shards")]
        browser.submit(browser.get(spread), changed={"shards": "2"})
        return crawl(browser)


def test_no_answer_has_a_personal_value(answers):
    found = {path: found_in(text) for path, text in answers.items() if found_in(text)}
    assert found == {}


def test_every_kind_of_page_was_looked_at(answers):
    kinds = {re.sub(r"\?.*", "", each) for each in answers}
    wanted = {"Citizen", "Column", "Sitting", "Chair", "ColumnsByName", "CitizenOfName", "ColumnsOf", "PayOf", "Reader"}
    assert kinds >= {f"/data/{each}" for each in wanted}
    assert kinds >= {f"/entity/{each}" for each in ("Citizen", "Column", "ColumnsOf", "CitizenOfName", "Chair")}
    assert kinds >= {"/", "/tasks", "/log", "/heat", "/slow", "/erasures", "/counters", "/counter", "/launches"}
    assert kinds >= {"/launches/NamesOfColumns", "/feeds/Reader", "/do/patch", "/do/delete", "/changed/Citizen"}
    assert len(answers) > 300
    assert "other value" in answers["/launches/NamesOfColumns"]
    assert "different" in answers["/verify"]
    assert ">Column(1)<" in answers["/verify"]
    assert "Jobs set aside" in answers["/tasks"]
    assert "range 1 of" in answers["/heat?of=Citizen&last=6+hours"]
    assert "this entity was deleted" in "".join(answers.values())


def test_it_is_seen_when_one_row_is_not_masked(town, monkeypatch):
    masks = Masking.masks_value
    monkeypatch.setattr(
        Masking,
        "masks_value",
        lambda self, cls, name: (cls, name) != (ColumnsByName, "secret") and masks(self, cls, name),
    )
    with opened(town, schema=TOWN) as browser:
        assert {mark for mark, _text in found_in(browser.get("/data/ColumnsByName"))} == {"zqxwv"}


def test_what_is_not_personal_is_shown(town):
    with opened(town, schema=TOWN) as browser:
        page = browser.get("/data/ColumnsByName")
        assert "plain text" in page
        assert f'<span aria-hidden="true">{MASK}</span><span class="said">masked</span>' in page
        assert "Leeds" not in browser.get("/data/Citizen")  # within a value that has a personal one in it
        assert "UK" in browser.get("/data/Citizen")
        assert "/entity/Column?key=1" in links(browser.get("/data/Column"))


def test_what_privacy_lists_is_masked():
    schema = TOWN.unstored()
    masking = Masking(TOWN, schema, Seal(b"x"))
    classes = TOWN.named()
    kinds = {"field", "key", "key of rows", "row", "number", "unique value"}
    places = [each for each in personal_places(TOWN) if each.kind in kinds]
    fields = {tuple(each.place.split(".")[:2]) for each in places}
    fields = {(name, field) for name, field in fields if field in classes[name].__struct_fields__}
    assert len(fields) > 15
    assert [each for each in fields if not masking.masks_value(classes[each[0]], each[1])] == []
    assert masking.masks_copied(Writer, "called")
    assert not masking.masks_copied(Writer, "country")
    plain = [
        (ColumnsByName, "source"),
        (Column, "text"),
        (Citizen, "country"),
        (ColumnsByName, "text"),
        (ColumnsOf, "columns"),
        (Chair, "colour"),
    ]
    assert [each for each in plain if masking.masks_value(*each)] == []


def entity(browser, name, column=0):
    """The address of the first entity of a list."""
    return [each for each in links(browser.get(f"/data/{name}")) if each.startswith(f"/entity/{name}?")][column]


def test_one_entity_is_shown_by_a_form_that_is_logged(url):
    fill(url)
    with opened(url, schema=TOWN, writes=False, personal=True) as browser:
        address = entity(browser, "Citizen")
        page = browser.get(address)
        assert found_in(page) == set()
        shown_page = browser.submit(page)
        assert "zqxwv000@example.com" in shown_page
        assert "zqxwvhidden" in shown_page
        assert b"zqxwvhidden".hex() in shown_page.replace(" ", "")
        assert found_in(browser.get(address)) == set()
        (row,) = browser.json("/log")["page"]["blocks"][0]["rows"]
        assert [cell[0]["text"] for cell in row[1:5]] == [
            "token", "show personal", f"Citizen {MASK}", "its personal values were shown",
        ]  # fmt: skip
        assert row[3][0]["link"] == address
        assert found_in(browser.get("/log")) == set()
        column = browser.submit(browser.get("/entity/Column", key="1"))
        assert "zqxwvnote" in column
        assert "zqxwvnameada" in column
        assert {mark for mark, _text in found_in(browser.submit(browser.get(entity(browser, "CitizenOfName"))))}
    with connect(url, TOWN, workers=0) as db:
        assert db.find(Citizen, "zqxwv000@example.com")


def test_others_of_its_page_stay_masked(url):
    fill(url)
    with opened(url, schema=TOWN, personal=True) as browser:
        shown_page = browser.submit(browser.get("/entity/Sitting", key="1"))
        assert EMAILS[2] in shown_page.partition("Where it is shown")[0]
        assert EMAILS[2] not in shown_page.partition("Where it is shown")[2]


def test_without_the_right_there_is_no_button_and_no_way(town):
    with opened(town, schema=TOWN, writes=True) as browser:
        address = entity(browser, "Citizen")
        page = browser.get(address)
        assert "Show personal values" not in page
        csrf = re.search(r'name="csrf" value="([^"]*)"', browser.get("/do/drain"))[1]
        said = browser.post(address, [("csrf", csrf)], 403)
        assert "start it with --personal" in said
        assert found_in(said) == set()
    with opened(town, schema=TOWN, writes=False, personal=True) as browser:
        address = entity(browser, "Citizen")
        assert "this form is not one of this console" in browser.post(address, [("csrf", "x")], 403)
        assert "sent by another site" in browser.post(address, [], 403, **{"sec-fetch-site": "cross-site"})
        assert "is read-only" in browser.get("/do/drain", 403)
        assert "NotFound" in browser.post("/entity/Column?key=4711", [("csrf", csrf_of(browser, address))], 404)


def csrf_of(browser, address):
    return re.search(r'name="csrf" value="([^"]*)"', browser.get(address))[1]


def test_a_store_that_cannot_keep_who_saw_it_shows_nothing(url, monkeypatch):
    fill(url)

    def refuse(*_given):
        raise InvalidQuery("this store takes no writes")
        yield

    monkeypatch.setattr("oneread.console.revealing.log_action", refuse)
    with opened(url, schema=TOWN, personal=True) as browser:
        said = browser.submit(browser.get(entity(browser, "Citizen")), 400)
        assert found_in(said) == set()


def test_a_change_of_a_personal_field_is_not_quoted(url):
    fill(url)
    with opened(url, schema=TOWN) as browser:
        page = browser.get(entity(browser, "Citizen"))
        (change,) = [each for each in links(page) if each.startswith("/do/patch") and "field=name" in each]
        form = browser.get(change)
        assert f'name="value" value="{MASK}"' in form
        assert "nothing was changed" in browser.submit(form)
        done = browser.submit(browser.get(change), changed={"value": "zqxwvnew"})
        assert "name was changed" in done
        assert found_in(done) == set()
        with connect(url, TOWN, workers=0) as db:
            assert db.find(Citizen, "zqxwv000@example.com").name == "zqxwvnew"
            stored = b"".join(cell.value for _key, row in db.run(log_rows()) for cell in row.values())
            assert b"zqxwvnew" not in stored
            assert b"zqxwvn0" not in stored
        again = browser.submit(browser.get(change), 409, changed={"value": "zqxwvnameada"})  # which is another one's
        assert "NotUnique" in again or "unique" in again
        assert "zqxwvnameada" in again  # as it was typed
        assert found_in(again.replace("zqxwvnameada", "")) == set()


def log_rows():
    found = yield from Scan("system", CONSOLE_LOG, 100)
    return found


def test_what_was_typed_stays_as_it_was_typed(town):
    with opened(town, schema=TOWN) as browser:
        page = browser.get("/data/CitizenOfName", key="zqxwvnameada")
        assert 'name="key" value="zqxwvnameada"' in page
        assert found_in(page.replace("zqxwvnameada", "")) == set()
        (own,) = [each for each in links(page) if each.startswith("/entity/CitizenOfName")]
        assert "zqxwv" not in own
        assert "given=" in browser.get("/data/Column", 400, key="zqxwvx")


def test_values_are_not_found_out_by_bounds(town):
    with opened(town, schema=TOWN) as browser:
        for name in ("since", "after", "until", "through", "starts_with"):
            said = browser.get("/data/Citizen", 400, **{name: "zqxwv0"})
            assert "not searched by bounds" in said
            assert f'name="{name}"' not in browser.get("/data/Citizen")
            assert "not searched by bounds" in browser.get("/data/ColumnsByName", 400, **{name: "zqxwvn"})
        for path in ("/data/Citizen?cursor=eA", "/counters?after=visits:zqxwvb", "/entity/Column?key=1&cursor=eA"):
            assert "not searched by places" in browser.get(path, 400)
        assert "not searched by what they begin with" in browser.get("/counters", 400, prefix="visits:zqxwvb")
        assert MASK in browser.get("/counters", prefix="visits:")
        assert MASK in browser.get(next(each for each in links(browser.get("/data/Citizen")) if "cursor=" in each))
        assert 'name="since"' in browser.get("/data/Column")
        assert 'name="since"' in browser.get(f"/data/Reader?key={entity(browser, 'Citizen').partition('key=')[2]}")


def test_sealed_words_are_of_one_console():
    seal = Seal(b"one")
    words = ["", "a", "ada@example.com", "\udcff\x00", "x" * 5_000, "a\x00", "@~"]
    assert [seal.open(seal.seal(each)) for each in words] == words
    assert len({len(seal.seal(each)) for each in ("", "a", "ada@example.com", "x" * 47)}) == 1
    assert seal.seal("a") == Seal(b"one").seal("a") != Seal(b"two").seal("a")
    assert [seal.open(each) for each in ("@~", "@~abc", "plain")] == ["@~", "@~abc", "plain"]
    sealed = seal.seal("a")
    for wrong in (Seal(b"two").seal("a"), sealed[:-2] + ("A" if sealed[-2] != "A" else "B") + sealed[-1]):
        with pytest.raises(InvalidQuery):
            seal.open(wrong)


def test_an_address_of_a_console_that_has_ended_says_so(town):
    with opened(town, schema=TOWN) as browser:
        address = entity(browser, "Citizen")
    with opened(town, schema=TOWN) as browser:
        assert "of one that has ended" in browser.get(address, 400)
