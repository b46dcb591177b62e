"""Jobs in the commit: they exist if it was made, and are run, tried again, set aside, retried and dropped."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Index,
    Job,
    JobHandlers,
    Key,
    Model,
    Schema,
    by,
    count,
)
from oneread.errors import (
    AlreadyExists,
    Conflict,
    InvalidDeclaration,
    InvalidValue,
    LimitExceeded,
    MissingReference,
    StillReferenced,
    UsageError,
)
from oneread.store.limits import JOB_BYTES
from oneread.testing.clock import Clock
from tests.unit.database.faces import FACES

HOUR = timedelta(hours=1)
AGAIN = timedelta(0)


class Member(Model[int]):
    number: Key[int]
    name: str = ""


class By(Copy[Member]):
    on_delete = "refuse"
    name: str


class Order(Model[int]):
    number: Key[int]
    buyer: By
    text: str = ""


class OrdersOfText(Index[Order]):
    text: str = by(Order.text)


class Numbers(Aggregate[Order]):
    text: str = by(Order.text)
    orders: int = count()


class Line(Model[int, int]):
    child_of = Order

    number: Key[int]
    place: Key[int]


class SendMail(Job):
    to: str
    number: int = 0


class Charge(Job):
    stored_as = "charge"

    amount: Decimal
    at: datetime
    parts: list[bytes] = msgspec.field(default_factory=list)
    more: dict[str, int] = msgspec.field(default_factory=dict)


SCHEMA = Schema(Member, Order, Line, OrdersOfText, Numbers, SendMail, Charge)
CHARGE = Charge(amount=Decimal("1.50"), at=datetime(2026, 1, 1, tzinfo=UTC), parts=[b"\xff"], more={"a": 1})


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=FACES.values(), ids=FACES)
def db(request, url, clock):
    db = request.param(url, SCHEMA, workers=0, clock=clock)
    db.save(Member(number=1, name="ann"))
    yield db
    db.drain()
    assert not db.verify().faults
    db.close()


class Done(list):
    """The jobs that handlers were given, and their runs."""

    def __init__(self, **options):
        self.runs = []
        self.handlers = JobHandlers()
        self.fails = lambda _job: None
        for job in (SendMail, Charge):
            self.handlers.handles(job, **options)(self.take)

    def take(self, job, run):
        self.runs.append(run)
        self.fails(job)
        self.append(job)


def order(number=1, **more):
    return Order(number=number, buyer=By.of(1), **more)


def mails(db, **options):
    return sorted(each.fields["number"] for each in db.jobs(**options))


def test_each_verb_enqueues_with_its_commit(db):
    db.save(order(), enqueue=[SendMail(to="a", number=1), CHARGE])
    db.create(order(2), enqueue=[SendMail(to="a", number=2)])
    db.patch(Order, 1, text="x", enqueue=[SendMail(to="a", number=3)])
    db.upsert(order(2), text="y", enqueue=[SendMail(to="a", number=4)])
    db.delete(Order, 2, enqueue=[SendMail(to="a", number=5)])
    db.save(Line(number=1, place=1))
    db.delete(Order, 1, children="delete", enqueue=[SendMail(to="a", number=6)])
    done = Done()
    assert db.run_jobs(done.handlers).done == 7
    assert CHARGE in done
    assert sorted(each.number for each in done if isinstance(each, SendMail)) == [1, 2, 3, 4, 5, 6]
    assert db.jobs() == []


def test_a_verb_that_changes_nothing_enqueues_as_well(db):
    db.save(order())
    db.save(order(), enqueue=[SendMail(to="a", number=1)])
    db.delete(Order, 7, enqueue=[SendMail(to="a", number=2)])
    db.enqueue(SendMail(to="a", number=3))
    assert mails(db) == [1, 2, 3]


def test_a_refused_commit_leaves_no_job(db):
    db.save(order(), enqueue=[])
    jobs = [SendMail(to="a")]
    with pytest.raises(MissingReference):
        db.save(Order(number=3, buyer=By.of(9)), enqueue=jobs)
    with pytest.raises(AlreadyExists):
        db.create(order(), enqueue=jobs)
    with pytest.raises(Conflict):
        db.save(order(), if_version=1, enqueue=jobs)
    with pytest.raises(Conflict):
        db.patch(Order, 1, text="x", if_version=1, enqueue=jobs)
    with pytest.raises(StillReferenced):
        db.delete(Member, 1, enqueue=jobs)
    with pytest.raises(InvalidValue):
        db.save(order(text=7), enqueue=jobs)
    assert db.jobs() == []


def test_a_transaction_enqueues_with_its_commit(db):
    tokens = db.transact(
        [
            ("save", [order()], {}),
            ("enqueue", [SendMail(to="a", number=1)], {}),
            ("enqueue", [SendMail(to="a", number=2)], {"delay": HOUR}),
        ]
    )[1:]
    assert sorted(each.token for each in db.jobs()) == sorted(tokens)
    only_read = db.transact([("find", [Order, 1], {}), ("enqueue", [SendMail(to="a", number=3)], {})])
    assert only_read[0].number == 1
    assert mails(db) == [1, 2, 3]


def test_a_transaction_that_is_left_by_an_error_enqueues_nothing(db):
    with pytest.raises(AlreadyExists):
        db.transact([("enqueue", [SendMail(to="a")], {}), ("create", [Member(number=1)], {})])
    assert db.jobs() == []


def test_a_wrong_job_is_refused_before_anything_is_written(db):
    class Other(Job):
        text: str

    wrong = {
        InvalidValue: [
            SendMail(to=7),
            SendMail(to="a", number="1"),
            SendMail(to="a", number=True),
            SendMail(to="\ud800"),
            SendMail(to="a", number=2**70),
            Charge(amount=0.1, at=CHARGE.at),
            Charge(amount=Decimal(1), at=CHARGE.at, more={1: 1}),
            Charge(amount=Decimal("NaN"), at=CHARGE.at),
            Charge(amount=Decimal(1), at=CHARGE.at, parts=[object()]),
        ],
        LimitExceeded: [SendMail(to="a" * JOB_BYTES)],
        UsageError: [Other(text="a"), Member(number=1), "SendMail", SendMail, None],
    }
    for error, jobs in wrong.items():
        for job in jobs:
            with pytest.raises(error) as raised:
                db.save(order(), enqueue=[job])
            assert error is UsageError or raised.value.facts["job"] in ("SendMail", "charge")
            with pytest.raises(error):
                db.enqueue(job)
            with pytest.raises(error):
                db.transact([("save", [order()], {}), ("enqueue", [job], {})])
    with pytest.raises(UsageError, match="iterable of jobs"):
        db.save(order(), enqueue=SendMail(to="a"))
    with pytest.raises(LimitExceeded, match="too many jobs"):
        db.save(order(), enqueue=[SendMail(to="a")] * 1001)
    for delay in (-HOUR, 3600, "1h", timedelta(days=4000)):
        with pytest.raises(UsageError, match="delay"):
            db.enqueue(SendMail(to="a"), delay=delay)
    assert (db.jobs(), db.find(Order, 1)) == ([], None)


def test_the_largest_job_is_kept(db):
    db.save(order(), enqueue=[SendMail(to="a" * (JOB_BYTES - 100))])
    done = Done()
    db.run_jobs(done.handlers)
    assert len(done[0].to) == JOB_BYTES - 100


def test_a_delayed_job_waits(db, clock):
    db.enqueue(SendMail(to="a"), delay=HOUR)
    done = Done()
    assert db.run_jobs(done.handlers).done == 0
    clock.tick(3599)
    assert db.run_jobs(done.handlers).done == 0
    assert db.survey().jobs.due == 0
    clock.tick(2)
    assert (db.survey().jobs.due, db.survey().jobs.oldest) == (1, 1.0)
    assert db.run_jobs(done.handlers).done == 1


def test_jobs_are_run_about_in_the_order_in_which_they_are_due(db, clock):
    for number in range(20):
        db.enqueue(SendMail(to="a", number=number), delay=timedelta(seconds=20 - number))
    clock.tick(60)
    done = Done()
    db.run_jobs(done.handlers, at_once=1)
    assert [each.number for each in done] == list(range(19, -1, -1))


def test_a_handler_that_fails_is_tried_again_later_and_then_set_aside(db, clock):
    done = Done(tries=3, wait=timedelta(seconds=8), longest=timedelta(seconds=12))
    token = db.enqueue(SendMail(to="a", number=5))

    def fail(_job):
        raise ValueError("no such mailbox")

    done.fails = fail
    pauses = []
    for run in range(3):
        found = db.run_jobs(done.handlers)
        assert (found.done, found.failed, found.set_aside) == ((0, 1, 0) if run < 2 else (0, 0, 1))
        assert db.run_jobs(done.handlers).failed == 0  # it waits
        waiting = db.jobs()
        pauses += [(each.due - clock.now).total_seconds() for each in waiting]
        clock.tick(12)
    assert 4 <= pauses[0] <= 8
    assert 6 <= pauses[1] <= 12
    assert [(run.token, run.number) for run in done.runs] == [(token, 1), (token, 2), (token, 3)]
    (aside,) = db.jobs(set_aside=True)
    assert (aside.token, aside.kind, aside.fields) == (token, "SendMail", {"to": "a", "number": 5})
    assert (aside.tries, aside.error, aside.message) == (3, "ValueError", "no such mailbox")
    assert (db.survey().jobs.waiting, db.survey().jobs.set_aside) == (0, 1)


def set_one_aside(db, number):
    failing = Done(tries=1)
    failing.fails = lambda _job: 1 / 0
    token = db.enqueue(SendMail(to="a", number=number))
    assert db.run_jobs(failing.handlers).set_aside == 1
    return token


def test_what_is_set_aside_is_retried_or_dropped(db):
    first, second, third = (set_one_aside(db, number) for number in range(3))
    assert mails(db, set_aside=True) == [0, 1, 2]
    assert db.drop_jobs(first) == 1
    assert db.drop_jobs(first) == 0
    assert db.retry_jobs(first) == 0
    assert db.retry_jobs(second) == 1
    done = Done()
    assert db.run_jobs(done.handlers).done == 1
    assert (done[0].number, done.runs[0].token, done.runs[0].number) == (1, second, 1)
    assert db.retry_jobs() == 1
    assert db.run_jobs(done.handlers).done == 1
    assert done.runs[1].token == third
    assert db.jobs(set_aside=True) == db.jobs() == []
    for wrong in (7, "", "seven", None, b"x"):
        with pytest.raises(InvalidValue):
            db.retry_jobs(wrong)
        with pytest.raises(InvalidValue):
            db.drop_jobs(wrong)
    with pytest.raises(UsageError, match="tokens"):
        db.drop_jobs()


@pytest.mark.parametrize(
    "raised", [KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, RecursionError]
)
def test_whatever_a_handler_raises_fails_its_job_alone(db, raised):
    done = Done(wait=HOUR)

    def fail(job):
        if job.number == 1:
            raise raised

    done.fails = fail
    db.save(order(), enqueue=[SendMail(to="a", number=number) for number in range(3)])
    found = db.run_jobs(done.handlers)
    assert (found.done, found.failed) == (2, 1)
    (waiting,) = db.jobs()
    assert (waiting.fields["number"], waiting.error) == (1, raised.__name__)


def test_an_error_that_cannot_be_printed_is_stored(db):
    class Silent(Exception):
        def __str__(self):
            raise RuntimeError

    done = Done(tries=1)

    def fail(_job):
        raise Silent

    done.fails = fail
    db.enqueue(SendMail(to="a"))
    assert db.run_jobs(done.handlers).set_aside == 1
    (aside,) = db.jobs(set_aside=True)
    assert (aside.error, aside.message) == ("Silent", "this error has no printable message")


def test_async_handlers_run_several_at_once_and_no_more(db):
    handlers, running, most = JobHandlers(), [0], [0]

    @handlers.handles(SendMail)
    async def send(job, _run):
        running[0] += 1
        most[0] = max(most[0], running[0])
        await asyncio.sleep(0.02)
        running[0] -= 1
        if job.number == 3:
            raise KeyboardInterrupt

    db.save(order(), enqueue=[SendMail(to="a", number=number) for number in range(12)])
    found = db.run_jobs(handlers, at_once=4)
    assert (found.done, found.failed) == (11, 1)
    assert 2 <= most[0] <= 4


def test_plain_handlers_run_several_at_once_and_no_more(db):
    handlers, most = JobHandlers(), []
    meeting = threading.Barrier(4, timeout=20)

    @handlers.handles(SendMail)
    def send(_job, _run):
        meeting.wait()
        most.append(threading.active_count())

    db.save(order(), enqueue=[SendMail(to="a", number=number) for number in range(8)])
    before = threading.active_count()
    assert db.run_jobs(handlers, at_once=4).done == 8
    assert max(most) <= before + 8


def test_jobs_without_a_handler_keep_no_others_waiting(db, clock):
    db.save(order(), enqueue=[CHARGE] * 100)
    clock.tick(1)
    db.save(order(), enqueue=[SendMail(to="a", number=number) for number in range(3)])
    handlers, seen = JobHandlers(), []
    handlers.handles(SendMail)(lambda job, _run: seen.append(job.number))
    assert db.run_jobs(handlers).done == 3
    assert sorted(seen) == [0, 1, 2]
    assert len(db.jobs(1000)) == 100


def test_a_handler_sees_what_the_commit_has_made(db):
    handlers, seen = JobHandlers(), []

    @handlers.handles(SendMail)
    def send(_job, run):
        seen.append((len(db.page(OrdersOfText, "x")) if isinstance(db, FACES["sync"]) else 1, run.number))

    db.save(order(text="x"), enqueue=[SendMail(to="a")])
    db.run_jobs(handlers)
    assert seen == [(1, 1)]


def test_handlers_are_checked(db):
    handlers = JobHandlers()
    for wrong in (Job, Member, "SendMail", None):
        with pytest.raises(UsageError, match="a class of jobs"):
            handlers.handles(wrong)
    for options in ({"tries": 0}, {"tries": True}, {"wait": 5}, {"longest": -HOUR}):
        with pytest.raises(UsageError):
            handlers.handles(SendMail, **options)
    with pytest.raises(UsageError, match="a function"):
        handlers.handles(SendMail)("send")
    handlers.handles(SendMail)(print)
    with pytest.raises(UsageError, match="handler already"):
        handlers.handles(SendMail)(print)

    class Unknown(Job):
        text: str

    handlers.handles(Unknown)(print)
    with pytest.raises(UsageError, match="not in the schema"):
        db.run_jobs(handlers)
    for wrong in (None, {}, print):
        with pytest.raises(UsageError, match="JobHandlers"):
            db.run_jobs(wrong)
    for at_once in (0, 1.5, True, 1001):
        with pytest.raises(UsageError, match="at_once"):
            db.run_jobs(Done().handlers, at_once=at_once)
    for limit in (0, "1", 10_001):
        with pytest.raises(UsageError, match="limit"):
            db.jobs(limit)


def test_declarations_are_checked():
    class Twice(Job):
        stored_as = "SendMail"

        text: str

    with pytest.raises(InvalidDeclaration, match="one name"):
        Schema(Member, SendMail, Twice)
    with pytest.raises(InvalidDeclaration, match="needs a model"):
        Schema(SendMail)
    with pytest.raises(InvalidDeclaration):
        Schema(Member, Job)
    with pytest.raises(InvalidDeclaration, match="reserved"):

        class Reserved(Job):
            stored_as: str

    class Odd(Job):
        text: "NoSuchClass"  # noqa: F821

    with pytest.raises(InvalidDeclaration, match="such fields"):
        Schema(Member, Odd)


def test_a_model_cannot_have_a_field_that_the_verbs_take():
    with pytest.raises(InvalidDeclaration, match="reserved"):

        class Queue(Model[int]):
            number: Key[int]
            enqueue: str


@pytest.mark.parametrize("face", FACES)
def test_started_in_the_background_it_is_woken_by_commits(url, clock, face):
    db = FACES[face](url, SCHEMA, workers=0, clock=clock)
    done, ran = Done(), threading.Event()
    done.fails = lambda _job: ran.set()

    async def start():
        db.db.start_jobs(done.handlers)
        await db.db.save(Member(number=1), enqueue=[SendMail(to="a")])
        assert await asyncio.to_thread(ran.wait, 20)

    if face == "async":
        db.runner.run(start())
    else:
        db.start_jobs(done.handlers)
        db.save(Member(number=1), enqueue=[SendMail(to="a")])
        assert ran.wait(20)
    with pytest.raises(UsageError, match="already"):
        db.start_jobs(done.handlers)
    db.close()
    assert len(done) == 1


def test_classes_that_changed_and_classes_that_are_gone(new_url, clock):
    url, at = new_url(), FACES["sync"]
    db = at(url, SCHEMA, workers=0, clock=clock)
    db.enqueue(SendMail(to="a", number=1))
    db.enqueue(CHARGE)
    db.close()

    class Longer(Job):
        stored_as = "SendMail"

        to: str
        subject: str = "hello"

    class Stricter(Job):
        stored_as = "charge"

        amount: int

    db = at(url, Schema(Member, Order, Line, OrdersOfText, Numbers, Longer, Stricter), workers=0, clock=clock)
    handlers, seen = JobHandlers(), []
    handlers.handles(Longer)(lambda job, _run: seen.append(job))
    handlers.handles(Stricter, tries=1)(lambda job, _run: seen.append(job))
    found = db.run_jobs(handlers)
    assert (found.done, found.set_aside, seen) == (1, 1, [Longer(to="a")])
    (aside,) = db.jobs(set_aside=True)
    assert (aside.kind, aside.error, aside.fields["amount"]) == ("charge", "Corrupt", "1.50")
    db.enqueue(Longer(to="b"))
    db.close()
    db = at(url, Schema(Member, Order, Line, OrdersOfText, Numbers), workers=0, clock=clock)
    (waiting,) = db.jobs()
    assert (waiting.kind, waiting.known, waiting.fields) == ("SendMail", False, {"to": "b", "subject": "hello"})
    assert db.run_jobs(JobHandlers()).done == 0
    assert not db.verify().faults
    assert db.repair().clean
    assert len(db.jobs()) == 1
    db.close()
