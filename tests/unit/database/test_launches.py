"""Dark launch of functions: which side answers, what is compared, and what becomes of failures; both faces."""

import asyncio
import inspect
import logging
import os
import threading
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from time import perf_counter

import pytest

from oneread import Index, Key, Model, Schema, by, shown
from oneread.errors import Conflict, InvalidValue, NotFound, NotReady, Unavailable, UsageError
from oneread.launches import keeper
from oneread.launches.differences import LaunchDifference
from oneread.launches.options import LaunchGuard, LaunchOptions
from oneread.launches.sides import bucket_of, buckets_below, seed_of, sticky
from oneread.launches.state import LaunchState, LaunchWanted
from oneread.launches.tracks import LaunchTrack
from oneread.testing.clock import Clock
from tests.stores import KINDS, forget, make_url
from tests.unit.database.faces import FACES


class Song(Model[int]):
    number: Key[int]
    title: str
    genre: str


class ByGenre(Index[Song]):
    genre: str = by(Song.genre)
    title: str = shown(Song.title)


class OfGenre(Index[Song]):
    genre: str = by(Song.genre)
    title: str = shown(Song.title)
    number: int = shown(Song.number)


SCHEMA = Schema(Song, ByGenre, OfGenre)
AT_ONCE = LaunchOptions(settle=0.0, guard=None)
PAUSE = threading.Event()


def until(holds):
    for _ in range(3000):
        if holds():
            return
        PAUSE.wait(0.01)
    raise AssertionError("it never came")


class Launched:
    """A launch of either face, called in the same way; `calls` lists which side was called with what."""

    def __init__(self, face, old, new, **options):
        self.face = face
        self.calls = []
        self.is_async = not isinstance(face, FACES["sync"])
        options = {"key": lambda given: given} | options
        self.launch = face.db.launch("top", old=self._side("old", old), new=self._side("new", new), **options)
        self.verbs = face.db.launches

    def _side(self, name, function):
        def run(given):
            self.calls.append((name, given))
            return function(given) if callable(function) else function

        async def run_async(given):
            found = run(given)
            return await found if inspect.isawaitable(found) else found

        return run_async if self.is_async else run

    def __call__(self, given):
        return self.run(self.launch, given)

    def run(self, function, *given, **named):
        found = function(*given, **named)
        return self.face.runner.run(found, context=copy_context()) if self.is_async else found

    def rest(self):
        """Lets tasks of the loop go on."""
        if self.is_async:
            self.face.runner.run(asyncio.sleep(0.01))

    def set(self, **wanted):
        return self.run(self.verbs.set, "top", **wanted)

    def report(self):
        self.rest()
        return self.run(self.verbs.report, "top")

    def differences(self, **named):
        return self.run(self.verbs.differences, "top", **named)


@pytest.fixture(params=FACES.values(), ids=FACES)
def face(request, url):
    opened = request.param(url, SCHEMA, workers=0)
    yield opened
    opened.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("oneread-launch")]


@pytest.fixture
def launch(face):
    def make(old, new, *, first=1, **options):
        launched = Launched(face, old, new, **options)
        launched(first)
        launched.set(options=AT_ONCE)
        return launched

    return make


def test_the_old_side_answers_and_the_new_one_is_not_called(launch):
    launched = launch("old", "new")
    assert [launched(key) for key in range(20)] == ["old"] * 20
    report = launched.report()
    assert (report.phase, report.reads, report.sides["old"].answered, report.compared) == ("shadow", 0, 21, 0)
    assert {name for name, _key in launched.calls} == {"old"}


def test_a_launch_is_stored_by_its_first_call(launch):
    launched = Launched(launch("old", "new").face, "old", "new")
    assert [each.name for each in launched.run(launched.verbs.all)] == ["top"]
    with pytest.raises(UsageError, match="no such launch") as caught:
        launched.run(launched.verbs.report, "other")
    assert caught.value.facts["known"] == ["top"]


