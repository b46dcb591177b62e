"""A search engine is kept equal to a store, on each store that several programs can open, while all are killed."""

import re
import sqlite3
from uuid import uuid4

import pytest

from examples.search.__main__ import main
from examples.search.acting import load
from examples.search.engine import SearchEngine
from examples.search.following import fill, follow
from examples.search.schema import SEARCHED, Event
from oneread import connect

SMALL = ["--events", "150", "--seconds", "4", "--kills", "4", "--writers", "2"]


@pytest.fixture(params=["lmdb", "hbase", "bigtable"])
def url(request, monkeypatch, tmp_path):
    """A place where no store is yet, which several processes can open."""
    name = f"x{uuid4().hex[:12]}"
    if request.param == "lmdb":
        return f"lmdb://{tmp_path}/{name}?durability=none"
    if request.param == "hbase":
        return f"hbase://{request.getfixturevalue('hbase').place}/default?compression=none&prefix={name}_"
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", request.getfixturevalue("emulator").host)
    return f"bigtable://test/{name}"


def test_nothing_differs_after_kills(url, tmp_path, capfd):
    index = tmp_path / "index.sqlite"
    given = ["--db", url, "--index", str(index)]
    code = main(["act", *given, *SMALL])
    printed, said = capfd.readouterr()
    assert code == 0, printed + said
    assert re.search(r"document +[\d,]+ +0$", printed, re.MULTILINE)
    assert "clean" in printed
    kills = [int(each) for each in re.findall(r"(?:follow|write) (\d+) times", printed)]
    assert sum(kills) == 4

    with sqlite3.connect(index) as other:
        (number, title) = other.execute("select rowid, title from events").fetchone()
    assert main(["find", "--index", str(index), *title.split(), "--limit", "1000"]) == 0
    assert f" {number}  {title}  (" in capfd.readouterr().out

    with sqlite3.connect(index) as other:  # behind its back, so that the comparison sees it
        other.execute("delete from events where rowid = ?", (number,))
    assert main(["check", *given]) == 1
    assert f"document of {number}: nothing is stored" in capfd.readouterr().out
    assert main(["act", *given, *SMALL]) == 2
    assert "the store is not empty" in capfd.readouterr().err


@pytest.mark.parametrize("store", ["memory://", "memory://?span=row"])
def test_a_fill_that_was_killed_is_begun_again(store, tmp_path, monkeypatch):
    """The position is kept when everything was put, and not before."""
    with connect(store, SEARCHED) as db:
        load(db, 7, 1_200)
        engine = SearchEngine(tmp_path / "index.sqlite")
        puts = []

        def dies_in_the_second_page(changed, cursor):
            puts.append(len(changed))
            if len(puts) == 2:
                raise KeyboardInterrupt
            apply(changed, cursor)

        apply = engine.apply
        monkeypatch.setattr(engine, "apply", dies_in_the_second_page)
        with pytest.raises(KeyboardInterrupt):
            fill(db, engine)
        monkeypatch.undo()
        assert engine.position() is None
        follow(db, engine, lambda: False, wait=0)
        stored = {event.number for page in db.scan(Event) for event in page}
        assert engine.documents().keys() == stored
        engine.close()


def test_a_store_in_memory_is_refused(tmp_path, capsys):
    assert main(["act", "--db", "memory://", "--index", str(tmp_path / "i")]) == 2
    assert "several processes need a store on disk or on a server" in capsys.readouterr().err
