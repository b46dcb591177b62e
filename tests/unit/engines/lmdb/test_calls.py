"""What both bindings to LMDB must answer alike; each call that the engine makes is here.

Both are loaded here, which a program never does: they open different files.
"""

import errno
import os
import threading
from contextlib import suppress
from importlib import import_module

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneread.store.engine import CORE_TABLES

SIZE = 1 << 24


@pytest.fixture(params=["lmdb", "oneread_native"])
def binding(request):
    return pytest.importorskip(request.param, reason="oneread-native is not installed")


@pytest.fixture(scope="module")
def native():
    return pytest.importorskip("oneread_native", reason="oneread-native is not installed")


def opened(binding, folder, **options):
    folder.mkdir(exist_ok=True)
    given = {"map_size": SIZE, "max_dbs": 4, "max_spare_txns": 1, "sync": False} | options
    return binding.open(str(folder), **given)


@pytest.fixture
def environment(binding, tmp_path):
    with opened(binding, tmp_path / "store") as environment:
        yield environment


@pytest.fixture
def rows(environment):
    """A database of b"00" to b"09"."""
    database = environment.open_db(b"rows")
    with environment.begin(write=True) as writing:
        found = writing.cursor(database).putmulti([(b"%02d" % number, b"v%d" % number) for number in range(10)])
        assert found == (10, 10)
    return database


def test_a_row_is_put_read_and_deleted(environment, rows):
    with environment.begin(write=True, db=rows) as writing:
        assert writing.put(b"a", b"") is True
        assert writing.put(b"a", b"1", db=rows) is True
        assert writing.get(b"a") == writing.get(b"a", None, rows) == writing.get(b"a", db=rows) == b"1"
        assert writing.get(b"b") is None
        assert writing.get(b"b", b"other", rows) == b"other"
        assert writing.delete(b"a", db=rows) is True
        assert writing.delete(b"a") is False
        assert writing.id() == environment.info()["last_txnid"] + 1
    with environment.begin(rows) as reading:
        assert reading.get(b"09") == b"v9"
        assert reading.id() == environment.info()["last_txnid"]


def test_what_is_taken_back_was_never_there(environment, rows):
    writing = environment.begin(write=True)
    writing.put(b"a", b"1", db=rows)
    writing.abort()
    writing.abort()
    with suppress(ZeroDivisionError), environment.begin(write=True) as writing:
        writing.put(b"a", b"1", db=rows)
        raise ZeroDivisionError
    with environment.begin(rows) as reading:
        assert reading.get(b"a") is None


def test_a_commit_ends_a_transaction(binding, environment, rows):
    writing = environment.begin(write=True)
    cursor = writing.cursor(rows)
    writing.commit()
    for ended in (writing.commit, writing.id, cursor.first, cursor.item, lambda: writing.get(b"a")):
        with pytest.raises(binding.Error):
            ended()
    with environment.begin() as reading:
        reading.abort()


def test_a_cursor_moves(environment, rows):
    with environment.begin(rows) as reading:
        cursor = reading.cursor(rows)
        assert (cursor.key(), cursor.item()) == (b"", (b"", b""))
        assert (cursor.first(), cursor.key(), cursor.prev(), cursor.key()) == (True, b"00", False, b"")
        assert (cursor.last(), cursor.key(), cursor.next(), cursor.item()) == (True, b"09", False, (b"", b""))
        assert (cursor.set_range(b"035"), cursor.item()) == (True, (b"04", b"v4"))
        assert (cursor.prev(), cursor.key(), cursor.next(), cursor.next(), cursor.key()) == (
            True, b"03", True, True, b"05",
        )  # fmt: skip
        assert (cursor.set_key(b"07"), cursor.key(), cursor.set_key(b"077"), cursor.key()) == (True, b"07", False, b"")
        assert (cursor.set_range(b""), cursor.key(), cursor.set_range(b"1"), cursor.key()) == (True, b"00", False, b"")


def test_an_iterator_begins_at_the_cursor(environment, rows):
    with environment.begin(rows) as reading:
        assert [key for key, _value in reading.cursor()] == [b"%02d" % number for number in range(10)]
        assert next(reading.cursor().iterprev()) == (b"09", b"v9")
        cursor = reading.cursor(rows)
        assert cursor.set_range(b"08")
        entries = cursor.iternext()
        assert [*entries, *entries] == [(b"08", b"v8"), (b"09", b"v9")]
        assert cursor.set_range(b"01")
        assert [key for key, _value in cursor.iterprev()] == [b"01", b"00"]


