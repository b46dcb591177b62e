"""`oneread backup`: a copy of a store in use that is whole or not there, and opens like any other."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import lmdb
import pytest

from oneread import connect
from oneread.cli.backup import BackedUp
from oneread.engines.lmdb import backup
from oneread.errors import Closed, Corrupt, InvalidUrl, LimitExceeded, Unsupported, UsageError
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.audit import Audit
from tests.cli import notes
from tests.cli.conftest import SCHEMA
from tests.cli.notes import NOTES, Note, Person

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import sys
from oneread import connect
from tests.cli.notes import NOTES, Author, Mood, Note, Person, START
from uuid import UUID
from datetime import timedelta
with connect(sys.argv[1], NOTES) as db:
    first = int(sys.argv[2]) * 100_000
    number = 0
    while True:
        number += 1
        db.save(Note(id=UUID(int=first + number % 50), author=Author.of(1 + number % 2), mood=Mood.GLAD, when=START +
            timedelta(hours=number % 7), body=f"body {number}"))
        db.patch(Person, 1 + number % 2, name=f"name {number}")
        if number % 3 == 0:
            db.delete(Note, UUID(int=first + (number * 7) % 50))
        if number == 10:
            print("on", flush=True)
"""


def test_a_copy_under_four_writing_processes_is_one_moment_of_the_store(oneread, url, tmp_path):
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, f"{url}?durability=none", str(number)], stdout=subprocess.PIPE, cwd=ROOT
        )
        for number in range(1, 5)
    ]
    try:
        for each in writers:
            assert each.stdout.readline() == b"on\n"
        for number, options in enumerate([[], [], ["--compact"]]):
            ran = oneread("backup", tmp_path / f"copy{number}", "--verify", "--json", *options)
            assert ran.code == 0, ran.err
            assert ran.document(BackedUp).clean is True
            assert all(each.poll() is None for each in writers)
            with connect(f"lmdb://{tmp_path}/copy{number}", NOTES, workers=0) as copy:
                audit = Audit(copy._driver.engine, copy.operations)
                audit.check()
                copy.drain()
                audit.check()
                assert copy.verify().clean
    finally:
        for each in writers:
            each.kill()
            each.communicate()


def test_every_prefix_of_the_store_is_copied(bare, tmp_path):
    url = f"lmdb://{tmp_path}/tenants"
    for tenant in ("a-", "b-"):
        notes.fill(f"{url}?prefix={tenant}")
    ran = bare("backup", tmp_path / "copy", "--verify", "--schema", SCHEMA, "--db", f"{url}?prefix=b-")
    assert ran.code == 0, ran.err
    for tenant in ("a-", "b-"):
        with connect(f"lmdb://{tmp_path}/copy?prefix={tenant}&read_only=true", NOTES) as db:
            assert len(db.page(Note)) == 5


def test_a_copy_has_no_free_pages(url, tmp_path):
    with connect(url, NOTES, workers=0) as db:
        for number in range(3000):
            db.save(Person(number=100 + number % 3, name="n" * 1000, email=str(number % 3)))
        size = db.backup(f"{tmp_path}/copy")
    assert size == (tmp_path / "copy" / "data.mdb").stat().st_size
    assert size < (tmp_path / "notes" / "data.mdb").stat().st_size
    assert [each.name for each in (tmp_path / "copy").iterdir()] == ["data.mdb"]


def rows(path):
    """Everything in the file of a store: each named database with its entries in order."""
    with (
        lmdb.open(str(path), readonly=True, lock=False, max_dbs=20) as environment,
        environment.begin() as reading,
    ):
        names = [name for name, _root in reading.cursor()]
        return {name: list(reading.cursor(environment.open_db(name, reading, create=False))) for name in names}


def test_a_compact_copy_has_the_same_rows_in_full_pages(oneread, url, tmp_path):
    """Each person is saved in front of the others, so that LMDB splits pages in the middle."""
    with connect(url, NOTES, workers=0) as db:
        for number in range(2000, 100, -1):
            db.save(Person(number=number, name="n" * 50, email=str(number)))
        usual = db.backup(f"{tmp_path}/usual")
    with connect(f"{url}?prefix=other-", NOTES, workers=0) as db:
        db.save(Person(number=1, name="n", email="e"))
    ran = oneread("backup", tmp_path / "copy", "--compact", "--verify", "--json")
    assert ran.code == 0, ran.err
    made = ran.document(BackedUp)
    assert made.clean is True
    assert made.bytes == (tmp_path / "copy" / "data.mdb").stat().st_size < usual * 0.7
    assert rows(tmp_path / "copy") == rows(tmp_path / "notes")
    with connect(f"lmdb://{tmp_path}/copy", NOTES, workers=0) as db:
        db.patch(Person, 2000, name="a compact copy takes writes")
        assert db.backup(f"{tmp_path}/again", compact=True) == made.bytes


