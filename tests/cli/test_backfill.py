"""`oneread backfill`: what it says and exits with; what it builds is tested where it is built."""

import msgspec
import pytest

from oneread import connect
from tests.cli import notes
from tests.cli.conftest import SCHEMA


class Refusal(msgspec.Struct, forbid_unknown_fields=True):
    entity: str
    reason: str


class Built(msgspec.Struct, forbid_unknown_fields=True):
    done: bool
    looked: int
    recommitted: int
    passes: int
    refused: int
    refusals: list[Refusal]
    old_code: str
    old_code_at: str | None
    seconds: float


@pytest.fixture
def older(new_url):
    """The URL of a store under a schema that lacks People and PersonByEmail."""
    url = new_url()
    notes.fill(url, notes.BEFORE)
    return url


@pytest.fixture
def run(bare, older):
    return lambda *arguments: bare(arguments[0], "--schema", SCHEMA, "--db", older, *arguments[1:])


def test_nothing_to_do_is_done_at_once(oneread):
    found = oneread("backfill", "--json").document(Built)
    assert (found.done, found.recommitted, found.refused) == (True, 0, 0)
    assert oneread("backfill").out.startswith("every view is readable: 0 entities written ")


def test_a_view_that_was_added_is_built(run):
    assert run("worker", "--for", "0.01").code == 0  # like every program, it brings its schema into the store
    ran = run("get", "People", "--json")
    assert (ran.code, ran.failure().kind) == (1, "NotReady")
    assert ran.failure().hint == "`oneread backfill` builds it"
    ran = run("backfill", "--quiet-for", "0", "--json")
    assert ran.code == 0
    assert (ran.document(Built).done, ran.document(Built).recommitted) == (True, 2)
    assert run("get", "People").code == 0
    assert run("verify").code == 0


@pytest.mark.parametrize("arguments", [["repair"], ["tasks", "--drain"], ["shell", "--write", "-c", "1"]])
def test_who_mends_brings_no_new_schema_in(run, older, arguments):
    ran = run(*arguments)
    assert ran.code == 1
    assert "hint: `oneread migrate plan` shows what differs and what to do\n" in ran.err
    with connect(f"{older}&read_only=true", notes.BEFORE) as db:
        assert db.survey().schema_version == 1


def test_an_entity_that_cannot_be_in_the_view_is_named_and_code_1(run, older):
    with connect(older, notes.BEFORE, workers=0) as db:
        db.patch(notes.Person, notes.BOB, email="ada@example.org")
    ran = run("backfill", "--quiet-for", "0")
    assert ran.code == 1
    assert "a view cannot hold this entity: Person(2): " in ran.out
    assert "not done: " in ran.out
    assert "change these entities" in ran.err
    found = run("backfill", "--quiet-for", "0", "--json").document(Built)
    assert (found.done, found.refused, found.refusals[0].entity) == (False, 1, "Person(2)")


def test_who_still_writes_under_the_older_schema_is_named_and_code_1(run, older):
    with connect(older, notes.BEFORE, workers=0) as db:
        assert run("worker", "--for", "0.01").code == 0
        db.patch(notes.Person, notes.BOB, name="Robert")
        ran = run("backfill", "--wait", "0", "--quiet-for", "60")
        assert ran.code == 1
        assert "a program with an older schema still writes: Person(2), at 20" in ran.out
        assert "--fence" in ran.err
        assert run("backfill", "--fence").code == 0
    assert run("verify").code == 0


@pytest.mark.parametrize("arguments", [["--pace", "0"], ["--wait", "-1"], ["--quiet-for", "-1"], ["--wait", "inf"]])
def test_an_option_that_cannot_be_is_wrong_use(oneread, arguments):
    assert oneread("backfill", *arguments).code == 2


def test_a_verification_says_which_views_are_being_built(run, older):
    with connect(older, notes.NOTES, workers=0) as db:  # for writing, so that the store has the schema
        assert db.verify().building == ("People", "PersonByEmail")
        assert db.verify(notes.People).building == ("People",)
    note = "not compared, since they are being built: People, PersonByEmail; run `oneread backfill`\n"
    assert note in run("verify").err
    assert run("backfill", "--quiet-for", "0").code == 0
    assert note not in run("verify").err
