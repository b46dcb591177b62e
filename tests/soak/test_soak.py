"""A small soak of each engine: whatever is killed, nothing acknowledged is lost and everything derived is right."""

import json
from contextlib import contextmanager

import pytest

from tests.servers import need
from tests.soak.__main__ import main
from tests.soak.soak import Wanted, run
from tools.servers.bigtable import bigtable_emulator
from tools.servers.hbase import check_installed


@contextmanager
def installed():
    yield check_installed()


@pytest.mark.parametrize(
    ("engine", "starts", "server_kills", "writer_kills"),
    [("bigtable", bigtable_emulator, 3, 8), ("hbase", installed, 2, 7)],
)
def test_whatever_is_killed_nothing_is_lost(tmp_path, engine, starts, server_kills, writer_kills):
    with need(engine, starts):
        result = run(Wanted(engine, server_kills, writer_kills, seed=5), tmp_path, say=lambda *_said, **_options: None)
    assert result["sentences"] == []
    assert (result["server_kills"], result["writer_kills"]) == (server_kills, writer_kills)
    assert result["acknowledged"] > 10
    assert result["faults"]["storm"] == 1
    lines = (tmp_path / "ledger").read_bytes().splitlines()
    assert sum(b'"ended": "done"' in line for line in lines) == result["acknowledged"]


@pytest.mark.parametrize(("lost", "wrong", "code"), [(0, 0, 0), (1, 0, 1), (0, 1, 1)])
def test_a_run_ends_with_what_it_found(monkeypatch, capsys, lost, wrong, code):
    result = {
        "faults": {"writer killed": 3}, "errors": {"Unavailable: no server": 2}, "acknowledged": 7,
        "lost": lost, "wrong": wrong, "sentences": ["book 5 is gone"] * lost,
    }  # fmt: skip
    asked = []
    monkeypatch.setattr("tests.soak.__main__.run", lambda wanted, _folder: asked.append(wanted) or result)
    assert main(["--engine", "hbase", "--server-kills", "1", "--writer-kills", "5", "--seed", "9"]) == code
    assert asked == [Wanted("hbase", 1, 5, 9)]
    said = capsys.readouterr().out
    assert "     3 writer killed" in said
    assert f"acknowledged 7, lost {lost}, wrong {wrong}" in said
    assert ("FAULT book 5 is gone" in said) == bool(lost)
    assert json.loads(said.splitlines()[-1]) == result


@pytest.mark.parametrize("arguments", [["--server-kills", "-1"], ["--writer-kills", "4"], ["--engine", "lmdb"]])
def test_what_cannot_be_run_is_refused(arguments, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[0] in capsys.readouterr().err
