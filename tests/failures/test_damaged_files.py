"""A data file that was cut short, or has pages of zeros or of wrong numbers: named, and no program dies of it."""

import contextlib
import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import lmdb
import pytest

from oneread import Index, Key, Model, Schema, by, connect
from oneread.errors import Corrupt
from tests.failures.stores import unmeasured, until

ROOT = Path(__file__).parents[2]
PAGE = 4096


class Thing(Model[int]):
    number: Key[int]
    name: str


class ByName(Index[Thing]):
    name: str = by(Thing.name)


SCHEMA = Schema(Thing, ByName)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged") / "store"
    with connect(f"lmdb://{folder}", SCHEMA, workers=0) as db:
        db.save_all([Thing(number=number, name=f"name {number}") for number in range(1000)])
    return folder


@pytest.fixture
def copy(filled, tmp_path):
    return Path(shutil.copytree(filled, tmp_path / "copy"))


def opened(folder, options=""):
    return connect(f"lmdb://{folder}{options}", SCHEMA, workers=0)


def oneread(*arguments):
    command = [sys.executable, "-m", "oneread", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)


def command(name, folder, *more):
    schema = "tests.failures.test_damaged_files:SCHEMA"
    return oneread(name, *more, "--schema", schema, "--db", f"lmdb://{folder}")


