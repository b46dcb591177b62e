"""Transactions that are decided on a snapshot in their caller's thread, and committed by one call of oneread-native."""

import contextvars
import os
import resource
import signal
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count, newest
from oneread.derivations.changes import Save
from oneread.engines.lmdb import LmdbEngine, binding
from oneread.engines.lmdb.transaction import JobWork
from oneread.engines.lmdb.turn import Turn
from oneread.errors import LimitExceeded, OutcomeUnknown, StoreReplaced, Unavailable
from oneread.store.engine import SaveQuestions
from oneread.store.requests import Increment, Scan
from oneread.store.rows import Cell, RowRange
from tests.failures.stores import keys, put, row, until

if not binding.NATIVE:
    pytest.skip(f"no call commits: {binding.NATIVE.why}", allow_module_level=True)

ALL = RowRange(b"", b"")


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store")


@pytest.fixture
def engine(path):
    with closing(LmdbEngine(path, durability="none")) as engine:
        put(engine, b"a")
        until(engine._environment.writer.is_idle)
        yield engine


@pytest.fixture
def elsewhere(engine):
    """The turn, held by another process: two open files are two parties to flock."""
    turn = Turn(f"{engine._path}/writer.lock")
    assert turn.take(0, lambda: True)
    yield turn
    turn.close()


class Function:
    """A function of a transaction that notes in which threads it was called; `meanwhile` happens in its first call."""

    def __init__(self, read=lambda rows: rows.read("roots", [b"a"]), meanwhile=lambda: None):
        self.read, self.meanwhile = read, meanwhile
        self.threads = []

    def __call__(self, rows):
        self.threads.append("caller" if threading.current_thread() is threading.main_thread() else "writer")
        found = self.read(rows)
        rows.replace("roots", {b"own": row(b"%d" % len(self.threads))})
        if len(self.threads) == 1:
            self.meanwhile()
        return found


def commit_of_another(engine, key):
    """A commit by the writer's thread, as that of another process."""
    job = JobWork(lambda rows: rows.replace("roots", {key: row(b"other")}), engine._tables)
    return lambda: engine._environment.writer.transaction(job, 30)


def snapshots(engine):
    """How many readers read at this moment."""
    return len(engine._environment.readers())


def test_a_function_is_decided_and_committed_in_its_callers_thread(engine, monkeypatch):
    monkeypatch.setattr(engine._environment.writer, "_begin", None)  # the writer's thread cannot write
    function = Function()
    assert engine.transaction(function, 5) == [row(b"1")]
    assert function.threads == ["caller"]
    assert keys(engine) == [b"a", b"own"]
    assert engine.answer(Increment("counts", b"n", b"d:n", 3)) == 3
    assert snapshots(engine) == 0


@pytest.mark.parametrize("looks", [False, True], ids=["nothing behind it", "reads and writes behind it"])
@pytest.mark.parametrize("number", [1, 400], ids=["few rows", "a long run"])
@pytest.mark.parametrize("way", ["by one call", "by the writer's thread"])
def test_what_compiled_code_decided_is_written(path, looks, number, way):
    with connect(f"lmdb://{path}?durability=none", Schema(Line, LinesOfKind), workers=0) as db:
        engine, changes = db._driver.engine, [Save(db.operations.catalog, Line(number=each)) for each in range(number)]
        asked = SaveQuestions(tuple(change.question(None) for change in changes), 7)
        until(engine._environment.writer.is_idle)
        turn, calls = Turn(f"{path}/writer.lock"), []

        def function(rows):
            calls.append(rows)
            decided = rows.decide_saves(asked)
            rows.write_decided(decided)
            if looks:
                assert rows.read_roots([changes[0].key])[0].body == decided.saved[0][1]
                assert rows.read("views", [b"own"]) == [None]
                rows.replace("roots", {b"own": row(b"1")})
            if way != "by one call" and len(calls) == 1:
                assert turn.take(0, lambda: True)
                threading.Timer(0.05, turn.give_back).start()

        engine.transaction(function, 5)
        found = dict(engine.answer(Scan("roots", ALL, 1000)))
        assert found.pop(b"own", None) == (row(b"1") if looks else None)
        assert sorted(found) == sorted(change.key for change in changes)
        assert len(engine.answer(Scan("views", ALL, 1000))) == number
        assert [db.get(Line, each) for each in range(number)] == [Line(number=each) for each in range(number)]
        assert not db.verify().faults or looks
        turn.close()


