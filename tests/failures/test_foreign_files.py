"""The path holds something else than a store of ours, or nothing, or something we may not touch.

The story: an operator mistypes a path, points at another program's LMDB file, restores half a backup, or starts the
service as the wrong user. Each gets an error of ours that names the path and says what to do, and nothing that was
there is changed.
"""

import os
import subprocess
import tempfile
from pathlib import Path

import lmdb
import pytest

from oneread.engines.lmdb import LmdbEngine, environment
from oneread.errors import Corrupt, InvalidUrl, LimitExceeded, Unsupported
from tests.failures.stores import child, keys, put

NOBODY = 65534


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name == "data.mdb"}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


def opened(path, **options):
    LmdbEngine(str(path), **options).close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_missing_folder(path, read_only):
    with pytest.raises(InvalidUrl, match="store") as refusal:
        opened(path / "deeper", read_only=read_only)
    assert not refusal.value.retryable
    assert not path.exists()


def test_nothing_to_read_only(path):
    path.mkdir()
    with pytest.raises(InvalidUrl, match="has no store"):
        opened(path, read_only=True)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_where_the_folder_should_be(path, read_only):
    path.write_text("a letter")
    with pytest.raises(InvalidUrl):
        opened(path, read_only=read_only)
    assert path.read_text() == "a letter"


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("garbage", [b"x", b"not LMDB at all" * 1000, bytes(100_000)])
def test_a_data_file_that_is_not_lmdbs(path, garbage, read_only):
    path.mkdir()
    (path / "data.mdb").write_bytes(garbage)
    with pytest.raises(Corrupt):
        opened(path, read_only=read_only)
    assert content(path) == {"data.mdb": garbage}


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("named", [None, b"theirs"])
def test_an_lmdb_file_of_another_program(path, read_only, named):
    with lmdb.open(str(path), max_dbs=2) as theirs:
        database = theirs.open_db(named)
        with theirs.begin(write=True, db=database) as transaction:
            transaction.put(b"roots", b"their own")
            transaction.put(b"oneread", b"their own too")
    before = content(path)
    with pytest.raises(Corrupt, match="not made by oneread"):
        opened(path, read_only=read_only)
    assert content(path) == before


def mark(path, written):
    """Gives a store another mark of its format."""
    with lmdb.open(str(path), max_dbs=2) as raw:
        meta = raw.open_db(b"oneread")
        with raw.begin(write=True) as transaction:
            transaction.put(b"format", written, db=meta)


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("number", "way_out"),
    [(environment.FORMAT - 1, "dump it with that release.*load"), (environment.FORMAT + 1, "upgrade this program")],
)
def test_a_format_of_another_release(path, number, way_out, read_only):
    opened(path)
    mark(path, b"oneread lmdb %d" % number)
    before = content(path)
    with pytest.raises(Unsupported, match=way_out) as refusal:
        opened(path, read_only=read_only)
    assert refusal.value.facts == {"path": str(path), "format": number, "known": environment.FORMAT}
    assert content(path) == before


@pytest.mark.parametrize("written", [b"", b"2", b"oneread lmdb ", b"oneread lmdb x", b"oneread lmdb -1"])
def test_a_mark_of_no_format(path, written):
    opened(path)
    mark(path, written)
    with pytest.raises(Corrupt, match="format"):
        opened(path)


def test_an_unused_prefix_cannot_be_opened_for_reading_only(path):
    opened(path)
    with pytest.raises(InvalidUrl, match="tenant"):
        opened(path, read_only=True, prefix="tenant")
    opened(path, read_only=True)


def test_reading_only_never_writes(path):
    engine = LmdbEngine(str(path))
    put(engine, b"a")
    engine.close()
    reader = LmdbEngine(str(path), read_only=True)
    assert keys(reader) == [b"a"]
    with pytest.raises(Unsupported, match="read_only"):
        put(reader, b"b")
    reader.close()


AS_NOBODY = """
import os, sys
from oneread.engines.lmdb import LmdbEngine
from oneread.errors import InvalidUrl

os.setuid(int(sys.argv[2]))
for read_only in (False, True):
    try:
        LmdbEngine(sys.argv[1], read_only=read_only)
    except InvalidUrl as refusal:
        assert sys.argv[1] in str(refusal) and "permission" in str(refusal), refusal
        print("refused", flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change its user")
def test_a_process_without_permission():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        opened(path)
        for place, mode in ((Path(folder), 0o755), (path, 0o755), *((file, 0o600) for file in path.iterdir())):
            place.chmod(mode)
        assert child(AS_NOBODY, path, NOBODY).communicate(timeout=30)[0] == b"refused\n" * 2


def test_a_read_only_file_system(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let tests mount a disk")
    try:
        engine = LmdbEngine(str(disk / "store"))
        put(engine, b"a")
        engine.close()
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        with pytest.raises(InvalidUrl, match="read-only"):
            opened(disk / "store")
        with pytest.raises(InvalidUrl, match="read-only"):
            opened(disk / "other")
        reader = LmdbEngine(str(disk / "store"), read_only=True)
        assert keys(reader) == [b"a"]
        reader.close()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


def test_one_process_opens_a_store_with_one_set_of_options(path):
    first = LmdbEngine(str(path))
    second = LmdbEngine(str(path))
    with pytest.raises(InvalidUrl, match="other options"):
        opened(path, durability="none")
    put(first, b"a")
    first.close()
    assert keys(second) == [b"a"]
    second.close()
    opened(path, durability="none")


def test_more_prefixes_than_a_process_can_hold(path):
    engines = []
    with pytest.raises(LimitExceeded, match="prefixes"):
        engines.extend(LmdbEngine(str(path), prefix=f"tenant{number}.") for number in range(40))
    one = LmdbEngine(str(path), prefix="tenant1.")
    put(one, b"a")
    assert keys(one) == [b"a"]
    two = LmdbEngine(str(path), prefix="tenant2.")
    assert keys(two) == []
    one.close()
    two.close()


@pytest.mark.parametrize("damage", [b"", b"\x00", b"\x05\x03d:b", b"\xff" * 40])
def test_a_damaged_row_names_its_table_and_key(path, damage):
    engine = LmdbEngine(str(path))
    put(engine, b"a")
    raw = engine._environment.lmdb
    with raw.begin(write=True, db=engine._tables["roots"]) as transaction:
        transaction.put(b"a", damage)
    for ask in (lambda: engine.point("roots", b"a", b"d:b"), lambda: keys(engine)):
        with pytest.raises(Corrupt) as refusal:
            ask()
        assert (refusal.value.facts["table"], refusal.value.facts["key"]) == ("roots", b"a")
    assert "-" in raw.readers(), "a failed read left its snapshot open"
    engine.close()
