"""The call of oneread-native that adds to sums: all of it, or nothing is written and it says why."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from oneread.counters.rows import Sums, encode_sums, sums_of_amounts
from oneread.engines.lmdb.row_format import encode
from oneread.store.rows import VALUE, Cell
from tests.unit.engines.lmdb.test_commit import held, known, last, open_turn, opened, taken

native = pytest.importorskip("oneread_native", reason="oneread-native is not installed")

NOW = 1_700_000_000_000
MOST = (1 << 63) - 1


@pytest.fixture
def turn(tmp_path):
    file = open_turn(tmp_path)
    yield file
    os.close(file)


class Store:
    """An environment with a table of settings and one of counts."""

    def __init__(self, folder, turn):
        self.environment = opened(folder)
        self.tables = {name: self.environment.open_db(name.encode()) for name in ("settings", "counts")}
        self.turn = turn

    def put(self, table, **rows):
        with self.environment.begin(write=True, db=self.tables[table]) as writing:
            for name, value in rows.items():
                writing.put(name.encode(), value)

    def add(self, amount=1, *, rows=(), tokens=(), sums=(b"sum",), now=NOW, files=()):
        return self.environment.add(self.turn, files, self.tables, ("counts", rows, tokens, sums, amount, now))

    @property
    def held(self):
        return held(self.environment, self.tables["counts"])


@pytest.fixture
def store(tmp_path, turn):
    store = Store(tmp_path / "store", turn)
    yield store
    store.environment.close()


def row(value, stamp=NOW):
    return encode("counts", b"key", {VALUE: Cell(value, stamp)})


def summed(raised, lowered, stamp=NOW):
    return row(encode_sums(Sums(raised, lowered)), stamp)


@pytest.mark.parametrize("amount", [0, 1, -1, 31, 127, 128, -128, 255, 256, 65536, 1 << 32, MOST, -MOST, -(1 << 62)])
def test_an_add_writes_what_python_writes(store, amount):
    assert store.add(amount) is True
    sums = Sums(0, 0).plus(amount)
    assert store.held == {b"sum": summed(*sums)}
    assert store.add(-amount) is True
    assert store.held == {b"sum": summed(*sums.plus(-amount), NOW + 1)}


@pytest.mark.parametrize(("stored", "stamp"), [(NOW - 1, NOW), (NOW, NOW + 1), (NOW + 7, NOW + 8)])
def test_a_stamp_is_later_than_the_one_before(store, stored, stamp):
    store.put("counts", sum=summed(4, 2, stored))
    assert store.add(-3) is True
    assert store.held == {b"sum": summed(4, 5, stamp)}


@pytest.mark.parametrize(
    ("amount", "stored"),
    [
        (1, summed(MOST, 0)),
        (-1, summed(0, MOST)),
        (-MOST - 1, summed(0, 0)),
        (1, summed(MOST + 1, 0)),
        (1, summed(0, 0, (1 << 45) - 1)),
        (1, encode("counts", b"key", {b"d:i": Cell(bytes(8), 1), VALUE: Cell(b"\x92\0\0", 1)})),
    ],
)
def test_what_does_not_fit_is_left_to_python(store, amount, stored):
    store.put("counts", sum=stored, other=summed(1, 1))
    at = last(store.environment)
    assert store.add(amount, sums=(b"new", b"other", b"sum"), tokens=(b"token",)) == "other"
    assert (store.held, last(store.environment)) == ({b"sum": stored, b"other": summed(1, 1)}, at)


def test_no_stored_bytes_are_trusted(store):
    """Each is a sum as Python reads it, or left to Python."""
    whole, counted = summed(300, 70000), 0
    values = {whole[:size] for size in range(len(whole))}
    values |= {whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(len(whole)) for byte in range(256)}
    values |= {whole + b"\0", row(b"\xdc\0\2\1\1"), row(b"\xdd\0\0\0\2\1\1"), row(b"\xdf\xff\xff\xff\xff")}
    for value in values:
        store.put("counts", sum=value)
        added = store.add(5)
        if added is True:
            found = store.held[b"sum"]
            assert found[6:] == encode_sums(sums_of_amounts(value[6:]).plus(5))
            counted += 1
        else:
            assert added == "other"
            assert store.held[b"sum"] == value
    assert counted > 1000


@pytest.mark.parametrize(
    ("rows", "added"),
    [
        ((("settings", b"a", b"1"),), True),
        ((("settings", b"a", b"2"),), "other"),
        ((("settings", b"a", b""),), "other"),
        ((("settings", b"a", b"11"),), "other"),
        ((("settings", b"a", True),), True),
        ((("settings", b"a", None),), "other"),
        ((("settings", b"b", None), ("settings", b"a", b"1")), True),
        ((("settings", b"b", True),), "other"),
        ((("settings", b"b", b"1"),), "other"),
        ((("counts", b"a", None),), True),
        ((("settings", b"long", True),), "other"),
        ((("settings", b"empty", b""),), True),
        ((("settings", b"x" * 600, None),), True),
        ((("settings", b"b", None),) * 16, True),
        ((("settings", b"b", None),) * 17, "other"),
    ],
)
def test_rows_must_be_as_expected(store, rows, added):
    spelled = encode("settings", b"long", {b"d:x": Cell(b"1", 1)})
    store.put("settings", a=row(b"1", 3), long=spelled, empty=row(b""))
    assert store.add(rows=rows) == added
    assert store.held == ({b"sum": summed(1, 0)} if added is True else {})


def test_a_token_counts_once(store):
    assert store.add(tokens=(b"older", b"newer")) is True
    assert store.held == {b"newer": row(b"1"), b"sum": summed(1, 0)}
    at = last(store.environment)
    for tokens in ((b"newer",), (b"newer", b"newest"), (b"older", b"newer")):
        assert store.add(tokens=tokens) is False
    assert last(store.environment) == at
    store.put("counts", spelled=b"\0")
    assert store.add(tokens=(b"spelled",)) == "other"
    assert store.add(tokens=(b"older",)) is True
    assert store.held[b"sum"] == summed(2, 0, NOW + 1)


@pytest.mark.parametrize(
    "asked",
    [
        {"sums": (b"sum", b"")},
        {"sums": (b"sum", b"k" * 512)},
        {"tokens": (b"",)},
        {"tokens": (b"t",) * 17},
        {"sums": (b"s",) * 17},
        {"now": 1 << 45},
    ],
)
def test_what_cannot_be_stored_is_left_in_whole(store, asked):
    assert store.add(**asked) in ("other", "refused")
    assert store.held == {}


def test_without_a_turn_nothing_is_written(store, tmp_path):
    with taken(tmp_path):
        assert store.add() == "turn"
    assert store.held == {}
    assert store.add() is True


def test_nothing_is_written_where_a_file_is_not_the_stores(store, tmp_path):
    files = known(tmp_path / "store/data.mdb", tmp_path / "store/lock.mdb")
    assert store.add(files=files) is True
    os.rename(tmp_path / "store/lock.mdb", tmp_path / "moved")  # noqa: PTH104
    assert store.add(files=files) == "files"
    os.rename(tmp_path / "moved", tmp_path / "store/lock.mdb")  # noqa: PTH104
    assert store.add(files=files) is True


@pytest.mark.parametrize("age", [0, 3600])
def test_a_folder_that_is_as_it_was_says_so_only_once_its_time_is_old(store, tmp_path, age):
    folder, moved = tmp_path / "store", tmp_path / "moved"
    files = known(folder / "data.mdb", folder / "lock.mdb")
    before = folder.stat().st_mtime_ns - age * 10**9
    os.utime(folder, ns=(before, before))
    assert store.add(files=files) is True
    os.rename(folder / "lock.mdb", moved)  # noqa: PTH104
    assert store.add(files=files) == "files"
    os.utime(folder, ns=(before, before))
    assert store.add(files=files) == ("files" if not age else True)
    os.rename(moved, folder / "lock.mdb")  # noqa: PTH104


def test_a_closed_environment_and_the_child_of_a_fork_write_nothing(store):
    pid = os.fork()
    if not pid:
        os._exit(store.add() != "closed")
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    store.environment.close()
    assert store.add() == "closed"


def test_threads_that_add_lose_nothing(store):
    def add():
        left = 300
        while left:
            left -= store.add() is True

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums_of_amounts(store.held[b"sum"][6:]) == (1200, 0)


ADDS = """
import os, sys, oneread_native
turn = os.open(sys.argv[1] + "/../writer.lock", os.O_RDWR | os.O_CREAT)
with oneread_native.open(sys.argv[1], map_size=1 << 24, max_dbs=4, max_spare_txns=1, sync=False) as environment:
    tables = {"counts": environment.open_db(b"counts")}
    for number in range(1 << 30):
        asked = ("counts", (), (b"%s %d" % (sys.argv[2].encode(), number),), (b"sum", b"other"), 1, 1)
        while environment.add(turn, (), tables, asked) is not True:
            pass
        print(flush=True)
