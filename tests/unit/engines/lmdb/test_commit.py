"""The call of oneread-native that commits what was decided on a snapshot: all of it, or nothing is written."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.failures.stores import until

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

SIZE = 1 << 24


def opened(folder, **options):
    folder.mkdir(exist_ok=True)
    return native.open(str(folder), **({"map_size": SIZE, "max_dbs": 4, "max_spare_txns": 1, "sync": False} | options))


@pytest.fixture
def environment(tmp_path):
    with opened(tmp_path / "store") as environment:
        yield environment


@pytest.fixture
def rows(environment):
    """A database of b"a" and b"b"."""
    database = environment.open_db(b"rows")
    put(environment, database, a=b"1", b=b"2")
    return database


def open_turn(folder):
    return os.open(folder / "writer.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)


@pytest.fixture
def turn(tmp_path):
    file = open_turn(tmp_path)
    yield file
    os.close(file)


def put(environment, database, **values):
    with environment.begin(write=True, db=database) as writing:
        for name, value in values.items():
            writing.put(name.encode(), value)


def held(environment, database):
    with environment.begin(database) as reading:
        return dict(reading.cursor())


def last(environment):
    return environment.info()["last_txnid"]


@contextmanager
def taken(folder):
    """The turn, held by another open file, as another process has it."""
    other = open_turn(folder)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    yield
    os.close(other)


def test_what_was_decided_is_written_at_once(environment, rows, turn):
    other = environment.open_db(b"other")
    at = last(environment)
    writes = ((rows, ((b"a", None), (b"x", None), (b"c", b"3"), (b"d", b""))), (other, ((b"e", b"5"),)))
    assert environment.commit(turn, (), at, None, writes) is True
    assert held(environment, rows) == {b"b": b"2", b"c": b"3", b"d": b""}
    assert held(environment, other) == {b"e": b"5"}
    assert last(environment) == at + 1
    with environment.begin(write=True) as writing:
        assert writing.id() == at + 2


def test_the_turn_is_given_back(environment, rows, turn, tmp_path):
    assert environment.commit(turn, (), last(environment), None, ((rows, ((b"c", b"3"),)),)) is True
    with taken(tmp_path):
        pass


@pytest.mark.parametrize(
    ("reads", "holds"),
    [
        (((b"a", b"1"), (b"b", b"2"), (b"z", None)), True),
        ((), True),
        (((b"a", b"1"), (b"b", b"1")), False),
        (((b"a", b""),), False),
        (((b"a", b"12"),), False),
        (((b"a", None),), False),
        (((b"z", b""),), False),
        (((b"empty", b""),), True),
        (((b"empty", None),), False),
        (((b"", None),), False),
    ],
)
def test_what_was_read_must_still_be_so(environment, rows, turn, reads, holds):
    """After a commit of another writer each row that was read is compared, and nothing is written where one differs."""
    at = last(environment)
    put(environment, rows, other=b"", empty=b"")
    before = held(environment, rows)
    assert environment.commit(turn, (), at, ((rows, reads),), ((rows, ((b"c", b"3"),)),)) == (
        True if holds else "changed"
    )
    assert held(environment, rows) == (before | {b"c": b"3"} if holds else before)
    assert last(environment) == at + 1 + holds


def known(*paths):
    """The files as they are now."""
    return tuple((os.fsencode(path), path.stat().st_ino, path.stat().st_dev) for path in paths)


def test_nothing_is_written_where_a_file_is_not_the_stores(environment, rows, turn, tmp_path):
    files = known(tmp_path / "store/data.mdb", tmp_path / "store/lock.mdb", tmp_path / "writer.lock")
    assert environment.are_files(files)
    writes, before = ((rows, ((b"c", b"3"),)),), last(environment)
    (tmp_path / "writer.lock").rename(tmp_path / "moved")
    assert not environment.are_files(files)
    assert environment.commit(turn, files, last(environment), None, writes) == "files"
    (tmp_path / "writer.lock").touch()
    assert not environment.are_files(files)
    assert environment.commit(turn, files, last(environment), None, writes) == "files"
    assert last(environment) == before
    (tmp_path / "moved").rename(tmp_path / "writer.lock")
    assert environment.are_files(files)
    assert environment.commit(turn, files, last(environment), None, writes) is True


def test_a_commit_into_a_file_that_was_replaced_meanwhile_says_so(environment, rows, turn, tmp_path):
    """It has looked at the files, and waits for LMDB's own lock."""
    files, at, answers = known(tmp_path / "store/lock.mdb"), last(environment), []
    writing, other = environment.begin(write=True), open_turn(tmp_path)
    thread = threading.Thread(
        target=lambda: answers.append(environment.commit(turn, files, at, None, ((rows, ((b"c", b"3"),)),)))
    )
    try:
        thread.start()
        until(lambda: is_held(other))
        (tmp_path / "store/lock.mdb").rename(tmp_path / "moved")
    finally:
        writing.abort()
    thread.join()
    (tmp_path / "moved").rename(tmp_path / "store/lock.mdb")
    assert answers == [None]
    assert held(environment, rows)[b"c"] == b"3"
    os.close(other)


