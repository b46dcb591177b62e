"""What a deleted entity left, found by the console alone: on one page, by its key, and by the log of its model."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    counter,
    newest,
    on,
    rollup,
    shown,
)
from oneread.store.requests import Mutate, Read
from oneread.store.rows import VALUE, Cell, RowMutation
from tests.unit.console.places import links, opened
from tests.unit.console.test_acting import wait_for

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Person(Model[str]):
    logged = timedelta(days=7)

    code: Key[str]
    name: str
    born: datetime = NOON
    views: int = rollup(counter("views:{code}"))


class Buyer(Copy[Person]):
    on_delete = "clear"

    name: str | None


class Writer(Copy[Person]):
    name: str
    born: datetime


class Bill(Model[int]):
    number: Key[int]
    buyer: Buyer
    sold_by: Ref[Person]


class Letter(Model[int]):
    number: Key[int]
    writer: Writer
    text: str

    def check(self):
        if self.writer.deleted and self.number == 13:
            raise ValueError("this letter has to be answered first")


class BillsOfSeller(Index[Bill]):
    seller: Ref[Person] = by(Bill.sold_by)


class LettersOf(Aggregate[Letter]):
    writer: Writer = by(Letter.writer)
    letters: int = count()


class Reading(Model[str, int]):
    person: Key[str]
    room: Key[int]


class LetterInRoom(Model[int]):
    number: Key[int]
    room: int
    title: str
    at: datetime = NOON


class TitlesOfRoom(Index[LetterInRoom]):
    room: int = by(LetterInRoom.room)
    title: str = shown(LetterInRoom.title)


class Desk(Feed[LetterInRoom]):
    person: str = by(Reading.person)
    at: datetime = newest(LetterInRoom.at)
    title: str = shown(LetterInRoom.title)
    expires_after = None
    joined = on(LetterInRoom.room, Reading.room)


OFFICE = Schema(Person, Bill, Letter, BillsOfSeller, LettersOf, Reading, LetterInRoom, TitlesOfRoom, Desk, inline=0)


@pytest.fixture
def filled(url):
    with connect(url, OFFICE, workers=0) as db:
        for code in ("ada", "bob"):
            db.save(Person(code=code, name=code.title()))
        for number in (1, 2):
            db.save(Bill(number=number, buyer=Buyer.of("ada"), sold_by=Person.at("ada")))
        for number in (1, 13):
            db.save(Letter(number=number, writer=Writer.of("ada"), text="x"))
        db.counter("views:ada").add(5)
        for person in ("ada", "bob"):
            db.save(Reading(person=person, room=1))
        db.save(LetterInRoom(number=4, room=1, title="Lost"))
        db.drain()
    return url


def delete(url, model, *key, drain=True):
    with connect(url, OFFICE, workers=0) as db:
        db.delete(model, *key)
        if drain:
            db.drain()


def table(document, heading):
    (found,) = [
        each for each in [*document["page"]["blocks"], *document["page"]["beside"]] if each.get("heading") == heading
    ]
    return [[" ".join(text["text"] for text in cell) for cell in row] for row in found["rows"]]


def test_one_page_has_everything_that_a_deleted_entity_left(filled):
    delete(filled, Person, "ada")
    with opened(filled, schema=OFFICE) as browser:
        found = browser.json("/entity/Person", key="ada")
        page = browser.get("/entity/Person", key="ada")
    assert "this entity was deleted" in page
    assert "Last values, which those who copy it keep" in page
    assert {row[0] for row in table(found, "Who refers to it")} == {"Bill 1", "Bill 2", "Letter 1", "Letter 13"}
    ((of, what, _done, since, error),) = table(found, "Still follows")
    assert (of, what) == ("Letter(13)", "could not follow, tried 1 time")
    assert since.endswith("UTC")
    assert "this letter has to be answered first" in error
    assert table(found, "Lists by it") == [
        ["BillsOfSeller index", "2 rows"],
        ["LettersOf aggregate", "1 group"],
    ]
    assert table(found, "Its counters") == [["views:ada", "5"]]
    assert "/data/BillsOfSeller?key=ada" in links(page)
    assert "/do/verify?of=Person" in links(page)
    assert "/do/retry" in links(page)
    assert "it left: 4 references to it, 1 task or holder set aside, rows in lists by it" in page
    assert found["cost"]["requests"] <= 20
    assert found["cost"]["rows"] <= 1000


def test_entries_of_a_feed_that_still_show_it_are_there_until_they_are_removed(filled):
    delete(filled, LetterInRoom, 4, drain=False)
    with opened(filled, schema=OFFICE) as browser:
        found = browser.json("/entity/LetterInRoom", key="4")
        page = browser.get("/entity/LetterInRoom", key="4")
        assert [row[0].split()[0] for row in table(found, "Rows that still show it")] == ["Desk", "Desk"]
        assert {"/data/Desk?key=ada", "/data/Desk?key=bob", "/do/drain"} <= {*links(page)}
        with connect(filled, OFFICE, workers=0) as db:
            db.drain()
        page = browser.get("/entity/LetterInRoom", key="4")
        assert "it left nothing that is known" in page
        assert "nothing is late" in page
        assert "its row keeps no values" in page


def test_it_is_found_by_its_key(filled):
    delete(filled, Person, "ada")
    with opened(filled, schema=OFFICE) as browser:
        page = browser.get("/find/Person", field="code", value="ada")
        assert "see what it left" in page
        assert "/entity/Person?key=ada" in links(page)
        assert "/entity/Person?key=bob" in links(browser.get("/find/Person", field="code", value="bob"))
        assert "there is no Person cat, and none was deleted" in browser.get("/find/Person", field="code", value="cat")
        assert "see what it left" in browser.get("/data/Person", key="ada")
        assert "see what it left" not in browser.get("/data/Person", key="bob")
        assert "and none was deleted" in browser.get("/data/Person", key="cat")


def test_the_log_of_a_model_leads_to_what_was_deleted(filled):
    delete(filled, Person, "ada")
    with opened(filled, schema=OFFICE) as browser:
        assert table(browser.json("/"), "Deleted lately")[0][0] == "Person ada"
        assert "/changed/Person" in links(browser.get("/data/Person"))
        found = table(browser.json("/changed/Person"), "")
        assert [(row[0], row[2]) for row in found] == [("Person ada", "deleted"), ("Person bob", "there")]
        assert browser.json("/changed/Person")["cost"]["requests"] == 2
        assert "not logged" in browser.get("/changed/Bill", 400)
        assert "not a place of the log" in browser.get("/changed/Person", 400, before="x")


def test_a_log_has_pages(url):
    with connect(url, OFFICE, workers=0) as db:
        for number in range(60):
            db.save(Person(code=f"p{number:02}", name="x"))
        db.save_all([Person(code=f"q{number:02}", name="x") for number in range(30)])
        db.delete(Person, "p00")
        db.drain()
    with opened(url, schema=OFFICE) as browser:
        seen, path = [], "/changed/Person"
        while path:
            seen += re.findall(r">Person (\w+)<", browser.get(path))
            path = next((each for each in links(browser.get(path)) if "before=" in each), "")
        assert sorted({*seen}) == sorted(
            [*(f"p{each:02}" for each in range(60)), *(f"q{each:02}" for each in range(30))]
        )
        assert seen[0] == "p00"


def test_faults_that_a_verification_found_are_on_its_page(filled):
    delete(filled, LetterInRoom, 4)
    with connect(filled, OFFICE, workers=0) as db:
        db.save(LetterInRoom(number=5, room=1, title="Found"))
        db.drain()
        ours = next(each for each in db.places(LetterInRoom, 5).places if each.view == "TitlesOfRoom")
        (kept,) = db.run(Read("views", [ours.row], "dm").__iter__())
        own = db.operations.root(LetterInRoom, (5,)), db.operations.root(LetterInRoom, (4,))
        other = ours.row[: -len(own[0]) + 2] + own[1][2:]
        db.run(Mutate("views", [RowMutation(other, {VALUE: Cell(kept[VALUE].value, kept[VALUE].stamp)})]).__iter__())
        assert [each.entity for each in db.verify(LetterInRoom).faults] == ["LetterInRoom(4)"]
    with opened(filled, schema=OFFICE) as browser:
        browser.send("/do/verify", of="LetterInRoom")
        wait_for(browser, "/verify", "1 fault in")
        assert "TitlesOfRoom 1 of LetterInRoom 4: " in browser.get("/entity/LetterInRoom", key="4")


class Singer(Model[str]):
    code: Key[str]
    name: str


class SungBy(Copy[Singer]):
    name: str


class Song(Model[int]):
    number: Key[int]
    singer: SungBy
    first: Ref[Singer]
    other: Ref[Singer]
    person: Ref[Person]


class SongsBy(Index[Song]):
    singer: SungBy = by(Song.singer)
    copied: SungBy = shown(Song.singer)
    first: Ref[Singer] = shown(Song.first)


SONGS = Schema(Singer, Person, Song, SongsBy)


def test_what_a_row_knows_as_deleted_is_flagged_without_a_further_read(url):
    with connect(url, SONGS, workers=0) as db:
        for code in ("ada", "bob"):
            db.save(Singer(code=code, name=code.title()))
        db.save(Person(code="ada", name="Ada"))
        ada = Singer.at("ada")
        db.save(Song(number=1, singer=SungBy.of("ada"), first=ada, other=Singer.at("bob"), person=Person.at("ada")))
        db.drain()
    with opened(url, schema=SONGS) as browser:
        costs = [browser.json(path)["cost"]["requests"] for path in ("/data/Song", "/data/SongsBy")]
        assert "deleted" not in str(table(browser.json("/data/Song"), ""))
        with connect(url, SONGS, workers=0) as db:
            db.delete(Singer, "ada")
            db.drain()
        found = [browser.json(path) for path in ("/data/Song", "/data/SongsBy")]
        assert [each["cost"]["requests"] for each in found] == costs
        copied = "Singer ada name Ada copy deleted"
        assert table(found[0], "") == [["1", copied, "Singer ada deleted", "Singer bob", "Person ada"]]
        assert table(found[1], "") == [["Song 1", "Singer ada deleted", copied, "Singer ada deleted"]]
        fields = dict(browser.json("/entity/Song", key="1")["page"]["blocks"][0]["rows"])
        assert [each["text"] for each in fields["first"]] == ["Singer ada", "deleted"]
        assert fields["first"][1]["tone"] == "warn"
