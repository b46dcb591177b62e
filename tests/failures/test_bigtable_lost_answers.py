"""Each answer of a verb is lost in turn, after its request went through; then its connection is cut.

The story: whatever was lost, the verb finds out what became of it. It returns, what it did is there once, and all that
follows from it is right.
"""

import asyncio
from uuid import uuid4

import msgspec
import pytest

from oneread import connect, connect_async
from oneread.errors import OutcomeUnknown, Unavailable
from tests.failures.grpc_proxy import Faults
from tests.failures.proxy import Proxy
from tests.failures.shelves import SCHEMA, Author, Book, Writer, check_derived, settle

ANSWERS = 10
"""More than any of these verbs waits for."""
SILENT = 6
SHORT, LONGEST = 0.2, 0.6  # seconds of a request and of a call, where both are to end without an answer


@pytest.fixture
def faults():
    return Faults()


@pytest.fixture
def urls(monkeypatch, emulator, faults):
    """Sets who answers the URL: the emulator behind a proxy at first; returns the URL and a function for `direct`."""
    with Proxy(("127.0.0.1", emulator.port), faults.filter) as proxy:
        monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", f"127.0.0.1:{proxy.port}")
        yield f"bigtable://test/i{uuid4().hex}?timeout=30"


def acts(number):
    """The verbs of one round, by name with their arguments: each answer of each is lost once."""
    return [
        ("save", (Book(number=number, author=Writer.of(number % 2), pages=number),), {}),
        ("patch", (Author, number % 2), {"name": f"name {number}"}),
        ("patch", (Book, number), {"pages": number + 100}),
        ("delete", (Book, number - 1), {}) if number % 3 == 2 else ("get", (Book, number), {}),
    ]


def check(db, faults):
    faults.drop_answers(0)
    settle(db)
    check_derived(db)
    books = {book.number: book.pages for page in db.scan(Book) for book in page}
    assert books == {
        number: number + 100 for number in range(ANSWERS) if not (number % 3 == 1 and number + 1 < ANSWERS)
    }
    assert [db.get(Author, number).name for number in (0, 1)] == [f"name {ANSWERS - 2}", f"name {ANSWERS - 1}"]
    assert faults.met > 2 * ANSWERS


@pytest.mark.parametrize("act", ["save", "patch", "delete"])
def test_a_verb_ends_when_the_server_falls_silent_and_says_what_it_did(urls, faults, act):
    """From each answer on nothing comes: Unavailable means that nothing was written, a result that it was."""
    with connect(urls, SCHEMA, workers=0) as db:
        db.save(Author(number=0, name="none"))
        patient, db._driver.timeout = db._driver.timeout, LONGEST
        steps = db._driver.engine._steps
        for silent in range(1, SILENT):
            db._driver.timeout, steps._options = patient, msgspec.structs.replace(steps._options, timeout=30.0)
            book = Book(number=silent, author=Writer.of(0), pages=silent)
            if act != "save":
                db.save(book)
            db._driver.timeout, steps._options = LONGEST, msgspec.structs.replace(steps._options, timeout=SHORT)
            faults.hold(after=silent)
            try:
                if act == "save":
                    db.save(book)
                elif act == "patch":
                    db.patch(Book, silent, pages=silent + 100)
                else:
                    db.delete(Book, silent)
            except Unavailable:
                written = False
            except OutcomeUnknown:
                written = None
            else:
                written = True
            faults.release()
            db._driver.timeout, steps._options = patient, msgspec.structs.replace(steps._options, timeout=30.0)
            found = db.find(Book, silent)
            is_written = {"save": found is not None, "patch": found and found.pages > 100, "delete": found is None}[act]
            assert written in (None, bool(is_written)), silent
        settle(db)
        check_derived(db)


def test_every_answer_is_lost_once(urls, faults):
    with connect(urls, SCHEMA, workers=0) as db:
        for number in (0, 1):
            db.save(Author(number=number, name="none"))
        for number in range(ANSWERS):
            for verb, arguments, fields in acts(number):
                faults.drop_answers(1, after=number)
                getattr(db, verb)(*arguments, **fields)
        check(db, faults)


def test_every_answer_is_lost_once_on_an_event_loop(urls, faults):
    async def act():
        async with connect_async(urls, SCHEMA, workers=0) as db:
            for number in (0, 1):
                await db.save(Author(number=number, name="none"))
            for number in range(ANSWERS):
                for verb, arguments, fields in acts(number):
                    faults.drop_answers(1, after=number)
                    await getattr(db, verb)(*arguments, **fields)

    asyncio.run(act())
    with connect(urls, SCHEMA, workers=0) as db:
        check(db, faults)
