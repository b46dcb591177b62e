"""`oneread move`: what it prints in each step, and what it refuses."""

import pytest

from oneread import connect
from oneread.copying.move_results import MoveComparison, MovePlan, MoveStatus
from oneread.errors import StoreMoved
from tests.cli.conftest import SCHEMA
from tests.cli.notes import NOTES, Person
from tests.unit.database.test_launches import until


@pytest.fixture
def other(new_url):
    return new_url()


@pytest.fixture
def move(bare, url, other, oneread):
    assert oneread is not None, "which has filled the store"
    return lambda *given: bare("move", *given, "--db", url, "--to", other, "--schema", SCHEMA)


def test_a_store_is_moved_step_by_step(move, url, other):
    ran, held = move("plan"), 3 if "span=row" in url else 1
    said = f"8 entities, 0 counters; about 0:00:01 for the copy, writers held about {held} s at the switch"
    assert (ran.code, ran.out.splitlines()[0], ran.out.splitlines()[-1]) == (0, said, "nothing is in the way"), ran.err
    assert move("status").out.startswith("planned: ")
    assert move("start").out.startswith("copying: ")
    with connect(url, NOTES, workers=0) as db:
        db.patch(Person, 1, name="meanwhile")
    assert "following: " in (ran := move("run", "--until-lag", "0")).out, ran.err
    assert move("compare").out == "8 compared, 0 differ; verify of the target: clean\n"
    assert "compared" in move("status").out
    assert move("compare", "--sample", "0.9").out == "6 compared, 0 differ; of a share of 0.9, nothing else\n"
    assert move("status").out.endswith("0 differ of a share of 0.9\n")
    assert "no comparison was interrupted" in move("compare", "--resume").err
    assert move("switch").out.startswith(f"switched, epoch 2: writers were held {held - 1}.")
    with connect(url, NOTES, workers=0) as db, pytest.raises(StoreMoved):
        db.patch(Person, 1, name="late")
    assert move("compare").code == 0
    assert move("back").out.startswith(f"following, epoch 3: writers were held {held - 1}.")
    assert move("switch").out.startswith("switched, epoch 4: ")
    assert move("finish").out.startswith("finished: ")
    assert move("status").out.startswith("finished: ")
    with connect(other, NOTES, workers=0) as two:
        assert two.get(Person, 1).name == "meanwhile"
        assert two.verify().clean


def test_reads_are_shadowed(move, url, other):
    move("start")
    move("run", "--until-lag", "0")
    assert "say which share of the reads" in move("shadow").err
    assert "no such launch" in move("diffs").err
    assert move("shadow", "--percent", "100").out.endswith("; 100 % of reads shadowed, 0 compared, 0 differ\n")
    with connect(url, NOTES, workers=0, next=other) as db:
        assert db.get(Person, 1)
        name = next(iter(db.launches.keeper.tracks))
        tally = db.launches.keeper.track(name).tally
        until(lambda: tally.compared)
    assert "100 % of reads shadowed, 1 compared, 0 differ" in move("status").out
    assert move("diffs").out == ""
    assert "0 % of reads shadowed, 1 compared" in move("shadow", "--percent", "0").out


def test_documents_are_for_programs(move):
    assert move("plan", "--json").document(MovePlan).entities == 8
    assert move("start", "--json").document(MoveStatus).state == "copying"
    assert move("run", "--until-lag", "0", "--json").document(MoveStatus).copied == 8
    assert move("compare", "--json").document(MoveComparison).equal
    assert move("switch", "--json").document(MoveStatus).epoch == 2


def test_a_move_is_cancelled(move):
    move("start")
    assert move("cancel").out.startswith("planned: ")


def test_what_differs_is_code_1(move, other, monkeypatch):
    move("start")
    move("run", "--until-lag", "0")
    with monkeypatch.context() as patched:
        patched.setattr("oneread.transactions.moves._note", lambda *_given: None)
        patched.setattr("oneread.transactions.move_gate.MoveGate.enter", lambda *_given: iter(()))
        with connect(other, NOTES, workers=0) as two:
            two.patch(Person, 1, name="changed")
    ran = move("compare")
    assert (ran.code, ran.out.splitlines()[0]) == (1, "8 compared, 1 differ; verify of the target: clean")
    assert ran.out.splitlines()[1].startswith("  Person(1): ")
    assert "the stores differed" in move("switch").err
    assert move("switch", "--force").code == 0


def test_what_is_refused_says_what_to_do(move, bare, url):
    assert "no such action" in move("go").err
    assert "is not moved" in move("run").err
    assert "name both stores" in bare("move", "plan", "--db", url, "--schema", SCHEMA).err
    assert "the target is the source" in bare("move", "plan", "--db", url, "--to", url, "--schema", SCHEMA).err