def test_an_empty_database_has_no_entries(environment):
    empty = environment.open_db(b"empty")
    with environment.begin(empty) as reading:
        cursor = reading.cursor()
        assert [*cursor, *cursor.iterprev()] == []
        assert not any([cursor.first(), cursor.last(), cursor.next(), cursor.prev(), cursor.set_range(b"a")])


def test_a_cursor_sees_what_its_transaction_wrote(environment, rows):
    with environment.begin(write=True, db=rows) as writing, writing.cursor(rows) as cursor:
        assert cursor.set_key(b"05")
        writing.put(b"05", b"longer than before" * 100)
        assert cursor.item() == (b"05", b"longer than before" * 100)
        assert cursor.delete() is True
        assert cursor.key() == b"06"
        writing.delete(b"06")
        assert cursor.set_range(b"05")
        assert cursor.key() == b"07"
        assert cursor.last()
        assert cursor.delete() is True
        assert (cursor.key(), cursor.delete()) == (b"", False)


def test_entries_are_appended_in_the_order_of_their_keys(environment):
    database = environment.open_db(b"made")
    with environment.begin(write=True, db=database) as writing:
        assert writing.cursor().putmulti([(b"b", b""), (b"c", b"")], append=True) == (2, 2)
        assert writing.cursor().putmulti([(b"a", b""), (b"d", b"")], append=True) == (2, 1)
        assert writing.cursor().putmulti(iter([])) == (0, 0)
        assert [key for key, _value in writing.cursor()] == [b"b", b"c", b"d"]


def test_what_putmulti_takes_from_a_failing_iterator_is_put(environment, rows):
    def failing():
        yield b"x", b"1"
        raise ZeroDivisionError

    with environment.begin(write=True, db=rows) as writing:
        with pytest.raises(ZeroDivisionError):
            writing.cursor().putmulti(failing())
        assert writing.get(b"x") == b"1"


@pytest.mark.parametrize("item", [(b"a",), [b"a", b"b"], (b"a", "text"), ("text", b"b"), None])
def test_putmulti_takes_pairs_of_bytes(environment, rows, item):
    with environment.begin(write=True) as writing, pytest.raises(TypeError):
        writing.cursor(rows).putmulti([item])


def test_the_facts_of_a_store(environment, rows):
    with environment.begin(rows) as reading:
        tree = reading.stat(rows)
        assert tree == reading.stat()
        assert (tree["entries"], tree["depth"], tree["leaf_pages"], tree["branch_pages"]) == (10, 1, 1, 0)
        assert tree["overflow_pages"] == 0
        assert str(os.getpid()) in environment.readers()
    main = environment.stat()
    assert (main["entries"], main["psize"]) == (1, os.sysconf("SC_PAGE_SIZE"))
    info = environment.info()
    assert (info["map_size"], info["max_readers"], info["last_txnid"]) == (SIZE, 126, 2)
    assert info["last_pgno"] >= 3
    assert environment.reader_check() == 0


def test_a_read_uses_the_slot_of_the_one_before(environment, rows):
    with environment.begin(rows) as one, environment.begin(rows) as two:
        assert one.get(b"00") == two.get(b"00")
    del one, two
    for _ in range(200):  # more than there are slots
        assert environment.begin(rows).get(b"00") == b"v0"
    assert environment.info()["num_readers"] == 2


@pytest.mark.usefixtures("rows")
def test_a_copy_can_be_opened(binding, environment, tmp_path):
    with (tmp_path / "copy").open("wb") as file:
        environment.copyfd(file.fileno(), compact=True)
    with binding.open(str(tmp_path / "copy"), subdir=False, lock=False, max_dbs=4, map_size=SIZE) as copy:
        database = copy.open_db(b"rows", create=False)
        with copy.begin() as reading:
            assert len(list(reading.cursor(database))) == 10


