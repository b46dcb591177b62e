"""The table of requests is counted, and is what the tests of each part of the library count."""

import pytest

from benchmarks import cli, contention, requests
from benchmarks.contention import Contention
from benchmarks.requests import WRITES, Counted, on_one_row, on_rows
from oneread import connect
from oneread.plans.trace import Trace

ONE_ROW = [
    (2, 2, 2), (11, 3, 4), (9, 3, 4), (11, 5, 6), (9, 3, 4), (7, 3, 3), (9, 3, 4), (11, 2, 9),
]  # fmt: skip

OTHERS = {
    "a holder in views, of 100": (1.06,),
    "another holder, of 100": (0.02,),
    "add to a counter": (1, 1, 1),
    "retries of an add, 8 writers, 20 shards": (0.0,),
    "add to a counter with a token": (2, 2, 2),
    "retries of an add with a token, 8 writers, 20 shards": (0.1615,),
    "root row of a purchase, in bytes": (444,),
}


@pytest.mark.parametrize(
    ("write", "wanted"), list(zip(WRITES, ONE_ROW, strict=True)), ids=[each.name for each in WRITES]
)
def test_each_write_is_counted(write, wanted):
    assert on_one_row(write) == Counted(*wanted)
    assert on_rows(write)[1:] == (1, 1)


@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.name)
def test_the_library_counts_as_many_rounds(write):
    schema, filling = write.scene
    driver = requests.RoundDriver(schema)
    with connect("memory://?span=row", schema, workers=0) as db:
        for act in [*filling(), write.act]:
            trace = Trace()
            db._driver.run(act(db.operations), trace)
            driver.count(act)
        assert (trace.requests, trace.rounds) == (len(driver.made), max(number for number, _asked in driver.made))


def test_the_command_prints_the_table_and_every_goal_is_reached(capsys):
    found = requests.table()
    assert cli.main(["requests"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 + len(found)
    assert "11/3/4" in shown[2]
    assert [each.name for each in found if not each.is_reached] == []
    assert {each.name: tuple(each.found) for each in found if each.name in OTHERS} == OTHERS


def test_a_line_knows_whether_its_goal_is_reached():
    assert not requests.Line("write", (2, 1), (2, 2, 5)).is_reached
    assert requests.Line("write", (2, 2), (2, 2, 5)).is_reached


def test_writers_of_few_rows_meet_each_other(monkeypatch):
    monkeypatch.setattr(contention, "SHARDS", 2)
    assert Contention(once=False).retries() > 0.01
    assert Contention(once=True).retries() > 0.3
