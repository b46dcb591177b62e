"""`oneread verify` and `oneread repair`: what they say, write and exit with; what they find is tested elsewhere."""

from functools import partial
from typing import Any

import msgspec
import pytest

from oneread import connect
from oneread.cli.faults import resuming
from oneread.database._sync.database import Database
from oneread.errors import UsageError
from oneread.plans.effects import Atomically
from oneread.plans.progress import Progress, no_progress
from oneread.store.rows import Cell, RowRange
from oneread.verify.noted import last_verified
from tests.cli import notes
from tests.cli.test_terminal import answered


class Difference(msgspec.Struct, forbid_unknown_fields=True):
    field: str
    expected: str
    found: str


class Fault(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    kind: str
    view: str
    row: str
    entity: str
    expected: str
    found: str
    differences: list[Difference]
    mendable: bool
    droppable: bool
    table: str
    key: bytes


class Verified(msgspec.Struct, forbid_unknown_fields=True):
    clean: bool
    total: int
    found: dict[str, dict[str, int]]
    faults: list[Fault]
    skipped: list[str]
    entities: int
    rows: int
    seconds: float
    resume: str
    ahead: list[dict[str, object]]
    ahead_count: int
    building: list[str]


class Mended(msgspec.Struct, forbid_unknown_fields=True):
    clean: bool
    mended: int
    dropped: list[str]
    left: dict[str, dict[str, int]]
    faults: list[Fault]
    reasons: list[str]
    skipped: list[str]
    rounds: int
    seconds: float


def change(url, body):
    """Runs a function in a transaction, past everything that keeps a store right."""
    with connect(url, notes.NOTES, workers=0) as db:
        db.run(Atomically(partial(body, db.operations.catalog)).__iter__())


@pytest.fixture
def damaged(url):
    """A store that lacks three rows of NotesOfAuthor."""

    def body(catalog, store):
        prefix = catalog.views[notes.NotesOfAuthor].prefix
        rows = store.scan("views", RowRange(prefix, prefix + b"\xff"), 3)
        store.replace("views", {key: None for key, _row in rows})

    change(url, body)
    return url


def test_a_store_that_is_right_is_code_0(oneread):
    ran = oneread("verify")
    assert ran.code == 0
    assert ran.out.startswith("no faults: 8 entities and ")
    found = oneread("verify", "--json").document(Verified)
    assert (found.clean, found.total, found.entities, found.skipped, found.resume) == (True, 0, 8, [], "")


@pytest.mark.usefixtures("damaged")
def test_faults_are_counted_shown_and_code_1(oneread):
    ran = oneread("verify", "--limit", "1")
    assert ran.code == 1
    assert ran.out.startswith("missing: NotesOfAuthor ")
    assert "... and 2 more faults" in ran.out
    assert "3 faults: 8 entities and " in ran.out
    assert "NotesOfAuthor  missing      3" in ran.out
    assert "`oneread repair` repairs" in ran.err


@pytest.mark.usefixtures("damaged")
def test_faults_as_json_are_bounded_and_counted(oneread):
    ran = oneread("verify", "--limit", "2", "--json")
    found = ran.document(Verified)
    assert (ran.code, found.clean, found.total, len(found.faults)) == (1, False, 3, 2)
    assert found.found == {"NotesOfAuthor": {"missing": 3}}
    assert found.faults[0].mendable


@pytest.mark.usefixtures("damaged")
def test_every_fault_is_written_to_a_new_file(oneread, tmp_path):
    path = tmp_path / "faults.jsonl"
    oneread("verify", "--limit", "0", "--faults-to", path)
    lines = path.read_bytes().splitlines()
    assert [msgspec.json.decode(line, type=Fault).view for line in lines] == ["NotesOfAuthor"] * 3
    ran = oneread("verify", "--faults-to", path, "--json")
    assert (ran.code, ran.failure().message) == (2, "the file exists already; remove it or name another")
    assert path.read_bytes().splitlines() == lines


def test_a_file_that_cannot_be_made_is_code_3(oneread, tmp_path):
    assert oneread("verify", "--faults-to", tmp_path / "no" / "file").code == 3


@pytest.mark.usefixtures("damaged")
def test_a_view_alone_may_be_verified(oneread):
    assert oneread("verify", "NotesOfTopic", "Days").code == 0
    assert oneread("verify", "NotesOfAuthor").code == 1
    assert oneread("verify", "NotesOfNobody").code == 2


def test_a_timeout_is_reported_with_how_to_resume(oneread):
    ran = oneread("verify", "Note", "--max-age", "0.001", "--pace", "500", "--json")
    found = ran.document(Verified)
    assert (ran.code, found.clean, found.skipped) == (1, False, ["Note"])
    assert found.resume
    assert oneread("verify", "Note", "--resume", found.resume, "--json").document(Verified).clean
    assert (
        "not compared within --max-age or --timeout, or changed at every look: Note"
        in oneread("verify", "Note", "--max-age", "0.001", "--pace", "500").out
    )


@pytest.mark.parametrize("arguments", [["--pace", "0"], ["--max-age", "0"], ["--limit", "-1"], ["--resume", "!"]])
def test_an_option_that_cannot_be_is_wrong_use(oneread, arguments):
    assert oneread("verify", *arguments).code == 2


def stopped(option, *report):
    """What is noted on a Ctrl-C after these reports."""
    with pytest.raises(KeyboardInterrupt) as raised, resuming(no_progress, option) as progress:
        stop_after(progress, report)
    return getattr(raised.value, "__notes__", [])


def stop_after(progress, report):
    for each in report:
        progress(each)
    raise KeyboardInterrupt


def test_work_that_is_stopped_says_how_to_go_on():
    report = Progress("reading", 1, cursor="abc")
    assert stopped("--resume", report) == ["resume with --resume abc"]
    assert stopped("--resume") == ["no work was finished; run the same command again"]
    assert stopped("--resume", Progress("reading", 1)) == ["no work was finished; run the same command again"]
    assert stopped("", report) == ["finished work is kept; run the same command to continue"]


def test_work_that_resumed_and_is_stopped_at_once_says_the_cursor_that_it_resumed():
    with pytest.raises(KeyboardInterrupt) as raised, resuming(no_progress, "--resume", "abc"):
        raise KeyboardInterrupt
    assert raised.value.__notes__ == ["resume with --resume abc"]


def test_a_cursor_that_is_refused_is_not_what_to_resume_with(oneread):
    ran = oneread("verify", "--resume", "nonsense", "--json")
    assert ran.code == 2
    assert (ran.failure().hint, ran.failure().cursor) == ("leave --resume out to start from the beginning", "")


def close_after(progress, report):
    progress(report)
    raise UsageError("closed meanwhile")


def test_a_wrong_use_does_not_say_to_run_the_same_command_again():
    with pytest.raises(UsageError) as raised, resuming(no_progress):
        raise UsageError("wrong")
    assert not hasattr(raised.value, "__notes__")
    with pytest.raises(UsageError) as raised, resuming(no_progress, "--resume") as progress:
        close_after(progress, Progress("reading", 1, cursor="abc"))
    assert raised.value.__notes__ == ["resume with --resume abc"]


def test_a_verification_that_is_stopped_says_its_cursor_as_json(oneread, monkeypatch):
    first = oneread("verify", "--max-age", "0.001", "--pace", "500", "--json").document(Verified).resume

    def stop(*_given, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Database, "verify", stop)
    ran = oneread("verify", "--resume", first, "--json")
    assert (ran.code, ran.failure().kind, ran.failure().cursor) == (130, "KeyboardInterrupt", first)
    assert ran.failure().hint == f"resume with --resume {first}"
    ran = oneread("verify", "--json")
    assert (ran.failure().cursor, ran.failure().hint) == ("", "no work was finished; run the same command again")


def test_a_note_on_the_way_is_the_hint(oneread):
    code = "error = errors.Unavailable('busy'); error.add_note('go on: --resume x'); raise error"
    failure = oneread("shell", "-c", code).err
    assert failure == "error: busy\nhint: trying again can help; go on: --resume x\n"


def test_documents_hold_nothing_but_what_is_named(oneread):
    assert set(oneread("verify", "--json").document(dict[str, Any])) == set(Verified.__struct_fields__)


@pytest.mark.usefixtures("damaged")
def test_repair_mends_and_a_second_verify_is_clean(oneread, tmp_path):
    ran = oneread("repair", "--faults-to", tmp_path / "faults.jsonl")
    assert ran.code == 0
    assert ran.out.startswith("3 faults repaired, no faults left: 2 verifications in ")
    assert len((tmp_path / "faults.jsonl").read_bytes().splitlines()) == 3
    assert oneread("verify").code == 0
    found = oneread("repair", "--json").document(Mended)
    assert (found.clean, found.mended, found.left, found.rounds) == (True, 0, {}, 1)


def test_what_cannot_be_mended_is_left_and_code_1(oneread, url):
    def body(catalog, store):
        key = catalog.kinds[notes.Person].key((notes.BOB,))
        store.replace("roots", {key: {b"d:b": Cell(b"\xff\xff", 1)}})

    change(url, body)
    ran = oneread("repair")
    assert ran.code == 1
    assert "; repair cannot fix it" in ran.out
    assert "fault left" in ran.out or "faults left" in ran.out
    found = oneread("repair", "--limit", "0", "--json").document(Mended)
    assert (found.clean, found.faults) == (False, [])
    assert found.left
    assert "... and" in oneread("repair", "--limit", "0").out


@pytest.fixture
def beyond_repair(url):
    """A store with an entity under the key of another one."""

    def body(catalog, store):
        keys = [catalog.kinds[notes.Person].key((number,)) for number in (notes.BOB, notes.ADA)]
        bob, ada = store.read("roots", keys, "dm")
        store.replace("roots", {keys[0]: bob | {b"d:b": ada[b"d:b"]}})

    change(url, body)
    return url


@pytest.mark.usefixtures("beyond_repair")
def test_what_cannot_be_mended_is_said_in_words(oneread):
    ran = oneread("verify")
    assert "different: Person 2: the row holds Person 1; repair cannot fix it\n" in ran.out
    ran = oneread("repair")
    assert "`oneread repair --drop` deletes what cannot be repaired, after showing it: 1 of the faults" in ran.err


@pytest.mark.usefixtures("beyond_repair")
def test_nothing_is_dropped_without_a_yes(oneread):
    for options in (["--drop"], ["--drop", "--json"]):
        ran = oneread("repair", *options)
        assert (ran.code, "give --yes as well" in ran.out + ran.err) == (2, True)
    assert "Person 2" in oneread("verify").out


def test_what_cannot_be_mended_is_dropped_and_the_store_is_clean(oneread, beyond_repair):
    found = oneread("repair", "--drop", "--yes", "--json").document(Mended)
    assert (found.clean, found.dropped) == (True, ["Person 2: the row holds Person 1"])
    assert oneread("verify").code == 0
    with connect(beyond_repair, notes.NOTES, workers=0) as db:
        assert [person.number for person in db.page(notes.Person)] == [1]
    again = oneread("repair", "--drop", "--yes")
    assert (again.code, "deleted" in again.out) == (0, False)


@pytest.mark.parametrize(("answer", "remains"), [("y\n", False), ("n\n", True), ("\n", True)])
def test_on_a_terminal_it_is_shown_and_asked_for(beyond_repair, answer, remains):
    shown = answered(beyond_repair, answer, "repair", "--drop")
    assert "1 row cannot be repaired and would be deleted:\n  Person 2: the row holds Person 1\n" in shown
    assert "delete? there is no way back" in shown
    assert ("deleted: Person 2" in shown) != remains
    with connect(beyond_repair, notes.NOTES, workers=0) as db:
        assert db.verify().clean != remains


def test_repair_of_what_took_too_long_is_code_1(oneread):
    ran = oneread("repair", "Note", "--max-age", "0.001", "--pace", "500")
    assert ran.code == 1
    assert "not compared within --max-age, or changed at every look: Note" in ran.out


def test_what_was_found_is_kept_for_the_console(oneread, url):
    assert oneread("verify", "--note").code == 0
    with connect(url, notes.NOTES, workers=0) as db:
        noted = db.run(last_verified())
    assert (noted.clean, noted.faults, noted.entities > 0) == (True, 0, True)
    ran = oneread("verify", "Note", "--note")
    assert ran.code == 2
    assert "--note keeps what was found of all" in ran.err