def test_a_share_of_the_keys_is_answered_by_the_new_side(launch):
    launched = launch("old", "new")
    launched.set(reads=30)
    below, seed = buckets_below(30), seed_of("top")
    for key in range(300):
        assert launched(key) == ("new" if bucket_of(key, seed) < below else "old")
    launched.calls.clear()
    launched.set(reads=100)
    assert {launched(key) for key in range(50)} == {"new"}
    assert {name for name, _key in launched.calls} == {"new"}
    assert launched.report().phase == "live"


def test_one_person_sees_one_side(launch):
    launched = launch("old", "new")
    launched.set(reads=50)
    on = next(key for key in range(100) if bucket_of(key, seed_of("top")) < 5_000)
    off = next(key for key in range(100) if bucket_of(key, seed_of("top")) >= 5_000)
    with sticky(on):
        assert {launched(key) for key in range(20)} == {"new"}
    with sticky(off):
        assert {launched(key) for key in range(20)} == {"old"}
    launched.set(reads=100)
    with sticky(None):
        assert launched(1) == "old"


def test_shadowed_answers_are_compared_and_what_differs_at_both_looks_is_listed(launch):
    launched = launch(lambda key: [key, "a"], lambda key: [key, "b" if key == 7 else "a"])
    launched.set(shadow=100)
    for key in range(10):
        assert launched(key) == [key, "a"]
    until(lambda: launched.report().compared == 10)
    report = launched.report()
    assert (report.differ, report.settled, report.dropped, report.late) == ({"other value": 1}, 0, 0, 0)
    until(launched.differences)
    (found,) = launched.differences()
    assert (found.kind, found.key, found.verb) == ("other value", (7,), "run_async" if launched.is_async else "run")
    assert (found.old, found.new) == ({"result": [7, "a"]}, {"result": [7, "b"]})
    assert launched.differences(kind="missing") == []
    assert sum(report.sides["new"].latencies) >= 10


def test_what_differs_at_the_first_look_only_has_settled(launch):
    answers = iter(["late"])
    launched = launch("right", lambda _key: next(answers, "right"))
    launched.set(shadow=100)
    launched(1)
    until(lambda: launched.report().compared == 1)
    assert (launched.report().differ, launched.report().settled) == ({}, 1)
    assert launched.differences() == []


def test_pages_are_compared_row_by_row(face):
    for number in range(4):
        face.save(Song(number=number, title=f"{number}", genre="jazz"))
    face.save(Song(number=9, title="9", genre="rock"))
    face.drain()

    def new(genre):
        return face.db.page(OfGenre, "rock" if genre == "odd" else genre, limit=3)

    launched = Launched(face, lambda _genre: face.db.page(ByGenre, "jazz", limit=3), new)
    launched("jazz")
    launched.set(shadow=100, options=AT_ONCE)
    launched("jazz")
    assert [row.title for row in launched("odd")] == ["0", "1", "2"]
    until(lambda: launched.report().compared == 2)
    report = launched.report()
    assert report.differ == {"missing": 3, "extra": 1, "other end": 1}
    until(lambda: len(launched.differences()) == 5)
    missing = [each for each in launched.differences(kind="missing") if each.row == (1,)]
    assert [(each.place, each.old["title"], each.new) for each in missing] == [(1, "1", None)]
    assert report.sides["old"].requests == report.sides["new"].requests == 2


def test_checked_answers_of_the_new_side_are_compared(launch):
    launched = launch("old", "new")
    launched.set(reads=100, check=100)
    assert launched(3) == "new"
    until(lambda: launched.report().differ == {"other value": 1})


def test_equal_decides_for_results_that_are_not_pages(launch):
    launched = launch([1, 2], [2, 1], equal=lambda old, new: sorted(old) == sorted(new))
    launched.set(shadow=100)
    launched(1)
    until(lambda: launched.report().compared == 1)
    assert launched.report().differ == {}


def test_the_old_side_answers_once_where_the_new_one_fails(launch):
    def new(_key):
        raise Unavailable("the store did not answer")

    launched = launch("old", new)
    launched.set(reads=100, check=100)
    launched.calls.clear()
    assert launched(1) == "old"
    assert launched.calls == [("new", 1), ("old", 1)]
    report = launched.report()
    assert (report.sides["new"].failed, report.sides["old"].answered, report.compared) == (1, 2, 0)


