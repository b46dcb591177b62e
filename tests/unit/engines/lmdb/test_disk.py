import errno
import os
import stat

import pytest

from oneread.engines.lmdb import LmdbEngine, disk
from oneread.errors import Unavailable


def failing(code, applies):
    """`os.fsync` that fails for the descriptors that `applies` chooses."""

    def fsync(file):
        if applies(os.fstat(file).st_mode):
            raise OSError(code, os.strerror(code))

    return fsync


@pytest.mark.parametrize("code", [errno.EACCES, errno.EBADF, errno.EINVAL])
def test_a_folder_that_cannot_be_synced_is_left_to_the_file_system(tmp_path, monkeypatch, code):
    monkeypatch.setattr(disk.os, "fsync", failing(code, stat.S_ISDIR))
    disk.sync_folder(tmp_path)
    LmdbEngine(str(tmp_path / "store")).close()


@pytest.mark.parametrize("applies", [stat.S_ISDIR, stat.S_ISREG], ids=["folder", "data"])
def test_a_store_that_the_disk_does_not_take_is_not_opened(tmp_path, monkeypatch, applies):
    with monkeypatch.context() as patched:
        patched.setattr(disk.os, "fsync", failing(errno.EIO, applies))
        with pytest.raises(Unavailable, match="disk failed"):
            LmdbEngine(str(tmp_path / "store"))
    LmdbEngine(str(tmp_path / "store")).close()


@pytest.mark.parametrize("durability", ["group", "may_lose_last", "none"])
def test_a_new_data_file_takes_the_place_of_an_unfinished_one(tmp_path, durability):
    store = tmp_path / "store"
    store.mkdir()
    (store / "data.mdb.unfinished").write_bytes(b"torn" * 1000)
    LmdbEngine(str(store), durability=durability).close()
    assert sorted(path.name for path in store.iterdir()) == ["data.mdb", "lock.mdb", "writer.lock"]


def test_without_a_promise_about_the_disk_nothing_is_synced(tmp_path, monkeypatch):
    monkeypatch.setattr(disk.os, "fsync", failing(errno.EIO, lambda _mode: True))
    LmdbEngine(str(tmp_path / "store"), durability="none").close()
