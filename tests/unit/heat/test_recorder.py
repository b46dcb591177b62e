"""Heat says which keys programs request and by which verbs; where it is off, nothing is asked or recorded."""

import inspect
import itertools
import os
import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, count
from oneread.database.fast_path import through
from oneread.errors import UsageError
from oneread.heat import recorder as heat_recorder
from oneread.heat import rows
from oneread.heat.axis import measure_axes
from oneread.heat.map import total
from oneread.heat.recorder import HeatRecorder, RecordedCall
from oneread.heat.rows import MINUTE, HeatFolding, has_heat, keep_days, read_heat
from oneread.plans.progress import no_progress
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from tests.stores import KINDS, make_url
from tests.unit.database.faces import FACES
from tests.unit.heat.observed import EVER, Observed, sums

START = int(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp() * 1000)


class Vote(Model[int]):
    number: Key[int]
    town: str


class VotesOfTown(Aggregate[Vote]):
    town: str = by(Vote.town)
    votes: int = count()


class ByTown(Index[Vote]):
    town: str = by(Vote.town)


SCHEMA = Schema(Vote, VotesOfTown, ByTown)


def use(db):
    """A bit of everything."""
    for number in range(70):
        db.save(Vote(number=number, town="ab"[number % 2]))
    db.get_many(Vote, [(1,), (2,), (999,)])
    db.patch(Vote, 1, town="c")
    db.delete(Vote, 2)
    db.page(ByTown, "a", limit=3)
    db.page(ByTown, "nowhere")
    db.get(VotesOfTown, "a")
    assert db.find(Vote, 999) is None
    for call in (db.counter("x").add(1), db.counter("x").read()):
        if inspect.iscoroutine(call):
            db.runner.run(call)


@pytest.mark.parametrize("face", FACES)
def test_all_that_is_requested_is_counted_exactly(url, face):
    seen = Observed()
    db = FACES[face](url, SCHEMA, workers=0, observers=(seen,), heat=1.0)
    use(db)
    wanted = seen.amounts
    db.heat()
    assert sums(db) == wanted
    assert seen.trace.requests > 300
    db.close()


@pytest.mark.parametrize("face", FACES)
def test_the_map_says_what_is_hot_and_which_verbs_make_it(url, face):
    db = FACES[face](url, SCHEMA, workers=0, heat=1.0)
    for number in range(30):
        db.save(Vote(number=number, town="a"))
        db.find(Vote, 7)
    heat = db.heat(declared=Vote, operation="read", last=timedelta(minutes=10))
    assert {each.declared for each in heat.ranges} == {"Vote"}
    hottest, a_second = heat.hottest(1)[0]
    assert hottest.first == "7"
    assert a_second * 600 >= 30
    causes = heat.causes([each.first for each in heat.ranges].index("7"))
    assert (causes[0].verb, causes[0].declared) == ("find", "Vote")
    assert causes[0].share > 0.9
    assert sum(each.share for each in causes) == pytest.approx(1)
    assert (heat.sampled, heat.processes, heat.to_scale, heat.step) == (1.0, 1, False, timedelta(minutes=1))
    (key, *_others) = db.hot_keys(Vote)
    assert (key.declared, key.key) == ("Vote", "7")
    assert key.at_least == key.a_second > 0
    (slow,) = db.slow_calls(limit=1)
    assert slow.seconds > 0
    assert slow.requests > 0
    assert slow.process.startswith(f"{os.getpid()}-")
    writes = db.heat(operation="write", measure="rows", ranges=1)
    assert {each.declared for each in writes.ranges} >= {"Vote", "ByTown", "VotesOfTown"}
    assert db.heat(measure="seconds").hottest(1)[0][1] > 0
    assert db.heat(measure="bytes").hottest(1)[0][1] > 0
    db.close()


def test_nothing_is_recorded_unless_it_is_wanted(url):
    with connect(url, SCHEMA, workers=0) as db:
        use(db)
        assert not {"get", "close", "counter"} & vars(db).keys()
        assert db.heat().ranges == ()
        assert db.hot_keys(Vote) == db.slow_calls() == []
    for heat in (0, 0.0, None):
        with connect(url, SCHEMA, workers=0, heat=heat) as db:
            assert db.operations.heat is None