def test_what_was_read_in_no_known_rows_is_lost_with_any_commit(environment, rows, turn):
    at = last(environment)
    put(environment, rows, other=b"")
    assert environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)) == "changed"
    assert environment.commit(turn, (), at + 1, None, ((rows, ((b"c", b"3"),)),)) is True


def test_without_a_turn_nothing_is_written(environment, rows, turn, tmp_path):
    before, at = held(environment, rows), last(environment)
    with taken(tmp_path):
        assert environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)) == "turn"
    assert environment.commit(turn + 100, (), at, None, ((rows, ((b"c", b"3"),)),)) == "turn", "no file has the number"
    assert (held(environment, rows), last(environment)) == (before, at)


def test_what_lmdb_refuses_is_not_written_in_part(environment, rows, turn):
    before, at = held(environment, rows), last(environment)
    for refused in ((b"", b""), (b"k" * 512, b""), (b"c", bytes(SIZE))):
        assert environment.commit(turn, (), at, None, ((rows, ((b"x", b"1"), refused)),)) == "refused"
    assert (held(environment, rows), last(environment)) == (before, at)
    put(environment, rows, c=b"3")


def test_a_data_file_that_was_overwritten_is_not_written(environment, rows, turn, tmp_path):
    data = tmp_path / "store/data.mdb"
    older = data.read_bytes()
    put(environment, rows, c=b"3")
    with data.open("r+b") as file:
        file.write(older)
    overwritten = data.read_bytes()
    for at in (last(environment), last(environment) + 1):
        assert environment.commit(turn, (), at, None, ((rows, ((b"d", b"4"),)),)) == "files"
    assert data.read_bytes() == overwritten


def test_a_thread_does_not_wait_for_itself(environment, rows, turn):
    with environment.begin(write=True):
        assert environment.commit(turn, (), last(environment), None, ((rows, ((b"c", b"3"),)),)) == "closed"


def test_one_thread_at_a_time_has_the_turn(environment, rows, turn, tmp_path):
    """The lock is the open file's, so that a second thread would get it as well, and give it back for the first one."""
    at, answers = last(environment), []
    writing = environment.begin(write=True)  # LMDB's own lock: the first one has the turn, and waits for it

    def commit():
        answers.append(environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)))

    first, second = threading.Thread(target=commit), threading.Thread(target=commit)
    other = open_turn(tmp_path)
    try:
        first.start()
        until(lambda: is_held(other))
        second.start()
        second.join(10)
        assert answers == ["turn"]
        assert is_held(other)
    finally:
        writing.abort()
    first.join()
    assert answers == ["turn", True]
    os.close(other)


def is_held(file):
    """Whether another open file has the turn."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def test_a_closed_environment_and_one_for_reading_write_nothing(environment, rows, turn, tmp_path):
    at = last(environment)
    environment.close()
    assert environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)) == "closed"
    with opened(tmp_path / "store", readonly=True) as readonly:
        database = readonly.open_db(b"rows", create=False)
        assert readonly.commit(turn, (), at, None, ((database, ((b"c", b"3"),)),)) == "closed"
        assert held(readonly, database) == {b"a": b"1", b"b": b"2"}


def test_a_child_does_not_write_in_its_parents_environment(environment, rows, turn):
    at = last(environment)
    pid = os.fork()
    if not pid:
        os._exit(environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)) != "closed")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)) is True


def test_a_commit_that_fails_raises_its_number(environment, rows, turn):
    """The file may not grow: LMDB's write of the pages fails, which a commit that does not begin never says."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before, at = held(environment, rows), last(environment)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    try:
        with pytest.raises(native.Error, match="mdb_txn_commit") as failure:
            environment.commit(turn, (), at, None, ((rows, ((b"c", bytes(1 << 20)),)),))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert failure.value.code > 0
    assert (held(environment, rows), last(environment)) == (before, at)
    assert environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)) is True


def test_threads_that_count_lose_nothing(environment, rows, turn):
    """Each decides on a snapshot, and again where another one was faster."""

    def count():
        for _ in range(200):
            while True:
                with environment.begin(rows) as reading:
                    at, seen = reading.id(), reading.get(b"n")
                following = b"%d" % (int(seen or b"0") + 1)
                if (
                    environment.commit(turn, (), at, ((rows, ((b"n", seen),)),), ((rows, ((b"n", following),)),))
                    is True
                ):
                    break

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held(environment, rows)[b"n"] == b"800"


COUNTS = """
import os, sys, oneread_native
turn = os.open(sys.argv[1] + "/../writer.lock", os.O_RDWR | os.O_CREAT)
with oneread_native.open(sys.argv[1], map_size=1 << 24, max_dbs=4, max_spare_txns=1, sync=False) as environment:
    rows = environment.open_db(b"rows")
    print(flush=True)
    for _ in range(int(sys.argv[2])):
        while True:
            with environment.begin(rows) as reading:
                at, seen = reading.id(), reading.get(b"n")
            following = b"%d" % (int(seen or b"0") + 1)
            if environment.commit(turn, (), at, ((rows, ((b"n", seen),)),), ((rows, ((b"n", following),)),)) is True:
                break
        print(following.decode(), flush=True)
"""