def test_a_usage_error_of_the_side_that_answers_is_raised(launch):
    def new(key):
        raise NotFound("there is no such entity", key=key)

    launched = launch("old", new)
    launched.set(reads=100, check=100)
    with pytest.raises(NotFound):
        launched(1)
    until(launched.differences)
    assert launched.report().differ == {"failed": 1}
    (found,) = launched.differences()
    assert (found.old, found.new) == (None, {"error": "NotFound"})


def test_the_same_error_on_both_sides_is_nothing(launch):
    def absent(key):
        if key != 1:
            raise NotFound("there is no such entity", key=key)

    launched = launch(absent, absent)
    launched.set(shadow=100)
    with pytest.raises(NotFound):
        launched(2)
    until(lambda: launched.report().compared == 1)
    assert (launched.report().differ, launched.report().sides["new"].failed) == ({}, 0)


def test_a_new_side_that_cannot_be_read_is_not_asked_again(launch, caplog):
    def new(_key):
        raise NotReady("the view is still being built")

    launched = launch("old", new)
    launched.set(reads=100)
    launched.calls.clear()
    assert [launched(key) for key in range(5)] == ["old"] * 5
    assert launched.calls.count(("new", 0)) == len([name for name, _key in launched.calls if name == "new"]) == 1
    assert "the old side answers in this process" in caplog.text
    launched.set(reads=50)
    launched.set(reads=100)
    launched(1)
    assert ("new", 1) in launched.calls


@pytest.mark.parametrize("what", ["key", "equal"])
def test_a_function_of_the_user_that_raises_is_logged_once_and_the_old_side_answers(launch, what, caplog):
    def wrong(*_given):
        raise LookupError("wrong")

    launched = launch("old", "new", **{what: wrong})
    launched.set(**({"reads": 50} if what == "key" else {"shadow": 100}))
    with caplog.at_level(logging.ERROR):
        assert [launched(key) for key in range(3)] == ["old"] * 3
        until(lambda: launched.report().sides["new"].failed == 3)
    logged = [each.message[:33] for each in caplog.records if each.levelno == logging.ERROR]
    assert logged == ["a function of a launch has raised"]


@pytest.mark.parametrize("error", [RecursionError, SystemExit, KeyboardInterrupt, MemoryError])
def test_whatever_the_dark_side_raises_the_answer_is_given(launch, error):
    def new(_key):
        raise error

    launched = launch("old", new)
    launched.set(shadow=100)
    assert [launched(key) for key in range(3)] == ["old"] * 3
    until(lambda: launched.report().compared == 3)
    assert launched.report().differ == {"failed": 3}
    assert launched.report().sides["new"].failed == 3


def test_a_launch_inside_a_dark_read_compares_nothing(launch):
    inner = []

    def new(key):
        return inner[0](key)

    launched = launch("old", new)
    inner.append(launched.launch)
    launched.set(shadow=100)
    launched(1)
    until(lambda: launched.report().compared == 1)
    assert launched.report().sides["old"].answered == 2


def test_a_dark_look_has_a_budget(launch, face):
    face.save(Song(number=1, title="1", genre="jazz"))

    def new(_key):
        return face.db.together(*[lambda: face.db.page(ByGenre, "jazz")] * 3)

    launched = launch("old", new)
    launched.set(shadow=100, options=LaunchOptions(settle=0.0, guard=None, requests=2))
    launched(1)
    until(lambda: launched.report().dropped == 1)


def test_a_dark_look_that_takes_too_long_is_late_and_asks_for_nothing_more(launch, face):
    asked = []

    def new(_key):
        PAUSE.wait(0.1)
        asked.append(face.db.find(Song, 1))
        asked.append("answered")
        return asked[0]

    async def new_async(key):
        await asyncio.sleep(0.1)
        return new(key)

    is_async = not isinstance(face, FACES["sync"])
    launched = launch("old", new_async if is_async else new)
    launched.set(shadow=100, options=LaunchOptions(settle=0.0, guard=None, deadline=0.05))
    assert launched(1) == "old"
    if is_async:
        face.runner.run(asyncio.sleep(0.2))
    until(lambda: launched.report().late == 1)
    assert asked == []