def test_single_keys_are_not_stored_unless_they_may_be(url):
    with connect(url, SCHEMA, workers=0, heat=1.0, heat_keys=False) as db:
        use(db)
        assert db.heat().ranges
        assert db.hot_keys(Vote) == []


def test_a_program_that_does_nothing_writes_nothing(url):
    seen = []
    with connect(url, SCHEMA, workers=0, heat=1.0, observers=(lambda request, _answer: seen.append(request),)) as db:
        db.heat()
    assert not [each for each in seen if isinstance(each, Mutate | CheckAndMutate)]


def test_verify_knows_the_rows(url):
    with connect(url, SCHEMA, workers=0, heat=1.0) as db:
        use(db)
        db.heat()
        db.run(measure_axes(None, no_progress))
        assert db.verify().faults == ()


def test_counted_rows_make_ranges_of_equally_many(url):
    with connect(url, SCHEMA, workers=0, heat=1.0) as db:
        for number in range(200):
            db.save(Vote(number=number, town="a"))
        assert not db.heat().to_scale
        assert db.run(measure_axes(None, no_progress)) >= 401
        for number in range(200):
            db.get(Vote, number)
        heat = db.heat(declared=Vote, ranges=4)
        assert heat.to_scale
        assert [each.share for each in heat.ranges] == pytest.approx([0.25] * 4, abs=0.02)


@pytest.mark.parametrize(
    "options",
    [
        {"last": timedelta(0)},
        {"last": timedelta(days=15)},
        {"last": 3},
        {"until": datetime(2026, 11, 29)},
        {"operation": "delete"},
        {"measure": "cpu"},
        {"ranges": 0},
        {"ranges": True},
    ],
)
def test_wrong_options_are_refused(options):
    with connect("memory://", SCHEMA) as db, pytest.raises(UsageError):
        db.heat(**options)


def test_wrong_arguments_of_the_others_are_refused():
    with connect("memory://", SCHEMA) as db:
        for wrong in (lambda: db.hot_keys("Vote"), lambda: db.hot_keys(Vote, limit=0), lambda: db.slow_calls(limit=0)):
            with pytest.raises(UsageError):
                wrong()


@pytest.mark.parametrize("heat", [-0.1, 1.1, "all", True, float("nan")])
def test_a_share_is_from_0_to_1(heat):
    with pytest.raises(UsageError):
        connect("memory://", SCHEMA, heat=heat)
    with pytest.raises(UsageError):
        connect("memory://", SCHEMA, heat_keys=1)


class Stopped:
    """A recorder without its thread, and a clock that is set by hand."""

    def __init__(self, url, monkeypatch, share=1.0, **options):
        self.now, self.seconds = START, 0.0
        self.db = connect(url, SCHEMA, workers=0, clock=lambda: self.now, **options)
        monkeypatch.setattr(heat_recorder, "perf_counter", lambda: self.seconds)
        self.recorder = self.db.operations.heat = HeatRecorder(self.db, share, through)

    def fold(self):
        """Adds up all that is old enough; how many rows that made."""
        job = HeatFolding(self.db.operations.committer)
        return sum(1 for _ in itertools.takewhile(bool, (self.db.run(job.step()) for _ in itertools.count())))

    def levels(self):
        found = self.db.run(Scan("system", RowRange(b"heat:", b"heat;"), 10_000).__iter__())
        return "".join(chr(key[5]) for key, _row in found)


