"""Counters as their callers see them: values, tokens, windows, lists, and what each verb asks of the store."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone

import pytest

from oneread import Schema, connect
from oneread.counters import reading
from oneread.counters.rows import ALL
from oneread.counters.wanted import CounterRules
from oneread.errors import InvalidDeclaration, InvalidKey, InvalidQuery, InvalidValue
from oneread.store.requests import Scan
from tests.unit.counters.handles import SCHEMA, Nothing, handle, is_clean

HOUR, DAY = 3_600_000, 86_400_000
LATEST = datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))
"""An instant beyond the year 9999."""


def test_a_counter_is_made_by_its_first_add(face):
    votes = handle(face, "votes:42")
    assert votes.read() == 0
    assert votes.shards() == []
    assert face.counters() == []
    assert votes.add() is True
    assert votes.add(10) is True
    assert votes.add(-3) is True
    assert votes.read() == 8
    seen = votes.look()
    assert (seen.value, seen.raised, seen.lowered, seen.age, seen.add_only) == (8, 11, 3, 0.0, False)
    assert [each.name for each in face.counters()] == ["votes:42"]
    assert handle(face, "votes:4").read() == handle(face, "votes:421").read() == 0


def test_what_a_caller_does_with_an_entry_changes_no_counter(face):
    """A process remembers settings that it has decoded."""
    votes = handle(face, "votes", keep={"hour": 2})
    votes.add()
    for entry in (votes.settings(), votes.configure(shards=3), *face.counters()):
        entry.windows["day"] = 5
    assert votes.settings().windows == {"hour": 2}
    votes.add()
    assert face.counters()[0].windows == {"hour": 2}


def test_a_token_counts_once(face):
    votes, others = handle(face, "votes"), handle(face, "others")
    assert votes.add(5, once="request 1") is True
    assert votes.add(5, once="request 1") is False
    assert votes.add(7, once=b"request 1") is True, "bytes are another token than text"
    assert others.add(1, once="request 1") is True, "a token belongs to one counter"
    votes.configure(shards=1)
    assert votes.add(5, once="request 1") is False
    votes.configure(shards=256)
    assert votes.add(5, once="request 1") is False
    assert (votes.read(), others.read()) == (12, 1)


def test_an_add_that_was_counted_before_changes_no_settings(face):
    handle(face, "votes").add(1, once="a")
    assert handle(face, "votes", keep={"hour": 2}).add(1, once="a") is False
    assert handle(face, "votes").settings().windows == {}
    assert handle(face, "votes", keep={"hour": 2}).add(1, once="b") is True
    assert handle(face, "votes").settings().windows == {"hour": 2}
    assert [each.value for each in handle(face, "votes").windows("hour")] == [0, 1]


EXACT = {
    "read": lambda votes: votes.read(),
    "look": lambda votes: votes.look().value,
    "max_age=0": lambda votes: votes.read(max_age=0),
    "shards": lambda votes: sum(each.value for each in votes.shards()),
    "in a thread": lambda votes: in_a_thread(votes.read),
}
"""What reads a counter as it is now."""


def in_a_thread(call):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(call).result()


@pytest.mark.parametrize("exact", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("remembers", ["read", "look"])
def test_no_read_shows_less_than_one_before_it(face, exact, remembers):
    votes = handle(face, "votes", shards=3)

    def remembered():
        return votes.read(max_age=60) if remembers == "read" else votes.look(max_age=60).value

    seen = [remembered()]
    for _ in range(3):
        votes.add(400)
        seen += [remembered(), exact(votes), remembered()]
    assert seen == [0, 0, 400, 400, 400, 800, 800, 800, 1200, 1200]
    votes.delete()
    assert (exact(votes), remembered()) == (0, 0)


def test_what_each_verb_asks(face, asked):
    votes = handle(face, "votes", shards=1)

    def ask(call, *given, **named):
        asked.clear()
        call(*given, **named)
        return asked.copy()

    assert ask(votes.add) == ["Read 2", "Replace 2"]
    assert ask(votes.add) == ["Read 2", "Replace 1"]
    assert ask(votes.add, once="a") == ["Read 3", "Read 1", "Replace 3"]
    assert ask(votes.add, once="b") == ["Read 4", "Replace 2"]
    assert ask(votes.add, once="b") == ["Read 4"]
    assert ask(votes.read, max_age=60) == ["Scan 1"]
    assert ask(votes.read, max_age=60) == []
    assert ask(votes.read) == ["Scan 1"]
    assert ask(votes.look, max_age=60) == []
    assert ask(votes.shards) == ["Scan 1"]
    assert ask(votes.settings) == ["Read 1"]
    assert ask(votes.configure, shards=20) == ["Read 1", "Replace 1"]
    assert ask(face.counters) == ["Scan 1"]
    by_hour = handle(face, "views", shards=1, keep={"hour": 2, "day": 1})
    assert ask(by_hour.add) == ["Read 4", "Scan 0", "Scan 0", "Replace 4"]
    assert ask(by_hour.add) == ["Read 4", "Replace 3"]
    assert ask(by_hour.windows, "hour") == ["Read 1", "Scan 1"]
    now = datetime.fromtimestamp(1_700_000_000, UTC)
    assert ask(by_hour.add, at=now) == ["Read 4", "Replace 3"]
    assert ask(by_hour.add, at=now - timedelta(hours=1)) == ["Read 4", "Scan 1", "Scan 0", "Replace 3"]
    assert ask(by_hour.add, at=now - timedelta(days=9)) == ["Read 4", "Scan 1", "Scan 1", "Replace 1"]
    assert ask(by_hour.windows, "hour", until=now) == ["Read 1", "Scan 2", "Scan 1"]


def test_reads_ask_for_a_row_for_each_shard_that_exists(face, asked):
    votes = handle(face, "votes", shards=256)
    for _ in range(2000):
        votes.add()
    asked.clear()
    assert votes.read() == 2000
    rows = len(votes.shards())
    assert 200 < rows <= 256
    assert asked[0] == f"Scan {rows}"


def test_shards_are_raised_and_lowered_and_the_value_stays(face):
    votes = handle(face, "votes")
    for number in range(30):
        shards = (1, 256, 3, 20)[number % 4]
        assert votes.configure(shards=shards).shards == shards
        before = {each.number: each.value for each in votes.shards()}
        votes.add(1)
        after = {each.number: each.value for each in votes.shards()}
        (changed,) = [place for place, value in after.items() if before.get(place) != value]
        assert changed < shards
        assert votes.read() == number + 1


def test_windows_hold_what_was_added_in_them_and_expire(face, clock):
    views = handle(face, "views", keep={"hour": 3, "day": 2})
    start = clock.now // DAY * DAY
    for hour in range(30):
        clock.now = start + hour * HOUR
        views.add(hour)
    hours = views.windows("hour")
    assert [each.value for each in hours] == [27, 28, 29]
    assert [int(each.start.timestamp() * 1000) for each in hours] == [start + hour * HOUR for hour in (27, 28, 29)]
    assert [each.value for each in views.windows("hour", last=1)] == [29]
    assert [each.value for each in views.windows("day")] == [sum(range(24)), sum(range(24, 30))]
    assert views.read() == sum(range(30))
    clock.now += 2 * HOUR
    assert [each.value for each in views.windows("hour")] == [29, 0, 0], "expired windows are not shown"
    clock.now += 2 * DAY
    assert [each.value for each in views.windows("hour")] == [0, 0, 0]
    assert [each.value for each in views.windows("day")] == [0, 0]


def instant(milliseconds):
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def values(windows):
    return [each.value for each in windows]


def test_adds_count_in_the_windows_of_their_moment(face, clock):
    views = handle(face, "views", keep={"hour": 3, "day": 2})
    start = clock.now // DAY * DAY
    clock.now = start + 12 * HOUR
    assert views.add(1) is True
    assert views.add(20, at=instant(start + 11 * HOUR)) is True
    assert views.add(300, at=instant(start + 11 * HOUR - 1)) is True
    assert views.add(4000, at=instant(start + 10 * HOUR - 1)) is True, "expired, so only the value counts it"
    assert views.add(5, at=instant(start - 1).astimezone(timezone(timedelta(hours=9)))) is True
    assert values(views.windows("hour")) == [300, 20, 1]
    assert values(views.windows("day")) == [5, 4321]
    assert views.read() == 4326
    assert views.add(7, at=instant(start + 12 * HOUR), once="a") is True
    assert views.add(7, at=instant(start), once="a") is False, "a token is of the counter, whatever the moment"
    assert values(views.windows("hour")) == [300, 20, 8]
    assert is_clean(face)


def test_a_log_of_last_year_is_read_by_its_own_time(face, clock):
    began = clock.now - 365 * DAY
    began -= began % DAY
    for name, hours in (("forwards", range(30)), ("backwards", range(29, -1, -1))):
        views = handle(face, name, shards=1, keep={"hour": 4})
        for hour in hours:
            views.add(hour, at=instant(began + hour * HOUR))
        assert views.read() == sum(range(30))
        assert values(views.windows("hour")) == [0, 0, 0, 0], "nothing was counted in the last hours"
        end = instant(began + 30 * HOUR)
        seen = views.windows("hour", until=end)
        assert (values(seen), seen[-1].start) == ([26, 27, 28, 29], end - timedelta(hours=1))
        assert values(views.windows("hour", until=end + timedelta(milliseconds=1))) == [27, 28, 29, 0]
        assert values(views.windows("hour", until=end, last=2)) == [28, 29]
        assert values(views.windows("hour", until=end - timedelta(hours=2))) == [26, 27], "others have expired"
        assert views.windows("hour", until=instant(began)) == views.windows("hour", until=instant(0)) == []
        views.add(1)
        assert values(views.windows("hour")) == [0, 0, 0, 1]
        assert views.windows("hour", until=end) == [], "the hours of last year have expired now"
    assert values(handle(face, "none", keep={"hour": 2}).windows("hour", until=instant(began))) == [0, 0]


def test_a_moment_ahead_of_the_clock_removes_nothing_that_the_clock_keeps(face, clock):
    views = handle(face, "views", keep={"hour": 3})
    clock.now = now = clock.now // HOUR * HOUR
    for hour in range(3):
        clock.now = now + hour * HOUR
        views.add(hour + 1)
    views.add(100, at=instant(clock.now + DAY))
    with pytest.raises(InvalidValue, match="more than a day ahead of the clock"):
        views.add(1000, at=instant(clock.now + DAY + 1))
    assert views.read() == 106
    assert values(views.windows("hour")) == values(views.windows("hour", until=instant(clock.now + 1))) == [1, 2, 3]
    views.add(10, at=instant(now))
    assert values(views.windows("hour")) == [11, 2, 3]
    clock.now += DAY
    assert values(views.windows("hour")) == [0, 0, 100]
    views.configure(keep={"minute": 1})
    views.configure(keep={"hour": 3})
    assert values(handle(face, "views").windows("hour")) == [0, 0, 0], "those ahead of the clock are removed, too"


def rows(db):
    return db.run(Scan("counts", ALL, 10_000).__iter__())


def test_expired_windows_are_removed_by_later_adds(url, clock):
    with connect(url, SCHEMA, clock=clock) as db:
        views = db.counter("views", shards=1, keep={"minute": 5})
        for _ in range(100):
            views.add()
            clock.now += 60_000
        assert len(rows(db)) == 2 + 5
        clock.now += 100 * DAY
        views.add()
        assert len(rows(db)) == 2 + 1
        views.configure(keep={"hour": 1})
        assert len(rows(db)) == 2
        views.add()  # the handle declares minutes
        assert views.settings().windows == {"minute": 5, "hour": 1}
        assert db.counter("views").windows("minute")[-1].value == 1


def test_settings_that_are_stored_win_over_declared_ones(face):
    handle(face, "votes", shards=2, keep={"day": 7}).add()
    assert handle(face, "votes", shards=9, keep={"day": 3}).settings().shards == 2
    handle(face, "votes", shards=9, keep={"day": 3, "hour": 4}).add()
    settings = handle(face, "votes").settings()
    assert (settings.shards, settings.windows) == (2, {"hour": 4, "day": 7})


def test_lists_of_counters(face):
    for name in ("views:1", "votes:1", "votes:2", "votes:3", "vote", "\0", "zä"):
        handle(face, name).add()
    names = [each.name for each in face.counters()]
    assert names == sorted(names)
    assert len(names) == 7
    assert [each.name for each in face.counters("votes:")] == ["votes:1", "votes:2", "votes:3"]
    assert [each.name for each in face.counters("vote", limit=2)] == ["vote", "votes:1"]
    assert [each.name for each in face.counters("vote", after="votes:1")] == ["votes:2", "votes:3"]


def test_a_list_has_all_counters_in_bounded_requests(face, asked, monkeypatch):
    for number in range(101):
        handle(face, f"votes:{number:03}").add()
    assert [each.name for each in face.counters("votes:")] == [f"votes:{number:03}" for number in range(101)]
    monkeypatch.setattr(reading, "LISTED", 40)
    for limit, scans in {None: 3, 101: 3, 200: 3, 81: 3, 80: 2, 41: 2, 40: 1, 1: 1}.items():
        asked.clear()
        assert len(face.counters(limit=limit)) == (101 if limit is None else min(limit, 101))
        assert len(asked) == scans
    asked.clear()
    assert len(face.counters(after="votes:020")) == 80
    assert asked == ["Scan 40", "Scan 40", "Scan 0"]


def test_the_rules_of_a_schema(url):
    with connect(url, Schema(Nothing, counters=CounterRules(shards=2, once_for=86_400))) as db:
        db.counter("votes").add(1, once="a")
        assert db.counter("votes").settings().shards == 2


WRONG = [
    (lambda face: face.db.counter(""), InvalidKey),
    (lambda face: face.db.counter(3), InvalidKey),
    (lambda face: face.db.counter(None), InvalidKey),
    (lambda face: face.db.counter("x" * 300), InvalidKey),
    (lambda face: face.db.counter("\0" * 150), InvalidKey),
    (lambda face: face.db.counter("\ud800"), InvalidKey),
    (lambda face: face.db.counter("a", shards=0), InvalidValue),
    (lambda face: face.db.counter("a", shards=257), InvalidValue),
    (lambda face: face.db.counter("a", shards=True), InvalidValue),
    (lambda face: face.db.counter("a", keep={"week": 1}), InvalidValue),
    (lambda face: face.db.counter("a", keep={"hour": 0}), InvalidValue),
    (lambda face: face.db.counter("a", keep={"hour": 1001}), InvalidValue),
    (lambda face: face.db.counter("a", keep="hour"), InvalidValue),
    (lambda face: handle(face, "a").add(1.0), InvalidValue),
    (lambda face: handle(face, "a").add(True), InvalidValue),
    (lambda face: handle(face, "a").add(None), InvalidValue),
    (lambda face: handle(face, "a").add(2**63), InvalidValue),
    (lambda face: handle(face, "a").add(-(2**63) - 1), InvalidValue),
    (lambda face: handle(face, "a").add(once=""), InvalidValue),
    (lambda face: handle(face, "a").add(once=7), InvalidValue),
    (lambda face: handle(face, "a").add(once="x" * 201), InvalidValue),
    (lambda face: handle(face, "a").add(at=datetime(2024, 1, 1)), InvalidValue),
    (lambda face: handle(face, "a").add(at=1_700_000_000), InvalidValue),
    (lambda face: handle(face, "a").add(at="2024-01-01T00:00:00Z"), InvalidValue),
    (lambda face: handle(face, "a").add(at=instant(0).date()), InvalidValue),
    (lambda face: handle(face, "a").add(at=instant(-1)), InvalidValue),
    (lambda face: handle(face, "a").add(at=datetime.max.replace(tzinfo=UTC)), InvalidValue),
    (lambda face: handle(face, "a", keep={"day": 1}).windows("day", until=datetime(2024, 1, 1)), InvalidValue),
    (lambda face: handle(face, "a", keep={"day": 1}).windows("day", until=5), InvalidValue),
    (lambda face: handle(face, "a", keep={"day": 1}).windows("day", until=instant(-1)), InvalidValue),
    (lambda face: handle(face, "a", keep={"day": 1}).windows("day", until=LATEST), InvalidValue),
    (lambda face: handle(face, "a").windows("day", until=instant(0)), InvalidQuery),
    (lambda face: handle(face, "a").read(max_age=-1), InvalidValue),
    (lambda face: handle(face, "a").read(max_age="60"), InvalidValue),
    (lambda face: handle(face, "a").read(max_age=float("nan")), InvalidValue),
    (lambda face: handle(face, "a").look(max_age=True), InvalidValue),
    (lambda face: handle(face, "a").windows("week"), InvalidValue),
    (lambda face: handle(face, "a").windows([]), InvalidValue),
    (lambda face: handle(face, "a").windows("hour"), InvalidQuery),
    (lambda face: handle(face, "a", keep={"hour": 1}).windows("hour", last=0), InvalidQuery),
    (lambda face: handle(face, "a").configure(shards="many"), InvalidValue),
    (lambda face: handle(face, "a").configure(keep=3), InvalidValue),
    (lambda face: face.counters(limit=0), InvalidQuery),
    (lambda face: face.counters(limit=True), InvalidQuery),
    (lambda face: face.counters(limit=2.0), InvalidQuery),
    (lambda face: face.counters(3), InvalidKey),
    (lambda face: face.counters(after=3), InvalidKey),
    (lambda face: face.db.counter_batch(seconds=0), InvalidValue),
    (lambda face: face.db.counter_batch(size=0), InvalidValue),
    (lambda _face: CounterRules(shards=0), InvalidDeclaration),
    (lambda _face: CounterRules(once_for=0), InvalidDeclaration),
    (lambda _face: CounterRules(once_for=float("inf")), InvalidDeclaration),
    (lambda _face: Schema(Nothing, counters=20), InvalidDeclaration),
]


def test_wrong_arguments_are_refused(face):
    for wrong, error in WRONG:
        with pytest.raises(error):
            wrong(face)
    assert face.counters() == []


def test_any_name_and_amount_is_kept(face):
    names = ["\0", "é\U0001f600", "a\0b", "x" * 190, " "]
    for number, name in enumerate(names):
        handle(face, name, shards=1).add(2**63 - 1)
        handle(face, name, shards=1).add(2**63 - 1)
        handle(face, name, shards=1).add(-(2**63))
        handle(face, name, shards=1).add(number)
        handle(face, name, shards=1).add(0)
    for number, name in enumerate(names):
        assert handle(face, name).read() == 2**63 - 2 + number
    assert is_clean(face)


def test_a_deleted_counter_begins_again_and_its_tokens_stay_counted(face):
    votes = handle(face, "votes", shards=3, keep={"hour": 4, "day": 2})
    votes.delete()
    assert face.counters() == []
    votes.add(5, once="request 1")
    votes.add(7)
    assert votes.read(max_age=60) == 12
    votes.delete()
    assert (votes.read(), votes.read(max_age=60), votes.shards(), face.counters()) == (0, 0, [], [])
    assert votes.add(5, once="request 1") is False, "a caller that tries again was counted before"
    assert votes.read() == 0
    assert votes.add(2, once="request 2") is True
    assert (votes.read(), [each.value for each in votes.windows("hour")]) == (2, [0, 0, 0, 2])
    assert is_clean(face)


def test_what_a_delete_asks(face, asked):
    votes = handle(face, "votes", shards=1, keep={"hour": 4})
    votes.add(5)
    asked.clear()
    votes.delete()
    assert asked == ["Read 1", "Replace 1", "Scan 1", "Scan 1", "Replace 2"]
    asked.clear()
    votes.delete()
    assert asked == ["Read 1", "Scan 0", "Scan 0"]
    assert not face.run(Scan("counts", ALL, 9).__iter__())
