"""`oneread launch`: what operators see and change of launches."""

import threading

import msgspec
import pytest

from oneread import LaunchOptions, connect
from oneread.cli.program import COMMANDS
from oneread.evolution import writing_shares
from oneread.launches.reports import LaunchReport
from tests.cli import notes
from tests.unit.database import test_launched_views as views

PAUSE = threading.Event()


def until(holds):
    for _ in range(3000):
        if holds():
            return
        PAUSE.wait(0.01)
    raise AssertionError("it never came")


@pytest.fixture
def launched(url, oneread):
    """A store with a launch whose sides differ for one key."""
    with connect(url, notes.NOTES, workers=0) as db:
        top = db.launch("top", old=lambda key: [key], new=lambda key: [key if key != 7 else 0], key=lambda key: key)
        top(1)
        db.launches.set("top", shadow=100, options=LaunchOptions(settle=0.0, guard=None))
        for key in range(10):
            top(key)
        until(lambda: db.launches.report("top").compared == 10)
        until(lambda: db.launches.differences("top"))
    return oneread


def test_launches_are_listed(launched):
    ran = launched("launch")
    assert ran.code == 0, ran.err
    header, _line, row = ran.out.splitlines()
    assert header.split() == ["name", "phase", "writes", "shadow", "reads", "check", "compared", "differ"]
    assert row.split() == ["top", "shadow", "100", "%", "100", "%", "0", "%", "0", "%", "10", "1"]
    (report,) = launched("launch", "--json").document(list[LaunchReport])
    assert (report.name, report.compared) == ("top", 10)


def test_a_store_without_launches(oneread):
    ran = oneread("launch")
    assert (ran.code, "no program has called a launch" in ran.err) == (0, True)


def test_one_launch_is_shown(launched):
    ran = launched("launch", "show", "top")
    assert ran.code == 0, ran.err
    assert "top: shadow, writes 100 %, shadow 100 %, reads 0 %, check 0 %" in ran.out
    assert "compared 10; differences: other value 1; settled 0" in ran.out
    assert launched("launch", "show", "top", "--json").document(LaunchReport).name == "top"


def test_differences_are_shown(launched):
    ran = launched("launch", "diffs", "top")
    assert ran.code == 0, ran.err
    assert "other value  <lambda>(7)" in ran.out
    assert '"result": [7]' in ran.out
    assert '-> {"result": [0]}' in ran.out
    assert len(launched("launch", "diffs", "top", "--json").document(list[msgspec.Raw])) == 1
    none = launched("launch", "diffs", "top", "--kind", "missing")
    assert (none.code, "no differences are stored" in none.err) == (0, True)
    wrong = launched("launch", "diffs", "top", "--kind", "other")
    assert (wrong.code, "no such kind" in wrong.err) == (2, True)


def test_a_launch_is_changed_taken_back_and_finished(launched):
    ran = launched("launch", "set", "top", "--reads", "5", "--check", "10")
    assert ran.out.strip() == "top: reads 0 % -> 5 %, check 0 % -> 10 %; every program follows within 5 seconds"
    assert launched("launch", "set", "top", "--reads", "5").out.strip() == "top: nothing changed"
    ran = launched("launch", "back", "top", "--why", "a test")
    assert ran.out.strip() == "top: reads 5 % -> 0 %; every program follows within 5 seconds"
    ran = launched("launch", "finish", "top")
    assert (ran.code, "set reads to 100" in ran.err) == (2, True)
    assert launched("launch", "set", "top", "--reads", "100").code == 0
    ran = launched("launch", "finish", "top", "--json")
    assert ran.document(LaunchReport).phase == "finished"


def test_whole_lists_of_a_view_are_compared(bare, new_url):
    url = new_url()
    with connect(url, views.BEFORE, workers=0) as db:
        for each in views.events():
            db.save(each)
    connect(url, views.SCHEMA, workers=0).close()
    given = ["--schema", "tests.unit.database.test_launched_views:SCHEMA", "--db", url]
    ran = bare("launch", "compare", "HomeByScore", *given)
    assert (ran.code, "not built yet" in ran.err) == (1, True), ran
    assert bare("backfill", "--fence", *given).code == 0
    ran = bare("launch", "compare", "SumsOfGroups", *given)
    assert (ran.code, ran.out) == (0, "40 lists of 40 rows compared, 0 differ\n"), ran.err
    ran = bare("launch", "compare", "HomeByScore", "--pace", "1000", *given)
    assert (ran.code, ran.out.splitlines()[:2]) == (1, ["40 lists of 120 rows compared, 40 differ", "  g0"]), ran.err
    ran = bare("launch", "set", "SumsOfGroups", "--reads", "5", *given)
    assert ran.out.strip() == "SumsOfGroups: reads 0 % -> 5 %; every program follows within 5 seconds", ran.err


def test_a_view_is_written_for_a_share_and_stopped(bare, new_url, monkeypatch):
    monkeypatch.setattr(writing_shares, "UNREAD_SECONDS", 0.0)
    url = new_url()
    connect(url, views.SCHEMA, workers=0).close()
    given = ["--schema", "tests.unit.database.test_launched_views:SCHEMA", "--db", url]
    ran = bare("launch", "set", "HomeByScore", "--writes", "12.5", *given)
    assert ran.out.strip() == "HomeByScore: writes 100 % -> 12.5 %; every program follows within 5 seconds", ran.err
    ran = bare("launch", "set", "HomeByScore", "--reads", "1", *given)
    assert (ran.code, "set writes to 100, and run `oneread backfill`" in ran.err) == (2, True)
    ran = bare("launch", "stop", "HomeByScore", *given)
    assert ran.out.strip() == "HomeByScore: writes 12.5 % -> 0 %; every program follows within 5 seconds", ran.err
    assert bare("launch", *given).out.splitlines()[2].split()[:4] == ["HomeByScore", "stopped", "0", "%"]
    ran = bare("launch", "set", "HomeByScore", "--writes", "100", *given)
    assert "rows that are missing are added by `oneread backfill`" in ran.err
    assert bare("launch", "show", "HomeByScore", "--json", *given).document(LaunchReport).phase == "building"
    assert bare("backfill", "--fence", *given).code == 0
    assert bare("launch", "show", "HomeByScore", "--json", *given).document(LaunchReport).phase == "shadow"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pause", "top"], "no such action"),
        (["stop", "top"], "is of the launch of a view"),
        (["set", "top", "--writes", "50"], "is of the launch of a view"),
        (["show"], "name the launch"),
        (["show", "other"], "no such launch"),
        (["set", "top", "--reads", "101"], "expected a percentage"),
    ],
)
def test_what_is_wrong_is_said(launched, arguments, says):
    ran = launched("launch", *arguments)
    assert (ran.code, says in ran.err) == (2, True), ran


def test_the_command_is_listed():
    assert COMMANDS["launch"].section == "Run"
