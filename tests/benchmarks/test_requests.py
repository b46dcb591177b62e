"""The table of requests is counted, and is what tests/unit/transactions/test_row_commits.py counts."""

import pytest

from benchmarks import cli, requests
from benchmarks.requests import WRITES, Counted, on_one_row, on_rows
from benchmarks.workloads.shop_schema import SHOP
from oneread import connect
from oneread.plans.trace import Trace

ONE_ROW = [(2, 2, 2), (11, 3, 4), (9, 3, 4), (11, 5, 6), (9, 3, 4), (8, 3, 3), (114, 3, 12), (10, 3, 3)]


@pytest.mark.parametrize(
    ("write", "wanted"), list(zip(WRITES, ONE_ROW, strict=True)), ids=[each.name for each in WRITES]
)
def test_each_write_is_counted(write, wanted):
    assert on_one_row(write) == Counted(*wanted)
    assert on_rows(write)[1:] == (1, 1)


@pytest.mark.parametrize("write", WRITES, ids=lambda each: each.name)
def test_the_library_counts_as_many_rounds(write):
    driver = requests.RoundDriver()
    with connect("memory://?span=row", SHOP, workers=0) as db:
        for act in [*requests._filling(), write.act]:
            trace = Trace()
            db._driver.run(act(db.operations), trace)
            driver.count(act)
        assert (trace.requests, trace.rounds) == (len(driver.made), max(number for number, _asked in driver.made))


def test_the_command_prints_the_table(capsys):
    assert cli.main(["requests"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 1 + len(WRITES)
    assert "11/3/4" in shown[2]