def test_more_than_may_wait_are_dropped_and_no_answer_waits(launch, face):
    go = threading.Event()

    def new(_key):
        go.wait(30)
        return "old"

    async def new_async(_key):
        await asyncio.to_thread(go.wait, 30)
        return "old"

    launched = launch("old", new if isinstance(face, FACES["sync"]) else new_async)
    launched.set(shadow=100, options=LaunchOptions(settle=0.0, guard=None, in_flight=1, waiting=3))
    began = datetime.now(UTC)
    for key in range(20):
        assert launched(key) == "old"
    assert datetime.now(UTC) - began < timedelta(seconds=20)
    assert launched.report().dropped >= 15
    go.set()
    until(lambda: (report := launched.report()).compared + report.dropped == 20)


def test_a_change_that_another_program_was_faster_with_is_refused(launch, monkeypatch):
    launched = launch("old", "new")
    stored = launched.verbs._stored
    before = stored._state

    def state(name, **options):
        found = yield from before(name, **options)
        monkeypatch.setattr(stored, "_state", before)
        yield from stored.set(name, launched.wanted, "another")
        return found

    launched.wanted = LaunchWanted(reads=1)
    monkeypatch.setattr(stored, "_state", state)
    with pytest.raises(Conflict, match="another program changed this launch"):
        launched.set(reads=5)
    assert launched.report().reads == 1


def test_the_history_says_who_changed_what(launch):
    launched = launch("old", "new")
    launched.set(shadow=5, by="ada")
    launched.set(reads=5, check=10, by="bob")
    launched.run(launched.verbs.back, "top", why="too slow", by="ada")
    state = launched.face.db._launches.keeper.tracks["top"].state
    assert [(each.by, each.what, each.why) for each in state.changes[1:]] == [
        ("ada", "shadow 0 % -> 5 %", ""),
        ("bob", "reads 0 % -> 5 %, check 0 % -> 10 %", ""),
        ("ada", "reads 5 % -> 0 %", "too slow"),
    ]
    for number in range(60):
        launched.set(shadow=number % 2)
    assert len(launched.face.db._launches.keeper.tracks["top"].state.changes) == 50


def test_a_launch_is_finished_when_the_new_side_answers_all(launch):
    launched = launch("old", "new")
    launched.set(reads=99.99)
    with pytest.raises(UsageError, match="set reads to 100"):
        launched.run(launched.verbs.finish, "top")
    launched.set(reads=100, check=50)
    report = launched.run(launched.verbs.finish, "top")
    assert (report.phase, report.check) == ("finished", 0)
    launched.calls.clear()
    with sticky(None):
        assert {launched(key) for key in range(20)} == {"new"}
    assert {name for name, _key in launched.calls} == {"new"}
    with pytest.raises(UsageError, match="finished"):
        launched.set(reads=0)
    assert launched.run(launched.verbs.back, "top").phase == "finished"


def test_the_guard_takes_reads_back(launch, caplog):
    launched = launch("old", "new")
    guard = LaunchGuard(fewest=5, differ=0.5)
    launched.set(reads=100, check=100, options=LaunchOptions(settle=0.0, guard=guard))
    for key in range(20):
        assert launched(key) == "new"
    until(lambda: launched.report().taken_back)
    report = launched.report()
    assert report.taken_back.startswith("differ: ")
    assert (report.reads, report.phase) == (0, "shadow")
    assert launched(1) == "old"
    assert "reads go back to the old side" in caplog.text
    assert launched.set(reads=1).taken_back == ""


