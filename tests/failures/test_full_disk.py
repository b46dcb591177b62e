"""The disk is full.

The story: with a writable map the kernel kills the process; we write by system calls and get an error. It must say
what is wrong, the store must stay readable, and when room is made it must take writes again without being opened again.
"""

import subprocess

import pytest

from oneread.engines.lmdb import LmdbEngine
from oneread.errors import LimitExceeded
from tests.failures.stores import keys, put


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
