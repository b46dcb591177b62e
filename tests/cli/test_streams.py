"""What a terminal cannot show: escapes, and JSON that stays JSON."""

import json
import os
import subprocess
import sys

import pytest

from oneread.cli.failures import _failure, _report
from oneread.cli.output import Output, escape
from oneread.errors import UsageError

NAME = "日本 é \N{GRINNING FACE}"


@pytest.fixture
def printed(tmp_path):
    """What the command line prints of an entity with that name, in an encoding."""
    (tmp_path / "made.py").write_text(
        "from oneread import Key, Model, Schema\n"
        "class Named(Model[str]):\n"
        "    name: Key[str]\n"
        "schema = Schema(Named)\n",
    )
    command = [sys.executable, "-m", "oneread"]
    where = ["--schema", "made", "--db", "lmdb://store", "-q"]
    (tmp_path / "names.jsonl").write_text(json.dumps({"name": NAME}) + "\n")
    load = [*command, "load", "names.jsonl", "--model", "Named", "--make", *where]
    subprocess.run(load, cwd=tmp_path, check=True, capture_output=True)

    def run(encoding, *arguments):
        environment = os.environ | {"PYTHONIOENCODING": encoding}
        ran = subprocess.run(
            [*command, *arguments, *where], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_the_same_under_every_encoding(printed, encoding):
    assert json.loads(printed(encoding, "page", "Named", "--json").decode())["rows"] == [{"name": NAME}]


def test_what_a_terminal_lacks_is_escape(printed):
    assert "日本 é \N{GRINNING FACE}" in printed("utf-8", "page", "Named").decode()
    assert b"\\u65e5\\u672c \xe9 \\ud83d\\ude00" in printed("latin-1", "page", "Named")
    assert b"\\u65e5\\u672c \\u00e9 \\ud83d\\ude00" in printed("ascii", "page", "Named")


HOSTILE = "\x1b[2J\x07\r\x7f\x85\x9b31m\u2028\u202e\u200b\ufeff\U000e0001"


def test_nothing_that_is_printed_controls_a_terminal(capsys):
    output = Output(as_json=False, quiet=False)
    output.text(HOSTILE)
    output.cells([HOSTILE, 1])
    output.table([HOSTILE], [[HOSTILE]])
    output.note(HOSTILE)
    _report(UsageError(HOSTILE, path=HOSTILE), _failure(UsageError(HOSTILE)), as_json=True)
    Output(as_json=True, quiet=False).document({"name": HOSTILE})
    printed = capsys.readouterr()
    for line in (printed.out + printed.err).split("\n"):
        assert line.replace("\t", "").isprintable(), ascii(line)
    assert json.loads(printed.out.split("\n")[-2]) == {"name": HOSTILE}


def test_bytes_that_are_not_text_are_not_this_handlers():
    with pytest.raises(UnicodeDecodeError):
        escape(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"))