@pytest.mark.usefixtures("rows")
def test_databases_are_opened_by_name(binding, environment):
    with pytest.raises(binding.NotFoundError):
        environment.open_db(b"other", create=False)
    with environment.begin(write=True) as writing:
        made = environment.open_db(b"other", writing)
        writing.put(b"a", b"1", db=made)
    with environment.begin() as reading:
        again = environment.open_db(b"rows", reading, create=False)
        assert reading.get(b"00", db=again) == b"v0"
        assert [name for name, _root in reading.cursor()] == [b"other", b"rows"]
        with pytest.raises(binding.ReadonlyError):
            environment.open_db(b"third", reading)
    for name in (b"third", b"fourth"):
        environment.open_db(name)
    with pytest.raises(binding.DbsFullError):
        environment.open_db(b"fifth")


def code_of(binding, kind, work):
    with pytest.raises(getattr(binding, kind)) as failure:
        work()
    assert type(failure.value) is getattr(binding, kind)
    return failure.value.code


def test_errors_have_names_and_numbers(binding, environment, rows, tmp_path):
    assert code_of(binding, "Error", lambda: opened(binding, tmp_path / "store")) == 0
    (tmp_path / "not").mkdir()
    (tmp_path / "not/data.mdb").write_bytes(b"x" * 8192)
    assert code_of(binding, "InvalidError", lambda: opened(binding, tmp_path / "not")) == -30793
    with environment.begin(write=True, db=rows) as writing:
        assert code_of(binding, "BadValsizeError", lambda: writing.put(b"", b"")) == -30781
        assert code_of(binding, "BadValsizeError", lambda: writing.put(b"k" * 512, b"")) == -30781
        assert code_of(binding, "BadValsizeError", lambda: writing.cursor().putmulti([(b"", b"")])) == -30781
        assert code_of(binding, "Error", lambda: environment.begin(write=True)) == errno.EBUSY
        assert code_of(binding, "MapFullError", lambda: writing.put(b"a", bytes(SIZE))) == -30792
        assert code_of(binding, "BadTxnError", writing.commit) == -30782
    with environment.begin(rows) as reading:
        assert code_of(binding, "ReadonlyError", lambda: reading.put(b"a", b"")) == errno.EACCES
    environment.close()
    with opened(binding, tmp_path / "store", readonly=True, max_readers=126) as readonly:
        assert code_of(binding, "ReadonlyError", lambda: readonly.begin(write=True)) == errno.EACCES
        held = []
        assert code_of(binding, "ReadersFullError", lambda: [held.append(readonly.begin()) for _ in range(127)]) < 0
        assert len(held) == 126


def test_every_error_of_one_is_an_error_of_the_other(native):
    lmdb = import_module("lmdb")
    kinds = {name for name, kind in vars(native).items() if isinstance(kind, type) and issubclass(kind, native.Error)}
    assert len(kinds) == 26
    assert all(issubclass(getattr(lmdb, name), lmdb.Error) for name in kinds)