def test_the_guard_looks_at_what_all_programs_count(url, monkeypatch):
    monkeypatch.setattr(keeper, "_TOGETHER_SECONDS", 0.0)
    clock = Clock()
    programs = [FACES["sync"](url, SCHEMA, workers=0, clock=clock) for _ in range(3)]
    launched = [Launched(each, "old", broken) for each in programs]
    tracks = [each.db._launches.keeper.track("top") for each in programs]
    try:
        guard = LaunchGuard(fewest=10, failed=0.5, slower=None, differ=None)
        launched[0].set(reads=100, options=LaunchOptions(guard=guard))
        fails(launched[0], 4)  # before the minute of the change is over, which is not looked at
        programs[0].db._launches.keeper.wake()
        clock.tick(60)
        until(lambda: tracks[0].minute in (0, clock() // 60_000))
        for each, track in zip(launched, tracks, strict=True):
            track.adopt(tracks[0].state, perf_counter())
            assert each.report().taken_back == ""
            fails(each, 4)
            each.report()
        until(lambda: launched[0].report().taken_back)
        assert launched[2].report().taken_back == "failed: 12 of 12"
    finally:
        for each in programs:
            each.db.close()


def broken(_given):
    raise ValueError


def fails(launched, number):
    for _ in range(number):
        assert launched(1) == "old"


def test_states_of_other_programs_are_followed(url):
    with_state = FACES["sync"](url, SCHEMA, workers=0)
    other = FACES["sync"](url, SCHEMA, workers=0)
    try:
        first, second = Launched(with_state, "old", "new"), Launched(other, "old", "new")
        assert (first(1), second(1)) == ("old", "old")
        first.set(reads=100)
        track = other.db._launches.keeper.tracks["top"]
        track.due = track.read_at = float("-inf")  # as after a pause of more than five seconds
        assert second(1) == "new"
    finally:
        with_state.db.close()
        other.db.close()


def test_what_cannot_be_launched_is_refused(face):
    db = face.db
    with pytest.raises(InvalidValue, match="name of a launch"):
        db.launch("", old=len, new=len, key=len)
    for wrong in ("old", "new", "key", "equal"):
        with pytest.raises(UsageError, match="takes a"):
            db.launch("top", **{"old": len, "new": len, "key": len, "equal": None} | {wrong: 7})


def test_rows_of_launches_are_known(launch):
    launched = launch("old", "new")
    launched.set(shadow=100)
    launched(1)
    until(launched.differences)
    launched.report()
    assert launched.face.verify().clean


def test_sixteen_threads_and_each_answer_is_of_its_key(url):
    face = FACES["sync"](url, SCHEMA, workers=0)
    launched = Launched(face, lambda key: ("old", key), lambda key: ("new", key))
    launched(1)
    launched.set(reads=50, shadow=50, check=50, options=LaunchOptions(settle=0.0, guard=None, waiting=10_000))
    wrong = []

    def call(first):
        for key in range(first, first + 100):
            side = "new" if bucket_of(key, seed_of("top")) < 5_000 else "old"
            if launched(key) != (side, key):
                wrong.append(key)

    threads = [threading.Thread(target=call, args=(number * 100,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    report = launched.report()
    assert report.sides["old"].answered + report.sides["new"].answered == 1_601
    face.db.close()


def test_a_thousand_tasks_and_each_answer_is_of_its_key(url):
    face = FACES["async"](url, SCHEMA, workers=0)
    launched = Launched(face, lambda key: ("old", key), lambda key: ("new", key))
    launched(1)
    launched.set(reads=50, shadow=50, check=50, options=LaunchOptions(settle=0.0, guard=None))

    async def main():
        return await asyncio.gather(*[launched.launch(key) for key in range(1_000)])

    for key, (side, about) in enumerate(face.runner.run(main())):
        assert (side, about) == ("new" if bucket_of(key, seed_of("top")) < 5_000 else "old", key)
    face.close()


def test_nothing_is_left_where_a_function_hangs(url):
    face = FACES["sync"](url, SCHEMA, workers=0)
    go = threading.Event()
    launched = Launched(face, "old", lambda _key: go.wait(60))
    launched(1)
    launched.set(shadow=100, options=LaunchOptions(settle=0.0, in_flight=2, deadline=0.05, guard=None))
    for key in range(10):
        assert launched(key) == "old"
    dark = face.db._launches.dark
    until(lambda: dark.is_stuck)
    dropped = launched.report().dropped
    assert launched(1) == "old"
    assert launched.report().dropped == dropped + 1
    face.db.close()
    left = [each for each in threading.enumerate() if each.name.startswith("oneread-launch")]
    assert len(left) == 2
    assert all(each.daemon for each in left)
    go.set()
    for each in left:
        each.join(30)
        assert not each.is_alive()


@pytest.mark.parametrize("kind", KINDS)
def test_the_child_of_a_fork_counts_its_own_calls(kind, tmp_path):
    """Not on servers: gRPC may not answer in a child that was forked while another thread asked, as the keeper does."""
    url = make_url(kind, tmp_path)
    face = FACES["sync"](url, SCHEMA, workers=0)
    launched = Launched(face, "old", "new")
    launched(1)
    child = os.fork()
    if child == 0:
        track = face.db._launches.keeper.tracks["top"]
        track.due = 0.0
        answered = launched(2) == "old"
        until(lambda: track.tally.old.answered - track.written.old.answered <= 1)
        os._exit(0 if answered else 1)
    assert os.waitpid(child, 0)[1] == 0
    face.db.close()
    forget(url)


def test_the_bucket_that_is_the_percentage_is_on_the_old_side(launch):
    launched = launch("old", "new")
    bucket = bucket_of(7, seed_of("top"))
    launched.set(reads=bucket / 100)
    assert launched(7) == "old"
    launched.set(reads=(bucket + 1) / 100)
    assert launched(7) == "new"


def stored(face, number, row=1):
    keeper = face.db._launches.keeper
    keeper.add_differences(
        [
            LaunchDifference(
                launch="top", kind="missing", at=datetime.now(UTC), process="p", verb="top", row=(row, each)
            )
            for each in range(number)
        ]
    )
    return keeper


def test_ten_differences_a_second_are_stored(launch, monkeypatch):
    launched = launch("old", "new")
    keeper = launched.face.db._launches.keeper
    monkeypatch.setattr(keeper, "_tick", lambda: None)  # the thread leaves all to the test
    stored(launched.face, 40)
    keeper._storable = 10.0
    keeper._store_differences()
    assert len(launched.differences()) == 10
    keeper._store_differences()
    assert len(launched.differences()) == 10


def test_differences_that_are_too_many_are_removed_while_others_are_stored(launch, monkeypatch):
    launched = launch("old", "new")
    launched.set(options=LaunchOptions(keep=5))
    keeper = launched.face.db._launches.keeper
    monkeypatch.setattr(keeper, "_tick", lambda: None)
    stored(launched.face, 201)
    keeper._storable = 1_000.0
    keeper._store_differences()
    assert len(launched.differences(limit=1_000)) == 5


def test_a_state_that_cannot_be_read_for_a_minute_does_not_count():
    track = LaunchTrack("top")
    track.adopt(LaunchState(version=3, phase="live", reads=100.0, shadow=5.0), 1_000.0)
    assert track.is_new(1)
    assert not track.want(1_003.0)
    assert track.want(1_006.0), "the caller waits for a state that is older than programs may differ"
    assert track.is_new(1)
    track.want(1_061.0)
    assert (track.is_new(1), track.is_plain) == (False, True)
    track.adopt(LaunchState(version=2, reads=0.0), 1_062.0)
    assert track.is_new(1), "versions decide, not the order in which they are read"


def test_a_finished_launch_stays_so_while_its_state_cannot_be_read():
    track = LaunchTrack("top")
    track.adopt(LaunchState(version=3, phase="finished", reads=100.0), 1_000.0)
    track.want(2_000.0)
    assert track.is_new(1)


def test_an_error_of_the_store_in_the_dark_is_counted_and_not_compared(launch):
    def new(_key):
        raise Unavailable("the store did not answer")

    launched = launch("old", new)
    launched.set(shadow=100)
    launched(1)
    until(lambda: launched.report().sides["new"].failed == 1)
    assert (launched.report().compared, launched.report().differ) == (0, {})
