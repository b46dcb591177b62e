"""What a command that fails says, and its exit code."""

import errno
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from oneread import connect, errors
from oneread.cli.failures import code_of
from oneread.cli.output import Output, encode_json
from oneread.engines.lmdb.engine import LmdbEngine
from oneread.engines.lmdb.translate import translate
from oneread.errors import InvalidValue
from oneread.plans.effects import Atomically
from oneread.plans.progress import Progress
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from tests.cli.conftest import SCHEMA
from tests.cli.notes import NOTES

EVERY = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.OnereadError)]
ROOT = Path(__file__).resolve().parents[2]
REFUSED = {
    "NotFound",
    "AlreadyExists",
    "NotUnique",
    "Erased",
    "MissingReference",
    "StillReferenced",
    "SchemaMismatch",
    "Outdated",
    "StoreMoved",
    "NotReady",
}


@pytest.mark.parametrize("error", EVERY)
def test_the_exit_code_says_whose_fault_it_is(error):
    expected = 1 if error.__name__ in REFUSED else 3 if issubclass(error, errors.StoreError) else 2
    assert code_of(error("x")) == expected


def test_a_store_that_is_damaged_is_code_3(oneread, url):
    Path(url.removeprefix("lmdb://"), "data.mdb").write_bytes(os.urandom(1 << 16))
    ran = oneread("get", "Person", "1", "--json")
    assert (ran.code, ran.failure().kind) == (3, "Corrupt")


def test_a_torn_schema_row_is_code_3(oneread):
    ran = oneread(
        "shell",
        "--write",
        "-c",
        "from oneread.plans.effects import Atomically\n"
        "from oneread.store.rows import Cell\n"
        "torn = {b'schema': {b'd:b': Cell(b'\\x81', 1)}}\n"
        "db.run(Atomically(lambda store: store.replace('system', torn)).__iter__())\n",
    )
    assert ran.code == 0
    ran = oneread("page", "Person")
    assert ran.code == 3
    assert ran.err == "error: the schema row of this store cannot be read\n"


def test_a_failure_that_may_pass_says_so(oneread):
    ran = oneread("shell", "-c", "raise errors.Unavailable('the store is busy', seconds=3)", "--quiet")
    assert ran.code == 3
    assert ran.err == "error: the store is busy (seconds=3)\nhint: trying again can help\n"


def test_facts_that_json_has_no_form_for_are_text(bare, url):
    failure = bare("get", "Persn", "--schema", "tests.cli.notes:NOTES", "--db", url, "--json").failure()
    assert failure.facts == {"name": "Persn", "perhaps": "Person"}
    assert msgspec.json.encode(failure)


def test_a_file_that_cannot_be_written_is_code_3(oneread):
    ran = oneread("shell", "-c", "open('/nowhere/at/all', 'w')")
    assert ran.code == 3
    assert ran.err == "error: [Errno 2] No such file or directory: '/nowhere/at/all'\n"


def test_a_reader_that_stops_is_not_a_failure(url):
    pipe = subprocess.run(
        f"{sys.executable} -m oneread page Note --schema tests.cli.notes:NOTES --db {url} --quiet | true; "
        "echo ${PIPESTATUS[0]}",
        shell=True, executable="/bin/bash", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (pipe.stdout, pipe.stderr) == ("0\n", "")


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("verify", 1),
        ("verify --json", 1),
        ("get Person 404", 1),
        ("get Person 404 --json", 1),
        ("get Person x", 2),
        ("load broken.jsonl --model Person", 1),
        ("load broken.jsonl --model Person --json --rejects other", 1),
        ("stat", 0),
        ("dump", 0),
    ],
)
@pytest.mark.parametrize("closed", ["| true", "2>&1 | true"])
def test_a_pipe_that_is_closed_early_does_not_change_the_exit_code(url, tmp_path, command, code, closed):
    with connect(url, NOTES, workers=0) as db:
        ((key, _row),) = db.run(Scan("views", RowRange(b"", b""), 1).__iter__())
        db.run(Atomically(lambda store: store.replace("views", {key: None})).__iter__())
    (tmp_path / "broken.jsonl").write_text("{torn\n")
    ran = shell(url, f"cd {tmp_path}; PYTHONPATH={ROOT} $ONEREAD {command} $OF {closed}; echo ${{PIPESTATUS[0]}}")
    assert ran.stdout == f"{code}\n"
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr


def test_ctrl_c_is_code_130(process):
    running = process("shell", "-c", "print('here', flush=True)\nimport threading\nthreading.Event().wait()")
    assert running.stdout.readline() == "here\n"
    running.send_signal(signal.SIGINT)
    _out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (130, "stopped\n")


IN_A_FINALIZER = """
import time
class Waits:
    def __del__(self):
        print('here', flush=True)
        time.sleep(600)
Waits()
print('went on', flush=True)
time.sleep(600)
"""


def test_ctrl_c_is_not_lost_in_a_finalizer(process):
    running = process("shell", "-c", IN_A_FINALIZER)
    assert running.stdout.readline() == "here\n"
    running.send_signal(signal.SIGINT)
    _out, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (130, "stopped\n")


UNWINDS = """
import time
try:
    print('here', flush=True)
    time.sleep(600)
finally:
    print('ends', flush=True)
    time.sleep({seconds})
    print('ended', flush=True)
"""


def test_ctrl_c_that_arrives_twice_counts_once(process):
    running = process("shell", "-c", UNWINDS.format(seconds=0.2))
    for line in ("here\n", "ends\n"):
        assert running.stdout.readline() == line
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "ended\n", "stopped\n")


def test_ctrl_c_again_ends_what_the_first_one_waits_for(process):
    running = process("shell", "-c", UNWINDS.format(seconds=600))
    for line in ("here\n", "ends\n"):
        assert running.stdout.readline() == line
        time.sleep(1.1)
        running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (130, "", "stopped\n")


