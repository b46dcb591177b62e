"""--schema and --db: every obvious mistake is one line that says what to write, and exit code 2."""

import sys

import lmdb
import pytest

from tests.cli.conftest import SCHEMA

ABSENT = "no module of this name is installed or in the current folder"
NOT_ONE = "the module does not have exactly one schema: use --schema package.module:name"
FAILED = "importing this module failed"
NO_FILE = "a module is named with dots, not by its file"
MODULES = {
    "empty": "x = 1\n",
    "two": "from tests.cli.notes import NOTES, OTHER\n",
    "broken": "from oneread import Model\nimport nothing_here\n",
    "syntax": "class Broken(\n",
    "leaving": "import sys\nsys.exit(7)\n",
    "raising": "1 / 0\n",
    "opening": "from oneread.errors import UsageError\nraise UsageError('opened in passing')\n",
    "asking": "from oneread import Schema, connect\nconnect('memory://', 7)\n",
    "wrong": "from oneread import Schema\nbad = Schema(int)\n",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """The current folder, with modules of every kind."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name, text in MODULES.items():
        (folder / f"cli_{name}.py").write_text(text)
    (folder / "cli_one.py").write_text("from tests.cli.notes import NOTES as only\n")
    package = folder / "cli_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "models.py").write_text("from tests.cli.notes import NOTES\nclass Held:\n    inside = NOTES\n")
    (folder / "cli_failing").mkdir()
    (folder / "cli_failing" / "__init__.py").write_text("1 / 0\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return folder


@pytest.mark.parametrize(
    ("spec", "message", "facts"),
    [
        ("", "no schema was given: use --schema package.module:name, or ONEREAD_SCHEMA", {}),
        ("cli_nowhere:x", ABSENT, {"module": "cli_nowhere"}),
        ("cli_package.no:x", ABSENT, {"module": "cli_package.no"}),
        ("cli_one.deeper:x", ABSENT, {"module": "cli_one.deeper"}),
        ("..:x", ABSENT, {}),
        ("cli_two", NOT_ONE, {"schemas": ["NOTES", "OTHER"]}),
        ("cli_empty", NOT_ONE, {"schemas": []}),
        ("cli_two:THIRD", "the module has no attribute of this name", {"name": "THIRD", "schemas": ["NOTES", "OTHER"]}),
        ("cli_empty:x", "this is not a Schema(...)", {"name": "x", "found": "int"}),
        ("tests.cli.notes:Person", "this is not a Schema(...)", {"name": "Person", "found": "Person"}),
        ("cli_opening:x", FAILED, {"error": "UsageError: opened in passing"}),
        ("cli_package.models:Held.nothing", "the module has no attribute of this name", {"name": "Held.nothing"}),
        ("cli_one.py:only", NO_FILE, {"perhaps": "cli_one"}),
        ("./cli_package/models.py", NO_FILE, {"perhaps": "cli_package.models"}),
        ("cli_broken:x", FAILED, {"error": "ModuleNotFoundError: No module named 'nothing_here'"}),
        ("cli_raising:x", FAILED, {"error": "ZeroDivisionError: division by zero"}),
        ("cli_leaving:x", FAILED, {"error": "SystemExit: 7"}),
        ("cli_failing.models:x", FAILED, {"error": "ZeroDivisionError: division by zero"}),
        ("cli_wrong:bad", "a schema needs a model", {"module": "cli_wrong"}),
    ],
)  # fmt: skip
def test_a_missing_schema_is_named(bare, url, spec, message, facts):
    ran = bare("get", "Person", "1", "--schema", spec, "--db", url, "--json")
    assert ran.code == 2
    failure = ran.failure()
    assert failure.message == message
    assert {name: failure.facts[name] for name in facts} == facts
    assert ran.err.startswith(f"error: {message}")


def test_a_module_that_fails_is_named_with_its_line(bare, url, here):
    assert bare("get", "Person", "1", "--schema", "cli_broken:x", "--db", url, "--json").failure().facts["at"] == (
        f"{here}/cli_broken.py:2"
    )
    assert bare("get", "Person", "1", "--schema", "cli_syntax:x", "--db", url, "--json").failure().facts["at"] == (
        f"{here}/cli_syntax.py:1"
    )
    assert bare("get", "Person", "1", "--schema", "cli_asking:x", "--db", url, "--json").failure().facts["at"] == (
        f"{here}/cli_asking.py:2"
    )


@pytest.mark.parametrize(
    "spec", ["cli_one", "cli_one:only", "cli_package.models:NOTES", "cli_package.models:Held.inside"]
)
def test_a_schema_is_found_in_the_current_folder(bare, url, spec):
    assert bare("get", "Person", "1", "--schema", spec, "--db", url).code == 0


def test_schema_and_store_come_from_the_environment(bare, url):
    ran = bare("get", "Person", "1", env={"ONEREAD_SCHEMA": SCHEMA, "ONEREAD_DB": url})
    assert ran.code == 0


@pytest.mark.parametrize(
    ("db", "message", "facts"),
    [
        ("", "no store was given: use --db lmdb:///var/lib/shop, or ONEREAD_DB", {}),
        ("./notes", "a store is named by a URL, not by a path", {"perhaps": "lmdb://./notes"}),
        ("lmdb:/notes", "a store is named by a URL, not by a path", {"perhaps": "lmdb:///notes"}),
        ("lmdb://no%00tes", "a path cannot contain a zero byte", {"path": "no\0tes"}),
        ("lmbd://notes", "the scheme of the URL is unknown", {"known": ["bigtable", "hbase", "lmdb", "memory"]}),
        ("lmdb://", "the URL has no folder; give lmdb:///var/lib/shop, or lmdb://shop for a relative path", {}),
        ("lmdb://notes?colour=red", "lmdb: URLs do not have this option", {"option": "colour"}),
        ("lmdb://nowhere", "the path has no store, and opening for reading does not make one; correct the path", {}),
    ],
)
def test_a_missing_store_is_named(bare, tmp_path, monkeypatch, db, message, facts):
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    ran = bare("get", "Person", "1", "--schema", SCHEMA, "--db", db, "--json")
    assert ran.code == 2
    failure = ran.failure()
    assert message in failure.message
    assert {name: failure.facts[name] for name in facts} == facts
    assert list(empty.iterdir()) == []


def test_who_writes_makes_no_store_where_none_is(bare, tmp_path):
    ran = bare("tasks", "--drain", "--schema", SCHEMA, "--db", f"lmdb://{tmp_path}/typo", "--json")
    assert ran.code == 2
    assert ran.failure().message == "the store does not exist: correct the path"
    assert not (tmp_path / "typo").exists()


def commits(url):
    with lmdb.open(url.removeprefix("lmdb://"), readonly=True, max_dbs=5) as environment:
        return environment.info()["last_txnid"]


def test_who_only_looks_does_not_write(oneread, url):
    before = commits(url)
    for arguments in (["get", "Person", "1"], ["page", "Note"], ["stat", "--exact"], ["tasks"], ["shell", "-c", "1"]):
        assert oneread(*arguments).code == 0
    assert commits(url) == before


def test_who_only_looks_may_say_so_in_the_url(bare, url):
    assert bare("get", "Person", "1", "--schema", SCHEMA, "--db", f"{url}?read_only=true").code == 0


def test_a_schema_that_does_not_fit_is_refused_with_what_to_do(bare, url):
    ran = bare("get", "Person", "1", "--schema", "tests.cli.notes:MISFIT", "--db", url, "--json")
    assert ran.code == 1
    failure = ran.failure()
    assert failure.kind == "SchemaMismatch"
    assert failure.hint == "`oneread migrate plan` shows what differs and what to do"


def test_of_an_unknown_model_the_nearest_name_is_suggested(oneread):
    failure = oneread("get", "Persn", "1", "--json").failure()
    assert failure.facts == {"name": "Persn", "perhaps": "Person"}
    assert "Note" in oneread("get", "zzz", "1", "--json").failure().facts["known"]
