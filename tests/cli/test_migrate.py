"""`oneread migrate`: exit codes, what it prints, and that a plan changes nothing."""

import pytest

from oneread import connect
from oneread.cli.migrate import ChangedStore
from oneread.evolution.migrate import Planned, Status
from tests.cli.changing import BEFORE

OLD, NEW, ADDED = (f"tests.cli.changing:{name}" for name in ("BEFORE", "AFTER", "ADDED"))


@pytest.fixture
def store(new_url):
    url = new_url()
    note = BEFORE.named()["Note"]
    with connect(url, BEFORE, workers=0) as db:
        db.save_all([note(number=number, text=f"t{number}") for number in range(3)])
    return url


def test_a_plan_with_nothing_to_do_is_fine(bare, store):
    ran = bare("migrate", "plan", "--schema", OLD, "--db", store)
    assert (ran.code, ran.out) == (0, "nothing to do: the store is at version 1\n")


def test_a_plan_says_what_is_to_be_done_and_refused(bare, store):
    ran = bare("migrate", "plan", "--schema", NEW, "--db", store)
    assert ran.code == 1
    assert "LOSES DATA  dropped  Note.stars" in ran.out
    assert "--drop NAME" in ran.out
    planned = bare("migrate", "plan", "--schema", NEW, "--db", store, "--json").document(Planned)
    assert [each.name for each in planned.differences if each.refused] == ["NotesByText"]
    assert bare("migrate", "plan", "--schema", OLD, "--db", store).code == 0


def test_a_plan_says_who_is_cut_off_and_why(bare, store):
    ran = bare("migrate", "plan", "--drop", "NotesByText", "--schema", NEW, "--db", store)
    assert ran.out.splitlines()[-6:-1] == [
        "version 1 -> 2",
        "cuts off programs under version 1: their writes are refused, because",
        "  Note.stars: they expect it",
        "  NotesByText is dropped, and they still use it",
        "not readable until a backfill has finished: NotesByTag",
    ]


def test_a_plan_says_what_answers_meanwhile(bare, store):
    ran = bare("migrate", "plan", "--schema", "tests.cli.changing:REPLACED", "--db", store)
    assert "NotesBackwards is answered by NotesByText until a backfill has finished" in ran.out
    assert "not readable" not in ran.out


def test_a_plan_says_what_a_former_generation_answers_and_costs(bare, store):
    edited = "--schema", "tests.cli.changing:EDITED", "--db", store
    assert bare("migrate", "plan", *edited).out.splitlines()[-3:] == [
        "NotesByText is answered by its former generation, NotesByText~1, until a backfill has finished",
        "a save of Note writes 1 row more until former generations are dropped",
        "a backfill rewrites 3 rows of Note",
    ]
    assert bare("migrate", "apply", *edited).code == 0
    assert bare("backfill", "--fence", *edited).code == 0
    dropped = bare("migrate", "plan", "--drop", "NotesByText~1", *edited)
    assert "dropped  NotesByText~1" in dropped.out
    assert bare("migrate", "apply", "--drop", "NotesByText~1", "--backfill", *edited).code == 0
    assert "~" not in bare("migrate", "status", *edited).out


def test_a_plan_says_what_is_written_for_older_programs(bare, store):
    left_out = "--schema", "tests.cli.changing:LEFT_OUT", "--db", store
    assert bare("migrate", "plan", *left_out).out.splitlines()[-2:] == [
        "not read any more, and written for older programs until they are gone and it is dropped: NotesByText",
        "a save of Note writes 1 row more until former views are dropped",
    ]
    assert bare("migrate", "apply", *left_out).code == 0
    assert "NotesByText  written for older programs" in bare("migrate", "status", *left_out).out
    assert "NotesByText is not declared any more" in bare("cost", "Note", *left_out).out
    assert bare("get", "Note", "1", "--schema", OLD, "--db", store).code == 0
    assert bare("migrate", "plan", "--drop", "NotesByText", *left_out).out.splitlines()[-4:-1] == [
        "version 2 -> 3",
        "cuts off programs under version 1: their writes are refused, because",
        "  NotesByText is dropped, and they still use it",
    ]


def test_a_plan_says_why_a_former_generation_does_not_answer(bare, store):
    ran = bare("migrate", "plan", "--schema", "tests.cli.changing:MORE_SHOWN", "--db", store)
    assert ran.out.splitlines()[-3:-1] == [
        "not readable until a backfill has finished: NotesByText",
        "  NotesByText: its former generation has no stars",
    ]


def test_a_plan_says_who_may_go_on(bare, store):
    ran = bare("migrate", "plan", "--schema", ADDED, "--db", store)
    version, continues, rewrites = ran.out.splitlines()[-3:]
    assert (version, rewrites) == ("version 1 -> 2", "a backfill rewrites 3 rows of Note")
    assert continues.startswith("programs under version 1 may continue, and be started again, until a backfill ends")
    assert bare("migrate", "plan", "--schema", ADDED, "--db", store, "--json").document(Planned).continues == (1,)
    assert bare("migrate", "apply", "--schema", ADDED, "--db", store).code == 0
    assert "t1" in bare("get", "Note", "1", "--schema", OLD, "--db", store).out
    refused = bare("dump", "--schema", OLD, "--db", store)
    assert (refused.code, "tag" in refused.err) == (1, True)
    assert bare("backfill", "--fence", "--schema", ADDED, "--db", store).code == 0
    assert bare("get", "Note", "1", "--schema", OLD, "--db", store).code == 1


def test_what_is_refused_is_not_applied(bare, store):
    ran = bare("migrate", "apply", "--schema", NEW, "--db", store, "--json")
    assert ran.code == 1
    assert ran.failure().facts["view"] == "NotesByText"


def test_there_and_back(bare, store):
    ran = bare("migrate", "apply", "--drop", "NotesByText", "--backfill", "--schema", NEW, "--db", store, "--json")
    assert ran.code == 0, ran.err
    changed = ran.document(ChangedStore)
    assert changed.planned.becomes == 2
    assert changed.backfilled is not None
    assert changed.backfilled.done
    assert "t1" in bare("get", "Note", "1", "--schema", NEW, "--db", store).out
    status = bare("migrate", "status", "--schema", NEW, "--db", store, "--json").document(Status)
    assert not status.unfinished
    ran = bare("migrate", "rollback", "--schema", OLD, "--db", store)
    assert ran.code == 1
    assert "--lose" in ran.err
    ran = bare("migrate", "rollback", "--lose", "Note.tag", "--schema", OLD, "--db", store)
    assert ran.code == 0, ran.err
    assert "version 2 -> 3" in ran.out
    assert "t1" in bare("get", "Note", "1", "--schema", OLD, "--db", store).out
    ran = bare("migrate", "status", "--schema", OLD, "--db", store)
    assert ran.code == 0
    assert "building" in ran.out
    assert "rows of layout" in ran.out


def test_a_store_that_is_not_there_is_not_made(bare, tmp_path):
    assert bare("migrate", "apply", "--schema", NEW, "--db", f"lmdb://{tmp_path}/none").code == 2
    assert not (tmp_path / "none").exists()


def test_migrate_alone_shows_its_help(bare):
    ran = bare("migrate", "--help")
    assert "..." not in ran.out.partition("Commands:")[2]
    assert "show what this schema changes in the store\n" in ran.out
    assert ran.code == 0
    for name in ("plan", "apply", "status", "rollback"):
        assert name in ran.out