@pytest.mark.parametrize("options", ["", "?read_only=true"])
@pytest.mark.parametrize("part", [0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_file_that_was_cut_short_is_refused_on_opening(copy, part, options):
    data = copy / "data.mdb"
    os.truncate(data, int(data.stat().st_size * part))
    with pytest.raises(Corrupt) as caught:
        opened(copy, options)
    assert "ends too early" in str(caught.value) or "is empty" in str(caught.value) or part < 0.1


def test_a_file_that_is_rightly_shorter_than_its_last_page_number_is_opened(copy):
    """LMDB gives the pages that a transaction took and gave up again to its free list, and never writes them."""
    environment = lmdb.open(str(copy), map_size=1 << 30, max_dbs=10)
    for times in (1, 300):
        with environment.begin(write=True) as transaction:
            table = environment.open_db(b"views", transaction)
            for number in range(times):
                transaction.put(b"large %d" % number, bytes(100_000), db=table)
            for number in range(times):
                transaction.delete(b"large %d" % number, db=table)
        last = environment.info()["last_pgno"]
        assert (copy / "data.mdb").stat().st_size < last * PAGE
    environment.close()
    for options in ("", "?read_only=true"):
        with opened(copy, options) as db:
            assert db.verify().clean
    os.truncate(copy / "data.mdb", (copy / "data.mdb").stat().st_size - PAGE)
    with pytest.raises(Corrupt, match="ends too early"):
        opened(copy)


def test_a_root_page_of_zeros_is_refused_on_opening(copy):
    with (copy / "data.mdb").open("r+b") as file:
        metas = [struct.unpack("<Q8xQ", os.pread(file.fileno(), 24, at + 16 + 24 + 48 + 40)) for at in (0, PAGE)]
        root = max(metas, key=lambda each: each[1])[0]
        os.pwrite(file.fileno(), bytes(PAGE), root * PAGE)
    with pytest.raises(Corrupt, match="damaged"):
        opened(copy)


def test_a_store_whose_creation_was_killed_is_created_by_the_next_process(tmp_path):
    folder = tmp_path / "store"
    folder.mkdir()
    (folder / "data.mdb.unfinished").touch()
    with opened(folder) as db:
        db.save(Thing(number=1, name="a"))
    assert not (folder / "data.mdb.unfinished").exists()
    os.truncate(folder / "data.mdb", 0)
    with pytest.raises(Corrupt, match="empty"):
        opened(folder)


def test_no_page_of_zeros_kills_a_command_that_reads(copy, filled):
    pages = (filled / "data.mdb").stat().st_size // PAGE
    named = set()
    for place in range(2, pages, max(1, pages // 6)):
        shutil.copy(filled / "data.mdb", copy / "data.mdb")
        with (copy / "data.mdb").open("r+b") as file:
            os.pwrite(file.fileno(), bytes(PAGE), place * PAGE)
        ran = command("verify", copy)
        assert ran.returncode in (0, 1, 3), ran.stderr
        assert ran.returncode != 3 or "damaged" in ran.stderr
        named.add(ran.returncode)
    assert 3 in named


@pytest.mark.parametrize(
    "words", [("verify",), ("stat", "--exact"), ("backup", "TARGET"), ("dump",), ("page", "Thing", "--limit", "1000")]
)
def test_leaf_pages_of_zeros_are_named_by_every_command_that_reads_them(copy, tmp_path, words):
    with (copy / "data.mdb").open("r+b") as file:
        for place in range(2, os.fstat(file.fileno()).st_size // PAGE):
            page = os.pread(file.fileno(), PAGE, place * PAGE)
            if page[10] == 2 and b"name 5" in page:
                os.pwrite(file.fileno(), bytes(PAGE), place * PAGE)
    name, *more = [str(tmp_path / "target") if each == "TARGET" else each for each in words]
    ran = command(name, copy, *more)
    assert ran.returncode == 3, ran
    assert "restore it from a backup" in ran.stderr
    assert not (tmp_path / "target").exists()
    ran = command(name, copy, *more, *(["--json"] if name != "dump" else ["--json", "--out", tmp_path / "out"]))
    assert ran.returncode == 3
    assert '"kind":"Corrupt"' in ran.stdout
    assert ran.stdout.count("\n") == 1


SPIN = """
import os, signal, sys, time
from oneread.cli import guard
from oneread.errors import Corrupt
try:
    code = guard.run_in_child(1)
except Corrupt as error:
    print(error)
    sys.exit(3)
if code is not None:
    sys.exit(code)
print("child", flush=True)
{work}
"""
WAITS = "while True: time.sleep(0.1)"  # Python sees no signal that comes just before a long sleep until its end


@contextlib.contextmanager
def guarded(work):
    code = SPIN.format(work=work)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", code], text=True, cwd=ROOT, **pipes) as running:
        try:
            yield running
        finally:
            running.kill()


def test_a_child_that_computes_without_progress_is_ended_and_named():
    with guarded("while True: pass") as running:
        out = running.communicate(timeout=120)[0]
    assert "no progress" in out
    assert "SIGXCPU" in out


@pytest.mark.parametrize("sent", ["SIGBUS", "SIGABRT", "SIGSEGV"])
def test_a_child_that_a_damaged_store_ends_is_named(sent):
    with guarded(f"os.kill(os.getpid(), signal.{sent})") as running:
        out = running.communicate(timeout=120)[0]
    assert "the store's file is damaged" in out
    assert sent in out
    assert running.returncode == 3


def test_a_child_that_reports_progress_is_not_stopped():
    with guarded("while time.process_time() < 4: guard.advance()\nprint('ended')\nsys.exit(7)") as running:
        assert running.communicate(timeout=120)[0] == "child\nended\n"
    assert running.returncode == 7


@pytest.mark.parametrize(
    ("sent", "code"), [(signal.SIGINT, {1, 130, -signal.SIGINT}), (signal.SIGTERM, {-signal.SIGTERM})]
)
def test_a_signal_to_the_program_ends_its_child(sent, code):
    with guarded(WAITS) as running:
        assert running.stdout.readline() == "child\n"
        running.send_signal(sent)
        assert running.wait(120) in code
        assert running.stdout.read() == ""


def test_the_child_ends_when_the_program_is_killed():
    with guarded(WAITS) as running:
        assert running.stdout.readline() == "child\n"
        running.kill()
        assert running.stdout.read() == ""  # the pipe is closed by the child's end


def test_ctrl_c_ends_a_command_as_before(filled):
    command = [sys.executable, "-m", "oneread", "verify", "--pace", "100", "--db", f"lmdb://{filled}"]
    command += ["--schema", "tests.failures.test_damaged_files:SCHEMA"]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": unmeasured(), "start_new_session": True}
    with subprocess.Popen(command, cwd=ROOT, text=True, **options) as running:
        try:
            until(lambda: any(reads(child, filled) for child in children(running.pid)), 120)
            os.killpg(running.pid, signal.SIGINT)
            _out, err = running.communicate(timeout=120)
        finally:
            running.kill()
    assert running.returncode == 130, err
    assert err.splitlines()[0] == "stopped", err
    assert err.count("stopped") == 1


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def reads(pid, folder):
    return f"{folder}/data.mdb" in Path(f"/proc/{pid}/maps").read_text()
