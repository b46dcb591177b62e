import msgspec
import pytest

from oneread.engines.lmdb import LmdbEngine, binding, engine, environment
from oneread.engines.lmdb.environment import Settings, acquire, release
from oneread.engines.lmdb.transaction import JobWork
from oneread.errors import Closed, Corrupt, InvalidKey, InvalidUrl, LimitExceeded, OutcomeUnknown, Unavailable
from oneread.store.requests import Increment, Mutate, Read, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

ALL = RowRange(b"", b"")
ROW = {b"d:b": Cell(b"1", 1)}


@pytest.fixture
def store(tmp_path):
    store = LmdbEngine(str(tmp_path / "store"), durability="none")
    yield store
    store.close()


def replace(store, rows):
    store.transaction(lambda inside: inside.replace("roots", rows), 5)


def test_reading_an_empty_key_is_a_usage_error_and_leaves_no_snapshot(store):
    for ask in (lambda: store.point("roots", b"", b"d:b"), lambda: store.answer(Read("roots", [b""]))):
        with pytest.raises(InvalidKey):
            ask()
    assert store._environment.lmdb.readers().count("-") == 1


def test_commits_of_the_writers_thread_are_counted(tmp_path):
    store = LmdbEngine(str(tmp_path / "store"))
    before = sum(store.commits().values())
    replace(store, {b"a": ROW})
    assert store.commits() == {"durable" if binding.NATIVE else "py-lmdb": before + 1}
    store.close()
    assert store.commits() == {}


def test_an_empty_key_inside_a_transaction_is_that_jobs_error(store):
    with pytest.raises(InvalidKey):
        store.transaction(lambda inside: inside.read("roots", [b""]), 5)
    replace(store, {b"a": ROW})
    assert store.point("roots", b"a", b"d:b") == (ROW[b"d:b"].value, ROW[b"d:b"].stamp)


def test_a_read_that_meets_a_closing_engine_says_closed(store):
    """The engine is closed between the look at its tables and the read."""
    reading = store._begin
    store.close()
    store._tables = {"roots": None}
    store._begin = reading
    for ask in (lambda: store.point("roots", b"a", b"d:b"), lambda: store.answer(Read("roots", [b"a"]))):
        with pytest.raises(Closed):
            ask()


def test_a_transaction_that_meets_a_closed_environment_says_so(store):
    store._environment.lmdb.close()
    with pytest.raises(Unavailable):
        store.transaction(lambda inside: inside.read("roots", [b"a"]), 5)


def test_a_failing_commit_is_an_unknown_outcome(store, monkeypatch):
    class Failing(environment.WriteGroup):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            transaction = self._transaction

            class Broken:
                def __getattr__(self, name):
                    return getattr(transaction, name)

                def commit(self):
                    transaction.abort()
                    raise binding.Error("commit", 5)

            self._transaction = Broken()

    monkeypatch.setattr(environment, "WriteGroup", Failing)
    job = JobWork(lambda inside: inside.replace("roots", {b"a": ROW}), store._tables)
    with pytest.raises(OutcomeUnknown):
        store._environment.writer.transaction(job, 5)


def test_what_a_job_raises_goes_to_its_caller_and_leaves_nothing(store):
    def interrupted(transaction):
        transaction.replace("roots", {b"a": ROW})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.transaction(interrupted, 5)
    assert store.answer(Scan("roots", ALL, 5)) == []
    replace(store, {b"b": ROW})


def test_a_damaged_row_inside_a_transaction_is_corrupt(store):
    with store._environment.lmdb.begin(write=True, db=store._tables["roots"]) as raw:
        raw.put(b"a", b"garbage")
    with pytest.raises(Corrupt):
        store.answer(Mutate("roots", [RowMutation(b"a", ROW)]))
    with pytest.raises(Corrupt):
        store.answer(Increment("roots", b"a", b"d:n", 1))
    replace(store, {b"a": ROW})


@pytest.mark.parametrize("size", [0, 1, 7, 9, 14, 17])
def test_a_torn_row_behind_whole_ones_of_its_form_is_corrupt(store, size):
    row = {b"d:b": Cell(b"body", 1), b"m:s": Cell(b"more", 1)}
    replace(store, {b"a": row, b"b": row, b"c": row})
    assert store.column("roots", ALL, 2, b"d:b", reverse=False) == ((b"a", b"b"), [b"body", b"body"])
    with store._environment.lmdb.begin(write=True, db=store._tables["roots"]) as raw:
        raw.put(b"c", raw.get(b"c")[:size])
    with pytest.raises(Corrupt):
        store.column("roots", ALL, 3, b"d:b", reverse=False)


