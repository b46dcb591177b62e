"""For what a write waits on a store that changes one row at a time, and what it does when budget or time run out."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from oneread import Aggregate, Copy, Index, Key, Model, Schema, any_of, by, connect, count, shown
from oneread.costs.budgets import budget
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.errors import BudgetExceeded, Corrupt, InvalidCursor, OutcomeUnknown, Unavailable, UsageError
from oneread.plans import performer
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.transactions import completion, journal_recovery
from oneread.transactions.intents import JOURNAL, read_root
from oneread.transactions.tasks import TaskStepResult
from tests.unit.database.faces import FACES


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Thing(Model[int]):
    number: Key[int]
    maker: MadeBy
    color: str


class ThingsOfColor(Index[Thing]):
    color: str = by(Thing.color)
    maker: MadeBy = shown(Thing.maker)


class Colors(Aggregate[Thing]):
    color: str = by(Thing.color)
    things: int = count()


DECLARED = Schema(Maker, Thing, ThingsOfColor, Colors)


@pytest.fixture
def url():
    return f"memory://{uuid4()}?span=row"


@pytest.fixture
def db(url):
    with connect(url, DECLARED) as opened:
        opened.save(Maker(number=1, name="ada"))
        yield opened


@pytest.fixture(params=FACES.values(), ids=FACES)
def hasty(request, url, db):  # noqa: ARG001 - the database that has filled the store
    """A database whose writes return at their commit points, without a worker."""
    opened = request.param(url, DECLARED, wait="commit", workers=0)
    yield opened
    opened.close()


def thing(number=1, color="red"):
    return Thing(number=number, maker=MadeBy.of(1), color=color)


def numbers(page):
    return [row.source.key[0] for row in page]


# What a write leaves to the worker.


def test_a_write_returns_at_its_commit_point(hasty):
    saved = hasty.save(thing())
    assert hasty.get(Thing, 1) == saved
    assert numbers(hasty.page(ThingsOfColor, "red")) == []
    assert hasty.get(Colors, "red").things == 0
    assert hasty.tasks(saved)
    assert not hasty.done(hasty.tasks(saved))


def test_a_page_includes_ones_own_write(hasty):
    saved = hasty.save(thing())
    assert numbers(hasty.page(ThingsOfColor, "red", includes=saved)) == [1]
    assert hasty.done(hasty.tasks(saved))


def test_another_program_includes_a_write_by_its_token(hasty, db):
    token = hasty.tasks(hasty.save(thing())).token
    assert not db.tasks(token).done()
    assert numbers(db.page(ThingsOfColor, "red", includes=token)) == [1]
    assert db.tasks(token).done()
    assert db.get(Colors, "red").things == 1


def test_a_page_includes_what_was_deleted_since_and_written_again(hasty, db):
    token = hasty.tasks(hasty.save(thing())).token
    db.delete(Thing, 1)
    db.save(thing(color="blue"))
    assert numbers(db.page(ThingsOfColor, "red", includes=token)) == []
    assert numbers(db.page(ThingsOfColor, "blue", includes=token)) == [1]


def test_the_worker_applies_what_waits(hasty):
    saved = [hasty.save(thing(number)) for number in range(3)]
    assert hasty.drain() == 1
    assert numbers(hasty.page(ThingsOfColor, "red")) == [0, 1, 2]
    assert all(hasty.done(hasty.tasks(each)) for each in saved)
    assert hasty.get(Colors, "red").things == 3


@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_closing_applies_what_waits(db, url, face):
    opened = face(url, DECLARED, wait="commit", workers=0)
    opened.save(thing())
    opened.patch(Maker, 1, name="bea")
    opened.close()
    assert [row.maker.name for row in db.page(ThingsOfColor, "red")] == ["bea"]


def test_a_worker_does_it_by_itself(url):
    with connect(url, DECLARED, wait="commit", workers=1) as opened:
        opened.save(Maker(number=1, name="ada"))
        saved = opened.save(thing())
        opened.tasks(saved).wait()
        assert numbers(opened.page(ThingsOfColor, "red")) == [1]


def test_a_commit_that_another_thread_is_applying_is_not_done_yet(hasty):
    operations = hasty.db.operations
    hasty.drain()  # the next look at the journal comes later
    saved = hasty.save(thing())
    other = operations.committer.completion.apply_waiting()
    next(other)
    assert hasty.run(operations.drain_step(1)) is TaskStepResult.HELD
    other.close()
    assert numbers(hasty.page(ThingsOfColor, "red", includes=saved)) == [1]
    assert hasty.run(operations.drain_step(1)) is TaskStepResult.IDLE


def test_a_thread_that_was_interrupted_while_it_applied_keeps_no_other_waiting(hasty, monkeypatch):
    """A debugger or a traceback may keep its plan, so that it never ends; the commit is found in the journal."""
    committer = hasty.db.operations.committer
    saved = hasty.save(thing())
    interrupted = committer.completion.apply_waiting()
    next(interrupted)
    assert committer.completion.appliers
    later = committer.journal.clock() + journal_recovery.PATIENCE
    monkeypatch.setattr(committer.journal, "clock", lambda: later)
    assert not committer.completion.appliers
    assert numbers(hasty.page(ThingsOfColor, "red", includes=saved)) == [1]


@pytest.mark.parametrize("wait", ["commit", "views"])
def test_a_drain_ends_while_others_write_all_the_time(url, db, wait, monkeypatch):  # noqa: ARG001 - has filled the store
    """At each of its looks other commits are in the journal, and others wait to be applied."""
    with connect(url, DECLARED, wait=wait, workers=0) as opened, connect(url, DECLARED, workers=0) as other:
        committer, under_way = opened.operations.committer, []
        recover = committer.recovery.recover

        def recover_beside_others(*given, **named):
            number = len(under_way)
            for plan, asked in under_way[-1:]:  # the one that the look before has seen ends
                other.run(ending(plan, asked))
            plan = other.operations.save(thing(number), "save")
            asked = next(plan)
            while not (isinstance(asked, CheckAndMutate) and asked.table == "roots"):
                asked = plan.send(other.run(asked.__iter__()))
            under_way.append((plan, asked))
            opened.save(thing(1000 + number))
            return (yield from recover(*given, **named))

        def ending(plan, asked):
            while True:
                try:
                    asked = plan.send((yield asked))
                except StopIteration:
                    return

        monkeypatch.setattr(committer.recovery, "recover", recover_beside_others)
        opened.save(thing(2000))
        opened.drain()
        opened.run(opened.operations.outbox.finish_waiting())
        monkeypatch.undo()
        assert opened.get(Colors, "red").things >= len(under_way)
        for plan, asked in under_way[-1:]:
            other.run(ending(plan, asked))


@pytest.mark.usefixtures("busy_threads", "db")
def test_threads_that_apply_what_waits_share_it(url):
    """Each takes one when it has seen that there is one, but another thread may come in between."""
    with connect(url, DECLARED, wait="commit", workers=0) as opened, ThreadPoolExecutor(4) as pool:

        def drain_and_count(_number):
            opened.drain()
            return opened.get(Colors, "red").things

        for number in range(25):
            opened.save(thing(number))
            assert list(pool.map(drain_and_count, range(4))) == [number + 1] * 4


def test_so_many_wait_and_no_more(hasty, monkeypatch):
    monkeypatch.setattr(completion, "LATER", 2)
    saved = [hasty.save(thing(number)) for number in range(3)]
    assert [bool(hasty.tasks(each)) for each in saved] == [True, True, False]
    assert numbers(hasty.page(ThingsOfColor, "red")) == [2]


def test_the_next_commit_of_a_row_applies_the_one_before(hasty):
    hasty.save(thing())
    hasty.save(thing(color="blue"))
    assert numbers(hasty.page(ThingsOfColor, "red")) == [1]
    hasty.drain()
    assert numbers(hasty.page(ThingsOfColor, "red")) == []
    assert numbers(hasty.page(ThingsOfColor, "blue")) == [1]
    assert (hasty.get(Colors, "red").things, hasty.get(Colors, "blue").things) == (0, 1)


def test_what_another_program_has_applied_is_not_applied_again(db, url):
    """It may be long ago, and what was removed since may be purged: one look at the row, and only the marker goes."""
    asked = []
    with connect(
        url, DECLARED, wait="commit", workers=0, observers=(lambda request, _a: asked.append(request),)
    ) as late:
        token = late.tasks(late.save(thing())).token
        db.page(ThingsOfColor, "red", includes=token)
        asked.clear()
        late.operations.outbox._looked = float("inf")  # no look at the journal
        steps = [late.run(late.operations.drain_step(1)) for _ in range(2)]
        assert (steps, [type(each) for each in asked]) == (
            [TaskStepResult.DONE, TaskStepResult.IDLE],
            [Read, Mutate, Scan],
        )
        assert not late.run(Scan("system", JOURNAL, 1).__iter__())
    assert numbers(db.page(ThingsOfColor, "red")) == [1]


def test_what_derives_nothing_leaves_nothing(hasty):
    assert not hasty.tasks(hasty.save(Maker(number=2, name="eve")))


@pytest.mark.parametrize("declared", ["memory://", "memory://?span=row"])
def test_writes_wait_for_what_follows_unless_asked(declared):
    with connect(declared, DECLARED) as opened:
        opened.save(Maker(number=1, name="ada"))
        saved = opened.save(thing())
        assert not opened.tasks(saved)
        assert numbers(opened.page(ThingsOfColor, "red", includes=saved)) == [1]
        assert numbers(opened.page(ThingsOfColor, "red", includes=opened.tasks(saved).token)) == [1]


def test_a_store_that_spans_rows_has_nothing_to_leave(new_url):
    with connect(new_url(), DECLARED, wait="commit") as opened:
        opened.save(Maker(number=1, name="ada"))
        assert not opened.tasks(opened.save(thing()))
        assert numbers(opened.page(ThingsOfColor, "red")) == [1]


def test_wrong_waits_and_tokens_are_refused(hasty, url):
    with pytest.raises(UsageError, match="views or commit"):
        connect(url, DECLARED, wait="all")
    token = hasty.tasks(hasty.save(thing())).token
    other = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    for text in (other, "", "x", token + token):
        with pytest.raises(InvalidCursor):
            hasty.page(ThingsOfColor, "red", includes=text)
        with pytest.raises(InvalidCursor):
            hasty.tasks(text)
    page = hasty.page(Thing, limit=1)
    with pytest.raises(InvalidCursor):
        hasty.tasks(page.previous or page.next or other)


# Budget and time.


def is_stored(db):
    return db.find(Thing, 1) is not None


def test_a_budget_refuses_a_commit_before_it_is_made(url, db):
    """Whatever its size: nothing is stored, or everything is."""
    outcomes = []
    for most in range(16):
        with connect(url, DECLARED) as opened:
            try:
                with budget(requests=most):
                    opened.save(thing())
            except BudgetExceeded:
                assert not is_stored(db), most
                outcomes.append("refused")
            else:
                assert numbers(db.page(ThingsOfColor, "red")) == [1]
                assert db.get(Colors, "red").things == 1
                db.delete(Thing, 1)
                outcomes.append("stored")
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {"refused", "stored"}


class Slow:
    """An engine whose request of one number takes longer than any call may."""

    def __init__(self, monkeypatch, number):
        self.number, self.made, self.seconds = number, 0, 0.0
        answer = OneRowMemoryEngine.answer

        def slowly(engine, request):
            self.made += 1
            if self.made == number:
                self.seconds = 1_000.0
            return answer(engine, request)

        monkeypatch.setattr(OneRowMemoryEngine, "answer", slowly)
        monkeypatch.setattr(performer, "elapsed", lambda: self.seconds)


@pytest.mark.parametrize("number", range(1, 12))
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_call_that_takes_too_long_is_an_error_only_before_its_commit(db, url, monkeypatch, face, number):
    opened = face(url, DECLARED, timeout=30.0)
    with monkeypatch.context() as patch:
        Slow(patch, number)
        try:
            saved = opened.save(thing())
        except Unavailable:
            saved = None
    assert is_stored(db) == (saved is not None)
    if saved is not None:
        assert numbers(opened.page(ThingsOfColor, "red", includes=saved)) == [1]
        assert db.get(Colors, "red").things == 1
    opened.close()


def test_a_commit_whose_answer_is_lost_when_time_is_over_is_unknown(db, monkeypatch):
    made = Slow(monkeypatch, -1)
    answer = OneRowMemoryEngine.answer

    def losing(engine, request):
        answered = answer(engine, request)
        if type(request) is CheckAndMutate and request.table == "roots":
            made.seconds = 1_000.0
            raise OutcomeUnknown("lost")
        return answered

    monkeypatch.setattr(OneRowMemoryEngine, "answer", losing)
    with pytest.raises(OutcomeUnknown, match="read before writing again"):
        db.save(thing())


def test_a_read_ends_in_time_too(db, monkeypatch):
    """The second request of a page is not made any more."""
    Slow(monkeypatch, 1)
    with pytest.raises(Unavailable, match="in time"):
        db.page(ThingsOfColor, any_of("red", "blue"))


# What cannot be added to is known before the commit.


@pytest.mark.parametrize("read", ["with its sources", "for the commit"])
def test_a_sum_that_cannot_be_read_refuses_the_commit(db, read):
    if read == "for the commit":
        db.save(thing(color="blue"))
    db.save(thing(2))
    engine = db._driver.engine
    (key, row) = engine.answer(Scan("counts", RowRange(b"", b""), 10, families="dm"))[-1]
    stamp = row[VALUE].stamp + 1
    engine.answer(Mutate("counts", [RowMutation(key, {VALUE: Cell(b"\xff\x00", stamp)})]))
    with pytest.raises(Corrupt, match="counts row is unreadable"):
        db.save(thing())
    place = db.operations.root(Thing, (1,))
    (stored,) = engine.answer(Read("roots", [place], "dm"))
    assert read_root(place, stored).intents is None
