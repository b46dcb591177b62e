"""`oneread page`."""

from typing import Any

import msgspec
import pytest

from oneread import connect
from tests.cli import notes
from tests.cli.test_get import Cost


class Paged(msgspec.Struct, forbid_unknown_fields=True):
    view: str
    rows: list[dict[str, Any]]
    next: str | None
    previous: str | None
    truncated: bool
    cost: Cost


@pytest.fixture
def paged(oneread):
    return lambda *arguments: oneread("page", *arguments, "--json").document(Paged)


def bodies(found):
    return [row["body"] for row in found.rows]


def test_a_page_of_a_view_goes_to_a_pipe_with_tabs_and_the_cursor_beside_it(oneread):
    ran = oneread("page", "NotesOfAuthor", "1", "--limit", "2")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "source\tauthor\twhen\tbody",
        f"{notes.IDS[3]}\t1\t2026-02-01T01:00:00Z\tbody 3",
        f"{notes.IDS[2]}\t1\t2026-02-01T00:00:00Z\tbody 2",
    ]
    assert ran.err.startswith("next page: --cursor ")
    assert "cost: 1 request, 3 rows, " in ran.err


def test_pages_follow_one_another_both_ways(paged):
    first = paged("NotesOfAuthor", "1", "-n", "3")
    assert (bodies(first), first.previous) == (["body 3", "body 2", "body 1"], None)
    second = paged("NotesOfAuthor", "1", "-n", "3", "--cursor", first.next)
    assert (bodies(second), second.next) == (["body 0"], None)
    assert bodies(paged("NotesOfAuthor", "1", "-n", "3", "--cursor", second.previous)) == bodies(first)
    assert bodies(paged("NotesOfAuthor", "1", "-n", "1", "--backward")) == ["body 0"]


def test_what_a_grouping_copy_does_not_hold_is_left_out(paged):
    assert paged("NotesOfAuthor", "1", "-n", "1").rows == [
        {
            "source": [str(notes.IDS[3])],
            "author": {"ref": [1]},
            "when": "2026-02-01T01:00:00Z",
            "body": "body 3",
        }
    ]


def test_bounds_are_values_of_the_next_part(paged):
    assert bodies(paged("NotesOfAuthor", "1", "--since", "2026-02-01")) == ["body 3", "body 2"]
    assert bodies(paged("NotesOfAuthor", "1", "--until", "2026-01-31T23:00:00Z")) == ["body 0"]
    found = paged("NotesOfAuthor", "1", "--since", "2026-02-01T00:30:00+01:00", "--until", "2026-02-01T01:00:00Z")
    assert bodies(found) == ["body 2"]
    assert bodies(paged("NotesOfAuthor", "1", "--after", "2026-02-01T00:00:00Z")) == ["body 3"]
    found = paged("NotesOfAuthor", "1", "--after", "2026-01-31T23:00:00Z", "--through", "2026-02-01T00:00:00Z")
    assert bodies(found) == ["body 2"]


def test_a_text_part_may_be_begun(paged):
    assert [row["email"] for row in paged("PersonByEmail", "--starts-with", "bob@").rows] == ["bob@example.org"]


def test_bytes_may_be_begun_in_hexadecimal(oneread):
    begun = ["--json", "--", "Sample", "true", "-2.5", "2.55"]
    assert len(oneread("page", "--starts-with", "00", *begun).document(Paged).rows) == 1
    assert len(oneread("page", "--starts-with", "01", *begun).document(Paged).rows) == 0


def test_none_has_a_word_of_its_own(paged, url):
    assert len(paged("NotesOfTopic", "@none").rows) == 2
    assert len(paged("NotesOfTopic", "@@none").rows) == 0
    assert len(paged("NotesOfTopic", "tea", "GLAD").rows) == 1
    assert len(paged("NotesOfTopic", "tea", "sad").rows) == 2
    with notes.connect(url, notes.NOTES, workers=0) as db:
        db.patch(notes.Note, notes.IDS[0], topic="@none")
    assert [row["source"] for row in paged("NotesOfTopic", "@@none").rows] == [[str(notes.IDS[0])]]