def test_what_was_closed_says_so(binding, tmp_path):
    environment = opened(binding, tmp_path / "store")
    database = environment.open_db(b"rows")
    reading, cursor = environment.begin(database), environment.begin(database).cursor()
    entries = cursor.iternext()
    environment.close()
    environment.close()
    calls = [
        environment.begin, environment.info, environment.stat, environment.readers, environment.reader_check,
        reading.commit, reading.id, cursor.first, cursor.item, cursor.iternext,
        lambda: environment.open_db(b"rows"), lambda: environment.copyfd(1), lambda: reading.get(b"a"),
        lambda: reading.cursor(database), lambda: reading.stat(database), lambda: cursor.set_range(b"a"),
        lambda: next(entries),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(binding.Error):
            call()
    reading.abort()
    opened(binding, tmp_path / "store").close()


def test_a_database_belongs_to_its_environment(binding, rows, tmp_path):
    with opened(binding, tmp_path / "other") as other, other.begin() as reading, pytest.raises(binding.Error):
        reading.get(b"a", db=rows)


def test_writers_take_turns(environment, rows):
    """The second one waits without the interpreter's lock, which the first one needs to end."""
    writing = environment.begin(write=True, db=rows)
    written = []

    def write():
        with environment.begin(write=True, db=rows) as other:
            written.append(other.get(b"a"))

    thread = threading.Thread(target=write)
    thread.start()
    writing.put(b"a", b"1")
    assert written == []
    writing.commit()
    thread.join()
    assert written == [b"1"]


def test_closing_waits_for_what_other_threads_read(binding, tmp_path):
    environment = opened(binding, tmp_path / "store")
    database = environment.open_db(b"rows")
    with environment.begin(write=True, db=database) as writing:
        writing.cursor().putmulti([(b"%05d" % number, b"v" * 200) for number in range(5000)])
    begun, ended = threading.Barrier(5), []

    def read():
        with suppress(binding.Error):
            begun.wait()
            while True:
                with environment.begin(database) as reading:
                    assert len(list(reading.cursor().iternext())) == 5000
                    assert reading.get(b"00007") == b"v" * 200
        ended.append(True)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait()
    environment.close()
    for thread in threads:
        thread.join()
    assert ended == [True] * 4


def test_closing_waits_for_a_copy(binding, tmp_path):
    """One that is stopped in its middle, by a pipe that is full."""
    environment = opened(binding, tmp_path / "store")
    with environment.begin(write=True, db=environment.open_db(b"rows")) as writing:
        writing.cursor().putmulti([(b"%05d" % number, b"v" * 200) for number in range(5000)])
    outbox, inbox = os.pipe()

    def copy():
        environment.copyfd(inbox, compact=True)
        os.close(inbox)

    copying, closing = threading.Thread(target=copy), threading.Thread(target=environment.close)
    copying.start()
    with os.fdopen(outbox, "rb") as copied:
        head = copied.read(1)
        closing.start()
        closing.join(0.2)
        assert closing.is_alive()
        (tmp_path / "copy").write_bytes(head + copied.read())
    copying.join()
    closing.join()
    with binding.open(str(tmp_path / "copy"), subdir=False, lock=False, max_dbs=4, map_size=SIZE) as copy_of_it:
        database = copy_of_it.open_db(b"rows", create=False)
        with copy_of_it.begin(database) as reading:
            assert reading.stat(database)["entries"] == 5000


def test_a_child_leaves_its_parents_environment_alone(native, tmp_path):
    environment = opened(native, tmp_path / "store")
    database = environment.open_db(b"rows")
    reading = environment.begin(database)
    pid = os.fork()
    if not pid:
        codes = []
        for call in (environment.begin, lambda: reading.get(b"a")):
            with suppress(native.Error):
                call()
                codes.append(1)
        environment.close()
        own = opened(native, tmp_path / "store")
        with own.begin(write=True, db=own.open_db(b"rows")) as writing:
            writing.put(b"a", b"child")
        own.close()
        os._exit(len(codes))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert reading.get(b"a") is None
    assert str(pid) not in environment.readers()
    with environment.begin(database) as later:
        assert later.get(b"a") == b"child"
    environment.close()


def test_a_file_that_the_other_binding_has_open_is_refused(native, tmp_path):
    lmdb = import_module("lmdb")
    with opened(lmdb, tmp_path / "store"), pytest.raises(native.Error, match="is already open in this process"):
        opened(native, tmp_path / "store")
    opened(native, tmp_path / "store").close()


def test_a_thread_does_not_wait_for_itself(native, tmp_path):
    with opened(native, tmp_path / "store") as environment, environment.begin(write=True):
        assert code_of(native, "Error", lambda: environment.open_db(b"rows")) == errno.EBUSY
        assert code_of(native, "Error", lambda: environment.copyfd(1)) == errno.EBUSY


class Closing:
    """Closes an environment when it is asked for its truth or its number."""

    def __init__(self, environment):
        self._environment = environment

    def __bool__(self):
        self._environment.close()
        return True

    def __index__(self):
        self._environment.close()
        return 1


MAIN = dict.fromkeys(CORE_TABLES)
"""Tables that are all the main database."""


@pytest.mark.parametrize(
    "call",
    [
        lambda environment: environment.begin(write=Closing(environment)),
        lambda environment: environment.open_db(b"rows", create=Closing(environment)),
        lambda environment: environment.copyfd(Closing(environment)),
        lambda environment: environment.copyfd(1, compact=Closing(environment)),
        lambda environment: environment.begin().decide(MAIN, (), 1, {}, Closing(environment), (), False, b""),
        lambda environment: environment.decide(MAIN, (), 1, {}, 1, (), Closing(environment), b"", ()),
    ],
    ids=["begin", "open_db", "copyfd", "compact", "decide", "decide alone"],
)
def test_an_argument_that_closes_the_environment_is_asked_first(native, tmp_path, call):
    with pytest.raises(native.Error, match="it was closed"):
        call(opened(native, tmp_path / "store"))


@pytest.mark.parametrize(
    ("option", "size"),
    [
        ("map_size", -1),
        ("max_readers", 0),
        ("max_readers", -1),
        ("max_readers", 1 << 17),
        ("max_dbs", -1),
        ("max_dbs", 1 << 17),
    ],
)
def test_sizes_that_lmdb_would_take_for_others_are_refused(native, tmp_path, option, size):
    with pytest.raises(native.InvalidParameterError, match=f"{option}: Invalid argument"):
        opened(native, tmp_path / "store", **{option: size})
    assert not (tmp_path / "store/data.mdb").exists()


def test_a_name_ends_where_it_ends(native, tmp_path):
    """LMDB would take the part before the zero."""
    with opened(native, tmp_path / "store") as environment:
        environment.open_db(b"rows")
        with pytest.raises(native.InvalidParameterError, match="no zero bytes"):
            environment.open_db(b"rows\0more")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda environment: environment.begin(None, True), "at most 1"),
        (lambda environment: environment.begin(other=1), "there is no argument 'other'"),
        (lambda environment: environment.begin(None, db=None), "'db' is given twice"),
        (lambda environment: environment.begin(1), "a database is what open_db returned"),
        (lambda environment: environment.begin().get(), "the argument 'key' is missing"),
        (lambda environment: environment.begin().get("text"), "expected bytes, str found"),
        (lambda environment: environment.begin().cursor().set_range("text"), "expected bytes"),
        (lambda environment: environment.open_db("text"), "str found"),
        (lambda environment: environment.open_db(b"a", environment), "txn is a transaction"),
        (lambda environment: environment.begin(write=True).cursor().putmulti(1), "not iterable"),
        (lambda environment: environment.copyfd("text"), "integer"),
        (lambda environment: environment.copyfd(1 << 31), "2147483648 is too large"),
        (lambda environment: environment.commit(1 << 32, (), 0, None, ()), "4294967296 is too large"),
        (lambda environment: environment.begin().__exit__(), "3 arguments"),
        (lambda environment: type(environment)(), "path"),
        (lambda environment: type(environment.begin())(), "cannot create"),
        (lambda environment: type(environment)(f"/{'long' * 2000}"), os.strerror(errno.ENAMETOOLONG)),
    ],
)
def test_wrong_arguments_are_named(native, tmp_path, call, said):
    with (
        opened(native, tmp_path / "store") as environment,
        pytest.raises((TypeError, OverflowError, native.Error), match=said),
    ):
        call(environment)


