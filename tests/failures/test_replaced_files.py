"""Files of a store that are removed or replaced while it is open: noticed before the next write is acknowledged."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from oneread import Key, Model, Schema, connect
from oneread.engines.lmdb import LmdbEngine, environment
from oneread.engines.lmdb import engine as lmdb_engine
from oneread.engines.lmdb.files import StoreFiles
from oneread.engines.lmdb.turn import Turn
from oneread.errors import OutcomeUnknown, StoreReplaced
from oneread.store.requests import Mutate, Read
from oneread.store.rows import Cell, RowMutation
from tests.failures.stores import until


class Thing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Thing)
FILES = ("data.mdb", "lock.mdb", "writer.lock")


def removed(name):
    return lambda folder: (folder / name).unlink()


def replaced(name):
    def act(folder):
        shutil.copy(folder / name, folder / "other")
        (folder / "other").replace(folder / name)

    return act


def moved(name):
    return lambda folder: (folder / name).rename(folder / "elsewhere")


def moved_folder(folder):
    folder.rename(folder.with_name("elsewhere"))


def restored(folder):
    """As an operator restores: the folder is put aside, and the copy in its place."""
    folder.rename(folder.with_name("broken"))
    shutil.copytree(folder.with_name("broken"), folder)


CHANGES = {
    **{f"{act.__name__} {name}": act(name) for act in (removed, replaced, moved) for name in FILES},
    "removed folder": shutil.rmtree,
    "moved folder": moved_folder,
    "restored": restored,
}


def put(number):
    return Mutate("roots", [RowMutation(b"key", {b"d:b": Cell(b"%d" % number, number)})])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "store"


@pytest.mark.parametrize("age", [0, 3600], ids=["a young folder", "an old folder"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_write_is_acknowledged_that_a_later_process_does_not_see(folder, change, age):
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        before = folder.stat().st_mtime - age
        os.utime(folder, (before, before))
        db.save(Thing(number=1))
        change(folder)
        for number in (2, 3):
            with pytest.raises(StoreReplaced, match="close the store and open it again") as caught:
                db.save(Thing(number=number))
            assert not caught.value.retryable
            assert folder in (Path(caught.value.facts["path"]), Path(caught.value.facts["path"]).parent)
        with pytest.raises(StoreReplaced):
            connect(f"lmdb://{folder}", SCHEMA, workers=0)
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        gone = not (folder.with_name("broken").exists() or "lock" in str(caught.value.facts["path"]))
        assert [each.number for each in db.page(Thing)] in ([1], [] if gone else [1])
        db.save(Thing(number=4))
        assert db.verify().clean


OTHER = """
import sys
from oneread import connect
from tests.failures.test_replaced_files import SCHEMA, Thing
with connect(sys.argv[1], SCHEMA, workers=0) as db:
    db.save(Thing(number=2))