def test_a_store_that_waits_for_the_disk_commits_in_groups(path):
    with closing(LmdbEngine(path)) as engine:
        until(engine._environment.writer.is_idle)
        function = Function()
        engine.transaction(function, 5)
        assert function.threads == ["writer"]


@pytest.mark.parametrize(
    ("read", "key", "threads"),
    [
        (lambda rows: rows.read("roots", [b"a", b"b"]), b"c", ["caller"]),
        (lambda rows: rows.read("roots", [b"a", b"b"]), b"a", ["caller", "writer"]),
        (lambda rows: rows.read("roots", [b"a", b"b"]), b"b", ["caller", "writer"]),
        (lambda rows: rows.read_roots([b"b"]), b"b", ["caller", "writer"]),
        (lambda rows: rows.read_values("roots", [b"b"]), b"b", ["caller", "writer"]),
        (lambda rows: rows.scan("roots", ALL, 1), b"c", ["caller", "writer"]),
        (lambda rows: rows.read("views", [b"b"]), b"b", ["caller"]),
        (lambda _rows: None, b"c", ["caller"]),
    ],
)
def test_a_function_is_called_again_where_what_it_read_has_changed(engine, read, key, threads):
    function = Function(read, commit_of_another(engine, key))
    engine.transaction(function, 5)
    assert function.threads == threads
    assert engine.point("roots", b"own", b"d:b")[0] == b"%d" % len(threads)
    assert engine.point("roots", key, b"d:b")[0] == b"other"


@pytest.mark.parametrize(("key", "threads"), [(b"c", ["caller", "writer"]), (None, ["caller"])])
def test_what_was_decided_long_ago_is_written_only_behind_its_snapshot(engine, monkeypatch, key, threads):
    """Its clock would be behind that of the commits in between."""
    monkeypatch.setattr("oneread.engines.lmdb.decision._LATE_SECONDS", 0)
    function = Function(meanwhile=commit_of_another(engine, key) if key else lambda: None)
    engine.transaction(function, 5)
    assert function.threads == threads


def test_what_was_decided_is_written_later_where_the_turn_is_anothers(engine, elsewhere):
    function = Function()
    timer = threading.Timer(0.05, elsewhere.give_back)
    timer.start()
    assert engine.transaction(function, 30) == [row(b"1")]
    timer.join()
    assert function.threads == ["caller"]
    assert keys(engine) == [b"a", b"own"]


@pytest.mark.usefixtures("elsewhere")
def test_a_turn_that_does_not_come_in_time_leaves_nothing(engine):
    function = Function()
    with pytest.raises(Unavailable, match="did not come in time"):
        engine.transaction(function, 0.01)
    assert function.threads == ["caller"]
    assert keys(engine) == [b"a"]


@pytest.mark.usefixtures("elsewhere")
def test_a_function_that_writes_nothing_needs_no_turn(engine):
    assert engine.transaction(lambda rows: rows.read("roots", [b"a"]), 0) == [row(b"1")]


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
def test_what_a_function_raises_is_raised_and_leaves_nothing(engine, failure):
    def raises():
        raise failure

    function = Function(meanwhile=raises)
    with pytest.raises(failure) as raised:
        engine.transaction(function, 5)
    assert function.threads == ["caller"]
    assert snapshots(engine) == 0, f"the traceback of {raised} keeps a snapshot"
    assert keys(engine) == [b"a"]


