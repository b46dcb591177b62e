"""A program closes a descriptor of `lock.mdb` while it reads.

The story: a process loses its record locks on a file when it closes any descriptor of it, and LMDB's are such locks. So
a program that copied its store's folder during a dump was taken for dead by the next process that opened the store: its
readers' pages were written again, and the dump ended early, as if it was whole. Locks that belong to a descriptor are
not lost so; where a system has none, and where the lock file is overwritten, the read says that it saw no one moment.
"""

import hashlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import lmdb
import pytest

from oneread import Key, Model, Schema, connect
from oneread.engines.lmdb import backup, files
from oneread.errors import InvalidUrl, StoreReplaced
from oneread.store.requests import Mutate
from oneread.store.rows import RowMutation
from tests.failures.stores import ALL, LmdbEngine, child, keys, row

COUNT = 3000

WRITER = """
import sys
from oneread.engines.lmdb import LmdbEngine
from oneread.store.requests import Mutate
from oneread.store.rows import Cell, RowMutation

engine = LmdbEngine(sys.argv[1], durability="none")
for value in (b"after" * 8, b"later" * 8, b"last" * 8, b"end" * 8):
    for first in range(0, 3000, 500):
        rows = [RowMutation(b"%05d" % number, {b"d:b": Cell(value, 2)}) for number in range(first, first + 500)]
        engine.answer(Mutate("roots", rows))
engine.close()
"""


class Note(Model[int]):
    number: Key[int]
    text: str


site = Schema(Note)


def fill(engine):
    rows = [RowMutation(b"%05d" % number, row(b"before" * 8)) for number in range(COUNT)]
    engine.answer(Mutate("roots", rows))


def write_elsewhere(path):
    """Another process opens the store, as the command line does, and writes what a reader's pages are used for."""
    writer = child(WRITER, path)
    writer.communicate()
    assert writer.returncode == 0


def copy_the_folder(path):
    shutil.copytree(path, f"{path}-copy")


def open_and_close_the_lock_file(path):
    os.close(os.open(Path(path, files.LOCK), os.O_RDONLY))


def sum_the_files(path):
    for each in Path(path).iterdir():
        with each.open("rb") as file:
            hashlib.file_digest(file, "sha256")


def open_by_a_link(path):
    Path(f"{path}-link").symlink_to(path)
    LmdbEngine(f"{path}-link", durability="none").close()


def open_by_another_mount(path):
    Path(f"{path}-mount").mkdir()
    if subprocess.run(["mount", "--bind", path, f"{path}-mount"], capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let tests mount a folder")
    try:
        with pytest.raises(InvalidUrl, match="use one path"):
            LmdbEngine(f"{path}-mount", durability="none")
    finally:
        subprocess.run(["umount", f"{path}-mount"], check=True)


def open_without_oneread(path):
    with pytest.raises(lmdb.Error):
        lmdb.open(path)


def fork(path):
    if not (process := os.fork()):
        try:
            open_and_close_the_lock_file(path)
        finally:
            os._exit(0)
    os.waitpid(process, 0)


def fork_and_read(path):
    """The child opens the store as well, and ends."""
    if not (process := os.fork()):
        try:
            LmdbEngine(path, durability="none").close()
        finally:
            os._exit(0)
    os.waitpid(process, 0)


DEEDS = [
    copy_the_folder, open_and_close_the_lock_file, sum_the_files, open_by_a_link, open_by_another_mount,
    open_without_oneread, fork, fork_and_read,
]  # fmt: skip
WRITING = [open_by_a_link, fork_and_read]
"""Those that open the store for writing."""


@pytest.mark.parametrize(
    ("deed", "read_only"), [(deed, False) for deed in DEEDS] + [(deed, True) for deed in DEEDS if deed not in WRITING]
)
def test_a_moment_outlasts_what_closes_the_lock_file(tmp_path, deed, read_only):
    path = str(tmp_path / "store")
    engine = LmdbEngine(path, durability="none")
    fill(engine)
    if read_only:
        engine.close()
        engine = LmdbEngine(path, durability="none", read_only=True)

    def look(rows):
        first = rows.scan("roots", ALL, 10)
        deed(path)
        write_elsewhere(path)
        return first, rows.scan("roots", ALL, COUNT + 1)

    first, rows = engine.snapshot(look)
    assert first == rows[:10]
    assert {found[b"d:b"].value for _key, found in rows} == {b"before" * 8}
    assert len(rows) == COUNT
    assert {found[b"d:b"].value for _key, found in engine.snapshot(lambda rows: rows.scan("roots", ALL, 10))} == {
        b"end" * 8
    }
    engine.close()


@pytest.fixture
def database(tmp_path):
    with connect(f"lmdb://{tmp_path}/store?durability=none", site, workers=0) as database:
        database.save_all([Note(number=number, text="before") for number in range(500)])
        yield database


def overwrite_the_lock_file(path):
    """Another store's lock file is copied over this one's, as a restore over an open store does."""
    other = LmdbEngine(f"{path}-other")
    shutil.copyfile(f"{path}-other/lock.mdb", f"{path}-saved")
    other.close()
    with Path(path, files.LOCK).open("r+b") as lock:
        lock.write(Path(f"{path}-saved").read_bytes())


def lose_the_locks(path):
    copy_the_folder(path)
    write_elsewhere(path)


@pytest.fixture(params=["overwritten", "no such locks"])
def harm(request, monkeypatch, tmp_path):
    """What a read is not protected from; of a system without locks of descriptors, where it is not."""
    if request.param == "overwritten":
        return lambda: overwrite_the_lock_file(str(tmp_path / "store"))
    monkeypatch.delattr("fcntl.F_OFD_SETLK")
    return lambda: lose_the_locks(str(tmp_path / "store"))


def test_a_dump_that_saw_no_one_moment_says_so(harm, database):
    written = []

    def write(chunk):
        written.append(chunk)
        if len(written) == 1:
            harm()

    with pytest.raises(StoreReplaced, match="several moments"):
        database.dump(write)


@pytest.mark.parametrize("compact", [False, True])
def test_a_backup_that_saw_no_one_moment_is_not_kept(harm, database, tmp_path, monkeypatch, compact):
    name = "_copy_entries" if compact else "_copy_pages"
    copy = getattr(backup, name)

    def copy_late(*given):
        harm()
        copy(*given)

    monkeypatch.setattr(backup, name, copy_late)
    with pytest.raises(StoreReplaced, match="several moments"):
        database.backup(str(tmp_path / "target"), compact=compact)
    assert not (tmp_path / "target").exists()


HOLDER = """
import os, sys
from oneread.engines.lmdb import LmdbEngine

engine = LmdbEngine(sys.argv[1])
reading = engine._begin(engine._tables["roots"])
if not os.fork():
    print("forked", flush=True)  # and no earlier: it has given up its copies of what the parent has open
    os.close(0)
    sys.stdout.close()
    import time
    time.sleep(600)
sys.stdin.read()
"""


def test_a_child_does_not_keep_the_place_of_its_dead_parent(tmp_path):
    path = str(tmp_path / "store")
    LmdbEngine(path).close()
    holder = child(HOLDER, path, start_new_session=True)
    try:
        assert holder.stdout.readline() == b"forked\n"
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        engine = LmdbEngine(path)
        assert str(holder.pid) not in engine._environment.lmdb.readers()
        assert keys(engine) == []
        engine.close()
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.communicate()