def test_what_a_transaction_wrote_stands_before_the_store_in_its_scans(store):
    replace(store, {bytes([key]): ROW for key in b"aceg"})

    def work(transaction):
        transaction.replace("roots", {b"b": ROW, b"c": None, b"g": {b"m:e": Cell(b"", 1)}})
        return [
            b"".join(
                key
                for key, _ in transaction.scan("roots", RowRange(b"a\x00", b"h"), 3, reverse=reverse, families=families)
            )
            for reverse in (False, True)
            for families in ("d", "dm")
        ]

    assert store.transaction(work, 5) == [b"be", b"beg", b"eb", b"geb"]


class User:
    """What keeps an environment open."""


def test_leaving_gives_the_folder_free_for_other_options(tmp_path):
    path, settings = str(tmp_path / "store"), Settings("none", read_only=False, map_size=1 << 30, max_readers=64)
    one, two = User(), User()
    opened = acquire(path, settings, one, 5)
    assert acquire(path, settings, two, 5) is opened
    release(opened, one, 5)
    release(opened, one, 5)  # twice is quiet, and is not counted for the other
    assert environment._opened[path] is opened
    with pytest.raises(InvalidUrl, match="other options"):
        acquire(path, msgspec.structs.replace(settings, max_readers=32), one, 5)
    release(opened, two, 5)
    assert path not in environment._opened


def test_a_user_that_was_lost_does_not_keep_a_folder_open(tmp_path):
    path, settings = str(tmp_path / "store"), Settings("none", read_only=False, map_size=1 << 30, max_readers=64)
    lost, user = User(), User()
    first = acquire(path, settings, lost, 5)
    del lost
    second = acquire(path, msgspec.structs.replace(settings, max_readers=32), user, 5)
    assert second is not first
    release(second, user, 5)
    assert path not in environment._opened


def test_opening_and_closing_wait_for_each_other_with_a_deadline(tmp_path):
    path = str(tmp_path / "store")
    with environment._locked(path, 1):
        with pytest.raises(Unavailable, match="opening"):
            LmdbEngine(path, timeout=0.01)
        LmdbEngine(str(tmp_path / "another")).close()


def test_a_py_lmdb_without_a_list_of_open_files_needs_no_telling(monkeypatch):
    monkeypatch.setattr(binding.maker, "_envid", None, raising=False)
    binding.distinguish_child(1)


def test_the_capabilities_are_those_of_memory_but_for_two(store):
    assert store.capabilities is engine.CAPABILITIES
    with pytest.raises(LimitExceeded):
        replace(store, {b"k" * (store.capabilities.max_key + 1): ROW})


class Misleading:
    """A read transaction whose reads by key are misled by a damaged page."""

    def __init__(self, reading, answers):
        self.reading, self.answers = reading, answers

    def cursor(self, database):
        return self.reading.cursor(database)

    def get(self, key, default, database):
        return self.answers.get(key, self.reading.get(key, default, database))


@pytest.mark.parametrize("answer", [None, b"", b"another"])
def test_a_checked_scan_names_the_row_that_a_read_by_key_does_not_find(store, monkeypatch, answer):
    replace(store, {b"%03d" % number: ROW for number in range(200)})
    reading, answers = engine._SnapshotRows, {b"150": answer}
    monkeypatch.setattr(engine, "_SnapshotRows", lambda rows, *more: reading(Misleading(rows, answers), *more))
    asked = Scan("roots", ALL, 500, families="dm", checked=True)
    with pytest.raises(Corrupt) as failure:
        store.snapshot(lambda rows: rows.scan_checked(asked))
    assert failure.value.facts == {"table": "roots", "key": b"150".hex()}
    answers.clear()
    assert len(store.snapshot(lambda rows: rows.scan_checked(asked))) == 200


@pytest.mark.parametrize("read", ["point", "answer"])
def test_an_interrupted_read_holds_no_moment_of_the_store_while_its_traceback_is_kept(store, monkeypatch, read):
    replace(store, {b"a": ROW})

    class Interrupted:
        def __init__(self, reading):
            self.reading = reading

        def get(self, *_asked):
            raise KeyboardInterrupt

        def abort(self):
            self.reading.abort()

    begin = store._begin
    monkeypatch.setattr(store, "_begin", lambda database: Interrupted(begin(database)))
    ask = {"point": lambda: store.point("roots", b"a", b"d:v"), "answer": lambda: store.answer(Read("roots", [b"a"]))}
    with pytest.raises(KeyboardInterrupt) as kept:
        ask[read]()
    assert kept.traceback
    assert store._environment.lmdb.readers().count("-") == 1