def test_what_a_window_sees_counts_for_the_time_between_windows(url, monkeypatch):
    at = Stopped(url, monkeypatch, 0.01)
    at.recorder._length = 1.0
    at.db.save(Vote(number=1, town="a"))
    at.recorder.flush()
    for _ in range(4):
        at.db.find(Vote, 5)  # outside of windows: not seen
        at.seconds += 0.75
        at.recorder.open_window()
        at.db.find(Vote, 1)
        at.seconds += 0.25
        at.recorder.end_window()
        at.recorder._count()
    at.recorder.flush()
    reads = {key.first: each for key, each in total(at.db.run(read_heat(0, EVER))).items() if key.verb == "find"}
    assert [each.requests for each in reads.values()] == [16]
    assert [each.rows for each in reads.values()] == [16]
    assert at.db.heat().sampled == 0.25
    at.db.close()


class Busy:
    """A program that does nothing but read, with a clock by hand: a recorded call takes three times as long."""

    def __init__(self, at):
        self.at = at
        self.calls = 0
        at.recorder._sleep = lambda seconds: self.run(seconds + 0.004)  # the thread is late

    def run(self, seconds):
        """Calls until so many seconds are over."""
        until = self.at.seconds + seconds
        while self.at.seconds < until:
            self.calls += 1
            recorded = self.at.recorder._opened is not None
            self.at.db.find(Vote, 5)
            self.at.seconds += 30e-6 if recorded else 10e-6


@pytest.mark.parametrize("counts", [True, False])
def test_calls_that_are_slower_while_they_are_recorded_count_for_more(monkeypatch, counts):
    at = Stopped("memory://", monkeypatch, 0.05)
    busy = Busy(at)
    monkeypatch.setattr(heat_recorder, "FEWEST", 500 if counts else 1 << 30)
    at.recorder._count()
    for _ in range(6):
        busy.run(0.1)
        at.recorder._sample()
        at.recorder._count()
    assert not {"find", "get"} & vars(at.db).keys()
    at.recorder.flush()
    (found,) = total(at.db.run(read_heat(0, EVER))).values()
    assert found.requests == pytest.approx(busy.calls * (1 if counts else 0.35), rel=0.05)
    at.db.close()


@pytest.mark.parametrize("face", FACES)
def test_calls_are_counted_on_either_face_and_below_telemetry(url, face, caplog):
    caplog.set_level("DEBUG", "oneread")
    db = FACES[face](url, SCHEMA, workers=0, heat=1.0, telemetry=True)
    recorder = db.operations.heat
    caplog.clear()
    vars(db.db).update(recorder._counting_on)
    db.save(Vote(number=1, town="a"))
    db.exists(Vote, 1)
    db.page(ByTown, "a")
    assert len(recorder._called) == 3
    assert [each.message.partition(":")[0] for each in caplog.records][:3] == ["save Vote", "find Vote", "page ByTown"]
    recorder._take_off()
    db.close()


def test_a_child_that_is_forked_while_calls_are_counted_counts_none(url, monkeypatch):
    at = Stopped(url, monkeypatch, 0.5)
    vars(at.db).update(at.recorder._counting_on)
    at.db.find(Vote, 1)
    at.recorder._stopping.set()  # there is no thread to start again
    at.recorder.after_fork()
    at.db.find(Vote, 1)
    assert not at.recorder._called
    at.db.close()


def test_a_call_that_began_in_a_window_is_recorded_to_its_end(url, monkeypatch):
    at = Stopped(url, monkeypatch, 0.5)
    at.recorder.open_window()
    kept = at.db.counter("x")

    def end(_request, _answer):
        at.recorder.end_window()

    at.recorder._made._state["_observers"] = (end,)
    at.db.save(Vote(number=1, town="a"))
    assert "save" not in vars(at.db)
    kept.add(1)  # outside of the window: not seen
    at.recorder._count()
    assert {key.verb for key in at.recorder._counts.cells} == {"save"}
    assert sum(each.rows for each in at.recorder._counts.cells.values()) > 3
    at.db.close()


