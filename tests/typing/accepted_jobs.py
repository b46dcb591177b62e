"""Jobs as type checkers see them: their fields, their handlers, and the verbs that take them."""

from datetime import datetime, timedelta
from typing import assert_type

from oneread import (
    AsyncDatabase,
    AsyncTransaction,
    Database,
    Job,
    JobHandlers,
    JobRun,
    JobsDone,
    Key,
    Model,
    QueuedJob,
    Schema,
    Transaction,
)


class Order(Model[int]):
    number: Key[int]
    text: str = ""


class SendMail(Job):
    stored_as = "mail"

    to: str
    number: int = 0


SCHEMA = Schema(Order, SendMail)
MAIL = SendMail(to="ada@example.org", number=7)
handlers = JobHandlers()


@handlers.handles(SendMail, tries=3, wait=timedelta(seconds=5))
def send(job: SendMail, run: JobRun) -> None:
    assert_type(job.to, str)
    assert_type(run.token, str)
    assert_type(run.number, int)
    assert_type(run.enqueued, datetime)


def asynchronous() -> JobHandlers:
    made = JobHandlers()

    @made.handles(SendMail)
    async def send(job: SendMail, _run: JobRun) -> None:
        assert_type(job.number, int)

    return made


def writing(db: Database) -> None:
    assert_type(db.save(Order(number=1), enqueue=[MAIL]), Order)
    assert_type(db.create(Order(number=1), enqueue=(MAIL, MAIL)), Order)
    assert_type(db.upsert(Order(number=1), enqueue=[MAIL], text="a"), Order)
    assert_type(db.patch(Order, 1, text="a", enqueue=[MAIL]), Order)
    assert_type(db.patch(Order, Order.at(1), enqueue=[MAIL], text="a"), Order)
    db.delete(Order, 1, enqueue=[MAIL])
    assert_type(db.enqueue(MAIL, delay=timedelta(hours=1)), str)
    assert_type(db.jobs(10), list[QueuedJob])
    assert_type(db.jobs(set_aside=True)[0].message, str)
    assert_type(db.retry_jobs("a", "b"), int)
    assert_type(db.drop_jobs("a"), int)
    assert_type(db.run_jobs(handlers, at_once=2), JobsDone)
    assert_type(db.start_jobs(handlers), None)
    assert_type(db.survey().jobs.waiting, int)


def inside(tx: Transaction) -> None:
    assert_type(tx.enqueue(MAIL, delay=timedelta(1)), str)


async def awaited(db: AsyncDatabase, tx: AsyncTransaction) -> None:
    assert_type(await db.save(Order(number=1), enqueue=[MAIL]), Order)
    assert_type(await tx.enqueue(MAIL), str)
    assert_type(await db.run_jobs(handlers), JobsDone)
    assert_type(db.start_jobs(handlers), None)
