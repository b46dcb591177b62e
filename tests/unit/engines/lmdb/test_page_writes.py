"""Pages of commits that are copied into a mapping of the data file, where nothing waits for the disk.

tests/failures/test_copied_pages.py has what would end the process.
"""

import os
import random
import subprocess
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest

from oneread.engines.lmdb import LmdbEngine, binding
from tests.failures.stores import keys, put

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

WRITE_IN_PLACE = ("ef53", "1021994")


@pytest.fixture
def folder(tmp_path):
    kind = subprocess.run(["stat", "-f", "-c", "%t", tmp_path], check=False, capture_output=True, text=True).stdout
    if kind.strip() not in WRITE_IN_PLACE:
        pytest.skip("the temporary folder's file system may give a page another place when it is written")
    return tmp_path


def opened(folder, of=native, **options):
    return of.open(str(folder), **({"map_size": 1 << 28, "max_dbs": 2, "sync": False} | options))


def commit(environment, times, chance, rows=200, most=3000):
    database = environment.open_db(b"rows")
    for _ in range(times):
        with environment.begin(write=True, db=database) as writing:
            for _ in range(4):
                writing.put(b"%04d" % chance.randrange(rows), chance.randbytes(chance.randrange(most)))


def mappings(folder):
    """How often this process has mapped the data file."""
    return Path("/proc/self/maps").read_text().count(f"{folder}/data.mdb")


def test_the_file_is_what_the_system_would_have_written(folder):
    """While it grows beyond its mapping, and is opened again."""
    files = []
    for name in ("lmdb", "oneread_native"):
        (folder / name).mkdir()
        chance, copied = random.Random(7), []
        for rows in (50, 200, 2000):
            with opened(folder / name, import_module(name)) as environment:
                commit(environment, 150, chance, rows)
                copied.append(getattr(environment, "pages_copied", lambda: 0)())
        files.append((folder / name / "data.mdb").read_bytes())
    assert files[0] == files[1]
    assert len(files[0]) > 1 << 20
    assert all(copied)


def test_a_page_is_copied_once_the_environment_has_written_it(folder):
    with opened(folder) as environment:
        commit(environment, 40, random.Random(1))
        assert environment.pages_copied() > 0
    with opened(folder) as environment:
        commit(environment, 1, random.Random(2))
        assert environment.pages_copied() == 0


def test_pages_beside_each_other_are_copied(folder):
    """A commit of a small store writes a run of them by one call."""
    with opened(folder) as environment:
        database = environment.open_db(b"rows")
        for number in range(60):
            before = environment.pages_copied()
            with environment.begin(write=True, db=database) as writing:
                for name in (b"a", b"b"):
                    writing.put(name, b"%d" % number * 2000)
        assert environment.pages_copied() > before
        with environment.begin(database) as reading:
            assert reading.get(b"b") == b"59" * 2000


@pytest.mark.parametrize("options", [{"sync": True}, {"metasync": False, "sync": True}])
def test_what_waits_for_the_disk_is_written_by_the_system(folder, options):
    with opened(folder, **options) as environment:
        commit(environment, 20, random.Random(1))
        assert environment.pages_copied() == 0
        assert mappings(folder) == 1


@pytest.mark.skipif(not binding.NATIVE, reason=f"no page is copied: {binding.NATIVE.why}")
@pytest.mark.parametrize("durability", ["group", "may_lose_last", "none"])
def test_only_stores_that_do_not_wait_for_the_disk_copy(folder, durability):
    with closing(LmdbEngine(str(folder / "store"), durability=durability)) as engine:
        for number in range(30):
            put(engine, b"%d" % (number % 3), bytes(5000))
        assert (engine._environment.lmdb.pages_copied() > 0) == (durability == "none")
        assert keys(engine) == [b"0", b"1", b"2"]


def test_the_mapping_ends_with_the_environment(folder):
    with opened(folder) as environment:
        commit(environment, 20, random.Random(1))
        assert mappings(folder) == 2
        commit(environment, 20, random.Random(2), 4000, 100_000)
        assert mappings(folder) == 2
    assert mappings(folder) == 0


def test_a_child_of_a_fork_has_no_mapping_to_write_in(folder):
    """What it closes is not its parent's."""
    with opened(folder) as environment:
        commit(environment, 20, random.Random(1))
        before = environment.pages_copied()
        pid = os.fork()
        if not pid:
            found = mappings(folder)
            environment.close()
            os._exit(found - mappings(folder) + 10 * found)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 10
        commit(environment, 20, random.Random(2))
        assert environment.pages_copied() > before
    with opened(folder) as environment, environment.begin() as reading:
        assert reading.stat(environment.open_db(b"rows", reading))["entries"] > 50