def test_of_verbs_that_last_what_they_request_within_windows_is_recorded(url, monkeypatch):
    at = Stopped(url, monkeypatch, 0.5)
    vars(at.db).update(at.recorder._passing)
    at.recorder._length = 1.0
    with at.db.bulk() as bulk:
        bulk.save(Vote(number=1, town="a"))
        bulk.flush()
        at.recorder._count()
        assert not at.recorder._counts.cells
        at.recorder.open_window()
        bulk.save(Vote(number=2, town="a"))
        bulk.flush()
        at.recorder._count()
        recorded = at.recorder._counts.cells
        assert {(key.verb, key.declared) for key in recorded} == {("bulk", "")}
        at.seconds += 2.0  # the window is over, but the thread has not ended it
        bulk.save(Vote(number=3, town="a"))
        bulk.flush()
        at.recorder._count()
        assert at.recorder._counts.cells == recorded
    at.db.close()


def test_a_window_over_the_end_of_a_minute_is_divided(url, monkeypatch):
    at = Stopped(url, monkeypatch, 0.5)
    at.recorder._length = 10.0
    at.recorder.open_window()
    at.recorder._count()
    at.seconds, at.now = 4.0, at.now + MINUTE
    at.recorder._count()
    at.seconds = 6.0
    at.recorder.end_window()
    assert at.recorder._open_seconds == 2.0
    at.db.close()


def test_a_window_ends_in_time_where_its_thread_is_late(url, monkeypatch):
    at = Stopped(url, monkeypatch, 0.5)
    at.recorder.open_window()
    at.db.find(Vote, 1)
    at.seconds += 1.0
    at.db.find(Vote, 2)  # the verbs are still on
    at.recorder.end_window()
    at.recorder._count()
    assert [each.requests for each in at.recorder._counts.cells.values()] == [1]
    assert at.recorder._open_seconds == heat_recorder.LONGEST_WINDOW
    at.db.close()


@pytest.mark.parametrize("face", FACES)
def test_the_fast_path_is_recorded_as_plans_are(new_url, face):
    """With an observer there is no fast path; a plan also reads the version of an entity, which is 8 bytes."""
    found = []
    for observers in ((), (lambda _request, _answer: None,)):
        db = FACES[face](new_url(), SCHEMA, workers=0, heat=1.0, observers=observers)
        use(db)
        for verb in (lambda: db.find(Vote, 3), lambda: db.page(ByTown, "b", limit=2, backward=True)):  # noqa: B023 - called at once
            verb()
        db.heat()
        cells = total(db.run(read_heat(0, EVER))).items()
        reads = {"get", "find", "page", "get_many"}
        found.append({key: each._replace(microseconds=0, bytes=0) for key, each in cells if key.verb in reads})
        db.close()
    assert found[0] == found[1]
    assert {key.declared for key in found[0]} == {"Vote", "ByTown", "VotesOfTown"}


def test_minutes_are_added_up_kept_and_removed(url, monkeypatch):
    at = Stopped(url, monkeypatch)
    at.recorder.open_window()
    for minute in range(25):
        at.now = START + minute * MINUTE
        at.recorder._count()
        at.db.find(Vote, 1)
    at.recorder.flush()
    whole = sums(at.db)
    assert at.levels() == "m" * 25
    at.now = START + 26 * MINUTE
    assert at.fold() == 16
    assert (at.levels(), sums(at.db)) == ("m" * 9 + "s" * 16, whole)
    at.now = START + (6 * 60 + 20) * MINUTE
    at.fold()
    assert (at.levels(), sums(at.db)) == ("s" * 5 + "t" * 2, whole)
    at.now += 24 * 60 * MINUTE
    at.fold()
    assert (at.levels(), sums(at.db)) == ("u", whole)
    assert at.db.verify().faults == ()
    at.now += 14 * 24 * 60 * MINUTE
    at.fold()
    assert at.levels() == ""
    at.recorder._opened = None
    at.db.close()


@pytest.mark.parametrize(("days", "left"), [(0, ""), (3, "u" * 3), (14, "u" * 10), (None, "u" * 10)])
def test_hours_are_kept_for_as_many_days_as_the_store_says(url, monkeypatch, days, left):
    at = Stopped(url, monkeypatch)
    if days is not None:
        at.db.run(keep_days(days))
        assert not at.db.run(has_heat())
    for hour in range(0, 5 * 24, 12):
        at.recorder.open_window()
        at.now = START + hour * 60 * MINUTE
        at.recorder._count()
        at.db.find(Vote, 1)
        at.recorder.end_window()
    at.recorder.flush()
    assert at.db.run(has_heat())
    at.now = START + (6 * 24 + 1) * 60 * MINUTE
    at.fold()
    assert at.levels() == "k" * (days is not None) + left
    assert at.db.verify().faults == ()
    at.db.close()


