"""The disk is full.

The story: with a writable map the kernel kills the process; we write by system calls and get an error. It must say
what is wrong, the store must stay readable, and when room is made it must take writes again without being opened again.
A lock file without blocks kills readers in the same way.
"""

import contextlib
import os
import subprocess

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.errors import LimitExceeded
from tests.failures.stores import child, keys, put


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("this machine does not let tests mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(engine):
    for number in range(100):
        put(engine, b"%03d" % number, bytes(100_000))


@pytest.mark.parametrize("durability", ["group", "may_lose_last", "none"])
def test_the_error_says_so_and_the_store_works_again_when_there_is_room(small_disk, durability):
    filler = small_disk / "filler"
    engine = LmdbEngine(str(small_disk / "store"), durability=durability)
    put(engine, b"before")
    filler.write_bytes(bytes(1_500_000))
    with pytest.raises(LimitExceeded, match="disk is full"):
        fill(engine)
    there = keys(engine)
    assert b"before" in there
    assert engine.point("roots", b"before", b"d:b")[0] == b"1"
    filler.unlink()
    put(engine, b"after")
    assert keys(engine) == [*there[:-1], b"after", b"before"]
    engine.close()
    again = LmdbEngine(str(small_disk / "store"))
    assert b"after" in keys(again)
    again.close()


def test_a_store_cannot_be_made_on_a_full_disk(small_disk):
    (small_disk / "filler").write_bytes(bytes(2 << 20))
    with pytest.raises(LimitExceeded, match="disk is full"):
        LmdbEngine(str(small_disk / "store"))


OPENER = """
import sys
from oneread.engines.lmdb import LmdbEngine
from oneread.errors import OnereadError
try:
    engine = LmdbEngine(sys.argv[1], read_only=sys.argv[2] == "reads")
    print("read", engine.point("roots", b"before", b"d:b")[0])
    engine.close()
except OnereadError as error:
    print(type(error).__name__, error.retryable, error)
"""


def open_elsewhere(store, how):
    opener = child(OPENER, store, how)
    said, _ = opener.communicate()
    assert opener.returncode == 0
    return said.decode()


def remove(lock):
    lock.unlink()


def make_sparse(lock):
    """As a copy of `cp --sparse=always` or `tar --sparse` is."""
    size = lock.stat().st_size
    lock.unlink()
    lock.touch()
    os.truncate(lock, size)


def shorten(lock):
    """As a program with fewer readers has made it, which has ended."""
    os.truncate(lock, 8192)


def keep(lock):
    pass


def fill_up(folder):
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass


@pytest.mark.parametrize("how", ["reads", "writes"])
@pytest.mark.parametrize("harm", [remove, make_sparse, shorten, keep])
def test_opening_on_a_full_disk_answers_or_says_so(small_disk, how, harm):
    store = small_disk / "store"
    engine = LmdbEngine(str(store))
    put(engine, b"before")
    engine.close()
    harm(store / "lock.mdb")
    fill_up(small_disk)
    said = open_elsewhere(store, how)
    if harm is keep:
        assert said == "read b'1'\n"
    else:
        assert said.startswith("LimitExceeded False the disk is full")
    (small_disk / "filler").unlink()
    assert open_elsewhere(store, how) == "read b'1'\n"


def test_a_store_is_made_or_refused_however_little_room_there_is(small_disk):
    refused = 0
    for pages in range(40):
        fill_up(small_disk)
        os.truncate(small_disk / "filler", (small_disk / "filler").stat().st_size - pages * 4096)
        store = small_disk / "store"
        try:
            engine = LmdbEngine(str(store))
        except LimitExceeded as error:
            refused += 1
            assert "disk is full" in error.message  # noqa: PT017 - what is not refused is opened
            assert not (store / "data.mdb.unfinished").exists()
        else:
            engine.close()
        subprocess.run(["rm", "-rf", store], check=True)
        (small_disk / "filler").unlink()
    assert 10 < refused < 40


@pytest.mark.parametrize("compact", [False, True])
def test_a_backup_that_has_no_room_says_so_and_leaves_nothing(small_disk, tmp_path, compact):
    engine = LmdbEngine(str(tmp_path / "store"))
    fill(engine)
    with pytest.raises(LimitExceeded, match="disk is full"):
        engine.copy_to(str(small_disk / "copy"), lambda _size: None, compact=compact)
    assert list(small_disk.iterdir()) == []
    engine.close()
