"""The page of the schema: the console's own beside the store's, one that is newer, and one that cannot be read."""

import pytest

from oneread import Index, Key, Model, Schema, by, connect, migration
from oneread.console.pages.schema import unopened_page
from oneread.errors import SchemaMismatch
from oneread.evolution.plan_words import difference_rows, planned_lines
from oneread.store.requests import Mutate, Read
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions.system_rows import SCHEMA_ROW
from tests.unit.console.places import opened


class Song(Model[int]):
    number: Key[int]
    title: str
    plays: int = 0


class SongsByTitle(Index[Song]):
    title: str = by(Song.title)


class SongsByPlays(Index[Song]):
    plays: int = by(Song.plays)


OLD = Schema(Song, SongsByTitle)
NEW = Schema(Song, SongsByTitle, SongsByPlays)


@pytest.fixture
def filled(url):
    with connect(url, OLD, workers=0) as db:
        db.save(Song(number=1, title="x"))
    return url


def build(db):
    while not db.backfill().done:
        pass


def rows(page, heading):
    (found,) = [each for each in page["blocks"] if each.get("heading") == heading]
    return [[" ".join(text["text"] for text in cell) for cell in row] for row in found["rows"]]


def test_the_newest_schema_needs_no_plan(filled):
    with opened(filled, schema=OLD) as browser:
        found = browser.json("/schema")
        assert "this console has the newest schema of the store, version 1" in browser.get("/schema")
        assert [row[2:] for row in rows(found["page"], "Versions")] == [["may write", "this schema"]]
        assert found["cost"]["requests"] == 4


def test_a_newer_schema_of_the_store_is_shown(filled):
    with opened(filled, schema=OLD) as browser, connect(filled, NEW, workers=0) as db:
        page = browser.get("/schema")
        assert "this schema is version 1; its programs may continue until a backfill" in page
        assert "a backfill has work to do" in page
        found = rows(browser.json("/schema")["page"], "Versions")
        assert [row[0] for row in found] == ["2", "1"]
        assert [row[2:] for row in found] == [["may write", ""], ["may write", "this schema"]]
        build(db)
    with pytest.raises(SchemaMismatch, match="newer schema"):
        connect(filled, OLD, workers=0)
    with opened(filled, schema=NEW) as browser:
        found = rows(browser.json("/schema")["page"], "Versions")
        assert [row[2:] for row in found] == [["may write", "this schema"], ["cut off", ""]]


def test_a_console_that_was_cut_off_says_so(filled):
    with opened(filled, schema=OLD) as browser:
        with connect(filled, NEW, workers=0) as db:
            build(db)
        page = browser.get("/schema")
        assert "the whole schema" in page
        assert "oneread migrate rollback" in page
        assert [row[2:] for row in rows(browser.json("/schema")["page"], "Versions")][1] == ["cut off", "this schema"]


def test_a_damaged_schema_row_is_shown(filled):
    with opened(filled, schema=OLD) as browser:
        with connect(filled, OLD, workers=0) as db:
            (row,) = db.run(Read("system", [SCHEMA_ROW]).__iter__())
            damaged = Cell(b"\xff", row[VALUE].stamp + 1)
            db.run(Mutate("system", [RowMutation(SCHEMA_ROW, {VALUE: damaged})]).__iter__())
        assert "what the store says of its schema cannot be read" in browser.get("/schema")


def test_a_plan_is_that_of_the_command(filled):
    with migration(filled, NEW) as change:
        planned = change.plan(count=False)
        page = unopened_page(planned, change.status(), "it differs")
    note = page.blocks[1]
    assert note.code.splitlines() == list(planned_lines(planned))
    assert "version 1 -> 2" in note.code
    table = page.blocks[2]
    shown = [tuple("".join(text.text for text in cell) for cell in row) for row in table.rows]
    assert shown == difference_rows(planned)