def test_a_long_run_of_rows_is_put_by_the_writers_thread(engine):
    """It fills their pages although rows follow; the function is not called again."""
    engine.transaction(lambda rows: rows.replace("views", {b"1%04d" % n: row(bytes(100)) for n in range(1000)}), 5)
    until(engine._environment.writer.is_idle)
    before = leaves(engine)
    function = Function(lambda rows: rows.replace("views", {b"0%04d" % n: row(bytes(100)) for n in range(1000)}))
    engine.transaction(function, 5)
    assert function.threads == ["caller"]
    assert len(keys(engine, "views")) == 2000
    assert leaves(engine) < 2.5 * before


def leaves(engine):
    return engine.statistics().tables["views"].bytes // 4096


def test_a_function_does_not_change_its_callers_context(engine):
    name = contextvars.ContextVar("name", default="caller's")
    engine.transaction(lambda _rows: name.set("function's"), 5)
    assert name.get() == "caller's"


def test_jobs_that_wait_are_not_overtaken(engine):
    """While the writer's thread has work, all transactions go through its queue."""
    inside, go, order = threading.Event(), threading.Event(), []

    def hold(_rows):
        inside.set()
        assert go.wait(30)

    def write(name):
        engine.transaction(lambda _rows: order.append((name, threading.current_thread().name)), 30)

    writer = engine._environment.writer
    threads = [threading.Thread(target=writer.transaction, args=(JobWork(hold, engine._tables), 30))]
    threads[0].start()
    assert inside.wait(30)
    for waiting, name in enumerate((b"x", b"y"), 1):
        threads.append(threading.Thread(target=write, args=(name,)))
        threads[-1].start()
        until(lambda waiting=waiting: writer._queue.qsize() == waiting)
    go.set()
    for thread in threads:
        thread.join()
    assert order == [(b"x", "oneread-writer"), (b"y", "oneread-writer")]


def test_a_job_that_is_alone_is_not_disturbed(engine):
    """It began while a function decided, whose commit waits for its end."""
    inside, go = threading.Event(), threading.Event()
    writer = engine._environment.writer

    def hold():
        inside.set()
        assert go.wait(30)

    def begin():
        alone.start()
        assert inside.wait(30)

    alone = threading.Thread(target=writer.alone, args=(hold, 30))
    function = Function(meanwhile=begin)
    write = threading.Thread(target=engine.transaction, args=(function, 30))
    write.start()
    until(lambda: writer._queue.qsize() == 1 or not write.is_alive())
    assert keys(engine) == [b"a"]
    go.set()
    for thread in (alone, write):
        thread.join()
    assert len(function.threads) == 1
    assert keys(engine) == [b"a", b"own"]


def test_a_decision_holds_only_where_no_job_before_it_in_the_group_changed_what_it_read(engine, elsewhere):
    """A job that counts in the same row came while the function decided; both wait for the turn, and share a commit."""
    writer, waits = engine._environment.writer, threading.Event()

    def counted(rows):
        (found,) = rows.read("counts", [b"n"])
        rows.replace("counts", {b"n": row(b"%d" % (int(found[b"d:b"].value) + 1 if found else 1))})

    def begin():
        before.start()
        until(lambda: writer._at is not None)
        waits.set()

    before = threading.Thread(target=writer.transaction, args=(JobWork(counted, engine._tables), 30))
    function = Function(counted, begin)
    write = threading.Thread(target=engine.transaction, args=(function, 30))
    write.start()
    assert waits.wait(30)
    until(lambda: writer._queue.qsize() == 1)
    elsewhere.give_back()
    for thread in (before, write):
        thread.join()
    assert len(function.threads) == 2
    assert engine.point("counts", b"n", b"d:b")[0] == b"2"


def test_those_that_write_at_one_time_share_the_writers_commits(engine):
    """One decides; what comes meanwhile is run by the writer's thread."""
    names = []

    def begin():
        other = threading.Thread(
            target=engine.transaction, args=(lambda _rows: names.append(threading.current_thread().name), 30)
        )
        other.start()
        other.join()

    function = Function(meanwhile=begin)
    engine.transaction(function, 30)
    assert function.threads == ["caller"]
    assert names == ["oneread-writer"]