@pytest.mark.parametrize("damaged", [b"\xc1", b"\xa1x", b"\xff", b"\x63"])
def test_a_damaged_number_of_days_is_one_within_bounds(url, damaged):
    with connect(url, SCHEMA, workers=0) as db:
        db.run(Mutate("system", [RowMutation(rows.KEPT, {VALUE: Cell(damaged, START)})]).__iter__())
        assert db.run(rows._read_days()) == (0 if damaged == b"\xff" else 14)


def test_a_minute_of_more_processes_than_a_request_reads_is_added_up_whole(url, monkeypatch):
    at = Stopped(url, monkeypatch)
    monkeypatch.setattr(rows, "BATCH", 4)
    at.recorder.open_window()
    for _ in range(11):
        at.db.find(Vote, 1)
        at.recorder.flush()
        at.recorder._counts.reset()
        at.recorder._name_process()
    whole = sums(at.db)
    assert (at.levels(), whole[0]) == ("m" * 11, 11)
    at.now += 12 * MINUTE
    at.fold()
    assert (at.levels(), sums(at.db)) == ("s", whole)
    assert at.db.heat().processes == 11
    at.recorder._opened = None
    at.db.close()


def test_the_processes_of_a_minute_are_counted(url, monkeypatch):
    at = Stopped(url, monkeypatch)
    at.recorder.open_window()
    for _ in range(3):
        at.db.find(Vote, 1)
        at.recorder.flush()
        at.recorder._counts.reset()
        at.recorder._name_process()
    at.recorder.end_window()
    assert (at.levels(), at.db.heat().processes) == ("mmm", 3)
    at.now += 30 * MINUTE
    at.fold()
    assert (at.levels(), at.db.heat().processes, sums(at.db)[0]) == ("s", 3, 3)
    at.now += 7 * 60 * MINUTE
    at.fold()
    assert (at.levels(), at.db.heat(last=timedelta(days=1)).processes) == ("t", 3)
    at.db.close()


def test_a_sum_counts_once_where_its_parts_are_not_removed_yet(url, monkeypatch):
    """A worker that dies between the put of a sum and the removal of what it is of."""
    at = Stopped(url, monkeypatch)
    at.recorder.open_window()
    at.db.find(Vote, 1)
    at.recorder.flush()
    at.recorder.end_window()
    (stored,) = at.db.run(Scan("system", RowRange(b"heat:", b"heat;"), 10).__iter__())
    whole = sums(at.db)
    at.now += 30 * MINUTE
    at.fold()
    cells = at.db.run(Scan("system", RowRange(b"heat:", b"heat;"), 10).__iter__())
    assert (at.levels(), sums(at.db)) == ("s", whole)
    at.db.run(Mutate("system", [RowMutation(stored[0], {VALUE: Cell(stored[1][VALUE].value, at.now)})]).__iter__())
    assert (at.levels(), sums(at.db)) == ("ms", whole)
    at.fold()
    assert at.db.run(Scan("system", RowRange(b"heat:", b"heat;"), 10).__iter__()) == cells
    at.db.close()


def test_lost_swaps_are_counted_where_they_were_lost():
    meet = []

    def observe(request, _answer):
        if meet and isinstance(request, Read) and request.table == "counts":
            other.save(Vote(number=meet.pop(), town="a"))

    other = connect("memory://heat lost?span=row", SCHEMA, workers=0)
    with connect("memory://heat lost?span=row", SCHEMA, workers=0, heat=1.0, observers=(observe,)) as db:
        db.save(Vote(number=1, town="a"))
        meet.append(2)
        db.save(Vote(number=3, town="a"))
        lost = db.heat(operation="lost")
        assert [each.declared for each in lost.ranges] == ["VotesOfTown"]
        assert sum(map(sum, lost.cells)) * 60 == pytest.approx(1)
    other.close()


