"""Who may hold a lock of a store: exactly those who may write it, whatever the umask."""

import fcntl
import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from oneread import Key, Model, Schema, connect


class Thing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Thing)
LOCKS = ("lock.mdb", "writer.lock")
STRANGER = 65534


@pytest.fixture(params=[0o022, 0o002, 0o077, 0o000], ids=lambda umask: f"umask {umask:03o}")
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder):
    return {name: stat.S_IMODE((folder / name).stat().st_mode) for name in ("data.mdb", *LOCKS)}


def made(folder):
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.save(Thing(number=1))


def in_child(uid, gid, act):
    """Runs `act` as another user in a child; answers whether it ended well."""
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(gid)
            os.setuid(uid)
            act()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - a child of a test must not go on with the suite
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def needs_root():
    if os.geteuid() != 0:
        pytest.skip("acting as another user needs root")


@pytest.fixture
def reachable():
    """A folder that other users may pass through: pytest closes its own to them whenever another run of it begins.

    What children need is loaded before: they may be unable to read the library of the interpreter that root has.
    """
    with tempfile.TemporaryDirectory(prefix="oneread-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        made(folder / "loads what writers need")
        yield folder


def test_lock_files_may_be_used_by_those_who_may_write_the_data(tmp_path, umask):
    made(tmp_path / "store")
    data = 0o666 & ~umask
    locks = 0o600 | (0o060 if data & 0o020 else 0) | (0o006 if data & 0o002 else 0)
    assert modes(tmp_path / "store") == {"data.mdb": data, "lock.mdb": locks, "writer.lock": locks}


def test_a_shared_folder_makes_a_shared_store(tmp_path, umask):
    folder = tmp_path / "store"
    folder.mkdir()
    folder.chmod(0o2770)
    made(folder)
    found = modes(folder)
    assert all(mode & 0o060 == 0o060 for mode in found.values()), found
    assert found["lock.mdb"] & 0o006 == (0o006 if umask == 0 else 0)


@pytest.mark.parametrize("data", [0o644, 0o600, 0o755, 0o664, 0o660])
def test_lock_files_of_an_older_store_are_fitted_on_opening(tmp_path, data):
    folder = tmp_path / "store"
    made(folder)
    (folder / "data.mdb").chmod(data)
    for name in LOCKS:
        (folder / name).chmod(0o644)
    made(folder)
    assert {modes(folder)[name] for name in LOCKS} == {0o660 if data & 0o020 else 0o600}
    with connect(f"lmdb://{folder}?read_only=true", SCHEMA) as db:
        assert db.get(Thing, 1)


def test_a_stranger_who_may_read_the_store_cannot_stop_its_writers(reachable):
    needs_root()
    folder = reachable / "store"
    made(folder)
    assert folder.stat().st_mode & 0o005 == 0o005

    def lock():
        (folder / "data.mdb").open("rb").close()
        for name in LOCKS:
            with pytest.raises(PermissionError):
                fcntl.flock(os.open(folder / name, os.O_RDONLY), fcntl.LOCK_SH)

    assert in_child(STRANGER, STRANGER, lock)


def test_members_of_the_group_of_a_shared_folder_write_in_turns(reachable):
    needs_root()
    folder = reachable / "store"
    folder.mkdir()
    os.chown(folder, 0, 4711)
    folder.chmod(0o2770)

    def write(number):
        def act():
            with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
                db.save(Thing(number=number))

        return act

    assert in_child(1001, 4711, write(1))
    assert in_child(1002, 4711, write(2))
    assert in_child(1001, 4711, write(3))
    with connect(f"lmdb://{folder}?read_only=true", SCHEMA) as db:
        assert len(db.page(Thing)) == 3


def test_root_who_opens_the_store_of_another_leaves_it_usable(reachable):
    needs_root()
    folder = reachable / "store"
    folder.mkdir()
    os.chown(folder, 1001, 1001)

    def write():
        with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
            db.save(Thing(number=1))

    assert in_child(1001, 1001, write)
    for name in LOCKS:
        (folder / name).unlink()
    made(folder)
    assert in_child(1001, 1001, write)
