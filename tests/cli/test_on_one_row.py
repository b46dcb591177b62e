"""Every command on stores that change one row at a time: it works, or says in a word why not."""

from uuid import uuid4

import pytest

from oneread.cli.program import COMMANDS
from oneread.engines.one_row_memory import forget
from tests.cli import notes

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
    "stat": ["--exact"],
    "sweep": [],
    "tasks": ["--drain"],
    "verify": [],
    "worker": ["--once"],
}
REFUSED = {
    "verify": "does not have this verb yet (verb='verify'",
    "repair": "does not have this verb yet (verb='repair'",
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