def test_closing_waits_for_a_function_that_decides(engine):
    inside, go, ended = threading.Event(), threading.Event(), []

    def slow(rows):
        rows.replace("roots", {b"slow": row(b"1")})
        inside.set()
        assert go.wait(30)
        return rows.read("roots", [b"a"])

    threads = [
        threading.Thread(target=lambda: ended.append(engine.transaction(slow, 30))),
        threading.Thread(target=engine.close),
    ]
    threads[0].start()
    assert inside.wait(30)
    threads[1].start()
    until(lambda: engine._closed)
    assert ended == []
    go.set()
    for thread in threads:
        thread.join()
    assert ended == [[row(b"1")]]


@pytest.mark.parametrize("ends", ["returns", "raises", "writes"])
def test_files_that_were_replaced_are_noticed(path, ends):
    engine = LmdbEngine(path, durability="none")
    put(engine, b"a")
    os.rename(f"{path}/lock.mdb", f"{path}/moved")  # noqa: PTH104

    def run(rows):
        if ends == "writes":
            rows.replace("roots", {b"b": row(b"1")})
        if ends == "raises":
            raise ZeroDivisionError

    with pytest.raises(StoreReplaced):
        engine.transaction(run, 5)
    os.rename(f"{path}/moved", f"{path}/lock.mdb")  # noqa: PTH104
    assert keys(engine) == [b"a"]
    engine.close()


def test_a_file_that_is_replaced_while_a_commit_is_written_leaves_an_unknown_outcome(engine, path):
    """The commit has looked at the files, and waits for LMDB's own lock."""
    elsewhere, failures = Turn(f"{path}/writer.lock"), []
    writing = engine._environment.lmdb.begin(write=True)

    def write():
        try:
            put(engine, b"b")
        except OutcomeUnknown as failure:
            failures.append(failure)

    def is_held():
        if not elsewhere.take(0, lambda: True):
            return True
        elsewhere.give_back()
        return False

    thread = threading.Thread(target=write)
    thread.start()
    until(is_held)
    os.rename(f"{path}/lock.mdb", f"{path}/moved")  # noqa: PTH104
    writing.abort()
    thread.join()
    os.rename(f"{path}/moved", f"{path}/lock.mdb")  # noqa: PTH104
    elsewhere.close()
    (failure,) = failures
    assert failure.facts["path"].endswith("lock.mdb")