def test_a_compact_copy_of_many_transactions_is_the_same(url, tmp_path, monkeypatch):
    monkeypatch.setattr(backup, "_ENTRIES", 7)
    with connect(url, NOTES, workers=0) as db:
        db.save_all(Person(number=number, name="n", email=str(number)) for number in range(100, 161))
        db.backup(f"{tmp_path}/copy", compact=True)
    assert rows(tmp_path / "copy") == rows(tmp_path / "notes")


def test_a_compact_copy_of_a_damaged_table_is_refused(url, tmp_path, monkeypatch):
    """A table whose rows are not in order would be a tree that LMDB cannot search."""
    with connect(url, NOTES, workers=0) as db:
        monkeypatch.setattr(backup, "islice", lambda entries, count: list(islice(entries, count))[::-1])
        with pytest.raises(Corrupt, match="not in the order of their keys"):
            db.backup(f"{tmp_path}/copy", compact=True)
        assert [each.name for each in tmp_path.iterdir()] == ["notes"]
        with pytest.raises(UsageError, match="True or False"):
            db.backup(f"{tmp_path}/copy", compact=1)


def test_a_target_that_is_there_is_never_touched(oneread, tmp_path):
    for name, make in {"folder": Path.mkdir, "file": Path.touch, "link": lambda path: path.symlink_to("x")}.items():
        make(tmp_path / name)
        ran = oneread("backup", tmp_path / name)
        assert ran.code == 2
        assert "target of a backup exists" in ran.err
    assert not list((tmp_path / "folder").iterdir())
    assert oneread("backup", tmp_path / "no" / "where").code == 2
    assert oneread("backup", "lmdb://x").code == 2
    assert oneread("backup", "").code == 2
    assert not list(tmp_path.glob(".*unfinished"))


def test_faults_of_the_copy_are_reported(oneread, url, tmp_path):
    with connect(url, NOTES, workers=0) as db:
        engine = db._driver.engine
        ((key, _row),) = engine.answer(Scan("views", RowRange(b"", b""), 1))
        engine.transaction(lambda inside: inside.replace("views", {key: None}), 5)
    ran = oneread("backup", tmp_path / "copy", "--verify")
    assert ran.code == 1
    assert "with faults" in ran.out


@pytest.mark.parametrize("compact", [False, True])
def test_a_full_disk_leaves_nothing_of_the_copy(url, tmp_path, compact):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let tests mount a small disk")
    try:
        with connect(url, NOTES, workers=0) as db:
            db.save_all(Person(number=number, name="n" * 4000, email=str(number)) for number in range(10, 600))
            with pytest.raises(LimitExceeded, match="disk is full"):
                db.backup(f"{disk}/copy", compact=compact)
            assert not list(disk.iterdir())
            db.save(Person(number=9, name="n", email="the store still takes writes"))
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_an_engine_that_cannot_copy_says_so():
    with connect("memory://", NOTES) as db, pytest.raises(Unsupported, match="dump"):
        db.backup("anywhere")


def test_a_closed_store_is_not_copied(url, tmp_path):
    db = connect(url, NOTES, workers=0)
    db.close()
    with pytest.raises(Closed):
        db.backup(f"{tmp_path}/copy")


@pytest.mark.parametrize("compact", [False, True])
def test_a_backup_shows_its_progress(url, tmp_path, compact):
    reports = []
    with connect(url, NOTES, workers=0) as db:
        size = db.backup(f"{tmp_path}/copy", compact=compact, progress=reports.append)
    assert reports[-1].done == size


def test_two_copies_of_one_name_do_not_meet(url, tmp_path):
    with connect(url, NOTES, workers=0) as db:
        db.backup(f"{tmp_path}/copy")
        with pytest.raises(InvalidUrl):
            db.backup(f"{tmp_path}/copy")
