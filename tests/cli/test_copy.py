"""`oneread copy`: what it prints, what it refuses, and that a process that is killed loses nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oneread import connect
from oneread.copying.comparison import ComparedStores
from oneread.copying.store_copy import CHECKPOINT, CopiedStore
from oneread.transfer.checkpoints import key_of, read_checkpoint
from tests.cli.conftest import SCHEMA
from tests.cli.notes import NOTES, Note, Person

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def other(new_url):
    return new_url()


@pytest.fixture
def copy(bare, url, other, oneread):
    assert oneread is not None, "which has filled the store"
    return lambda *given: bare("copy", url, other, "--schema", SCHEMA, *given)


def test_a_store_is_copied_and_compared(copy, url, other):
    ran = copy()
    assert (ran.code, ran.out) == (
        0,
        "copied 8 entities, 0 tombstones, 0 counters and 0 tokens\n8 entities and 0 counters compared, 0 differ\n",
    ), ran.err
    with connect(url, NOTES, workers=0) as one, connect(other, NOTES, workers=0) as two:
        for model in (Person, Note):
            assert [two.version(each) for each in two.page(model)] == [one.version(each) for each in one.page(model)]
        assert two.verify().clean


def test_documents_are_for_programs(copy):
    found = copy("--json").document(CopiedStore)
    assert (found.entities, found.compared.differ, found.left) == (8, 0, ())
    assert copy("--check", "--json").document(ComparedStores) == found.compared
    assert copy("--no-compare").code == 2, "it is not empty any more"


def test_what_differs_is_code_1(copy, other):
    assert copy("--no-compare").out == "copied 8 entities, 0 tombstones, 0 counters and 0 tokens\n"
    with connect(other, NOTES, workers=0) as two:
        two.patch(Person, 1, name="changed")
    ran = copy("--check")
    assert (ran.code, ran.out) == (1, "8 entities and 0 counters compared, 1 differ\n  Person(1)\n")


def test_what_is_refused_is_code_2_and_says_what_to_do(copy, bare, url, other, tmp_path):
    assert "the target is the source" in bare("copy", url, url, "--schema", SCHEMA).err
    assert "no copy to resume" in copy("--resume").err
    ran = bare("copy", f"lmdb://{tmp_path}/missing", other, "--schema", SCHEMA)
    assert (ran.code, "does not exist" in ran.err) == (2, True)
    assert bare("copy", url, other).code == 2
    assert copy().code == 0
    ran = copy()
    assert (ran.code, "the target is not empty" in ran.err) == (2, True)


WIDE = 20_000


def test_a_killed_copy_is_resumed(bare, url, other, oneread):
    """Processes are killed until one comes through; each continues where the last one stopped."""
    assert oneread is not None
    with connect(url, NOTES, workers=0) as db, db.bulk() as bulk:
        for number in range(1000, 1000 + WIDE):
            bulk.save(Person(number=number, name=f"P{number}", email=f"{number}@example.org"))
    arguments = [sys.executable, "-m", "oneread", "copy", url, other, "--schema", SCHEMA, "--batch", "500"]
    resumed: list[str] = []
    for kill in range(4):
        process = subprocess.Popen(
            [*arguments, *resumed], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ
        )
        try:
            process.wait(1.2 + kill / 4)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        out, err = process.communicate()
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err.decode()
        resumed = ["--resume"] if started(other) else []
    else:
        ran = bare("copy", url, other, "--schema", SCHEMA, *resumed)
        assert ran.code == 0, ran.err
        out = ran.out.encode()
    assert b", 0 differ" in out
    with connect(other, NOTES, workers=0) as db:
        assert sum(len(page) for page in db.scan(Person)) == WIDE + 2
        assert db.verify().clean


def started(url):
    """Whether a copy has begun in a store that may not be there."""
    with connect(url, NOTES, workers=0) as db:
        return db.run(read_checkpoint(key_of(CHECKPOINT))).position is not None