KEYS = st.sampled_from([b"%03d" % number for number in range(60)])
VALUES = st.sampled_from([b"", b"v" * 40, b"w" * 700, b"x" * 3000, b"y" * 9000])
CHANGES = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=30)


@given(st.lists(st.tuples(CHANGES, st.booleans(), KEYS), max_size=6))
def test_both_write_the_same_file(native, tmp_path_factory, history):
    """Every answer and every byte of the file is the same after the same calls."""
    folder, answers, files = tmp_path_factory.mktemp("both"), [], []
    for binding in (import_module("lmdb"), native):
        path = folder / binding.__name__
        with opened(binding, path) as environment:
            answers.append(run(environment, history))
        files.append((path / "data.mdb").read_bytes())
    assert answers[0] == answers[1]
    assert files[0] == files[1]


def run(environment, history):
    answers = []
    database = environment.open_db(b"rows")
    for changes, kept, place in history:
        writing = environment.begin(write=True, db=database)
        for key, value in changes:
            answers.append(writing.delete(key) if value is None else writing.put(key, value))
        cursor = writing.cursor()
        answers += [cursor.set_range(place), cursor.item(), cursor.putmulti([(place, b"placed")]), [*cursor.iterprev()]]
        (writing.commit if kept else writing.abort)()
        with environment.begin(database) as reading:
            answers += [[*reading.cursor()], reading.stat(database), reading.id(), environment.info()["last_pgno"]]
    return answers
