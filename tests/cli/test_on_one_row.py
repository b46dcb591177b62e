"""Every command on stores that change one row at a time: it works, or says in a word why not."""

from uuid import uuid4

import msgspec
import pytest

from oneread import connect
from oneread.cli.program import COMMANDS
from oneread.engines.one_row_memory import forget
from oneread.feeds.entries import Entries
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import RowMutation, RowRange
from tests.cli import notes
from tests.unit.feeds import community

SCHEMA = ("--schema", "tests.cli.notes:NOTES")
RAN = [
    ["backfill"],
    ["backfill", "--fence"],
    ["cost", "Person"],
    ["counter"],
    ["counter", "--cache-first"],
    ["dump", "--out", "-"],
    ["dump", "Person", "--format", "csv", "--out", "-"],
    ["explain", "page", "Person", "--limit", "2"],
    ["explain", "patch", "Person", "--field", "name", "--carriers", "3"],
    ["explain", "counter_add", "votes", "--once"],
    ["get", "Person", "1"],
    ["heat"],
    ["heat", "Person", "--measure"],
    ["heat", "--kept", "7"],
    ["doctor"],
    ["page", "Person"],
    ["places", "Person", "1"],
    ["places", "Person", "1", "--check"],
    ["shell", "--run", "print(db.get(Person, 1).name)"],
    ["shell", "--write", "--run", "print(db.counter('votes').add(3))"],
    ["counter", "votes", "--seconds", "0"],
    ["counter", "votes", "--shards", "4", "--seconds", "0"],
    ["counter", "votes", "--delete", "--yes"],
    ["launch"],
    ["jobs"],
    ["jobs", "--retry-all"],
    ["jobs", "--drop", "018cc251-f400-7063-873b-fd1ce1bc0914"],
    ["splits"],
    ["splits", "--form", "url"],
    ["splits", "--form", "hbase"],
    ["splits", "--form", "bigtable"],
    ["stat"],
    ["stat", "--exact"],
    ["sweep"],
    ["tasks"],
    ["tasks", "--drain"],
    ["tasks", "--retry"],
    ["repair"],
    ["verify", "--pace", "1000000"],
    ["worker", "--once"],
    ["erase", "Person", "1", "--plan"],
    ["erase", "--receipts"],
    ["erase", "Person", "1", "--yes"],
    ["scrub"],
    ["worker", "--for", "0.1"],
    *(["migrate", verb] for verb in ("plan", "status", "apply", "rollback")),
]
REFUSED = {
    "backup": ("this engine cannot copy its store; dump the entities instead", "oneread dump --out FILE"),
    "numbers": ("give the URL a prefix= that no store has",),
}
ELSEWHERE = {
    "console": "serves until Ctrl-C; its pages are opened on all stores in tests/unit/console",
    "graph": "opens a store for heat alone, as `heat` does",
    "privacy": "opens no store",
    "load": "takes what dump wrote",
    "copy": "takes two stores",
    "move": "takes two stores; a source that changes one row at a time is in tests/unit/copying",
}


@pytest.fixture(params=["memory", "hbase", "bigtable"])
def url(request, monkeypatch):
    """A filled store."""
    name = f"x{uuid4().hex[:12]}"
    if request.param == "memory":
        made = f"memory://{name}?span=row"
    elif request.param == "hbase":
        made = f"hbase://{request.getfixturevalue('hbase').place}/default?compression=none&prefix={name}_"
    else:
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
        made = f"bigtable://test/{name}"
    notes.fill(made)
    yield made
    forget(name)


def test_every_command_is_tried():
    assert {*(command for command, *_arguments in RAN), *REFUSED, *ELSEWHERE} == {*COMMANDS}


def test_each_command_works_or_says_why_not(bare, url, tmp_path):
    def run(command, *arguments):
        words = command.split()
        return bare(*words, *arguments, *SCHEMA, "--db", url)

    for command, *arguments in RAN:
        words = (command, arguments.pop(0)) if command == "migrate" else (command,)
        ran = run(" ".join(words), *arguments)
        assert ran.code == 0, (command, arguments, ran.err)
    ran = run("backup", tmp_path / "copy")
    assert (ran.code, [each in ran.err for each in REFUSED["backup"]], "run the same command" in ran.err) == (
        3,
        [True, True],
        False,
    ), ran
    dumped = run("dump", "--out", tmp_path / "dump.jsonl")
    assert dumped.code == 0, dumped.err
    ran = run("load", tmp_path / "dump.jsonl")
    assert ran.code == 0, ran.err
    there = beside(url)
    copied = bare("copy", url, there, *SCHEMA)
    assert (copied.code, ", 0 differ" in copied.out) == (0, True), copied
    assert bare("copy", url, there, "--check", *SCHEMA).code == 0
    forget(there.removeprefix("memory://").partition("?")[0])
    measured = bare("numbers", "--db", url, "--seconds", "0.1", "--out", tmp_path / "numbers")
    assert (measured.code, REFUSED["numbers"][0] in measured.err) == (2, True)


def test_numbers_are_measured_where_there_is_no_store(bare, url, tmp_path, monkeypatch):
    monkeypatch.setattr("oneread.cli.calibration.FEWER", 40)
    place, found = beside(url), tmp_path / "numbers.json"
    ran = bare("numbers", "--db", place, "--seconds", "0.1", "--out", found)
    assert ran.code == 0, ran.err
    explained = bare("explain", "get", "Person", "1", "--numbers", found, *SCHEMA, "--db", url)
    assert (explained.code, "measured elsewhere" in explained.err) == (0, False)
    other = bare("explain", "get", "Person", "1", "--numbers", found, *SCHEMA)
    assert "span: row" in other.err


def beside(url):
    """The URL of a store that is not there, on the same server."""
    name = f"y{uuid4().hex[:12]}"
    if url.startswith("hbase"):
        return f"{url.partition('?')[0]}?compression=none&prefix={name}_"
    return f"bigtable://test/{name}" if url.startswith("bigtable") else f"memory://{name}?span=row"


@pytest.mark.parametrize("command", [["get", "Person", "1"], ["tasks", "--drain"], ["sweep"], ["migrate", "apply"]])
def test_a_store_that_is_not_there_is_not_made(bare, emulator, monkeypatch, command):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    for _ in range(2):
        ran = bare(*command, *SCHEMA, "--db", f"bigtable://test/missing-{command[0]}")
        assert (ran.code, "there is no store here" in ran.err) == (2, True), ran.err


def test_feeds_are_verified_and_repaired(bare):
    name = f"x{uuid4().hex[:12]}"
    url = f"memory://{name}?span=row"
    given = "--schema", "tests.unit.feeds.community:SCHEMA", "--db", url
    with connect(url, community.SCHEMA, workers=0) as db:
        community.fill(db, joined=[(1, 1), (1, 2)])
        db.save(community.cross(1, 1))
        assert bare("verify", *given).code == 0
        feed = Entries(db.operations.catalog.views[community.Crossed])
        key, row = db.run(Scan("views", RowRange.under(feed.prefix), 1, families="dm").__iter__())[0]
        gone = RowMutation(key, deletes={column: cell.stamp for column, cell in row.items()})
        db.run(Mutate("views", [gone]).__iter__())
        ran = bare("verify", *given, "--json")
        assert (ran.code, msgspec.json.decode(ran.out)["found"]) == (1, {"Crossed": {"missing": 1}}), ran
        ran = bare("repair", *given, "--json")
        assert (ran.code, msgspec.json.decode(ran.out)["mended"]) == (0, 1), ran
        assert bare("verify", *given).code == 0
    forget(name)
