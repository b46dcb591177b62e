"""`oneread get`."""

from typing import Any

import msgspec

from oneread import connect
from tests.cli import notes
from tests.unit.web import questions


class Cost(msgspec.Struct, forbid_unknown_fields=True):
    requests: int
    rows: int
    bytes: int
    skipped: int
    rounds: int


class Got(msgspec.Struct, forbid_unknown_fields=True):
    model: str
    entity: dict[str, Any]
    cost: Cost
    version: int | None = None


def test_an_entity_is_shown_a_field_a_line_and_its_cost_apart(oneread):
    ran = oneread("get", "Note", notes.IDS[0])
    assert ran.code == 0
    assert [line.split(maxsplit=1) for line in ran.out.splitlines()] == [
        ["id", str(notes.IDS[0])],
        ["author", "1"],
        ["author.name", "Ada"],
        ["mood", "SAD"],
        ["when", "2026-01-31T22:00:00Z"],
        ["body", "body 0"],
        ["topic", "tea"],
        ["answers"],
    ]
    assert ran.err.startswith("cost: 1 request, 1 row, ")


def test_an_entity_as_json_has_its_version_and_cost(oneread, url):
    got = oneread("get", "Note", notes.IDS[0], "--json").document(Got)
    assert (got.model, got.cost.requests, got.cost.rows) == ("Note", 1, 1)
    assert got.entity == {
        "id": str(notes.IDS[0]),
        "author": {"ref": [1], "deleted": False, "name": "Ada"},
        "mood": "sad",
        "when": "2026-01-31T22:00:00Z",
        "body": "body 0",
        "topic": "tea",
        "answers": None,
    }
    with connect(url, notes.NOTES, workers=0) as db:
        assert got.version == db.version(db.get(notes.Note, notes.IDS[0]))


def test_a_key_of_every_type_is_read_from_words(oneread):
    ran = oneread("get", "Sample", "--json", "--", "yes", "-2.5", "2.550", "00FF", "2026-01-31", "PT1M30S")
    got = ran.document(Got)
    assert got.entity["seal"] == "AP8="
    assert got.entity["big"] == 2**70


def test_a_group_of_an_aggregate_is_shown(oneread):
    got = oneread("get", "Days", "2026-02-01", "--json").document(Got)
    assert got.entity == {"day": "2026-02-01T00:00:00Z", "notes": 3, "latest": "2026-02-01T02:00:00Z"}
    assert got.version is None


def test_an_aggregate_of_everything_needs_no_key(oneread):
    got = oneread("get", "People", "--json").document(Got)
    assert got.entity == {"people": 2, "numbers": 3}


def test_a_row_of_a_unique_index_is_shown(oneread):
    got = oneread("get", "PersonByEmail", "bob@example.org", "--json").document(Got)
    assert got.entity == {"source": [2], "email": "bob@example.org", "name": "Bob"}


def test_nothing_under_the_key_is_code_1(oneread):
    ran = oneread("get", "Person", "9", "--json")
    assert ran.code == 1
    assert ran.failure().kind == "NotFound"


def test_too_few_and_too_many_values_are_named_with_the_parts(oneread):
    failure = oneread("get", "Sample", "yes", "--json").failure()
    assert failure.facts["parts"] == ["known", "size", "price", "seal", "day", "lasting"]
    ran = oneread("get", "Person", "1", "2", "--json")
    assert (ran.code, ran.failure().facts["parts"]) == (2, ["number"])


def test_an_index_that_is_not_unique_is_refused(oneread):
    ran = oneread("get", "NotesByBody", "body 0", "--json")
    assert (ran.code, ran.failure().kind) == (2, "InvalidQuery")


def test_quiet_shows_no_cost(oneread):
    assert oneread("get", "Person", "1", "--quiet").err == ""


def test_a_list_that_is_not_unique_is_refused_before_its_values_are_counted(oneread):
    for values in ([], ["1"], ["1", "2026-01-31", "too", "many"]):
        ran = oneread("get", "NotesOfAuthor", *values)
        assert (ran.code, ran.err) == (
            2,
            "error: get needs a unique index; `oneread page` shows this one (view=NotesOfAuthor)\n",
        )


def test_an_entity_of_a_model_with_variants_says_which_it_is(bare, new_url):
    url = new_url()
    with connect(url, questions.SCHEMA) as db:
        db.save(questions.User(number=1, name="Ada"))
        db.save(questions.Question(number=1, author=questions.Author.of(1), title="t"))
        db.save(questions.Post(number=2, author=questions.Author.of(1)))
    options = ("--schema", "tests.unit.web.questions:SCHEMA", "--db", url)
    assert bare("get", "Post", 1, *options).out.splitlines()[0].split() == ["type", "Question"]
    assert bare("get", "User", 1, *options).out.splitlines()[0].split() == ["number", "1"]
    assert bare("get", "Post", 2, "--json", *options).document(Got).entity["type"] == "Post"
    assert [line.split("\t")[0] for line in bare("page", "Post", *options).out.splitlines()] == [
        "type",
        "Question",
        "Post",
    ]