"""


@pytest.mark.parametrize("name", ["lock.mdb", "writer.lock"])
def test_acknowledged_writes_are_kept_when_a_lock_file_is_removed(folder, name):
    url = f"lmdb://{folder}"
    with connect(url, SCHEMA, workers=0) as db:
        db.save(Thing(number=1))
        (folder / name).unlink()
        subprocess.run([sys.executable, "-c", OTHER, url], check=True, cwd=Path(__file__).parents[2])
        with pytest.raises(StoreReplaced):
            db.save(Thing(number=3))
    with connect(url, SCHEMA, workers=0) as db:
        assert [each.number for each in db.page(Thing)] == [1, 2]
        assert db.verify().clean


@pytest.mark.parametrize("name", FILES)
def test_a_file_removed_while_a_commit_is_written_leaves_its_outcome_unknown(folder, name):
    engine = LmdbEngine(str(folder))

    def run(transaction):
        transaction.replace("roots", {b"1": {b"d:b": Cell(b"1", 1)}})
        (folder / name).unlink()

    with pytest.raises(OutcomeUnknown, match="read before writing again"):
        engine.transaction(run, 5)
    engine.close()


def test_a_copy_written_over_the_data_file_is_noticed(folder, tmp_path):
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.save(Thing(number=1))
        db.backup(f"{tmp_path}/copy")
        db.save_all([Thing(number=number) for number in range(2, 50)])
        db.save(Thing(number=50))
        with (folder / "data.mdb").open("r+b") as file:
            file.write((tmp_path / "copy" / "data.mdb").read_bytes())
        for number in (51, 52):
            with pytest.raises(StoreReplaced, match="overwritten"):
                db.save(Thing(number=number))
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.save(Thing(number=53))
        assert [each.number for each in db.page(Thing)] == [1, 53]
        assert db.verify().clean


def test_a_link_that_leads_to_another_store_is_a_replaced_folder(folder, tmp_path):
    for name in ("one", "two"):
        connect(f"lmdb://{tmp_path}/{name}", SCHEMA, workers=0).close()
    folder.symlink_to(tmp_path / "one")
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.save(Thing(number=1))
        folder.unlink()
        folder.symlink_to(tmp_path / "two")
        with pytest.raises(StoreReplaced):
            db.save(Thing(number=2))


@pytest.mark.parametrize("options", ["?read_only=true", ""])
@pytest.mark.parametrize("name", ["data.mdb", "lock.mdb"])
def test_a_reader_notices_within_a_second(folder, monkeypatch, name, options):
    monkeypatch.setattr(lmdb_engine, "_CHECK_SECONDS", 0.0)
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.save(Thing(number=1))
    with connect(f"lmdb://{folder}{options}", SCHEMA, workers=0) as db:
        assert db.get(Thing, 1) == Thing(number=1)
        (folder / name).rename(folder / "aside")
        reads = (
            lambda: db.get(Thing, 1),
            lambda: db.page(Thing),
            lambda: db.run(Read("roots", [b"key"]).__iter__()),
            db.verify,
            db.survey,
            lambda: db.backup(f"{folder}-copy"),
        )
        for read in reads:
            with pytest.raises(StoreReplaced):
                read()


@pytest.mark.parametrize("durability", ["group", "none"])
@pytest.mark.parametrize("change", [replaced("writer.lock"), restored], ids=["writer.lock", "folder"])
def test_what_is_replaced_while_an_opening_waits_for_its_turn_is_noticed(folder, durability, change):
    LmdbEngine(str(folder)).close()
    elsewhere, failures = Turn(f"{folder}/writer.lock"), []
    assert elsewhere.take(0, lambda: True)

    def open_store():
        try:
            LmdbEngine(str(folder), durability=durability).close()
        except StoreReplaced as failure:
            failures.append(failure)

    opening = threading.Thread(target=open_store)
    opening.start()
    until(lambda: sum(name == "writer.lock" for name in open_files(folder)) == 2)
    change(folder)
    elsewhere.close()
    opening.join()
    assert [Path(failure.facts["path"]).name for failure in failures] == ["writer.lock"]
    LmdbEngine(str(folder), durability=durability).close()
    assert "writer.lock" not in open_files(folder)


def open_files(folder):
    """The names of the files that this process has open, of the store in a folder and of what was put aside."""
    found = [Path(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names
    files = [file.readlink() for file in found if file.is_symlink()]
    return [file.name.removesuffix(" (deleted)") for file in files if file.is_relative_to(folder.parent)]


@pytest.mark.parametrize("durability", ["group", "none"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", FILES)
def test_what_is_replaced_while_lmdb_opens_it_is_noticed(folder, monkeypatch, name, when, durability):
    LmdbEngine(str(folder)).close()
    open_lmdb = environment._open

    def open_meanwhile(path, settings):
        if when == "before":
            replaced(name)(folder)
        found = open_lmdb(path, settings)
        if when == "after":
            replaced(name)(folder)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_open", open_meanwhile)
        with pytest.raises(StoreReplaced) as caught:
            LmdbEngine(str(folder), durability=durability)
    assert caught.value.facts["path"] == str(folder / name)
    assert not {*FILES} & {*open_files(folder)}
    LmdbEngine(str(folder), durability=durability).close()


def test_a_link_that_is_changed_while_its_store_is_opened_is_noticed(folder, tmp_path, monkeypatch):
    for name in ("one", "two"):
        LmdbEngine(f"{tmp_path}/{name}").close()
    folder.symlink_to(tmp_path / "one")
    make_files = environment._make_files

    def make_meanwhile(*given):
        make_files(*given)
        folder.unlink()
        folder.symlink_to(tmp_path / "two")

    with monkeypatch.context() as patch:
        patch.setattr(environment, "_make_files", make_meanwhile)
        with pytest.raises(StoreReplaced):
            LmdbEngine(str(folder))
    LmdbEngine(str(folder)).close()


def test_a_change_within_one_step_of_the_folders_clock_is_noticed(folder):
    connect(f"lmdb://{folder}", SCHEMA, workers=0).close()
    now = time.time_ns()
    os.utime(folder, ns=(now, now))
    files = StoreFiles(str(folder), str(folder))
    files.check()
    replaced("lock.mdb")(folder)
    os.utime(folder, ns=(now, now))
    with pytest.raises(StoreReplaced):
        files.check()


def test_files_that_stay_are_never_refused(folder):
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        for number in range(50):
            db.save(Thing(number=number))
            os.utime(folder / "data.mdb")
            (folder / "lock.mdb").chmod(0o600)
        with connect(f"lmdb://{folder}", SCHEMA, workers=0) as again:
            again.save(Thing(number=51))
        assert len(db.page(Thing, limit=100)) == 51
