"""The report of long simulations: what it counts, and that the table of the documentation is its own."""

from pathlib import Path

import pytest

from tests.simulation import report

PAGE = Path(__file__).resolve().parents[2] / "docs/design/broken-rules.md"


def test_the_documentation_has_the_table():
    assert PAGE.read_text(encoding="utf-8").endswith(f"\n\n{report.table()}\n")


@pytest.mark.parametrize("name", report.WORLDS)
def test_histories_are_counted(name):
    met, wrong = report.histories(name, [2, 3])
    assert met["histories"] == 2
    assert met["fault: run"] > 100 or name in (
        "schemas",
        "building of feeds",
        "launches",
        "launches of all rows",
    )  # whose requests have no fates
    assert wrong == {}


def test_the_first_seed_that_finds_a_broken_rule_is_found():
    likely = list(report.WORLDS["entities"].rules.values())
    assert report.first_seed(("entities", likely.index(0)), 3) == 0
    assert report.first_seed(("entities", likely.index(0)), 0) is None