"""


def test_processes_that_are_killed_leave_whole_adds_and_the_turn(store, tmp_path):
    acknowledged = 0
    for number in range(6):
        command = [sys.executable, "-c", ADDS, str(tmp_path / "store")]
        adders = [subprocess.Popen([*command, f"{number} {each}"], stdout=subprocess.PIPE) for each in range(2)]
        for adder in adders:
            for _ in range(20 + number):
                adder.stdout.readline()
                acknowledged += 1
        for adder in adders:
            adder.send_signal(signal.SIGKILL)
        acknowledged += sum(adder.communicate()[0].count(b"\n") for adder in adders)
        found = store.held
        counted = sums_of_amounts(found[b"sum"][6:]).raised
        assert sums_of_amounts(found[b"other"][6:]).raised == counted == len(found) - 2
        assert acknowledged <= counted <= acknowledged + 2
        acknowledged = counted
    assert store.add() is True


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ((), TypeError),
        (["counts", (), (), (), 1, 1], TypeError),
        (("counts", [], (), (), 1, 1), TypeError),
        (("counts", ((),), (), (), 1, 1), TypeError),
        (("counts", (("counts", b"a", 1),), (), (), 1, 1), TypeError),
        (("counts", (("counts", b"a", False),), (), (), 1, 1), TypeError),
        (("counts", (("counts", "a", None),), (), (), 1, 1), TypeError),
        (("counts", (("none", b"a", None),), (), (), 1, 1), KeyError),
        (("none", (), (), (), 1, 1), KeyError),
        (([], (), (), (), 1, 1), TypeError),
        (("counts", (), [], (), 1, 1), TypeError),
        (("counts", (), (1,), (), 1, 1), TypeError),
        (("counts", (), (), ("a",), 1, 1), TypeError),
        (("counts", (), (), (), "1", 1), TypeError),
        (("counts", (), (), (), 1 << 63, 1), OverflowError),
        (("counts", (), (), (), 1, -1), OverflowError),
        (("counts", (), (), (), 1, 1 << 64), OverflowError),
    ],
)
def test_wrong_arguments_are_named(store, turn, asked, error):
    with pytest.raises(error):
        store.environment.add(turn, (), store.tables, asked)
    right = ("counts", (), (), (b"sum",), 1, 1)
    for wrong in (("x", (), store.tables), (turn, [], store.tables), (turn, (), []), (turn, (), {"counts": 1})):
        with pytest.raises(TypeError):
            store.environment.add(*wrong, right)