def test_a_commit_that_fails_is_named_as_by_the_writers_thread(engine):
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, limits[1]))
    try:
        with pytest.raises(LimitExceeded, match="may not be larger"):
            put(engine, b"b", bytes(1 << 20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert keys(engine) == [b"a"]
    put(engine, b"c")


def test_a_child_keeps_no_copy_of_the_turn(engine):
    """One that it kept would keep the lock of a parent that dies."""
    pid = os.fork()
    if not pid:
        files = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names
        os._exit(any(file.is_symlink() and file.readlink().name == "writer.lock" for file in files))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    engine.transaction(Function(), 5)


def counted(engine, work):
    """How the transactions that end in `work` were committed."""
    until(engine._environment.writer.is_idle)
    before = engine.commits()
    work()
    return {way: found - before.get(way, 0) for way, found in engine.commits().items() if found != before.get(way)}


def test_commits_are_counted_by_what_made_them(engine):
    assert counted(engine, lambda: engine.transaction(Function(), 5)) == {"snapshot": 1}
    changed = Function(meanwhile=commit_of_another(engine, b"a"))
    assert counted(engine, lambda: engine.transaction(changed, 5)) == {"changed": 1}
    long = Function(lambda rows: rows.replace("views", {b"%04d" % n: row(bytes(100)) for n in range(2000)}))
    assert counted(engine, lambda: engine.transaction(long, 5)) == {"snapshot": 1}, "a long run, too"

    def raises(_rows):
        raise ZeroDivisionError

    before = engine.commits()
    with pytest.raises(ZeroDivisionError):
        engine.transaction(raises, 5)
    assert engine.commits() == before


def test_commits_that_wait_for_others_are_counted(engine, elsewhere):
    threading.Timer(0.05, elsewhere.give_back).start()
    assert counted(engine, lambda: engine.transaction(Function(), 30)) == {"turn": 1}
    within = Function(meanwhile=lambda: run_in_a_thread(lambda: engine.transaction(lambda _rows: None, 30)))
    assert counted(engine, lambda: engine.transaction(within, 30)) == {"others wait": 1, "snapshot": 1}


def run_in_a_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_child_counts_its_own_commits(engine):
    engine.transaction(Function(), 5)
    pid = os.fork()
    if not pid:
        engine.transaction(Function(), 5)
        os._exit(sum(engine.commits().values()) != 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_saves_that_the_core_decides_are_counted(tmp_path):
    with connect(f"lmdb://{tmp_path}/lines?durability=none", Schema(Line, LinesOfKind), workers=0) as db:
        before = db.native.commits
        for number in range(3):
            db.save(Line(number=number))
        found = db.native.commits
    assert sum(found.values()) == sum(before.values()) + 3
    assert found["core"] >= before.get("core", 0) + 2, (
        "the first one may meet the writer's thread, which just opened it"
    )


class Line(Model[int]):
    number: Key[int]
    kind: str = "a"


class LinesOfKind(Index[Line]):
    kind: str = by(Line.kind)
    number: int = newest(Line.number)


class Kinds(Aggregate[Line]):
    kind: str = by(Line.kind)
    lines: int = count()


@pytest.mark.parametrize("durability", ["none", "group"])
def test_threads_that_add_to_one_group_lose_nothing(tmp_path, durability):
    """Each save is decided, on a snapshot again where another one was faster; costs are those of the last time."""
    threads, saves, costs = 4, 40, set()

    def save(first):
        for number in range(first, threads * saves, threads):
            costs.add(db.cost(db.save(Line(number=number))))

    url = f"lmdb://{tmp_path}/lines?durability={durability}"
    with connect(url, Schema(Line, LinesOfKind, Kinds), workers=0) as db:
        running = [threading.Thread(target=save, args=(first,)) for first in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert db.get(Kinds, "a").lines == threads * saves
        assert db.verify().clean
    assert len({cost.requests for cost in costs}) == 1


KEYS = st.sampled_from([b"%03d" % number for number in range(40)])
ROWS = st.none() | st.sampled_from([{b"d:b": Cell(bytes(size), 1)} for size in (0, 40, 700, 3000, 9000)])
CHANGES = st.dictionaries(st.sampled_from(["roots", "views", "counts"]), st.dictionaries(KEYS, ROWS, max_size=40))


@given(st.lists(CHANGES, max_size=6))
def test_both_ways_write_the_same_file(tmp_path_factory, history):
    """In the caller's thread, and in the writer's thread, every byte is the same."""
    folder, files = tmp_path_factory.mktemp("both"), []
    for name in ("caller", "writer"):
        with closing(LmdbEngine(str(folder / name), durability="none", map_size=1 << 26)) as engine:
            if name == "writer":
                engine._environment.callers = None
            for changes in history:
                engine.transaction(lambda rows, changes=changes: replace(rows, changes), 30)
            # The format's row has a random key of its own, so what LMDB holds is compared, and its pages.
            files.append([*map(keys_and_rows(engine), ("roots", "views", "counts")), pages(engine)])
    assert files[0] == files[1]


def replace(rows, changes):
    for table, several in changes.items():
        rows.read(table, [*several])
        rows.replace(table, several)


def keys_and_rows(engine):
    return lambda table: engine.transaction(lambda rows: rows.scan(table, ALL, 1000, families="dm"), 30)


def pages(engine):
    with engine._environment.lmdb.begin() as reading:
        trees = [reading.stat(database) for database in engine._tables.values()]
    return trees, engine._environment.lmdb.info()["last_pgno"], engine._environment.lmdb.info()["last_txnid"]
