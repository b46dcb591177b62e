"""A schema with jobs, and what runs them."""

from oneread import Database, Job, JobHandlers, Key, Model, Schema


class Order(Model[int]):
    number: Key[int]


class SendMail(Job):
    to: str
    number: int


MAILS = Schema(Order, SendMail)
sent: list[int] = []
handlers = JobHandlers()
nothing = 7


@handlers.handles(SendMail, tries=1)
def send(job: SendMail, _run: object) -> None:
    if job.number == 13:
        raise ValueError("no such mailbox")
    sent.append(job.number)


def made(db: Database) -> JobHandlers:
    """Handlers that write to the database of the worker."""
    own = JobHandlers()

    @own.handles(SendMail)
    def save(job: SendMail, _run: object) -> None:
        db.save(Order(number=job.number))

    return own