def shell(url, command):
    """Runs a line of a shell in which `$ONEREAD` begins a command on the filled store."""
    line = f"ONEREAD='{sys.executable} -m oneread'; OF='--schema {SCHEMA} --db {url}'; {command}"
    return subprocess.run(line, shell=True, executable="/bin/bash", capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["verify", "get Person 1", "stat", "worker --once"])
@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-"])
def test_a_command_whose_stream_is_closed_succeeds(url, command, closed):
    ran = shell(url, f"$ONEREAD {command} $OF {closed}")
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


def test_a_closed_input_is_named(url):
    ran = shell(url, "$ONEREAD load - $OF <&-")
    assert (ran.returncode, ran.stderr) == (2, "error: there is no standard input; name a file\n")


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    ("command", "code"), [("verify --json", 3), ("get Person 1 --json", 3), ("get Person 404 --json", 1), ("verify", 3)]
)
def test_what_a_full_disk_does_not_take_is_code_3_or_that_of_its_failure(url, command, code, buffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    ran = shell(url, f"$ONEREAD {command} $OF > /dev/full")
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_a_question_that_is_left_is_code_130(oneread, url, monkeypatch):
    with connect(url, NOTES, workers=0) as db:
        db.counter("votes").add(1)
    monkeypatch.setattr("oneread.cli.counter.check_can_ask", lambda *_given, **_more: None)
    ran = oneread("counter", "votes", "--delete", input="")
    assert ran.code == 130
    assert ran.err.endswith("stopped\n")


@pytest.mark.parametrize(
    "words", [("counter", "votes", "--seconds"), ("worker", "--for"), ("verify", "--max-age"), ("verify", "--pace")]
)
def test_nan_is_refused_as_a_number(oneread, words):
    assert oneread(*words, "nan").code == 2


def test_faults_are_not_written_to_the_standard_output(oneread, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = oneread("verify", "--faults-to", "-")
    assert ran.code == 2
    assert "not to the standard output" in ran.err
    assert not Path("-").exists()


def test_a_value_without_a_form_in_json_is_named():
    with pytest.raises(InvalidValue, match="cannot be written as JSON"):
        encode_json("\ud800")
    assert encode_json({"type": int, "strange": 1j, (1, 2): 3}) == '{"type":"int","strange":"1j","(1, 2)":3}'


def test_progress_is_shown_on_a_terminal_only(capsys):
    with Output(as_json=False, quiet=False).progress() as tell:
        tell(Progress("entities", 1, 2))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["page", "Note", "--limit", "x", "--json"], "valid int"),
        (["page", "Note", "--nothing", "--json"], "--nothing"),
        (["nothing", "--json"], "nothing"),
        (["--json", "page"], "--json"),
        (["page", "--json"], "VIEW"),
    ],
)
def test_a_wrong_command_line_is_a_document_as_well(bare, arguments, message):
    ran = bare(*arguments)
    failure = ran.failure()
    assert (ran.code, failure.kind, failure.retryable) == (2, "UsageError", False)
    assert message in failure.message
    assert ran.err.startswith("Usage: oneread")


def test_arguments_that_are_not_text_are_reported_as_json(oneread):
    ran = oneread("get", "Person", "\udcff", "--json")
    assert ran.code == 2
    assert ran.failure().facts["given"] == "\\udcff"


def test_code_that_fails_in_the_shell_is_shown_without_this_programs_frames(url):
    ran = subprocess.run(
        [sys.executable, "-m", "oneread", "shell", "--schema", "tests.cli.notes:NOTES", "--db", url, "-c", "1 / 0"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert ran.stderr.startswith('Traceback (most recent call last):\n  File "<--run>", line 1, in <module>\n')
    assert ran.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("query", "hinted"),
    [("", True), ("?colour=red", False), ("?prefix=nothing", False)],
    ids=["path", "option", "prefix"],
)
def test_how_urls_are_written_is_hinted_where_that_is_at_fault(bare, url, query, hinted):
    db = f"{url}{query}" if query else "no-url"
    ran = bare("get", "Person", "1", "--schema", "tests.cli.notes:NOTES", "--db", db, "--json")
    assert ran.code == 2
    assert ran.failure().hint.startswith("a store is named like") is hinted


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC])
def test_a_disk_that_refuses_is_code_3_whatever_found_it(bare, url, monkeypatch, tmp_path, code):
    """A read-only disk cannot be made in a test: what LMDB and the system raise on one is."""
    refusal = OSError(code, os.strerror(code))

    def refuse(*_given, **_options):
        raise refusal

    def refuse_as_store(*_given, **_options):
        raise translate(refusal, "path") from refusal

    places = {
        "dump": (import_module("oneread.cli.files"), "open_private", refuse, ["--out", str(tmp_path / "out.jsonl")]),
        "backup": (LmdbEngine, "copy_to", refuse_as_store, [str(tmp_path / "copy")]),
        "repair": (import_module("oneread.cli.repair"), "writing", refuse_as_store, []),
    }
    for command, (place, name, raising, arguments) in places.items():
        with monkeypatch.context() as patched:
            patched.setattr(place, name, raising)
            assert bare(command, *arguments, "--schema", SCHEMA, "--db", url).code == 3, command


def test_a_write_in_a_shell_for_reading_names_the_option(oneread):
    ran = oneread("shell", "--run", "db.delete(Person, 1)")
    assert (ran.code, "hint: open the store with --write" in ran.err) == (3, True)
    assert "--write" not in oneread("shell", "--run", "db.get(Person, 99)").err
    ran = oneread("shell", input="db.delete(Person, 1)\n")
    assert "(hint: open the store with --write)" in ran.err
