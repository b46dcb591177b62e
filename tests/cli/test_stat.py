"""`oneread stat`."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from oneread import Feed, Ref, Schema, by, connect, newest, on
from oneread.cli import stat
from oneread.cli.output import size
from tests.cli import notes
from tests.unit.feeds.marked import PLAIN, Group, Member, Membership, Post, fill


class Table(msgspec.Struct, forbid_unknown_fields=True):
    rows: int
    bytes: int


class Engine(msgspec.Struct, forbid_unknown_fields=True):
    tables: dict[str, Table]
    facts: dict[str, int]


class Part(msgspec.Struct, forbid_unknown_fields=True):
    table: str
    name: str
    rows: int
    bytes: int
    deleted: int
    state: str


class Lag(msgspec.Struct, forbid_unknown_fields=True):
    waiting: int
    begun: int
    oldest: float


class JobCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    waiting: int = 0
    due: int = 0
    begun: int = 0
    oldest: float = 0.0
    set_aside: int = 0
    are_all: bool = True


class Survey(msgspec.Struct, forbid_unknown_fields=True):
    schema_version: int
    unfinished: bool
    views: dict[str, str]
    tasks: int
    engine: Engine | None
    parts: list[Part]
    set_aside: int
    lag: dict[str, Lag]
    unswept: dict[str, float]
    feeds: dict[str, Lag]
    commits: dict[str, Any] | None
    cache: None
    behind: float
    are_all: bool
    jobs: JobCounts


SITE = Schema(*PLAIN, inline=1)


def test_a_small_store_is_counted_by_model_and_view(oneread):
    found = oneread("stat", "--json").document(Survey)
    rows = {(part.table, part.name): part.rows for part in found.parts}
    assert {name: rows["roots", name] for name in ("Person", "Note", "Sample")} == {"Person": 2, "Note": 5, "Sample": 1}
    assert rows["views", "NotesOfAuthor"] == 4
    assert rows["views", "back-references"] == 4
    assert rows["views", "Days.latest"] == 5
    assert rows["counts", "Days"] == 2
    assert rows["counts", "PersonByEmail"] == 2
    assert (found.tasks, found.unfinished, found.views["NotesOfAuthor"]) == (0, False, "readable")


def test_the_engines_counts_are_the_sums_of_the_parts(oneread):
    found = oneread("stat", "--exact", "--json").document(Survey)
    for name, table in found.engine.tables.items():
        assert table.rows == sum(part.rows for part in found.parts if part.table == name)
    assert found.engine.facts["readers"] == 0
    assert found.engine.facts["file_bytes"] >= sum(table.bytes for table in found.engine.tables.values())


def test_deleted_entities_are_counted_apart(oneread, url):
    with connect(url, notes.NOTES, workers=0) as db:
        db.delete(notes.Note, notes.IDS[0])
    found = oneread("stat", "--json").document(Survey)
    assert [(part.rows, part.deleted) for part in found.parts if part.name == "Note"] == [(5, 1)]


def test_values_too_large_for_a_page_are_counted(oneread, url):
    before = oneread("stat", "--quick", "--json").document(Survey).engine.tables["roots"].bytes
    with connect(url, notes.NOTES, workers=0) as db:
        db.patch(notes.Note, notes.IDS[0], topic=None, answers=notes.Note.at(notes.IDS[1]), body="x" * 100_000)
    assert oneread("stat", "--quick", "--json").document(Survey).engine.tables["roots"].bytes >= before + 100_000


def test_quick_counts_tables_only(oneread):
    assert oneread("stat", "--quick", "--json").document(Survey).parts == []
    assert "view" in oneread("stat", "--quick").out


def test_a_large_store_is_not_counted_unasked(oneread, monkeypatch):
    monkeypatch.setattr(stat, "FEW_ROWS", 1)
    assert oneread("stat", "--json").document(Survey).parts == []


def test_a_person_sees_tables_parts_and_facts(oneread):
    ran = oneread("stat")
    assert ran.code == 0
    for word in ("version 1 of its schema", "0 tasks waiting", "NotesOfAuthor", "map size", "1.0 TiB"):
        assert word in ran.out


def test_a_store_that_lives_in_memory_is_counted(bare):
    found = bare("stat", "--schema", "tests.cli.notes:NOTES", "--db", "memory://", "--json").document(Survey)
    assert found.engine.tables["roots"] == Table(0, 0)
    assert found.engine.facts == {}


def test_the_room_of_other_tenants_is_not_called_free(bare, url):
    with connect(f"{url}?prefix=other_", notes.NOTES, workers=0):
        pass
    found = bare("stat", "--schema", "tests.cli.notes:NOTES", "--db", url, "--json").document(dict[str, Any])
    assert "free_bytes" not in found["engine"]["facts"]


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (2 << 40, "2.0 TiB"),
    ],
)
def test_bytes_are_shown_in_their_largest_unit(amount, text):
    assert size(amount) == text


def test_what_waits_for_feeds_is_shown(oneread, new_url):
    url = new_url()
    with connect(url, SITE, workers=0) as db:
        fill(db)
        db.drain()
        db.save_all([Post(name=name, group=Group.at(1), at=datetime.now(UTC)) for name in "ab"])
    options = ("--db", url, "--schema", "tests.cli.test_stat:SITE")

    assert "Home: 2 fan-outs waiting, the oldest for " in oneread("stat", *options).out
    found = oneread("stat", "--json", *options).document(Survey)
    assert found.feeds["Home"].waiting == found.lag["feed"].waiting == 2
    oneread("worker", "--once", *options)
    assert "fan-out" not in oneread("stat", *options).out


class Wide(Feed[Post]):
    """A feed that has every range of rows."""

    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)
    joined = on(Post.group, Membership.group)
    at_most = 5
    large_group = 100


WIDE = Schema(Member, Group, Membership, Post, Wide)


def test_each_range_of_rows_of_a_feed_is_explained(oneread, new_url):
    url = new_url()
    with connect(url, WIDE, workers=0) as db:
        db.save_all([Member(number=1), Group(number=1)])
        db.save(Membership(in_group=1, of_member=1, group=Group.at(1), member=Member.at(1)))
        names = {name for name in db.survey().views if name != "Wide"}
    assert names == {f"Wide.{rows}" for rows in stat.FEED_ROWS}
    options = ("--db", url, "--schema", "tests.cli.test_stat:WIDE")
    shown = oneread("stat", "--quick", *options).out
    assert all(f"Wide.{rows}" in shown and words in shown for rows, words in stat.FEED_ROWS.items())
    exact = oneread("stat", "--exact", *options).out
    assert stat.FEED_ROWS["members"] in exact
    assert stat.FEED_ROWS["items"] not in exact, "there is no row of it"
