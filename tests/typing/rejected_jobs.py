"""Mistakes with jobs that a type checker finds."""

from oneread import Database, Job, JobHandlers, JobRun, Key, Model, Schema, Transaction


class Order(Model[int]):
    number: Key[int]


class SendMail(Job):
    to: str
    number: int = 0


class Charge(Job):
    number: int


SCHEMA = Schema(Order, SendMail, Charge)
handlers = JobHandlers()


@handlers.handles(SendMail)  # rejected
def charge(job: Charge, run: JobRun) -> None: ...


@handlers.handles(Order)  # rejected
def save(job: Order, run: JobRun) -> None: ...


def wrong(db: Database, tx: Transaction, order: Order) -> None:
    SendMail(to=7)  # rejected
    SendMail("ada@example.org")  # rejected
    SendMail(number=7)  # rejected
    SendMail(to="a").to = "b"  # rejected
    db.save(order, enqueue=SendMail(to="a"))  # rejected
    db.save(order, enqueue=[order])  # rejected
    db.enqueue(order)  # rejected
    db.enqueue(SendMail(to="a"), delay=3600)  # rejected
    tx.enqueue(SendMail)  # rejected
    db.run_jobs({})  # rejected
    db.jobs("10")  # rejected
    db.retry_jobs(7)  # rejected
