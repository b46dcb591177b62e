import ast
import asyncio
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import oneread
from oneread import Key, Model, Schema, connect, connect_async
from oneread.engines.lmdb import binding
from oneread.store.engine import NOT_NATIVE
from tools import native

LONGEST = 60


class Thing(Model[int]):
    number: Key[int]


THINGS = Schema(Thing)


def imported(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def test_one_module_imports_a_binding_to_lmdb():
    root = Path(oneread.__file__).parent
    found = [str(path.relative_to(root)) for path in root.rglob("*.py") if "lmdb" in imported(path)]
    assert found == ["engines/lmdb/binding.py"]


class Native:
    __version__ = "1.2"


def refuse(name):
    raise ImportError(f"{name} is of another machine")


def missing(name):
    raise ModuleNotFoundError(name)


@pytest.mark.parametrize(
    ("asked", "load", "runs", "why"),
    [
        (None, lambda _name: Native, True, "oneread-native 1.2 is installed"),
        ("1", lambda _name: Native, True, "oneread-native 1.2 is installed"),
        ("0", lambda _name: Native, False, "ONEREAD_NATIVE=0 asks for py-lmdb"),
        (None, missing, False, "oneread-native is not installed"),
        (None, refuse, False, "oneread-native cannot be loaded: oneread_native is of another machine"),
    ],
)
def test_a_process_has_one_binding_and_says_why(monkeypatch, asked, load, runs, why):
    monkeypatch.delenv("ONEREAD_NATIVE", raising=False)
    if asked is not None:
        monkeypatch.setenv("ONEREAD_NATIVE", asked)
    monkeypatch.setattr(binding, "import_module", lambda name: load(name) if name == "oneread_native" else name)
    maker, chosen = binding.choose()
    assert (bool(chosen), chosen.why) == (runs, why)
    assert maker is (Native if runs else "lmdb")


def test_where_it_is_asked_for_it_must_be_there(monkeypatch):
    monkeypatch.setenv("ONEREAD_NATIVE", "1")
    monkeypatch.setattr(binding, "import_module", missing)
    with pytest.raises(ImportError):
        binding.choose()


def test_a_database_says_which_one_runs(url, kind_of_store):
    expected = binding.NATIVE if kind_of_store == "lmdb" else NOT_NATIVE
    with connect(url, THINGS, workers=0) as db:
        assert (db.native.runs, db.native.why) == (expected.runs, expected.why)

    async def ask():
        async with await connect_async(url, THINGS, workers=0) as db:
            return db.native

    found = asyncio.run(ask())
    assert (found.runs, found.why) == (expected.runs, expected.why)


PROGRAM = """
import sys
import oneread.engines.lmdb
print(*sorted({"lmdb", "oneread_native"} & set(sys.modules)))
"""


@pytest.mark.parametrize(("asked", "loaded"), [("0", "lmdb"), ("1", "oneread_native")])
def test_only_the_chosen_one_is_loaded(monkeypatch, asked, loaded):
    pytest.importorskip("oneread_native", reason="oneread-native is not installed")
    monkeypatch.setenv("ONEREAD_NATIVE", asked)
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert ran.stdout.split() == [loaded]


def test_a_build_says_what_it_lacks(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("CC", "no-such-compiler -O2")
    native.install(tmp_path / "stamp")
    assert "run on py-lmdb: no C compiler (no-such-compiler) is found" in capsys.readouterr().out
    monkeypatch.setenv("CC", sys.executable)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    native.install(tmp_path / "stamp")
    assert "the headers of this Python are not installed" in capsys.readouterr().out
    assert not (tmp_path / "stamp").exists()


@pytest.mark.parametrize("code", [0, 3])
def test_a_build_installs_the_package_or_says_that_it_failed(monkeypatch, capsys, tmp_path, code):
    ran = []
    monkeypatch.setattr(native, "lacking", lambda: None)
    monkeypatch.setattr(native.subprocess, "run", lambda command, **_: ran.append(command) or Native)
    monkeypatch.setattr(Native, "returncode", code, raising=False)
    native.install(tmp_path / "stamp")
    assert (tmp_path / "stamp").exists() == (not code)
    assert ("the compiler failed" in capsys.readouterr().out) == bool(code)
    assert ran[0][-1] == str(native.FOLDER)


def test_what_was_taken_over_is_what_the_page_says():
    """LMDB's files and the patches are those of py-lmdb, byte by byte."""
    said = dict(
        re.findall(r"\| (?:`(\S+)`|the patches.*) \| `([0-9a-f]{64})` \|", (native.FOLDER / "README.md").read_text())
    )
    lmdb = native.FOLDER / "lmdb"
    found = {path.name: path.read_bytes() for path in lmdb.glob("*.[ch]")}
    patches = lmdb / "patches"
    series = (patches / "series").read_text().split()
    assert sorted([*series, "series"]) == sorted(path.name for path in patches.iterdir())
    found[""] = b"".join((patches / name).read_bytes() for name in series)
    assert {name: sha256(data).hexdigest() for name, data in found.items()} == said


def test_functions_of_the_binding_are_short():
    for path in sorted((native.FOLDER / "src").glob("*.c")):
        begin = 0
        for number, line in enumerate(path.read_text().splitlines()):
            if re.match(r"\w.*\(.*[,{]$", line):
                begin = number
            if line == "}":
                assert number - begin <= LONGEST, f"{path.name}:{begin + 1}"
