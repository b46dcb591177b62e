"""`oneread counter`."""

from typing import Any

import msgspec
import pytest

from oneread import connect
from tests.cli import notes


class Shown(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: int
    raised: int
    lowered: int
    spread: int
    shards: list[dict[str, int]]
    windows: dict[str, list[dict[str, Any]]] = {}
    seconds: float = 0.0
    raised_per_second: float = 0.0
    lowered_per_second: float = 0.0


class Listed(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: int
    shards: int
    windows: dict[str, int]


@pytest.fixture
def counted(url):
    with connect(url, notes.NOTES, workers=0) as db:
        for number in range(30):
            db.counter("votes:42", keep={"hour": 3}).add(number)
        db.counter("votes:42").add(-5)
        db.counter("views:7", shards=1).add(1000)


@pytest.mark.usefixtures("counted")
def test_a_counter_is_shown_with_its_shards_and_windows(oneread):
    ran = oneread("counter", "votes:42", "--seconds", "0")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0] == "votes:42: 430"
    assert lines[1].startswith("435 added, 5 taken; ")
    shown = oneread("counter", "votes:42", "--seconds", "0", "--json").document(Shown)
    assert (shown.value, shown.raised, shown.lowered, shown.spread, shown.seconds) == (430, 435, 5, 20, 0)
    assert sum(each["value"] for each in shown.shards) == 430
    assert len(shown.windows["hour"]) == 3
    assert sum(each["value"] for each in shown.windows["hour"]) == 430


@pytest.mark.usefixtures("counted")
def test_a_counter_is_deleted_when_the_user_agrees(oneread, url):
    ran = oneread("counter", "votes:42", "--delete")
    assert ran.code == 2
    assert "give --yes as well" in ran.err
    ran = oneread("counter", "votes:42", "--delete", "--yes")
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "votes:42: 430"
    assert ran.out.splitlines()[-1] == "votes:42 deleted"
    with connect(url, notes.NOTES, workers=0) as db:
        assert [each.name for each in db.counters()] == ["views:7"]
        assert db.verify().clean
    assert oneread("counter", "votes:42", "--delete", "--yes").code == 2
    assert oneread("counter", "views:7", "--delete", "--yes", "--json").document(Shown).value == 1000
    ran = oneread("counter", "--delete")
    assert ran.code == 2
    assert "need the name of a counter" in ran.err


@pytest.mark.usefixtures("counted")
def test_a_rate_is_measured_over_the_seconds_asked_for(oneread):
    shown = oneread("counter", "views:7", "--seconds", "0.01", "--json").document(Shown)
    assert shown.seconds >= 0.01
    assert shown.raised_per_second == 0
    assert "0.0 added a second, over 0.0 s" in oneread("counter", "views:7", "--seconds", "0.01").out


@pytest.mark.usefixtures("counted")
def test_counters_are_listed(oneread):
    listed = oneread("counter", "--json").document(list[Listed])
    assert [(each.name, each.value, each.shards) for each in listed] == [("views:7", 1000, 1), ("votes:42", 430, 20)]
    assert listed[1].windows == {"hour": 3}
    ran = oneread("counter", "--prefix", "votes")
    assert [line.split() for line in ran.out.splitlines()][-1] == ["votes:42", "430", "20", "3", "hours"]
    assert "--limit" in oneread("counter", "--limit", "1").err


@pytest.mark.usefixtures("counted")
def test_shards_are_changed_and_the_value_stays(oneread):
    for shards in ("100", "1"):
        shown = oneread("counter", "votes:42", "--shards", shards, "--seconds", "0", "--json").document(Shown)
        assert (shown.value, shown.spread) == (430, int(shards))


@pytest.mark.usefixtures("counted")
def test_wrong_use_is_refused(oneread):
    failed = oneread("counter", "votes", "--seconds", "0", "--json")
    assert failed.code == 2
    assert failed.failure().message.startswith("nothing was ever added to this counter")
    assert oneread("counter", "votes", "--shards", "3").code == 2
    assert oneread("counter", "--shards", "3").code == 2
    assert oneread("counter", "votes:42", "--shards", "0").code == 2
    assert oneread("counter", "votes:42", "--seconds", "-1").code == 2
    assert oneread("verify").code == 0
    assert "counters: shards" in oneread("stat").out


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_list_says_where_there_are_more(oneread, as_json):
    ran = oneread("counter", "--limit", "1", *as_json)
    assert (ran.code, ran.err) == (0, "there are more counters: --limit shows them\n")
    ran = oneread("counter", "--limit", "2", *as_json)
    assert (ran.code, ran.err) == (0, "")
