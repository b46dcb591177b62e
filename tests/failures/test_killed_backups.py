"""Backups and dumps that are killed: what they left is found, and removed by the next one to the same name."""

import fcntl
import os
import signal
from itertools import islice
from pathlib import Path

import pytest

from oneread import connect
from oneread.cli import files
from oneread.engines.lmdb import backup
from oneread.store import unfinished
from tests.unit.database.shop import SCHEMA, Customer


@pytest.fixture
def db(tmp_path):
    with connect(f"lmdb://{tmp_path}/store?durability=none", SCHEMA, workers=0) as opened:
        opened.save_all([Customer(number=number, name=f"c{number}") for number in range(20)])
        yield opened


def killed(act):
    """Runs `act` in a child, which is expected to be killed."""
    pid = os.fork()
    if pid == 0:
        act()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def die(*_given):
    os.kill(os.getpid(), signal.SIGKILL)


def die_behind(entries, count):
    yield from islice(entries, count // 10_000)
    die()


@pytest.mark.parametrize(
    ("at", "end", "compact"),
    [
        ("_copy_pages", die, False),
        ("sync_folder", die, False),
        ("islice", die_behind, True),
        ("sync_folder", die, True),
    ],
)
def test_the_next_backup_removes_what_a_killed_one_left(db, tmp_path, monkeypatch, at, end, compact):
    with monkeypatch.context() as patched:
        patched.setattr(backup, at, end)
        killed(lambda: db.backup(f"{tmp_path}/copy", compact=compact))
    (left,) = unfinished.leftovers(tmp_path, within="data.mdb")
    assert left.name.startswith(".copy.")
    db.backup(f"{tmp_path}/other")
    assert left.exists()
    db.backup(f"{tmp_path}/copy")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "other", "store"]


@pytest.mark.parametrize("name", [f".copy.{os.getpid()}.unfinished", ".copy.1.unfinished"], ids=["own", "1"])
@pytest.mark.parametrize("filled", [True, False])
def test_what_an_earlier_release_left_is_in_nobodys_way(db, tmp_path, name, filled):
    (tmp_path / name).mkdir()
    if filled:
        (tmp_path / name / "data.mdb").write_bytes(b"half")
    db.backup(f"{tmp_path}/copy")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy", "store"]


def test_a_backup_that_still_runs_is_left_alone(db, tmp_path):
    other = unfinished.name_beside(tmp_path / "copy")
    other.mkdir()
    with (other / "data.mdb").open("wb") as file:
        unfinished.hold(file.fileno())
        assert not unfinished.leftovers(tmp_path, within="data.mdb")
        db.backup(f"{tmp_path}/copy")
        assert (other / "data.mdb").exists()
    assert unfinished.leftovers(tmp_path, within="data.mdb") == [other]


def test_a_running_backup_holds_its_file(db, tmp_path, monkeypatch):
    seen = []

    def look(*_given):
        for path in tmp_path.glob(".copy.*.unfinished"):
            with (path / "data.mdb").open("rb") as file, pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            seen.append(unfinished.remove_leftovers(tmp_path / "copy", "data.mdb"))

    monkeypatch.setattr(backup, "sync_folder", look)
    db.backup(f"{tmp_path}/copy")
    assert seen == [[]]


@pytest.mark.parametrize("name", ["a", "a b", "a*", "[a]", "a.b.unfinished", "ä"])
def test_names_are_taken_literally(tmp_path, name):
    for each in ("a", "a b", "a*", "[a]", "ax", "a.b.unfinished", "ä"):
        (tmp_path / f".{each}.1.unfinished").write_bytes(b"")
    (taken,) = [
        each.name for each in unfinished.remove_leftovers(tmp_path / name) if each.name == f".{name}.1.unfinished"
    ]
    assert taken == f".{name}.1.unfinished"
    assert (tmp_path / ".ax.1.unfinished").exists()


def test_a_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "data.mdb").write_bytes(b"x")
    (tmp_path / ".copy.1.unfinished").symlink_to(precious)
    unfinished.remove_leftovers(tmp_path / "copy", "data.mdb")
    assert (precious / "data.mdb").exists()


def test_the_next_dump_removes_what_a_killed_one_left(tmp_path):
    def dump():
        with files.new_file(str(tmp_path / "dump.jsonl")) as file:
            file.write(b"half")
            die()

    killed(dump)
    assert [each.suffix for each in tmp_path.iterdir()] == [".unfinished"]
    with files.new_file(str(tmp_path / "dump.jsonl")) as file:
        file.write(b"whole")
    assert [Path(each).name for each in tmp_path.iterdir()] == ["dump.jsonl"]