def test_what_the_worker_does_is_recorded(url):
    with connect(url, SCHEMA, workers=1, heat=1.0) as db:
        db.save(Vote(number=1, town="a"))
        db._worker._look()
        db._worker._step()
        db.heat()
        verbs = {key.verb for key in total(db.run(read_heat(0, EVER)))}
        assert verbs >= {"save", "look", "follow"}


@pytest.mark.parametrize("face", FACES)
def test_telemetry_stays_around_the_verbs(url, face, caplog):
    caplog.set_level("DEBUG", "oneread")
    db = FACES[face](url, SCHEMA, workers=0, heat=1.0, telemetry=True)
    recorder = db.operations.heat

    def spans(verb):
        caplog.clear()
        verb()
        return [each.message.partition(":")[0] for each in caplog.records]

    use(db)
    assert spans(lambda: db.find(Vote, 1)) == ["find Vote"]
    assert recorder._inbox or recorder._counts.cells
    recorder.end_window()
    recorder._inbox.clear()
    assert spans(lambda: db.find(Vote, 1)) == ["find Vote"]
    assert not recorder._inbox
    db.close()


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_closing_takes_all_off_and_leaves_no_thread(url, face, share):
    db = FACES[face](url, SCHEMA, workers=0, heat=share)
    for number in range(5):
        db.save(Vote(number=number, town="a"))
    inner = db.db
    db.close()
    assert not {"get", "save", "counter"} & vars(inner).keys()
    assert not [each for each in threading.enumerate() if each.name == "oneread-heat"]
    if face == "sync":
        db.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a socket that was being opened
def test_an_interrupt_in_a_recorded_call_leaves_the_verbs_right(url):
    def find_often(database):
        for _ in range(100):
            database.find(Vote, 1)

    def interrupt(_request, _answer):
        if armed:
            armed.clear()
            os.kill(os.getpid(), signal.SIGINT)

    armed = []
    with connect(url, SCHEMA, workers=0, heat=1.0, observers=(interrupt,)) as db:
        armed.append(1)
        with pytest.raises(KeyboardInterrupt):
            find_often(db)
        db.save(Vote(number=2, town="a"))
        assert db.get(Vote, 2).town == "a"
        assert db.heat().ranges
    assert "find" not in vars(db)


@pytest.mark.parametrize("kind", KINDS)
def test_the_child_of_a_fork_records_its_own(kind, tmp_path):
    with connect(make_url(kind, tmp_path), SCHEMA, workers=0, heat=1.0) as db:
        db.save(Vote(number=1, town="a"))
        recorder = db.operations.heat
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            recorder._count()
            is_new = not recorder._counts.cells and recorder._id[:4] == os.getpid().to_bytes(4, "big")
            runs = [each.name for each in threading.enumerate()].count("oneread-heat")
            os._exit(0 if is_new and runs == 1 and "get" in vars(db) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        db.heat()
        assert db.get(Vote, 1).town == "a"


def test_a_store_that_refuses_a_row_loses_a_minute_and_no_more(url, monkeypatch):
    at = Stopped(url, monkeypatch)
    at.recorder.open_window()
    at.db.find(Vote, 1)
    at.recorder._count()

    def fail(*_given):
        raise OSError("full")

    with monkeypatch.context() as patch:
        patch.setattr(at.recorder, "_store", fail)
        at.now += MINUTE
        with pytest.raises(OSError, match="full"):
            at.recorder._count()
    at.db.find(Vote, 2)
    at.recorder.flush()
    assert sum(each.requests for each in total(at.db.run(read_heat(0, EVER))).values()) == 1
    at.db.close()


def test_a_result_that_is_kept_keeps_nothing_that_was_recorded():
    call = RecordedCall("get", "Vote")
    call.note(Read("roots", [b"a"]), [None])
    assert len(call.end(0).touched) == 1
    assert call.end(0).touched == []
