"""`oneread places`."""

from typing import Any

import msgspec

from oneread import connect
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from tests.cli import notes
from tests.cli.test_get import Cost
from tests.unit.verify.hands import put


class Found(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    key: list[Any]
    entity: dict[str, Any] | None
    versions: dict[str, Any]
    cells: list[dict[str, Any]]
    places: list[dict[str, Any]]
    shows: list[dict[str, Any]]
    hidden: dict[str, Any]
    holders: list[dict[str, Any]]
    next: str | None
    checked: bool | None
    faults: list[dict[str, Any]]
    last: dict[str, Any]
    tasks: list[dict[str, Any]]
    cost: Cost


def columns(out):
    return [[each.strip() for each in line.split("  ") if each.strip()] for line in out.splitlines()]


def test_places_are_shown_with_what_changes_them(oneread):
    ran = oneread("places", "Note", notes.IDS[0])
    assert ran.code == 0
    head, _own, _row, _blank, _names, _line, *places = columns(ran.out)
    assert head == [f"Note {notes.IDS[0]}"]
    assert places == [
        ["NotesOfAuthor", f"1/2026-01-31T22:00:00Z/{notes.IDS[0]}", "index", "author 2, when 2, body 1"],
        ["NotesOfTopic", f"tea/SAD/{notes.IDS[0]}", "index", "author 1, mood 2, topic 2"],
        ["NotesByBody", places[2][1], "index", "body 2"],
        ["Days", "2026-01-31T00:00:00Z", "share of notes 1", "when 2"],
        ["Days.latest", f"2026-01-31T00:00:00Z/{notes.IDS[0]}", "extremum", "when 2"],
        ["Person", "1", "back-reference by author", "author 2"],
    ]
    assert ran.err.startswith("cost: 2 requests, 1 row, ")


def test_those_who_refer_to_it_come_in_pages(oneread):
    ran = oneread("places", "Person", "1", "--limit", "3")
    assert ["Note", str(notes.IDS[0]), "back-reference", "author", "name"] in columns(ran.out)
    cursor = ran.err.splitlines()[0].removeprefix("next page of those who refer to it: --cursor ")
    rest = oneread("places", "Person", "1", "--limit", "3", "--cursor", cursor, "--json").document(Found)
    assert [each["key"] for each in rest.holders] == [[str(notes.IDS[3])]]
    assert rest.next is None


def test_as_json_everything_is_there(oneread, url):
    found = oneread("places", "Person", "1", "--json").document(Found)
    with connect(url, notes.NOTES, workers=0) as db:
        wanted = db.places(notes.Person, 1, limit=20)
    assert (found.model, found.key, found.entity["name"], found.checked) == ("Person", [1], "Ada", None)
    assert found.versions["own"] == wanted.versions.own
    assert [(each["kind"], each["view"], each["key"]) for each in found.places] == [
        (each.kind, each.view, list(each.key)) for each in wanted.places
    ]
    assert found.places[-1]["share"] == {"people": 1, "numbers": 1}
    assert [each["fields"] for each in found.holders] == [["author"]] * 4
    assert len(found.cells) == len(wanted.cells)


def test_a_missing_row_is_code_1(oneread, url):
    assert oneread("places", "Person", "1", "--check").code == 0
    with connect(url, notes.NOTES, workers=0) as db:
        prefix = db.operations.catalog.views[notes.PersonByEmail].prefix
        key, _row = db.run(Scan("views", RowRange.under(prefix), 1).__iter__())[0]
        put(db, "views", key, None)
    ran = oneread("places", "Person", "1", "--check")
    assert ran.code == 1
    assert "missing: PersonByEmail ada@example.org of Person 1: the row is missing" in ran.out.splitlines()
    found = oneread("places", "Person", "1", "--check", "--json").document(Found)
    assert [each["state"] for each in found.places] == ["missing", "there", None]
    assert [each["kind"] for each in found.faults] == ["missing"]


def test_a_view_and_an_absent_entity_are_refused(oneread):
    ran = oneread("places", "People")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2, "error: places takes a model; `oneread get` shows a group of an aggregate (view=People)",
    )  # fmt: skip
    assert oneread("places", "Person", "404").code == 1


def test_of_a_deleted_entity_what_still_follows_is_shown(oneread, url):
    with connect(url, notes.NOTES, workers=0) as db:
        db.delete(notes.Person, 1)
    ran = oneread("places", "Person", "1")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "Person 1, deleted")
    assert "  name: last value 'Ada'" in ran.out.splitlines()
    assert [each[:3] for each in columns(ran.out) if each[:1] == ["follow"]] == [["follow", "Person(1)", "0"]]
    assert ["Note", str(notes.IDS[0]), "back-reference", "author", "name"] in columns(ran.out)
    found = oneread("places", "Person", "1", "--json").document(Found)
    assert (found.entity, found.versions["deleted"], found.last) == (None, True, {"name": "Ada"})
    assert [(each["kind"], each["of"]) for each in found.tasks] == [("follow", "Person(1)")]
