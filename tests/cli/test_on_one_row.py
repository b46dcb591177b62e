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
RAN = {
    "backfill": [],
    "counter": [],
    "dump": ["--out", "-"],
    "explain": ["page", "Person", "--limit", "2"],
    "get": ["Person", "1"],
    "page": ["Person"],
    "repair": [],
    "shell": ["--run", "print(db.get(Person, 1).name)"],
    "splits": [],
    "stat": ["--exact"],
    "sweep": [],
    "tasks": ["--drain"],
    "verify": [],
    "worker": ["--once"],
}
REFUSED = {
    "backup": "this engine cannot copy its store; dump the entities instead",
    "numbers": "give the URL a prefix= that no store has",
}
ELSEWHERE = {"cost": "opens no store", "load": "takes what dump wrote", "migrate": "has commands of its own"}


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
    assert {*RAN, *REFUSED, *ELSEWHERE} == {*COMMANDS}


def test_each_command_works_or_says_why_not(oneread, bare, url, tmp_path):
    for command, arguments in (RAN | {"backup": [tmp_path / "copy"]}).items():
        ran = oneread(command, *arguments)
        if command in REFUSED:
            assert (ran.code, REFUSED[command] in ran.err, "run the same command" in ran.err) == (3, True, False), ran
        else:
            assert ran.code == 0, (command, ran.err)
    for verb in ("plan", "status", "apply"):
        assert bare("migrate", verb, *SCHEMA, "--db", url).code == 0
    dumped = oneread("dump", "--out", tmp_path / "dump.jsonl")
    assert dumped.code == 0, dumped.err
    ran = oneread("load", tmp_path / "dump.jsonl")
    assert ran.code == 0, ran.err
    measured = bare("numbers", "--db", url, "--seconds", "0.1", "--out", tmp_path / "numbers")
    assert (measured.code, REFUSED["numbers"] in measured.err) == (2, True)


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