def test_a_hashed_part_is_found_by_its_text(paged):
    assert [row["source"] for row in paged("NotesByBody", "body 4").rows] == [[str(notes.IDS[4])]]


def test_entities_are_listed_by_first_parts_of_their_key(paged):
    assert [row["name"] for row in paged("Person").rows] == ["Ada", "Bob"]


def test_groups_of_an_aggregate_are_listed(paged):
    assert [row["notes"] for row in paged("Days").rows] == [2, 3]


def test_an_empty_page_is_not_a_failure(oneread):
    ran = oneread("page", "NotesOfAuthor", "9")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith("no rows\n")


@pytest.mark.parametrize(
    ("arguments", "kind", "facts"),
    [
        (["NotesOfAuthor", "x"], "InvalidKey", {"part": "author", "type": "int", "given": "x"}),
        (["NotesOfAuthor", "@none"], "InvalidKey", {"part": "author"}),
        (
            ["NotesOfAuthor", "1", "--since", "2026-02-01T00:00"],
            "InvalidKey",
            {"part": "when", "given": "2026-02-01T00:00"},
        ),
        (["NotesOfTopic", "tea", "HAPPY"], "InvalidKey", {"part": "mood", "example": "GLAD, SAD"}),
        (["Note", "12"], "InvalidKey", {"part": "id", "type": "UUID"}),
        (["Sample", "maybe"], "InvalidKey", {"part": "known", "type": "bool"}),
        (["Sample", "true", "1", "2", "zz"], "InvalidKey", {"part": "seal", "type": "bytes"}),
        (["Sample", "true", "1", "2,5"], "InvalidKey", {"part": "price", "type": "Decimal"}),
        (["Sample", "true", "nan"], "InvalidKey", {}),
        (["Person", "9" * 5000], "InvalidKey", {"part": "number"}),
        (["Person", "1", "2"], "InvalidKey", {"parts": ["number"]}),
        (["Person", "1", "--since", "2"], "InvalidQuery", {"view": "Person"}),
        (["Person", "--limit", "100000"], "InvalidQuery", {"limit": 100_000}),
        (["Person", "--cursor", "AAAA"], "InvalidCursor", {}),
        (["Person", "--starts-with", "x"], "InvalidKey", {}),
    ],
)
def test_a_page_that_cannot_be_is_wrong_use(oneread, arguments, kind, facts):
    ran = oneread("page", *arguments, "--json")
    assert ran.code == 2
    failure = ran.failure()
    assert failure.kind == kind
    assert {name: failure.facts.get(name) for name in facts} == facts


def test_a_value_that_looks_like_an_option_stands_behind_two_dashes(oneread):
    assert oneread("page", "Person", "-5").code == 2
    assert oneread("page", "--", "Person", "-5").code == 0


def test_a_limit_below_one_is_wrong_use(oneread):
    assert oneread("page", "Person", "--limit", "0").code == 2


def test_what_is_stored_cannot_steer_a_terminal(oneread, url):
    with notes.connect(url, notes.NOTES, workers=0) as db:
        db.save(notes.Person(number=3, name="\x1b[31mEve\n", email="e"))
    assert r"\x1b[31mEve\n" in oneread("page", "Person").out
    assert "\x1b" not in oneread("get", "Person", "3").out


def test_a_long_value_in_a_pipe_makes_no_other_row_longer(oneread, url):
    with connect(url, notes.NOTES, workers=0) as db:
        db.patch(notes.Person, notes.ADA, name="A\tda\n" + "x" * 5000)
        db.patch(notes.Person, notes.BOB, name="B")
    lines = oneread("page", "Person").out.splitlines()
    assert lines[0] == "number\tname\temail"
    assert lines[1].startswith("1\tA\\tda\\nxxx")
    assert lines[2] == "2\tB\tbob@example.org"