def counting(folder, times):
    command = [sys.executable, "-c", COUNTS, str(folder), str(times)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_processes_that_count_lose_nothing(environment, rows, tmp_path):
    counters = [counting(tmp_path / "store", 200) for _ in range(2)]
    numbers = [int(line) for counter in counters for line in counter.communicate()[0].split()]
    assert sorted(numbers) == list(range(1, 401))
    assert held(environment, rows)[b"n"] == b"400"


def test_a_process_that_is_killed_leaves_whole_commits_and_the_turn(environment, rows, turn, tmp_path):
    for _ in range(5):
        before = int(held(environment, rows).get(b"n", b"0"))
        counter = counting(tmp_path / "store", 1 << 30)
        for _ in range(20):
            counter.stdout.readline()
        counter.send_signal(signal.SIGKILL)
        said = [int(line) for line in counter.communicate()[0].splitlines() if line]
        found = int(held(environment, rows)[b"n"])
        assert before + 19 <= found
        assert max(said, default=0) <= found <= max(said, default=found - 1) + 1
        assert environment.commit(turn, (), last(environment), None, ((rows, ((b"c", b"3"),)),)) is True


def test_closing_waits_for_a_commit(environment, rows, turn, tmp_path):
    """One that waits for the turn, which another has."""
    answers, at = [], last(environment)
    with taken(tmp_path):
        threads = [
            threading.Thread(
                target=lambda: answers.append(environment.commit(turn, (), at, None, ((rows, ((b"c", b"3"),)),)))
            )
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        environment.close()
    for thread in threads:
        thread.join()
    assert set(answers) <= {"turn", "closed"}
    assert len(answers) == 2


@pytest.mark.parametrize(
    ("reads", "writes", "said"),
    [
        ([], (), "rows are None, or a tuple"),
        ((), [], "rows are None, or a tuple"),
        ((1,), (), "rows are None, or a tuple"),
        (((None, []),), (), "rows are None, or a tuple"),
        (((None, ((b"a",),)),), (), "rows are None, or a tuple"),
        (((None, (("a", None),)),), (), "expected bytes"),
        (((None, ((b"a", 1),)),), (), "expected bytes"),
        (((b"rows", ()),), (), "a database is what open_db returned"),
        ((), ((None, ((b"a", "1"),)),), "expected bytes"),
    ],
)
def test_wrong_arguments_are_named(environment, turn, reads, writes, said):
    with pytest.raises(TypeError, match=said):
        environment.commit(turn, (), last(environment), reads, writes)
    for wrong in (("x", (), 1), (turn, (), "x"), (turn, [], 1), (turn, (b"path",), 1), (turn, (("path", 1, 1),), 1)):
        with pytest.raises(TypeError):
            environment.commit(*wrong, (), ())
    for files in ([], (b"path",), ((b"path", 1),), ((b"path", "x", 1),), ((b"", 1, 1),) * 5):
        with pytest.raises(TypeError):
            environment.are_files(files)


KEYS = st.sampled_from([b"%03d" % number for number in range(60)])
VALUES = st.sampled_from([b"", b"v" * 40, b"w" * 700, b"x" * 3000, b"y" * 9000])
CHANGES = st.dictionaries(KEYS, st.none() | VALUES, max_size=15)


@given(st.lists(st.tuples(CHANGES, CHANGES), max_size=8))
def test_both_ways_write_the_same_file(tmp_path_factory, history):
    """By the calls of a transaction, as the writer's thread makes them, and by this one: every byte is the same."""
    folder, files = tmp_path_factory.mktemp("both"), []
    turn = open_turn(folder)
    for name, write in (("calls", by_calls), ("commit", by_commit)):
        with opened(folder / name) as environment:
            databases = [environment.open_db(each) for each in (b"one", b"two")]
            for several in history:
                write(environment, [*zip(databases, several, strict=True)], turn)
        files.append((folder / name / "data.mdb").read_bytes())
    os.close(turn)
    assert files[0] == files[1]


def parted(changes):
    return [key for key, value in changes.items() if value is None], sorted(
        (key, value) for key, value in changes.items() if value is not None
    )


def by_calls(environment, several, _turn):
    with environment.begin(write=True) as writing:
        for database, changes in several:
            deleted, puts = parted(changes)
            for key in deleted:
                writing.delete(key, db=database)
            if len(puts) == 1:
                writing.put(*puts[0], db=database)
            else:
                writing.cursor(database).putmulti(puts)


def by_commit(environment, several, turn):
    writes = []
    for database, changes in several:
        deleted, puts = parted(changes)
        writes.append((database, (*((key, None) for key in deleted), *puts)))
    assert environment.commit(turn, (), last(environment), None, tuple(writes)) is True
