"""Pages of a store in which something is wrong: each says what, and where it is mended."""

import asyncio
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from oneread import Copy, Index, Job, JobHandlers, Key, Model, Schema, by, connect, connect_async, move
from oneread.console import console
from oneread.console.jobs import ConsoleJob, ConsoleJobs
from oneread.console.log import logged
from oneread.errors import Conflict, Corrupt, InvalidValue
from oneread.launches.differences import LaunchDifference
from oneread.plans.clock import wall_clock
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import VALUE, Cell, RowMutation, RowRange
from oneread.transactions.chores import ChoreLease
from oneread.transactions.system_rows import CONSOLE_LOG, REPORTS
from oneread.verify.noted import last_verified
from tests.unit.console.places import SITE, Evening, EveningsOfTown, fill, links, opened
from tests.unit.console.test_acting import inputs_of
from tests.unit.console.test_states import SONGS, launched  # noqa: F401 - a fixture


@pytest.fixture
def filled(url):
    fill(url, 6)
    return url


def without_a_row(url, view):
    """Deletes the first row of a view behind the library's back."""
    with connect(url, SITE, workers=0) as db:
        prefix = db.operations.catalog.views[view].prefix

        def remove():
            ((key, row),) = yield from Scan("views", RowRange.under(prefix), 1)
            yield from Mutate("views", [RowMutation(key, deletes={name: cell.stamp for name, cell in row.items()})])

        db.run(remove())


def test_an_entity_says_which_of_its_rows_is_missing(filled):
    without_a_row(filled, EveningsOfTown)
    with opened(filled) as browser:
        page = browser.get("/entity/Evening", key="6", check="yes")
        assert "missing" in page
        assert "the row is missing" in page
        assert "every row is as it should be" in browser.get("/entity/Evening", key="5", check="yes")
        assert "of 1 member" in browser.get("/entity/Evening", key="6")


def test_a_group_and_a_row_of_a_unique_index_have_pages(filled):
    with opened(filled) as browser:
        page = browser.get("/entity/Evening", key="1")
        for link in [
            each for each in links(page) if each.startswith(("/entity/EveningsOfCircle", "/entity/EveningTitle"))
        ]:
            assert "How it is read" in browser.get(link)
        assert "there is none of this key" in browser.get("/entity/EveningTitle", 404, key="nothing")


def test_a_deleted_entity_leaves_a_mark(filled):
    with connect(filled, SITE, workers=0) as db:
        db.delete(Evening, 1)
        db.drain()
    with opened(filled) as browser:
        assert "this entity was deleted" in browser.get("/entity/Evening", key="1")


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"field": "circle", "value": "x"}, 400, "cannot be changed here"),
        ({"field": "nothing"}, 400, "not a field of the model"),
        ({"field": "starts_at", "value": "tomorrow"}, 422, "not a value of the key"),
        ({"field": "town", "value": "@none"}, 422, "cannot be None"),
    ],
)
def test_what_a_field_cannot_be_is_said(filled, change, status, said):
    with opened(filled) as browser:
        form = inputs_of(browser.get("/do/patch", of="Evening", key="1", field="town"))
        sent = [("of", "Evening"), ("key", "1"), *change.items(), *[each for each in form if each[0] != "value"]]
        assert said in browser.post("/do/patch", sent, status)


@pytest.mark.parametrize(
    ("path", "query", "said"),
    [
        ("/do/patch", {"of": "Nothing", "key": "1", "field": "town"}, "no model of this name"),
        ("/do/patch", {"of": "Evening", "key": "4711", "field": "town"}, "there is none of this key"),
        ("/do/patch", {"of": "Evening", "key": "1"}, "the address lacks a parameter"),
        ("/do/delete", {"key": "1"}, "the address lacks a parameter"),
        ("/do/shards", {"name": "nothing"}, "nothing was ever added"),
        ("/do/verify", {"of": "Nothing"}, "no model or view of this name"),
    ],
)
def test_what_is_not_there_cannot_be_changed(filled, path, query, said):
    with opened(filled) as browser:
        assert said in browser.get(path, 404, **query)


def test_differences_of_a_launch_are_side_by_side(launched):  # noqa: F811 - the fixture
    with connect(launched, SONGS, workers=0) as db:
        found = LaunchDifference(
            launch="BestSongs", kind="other value", at=datetime.now(UTC), process="web-1", verb="page", key=(3,),
            old={"title": "Song 3", "plays": 3}, new={"title": "Song <3>"}, fields=("title",),
        )  # fmt: skip
        db.run(db.operations.launches.put_difference(None, found))
        db.launches.back("BestSongs", why="differs", by="ada")
    with opened(launched, schema=SONGS) as browser:
        page = browser.get("/launches/BestSongs")
        assert "Answers, by how long they took" in page
        assert "other value: page of 3, row 1, seen 1 time" in page
        assert "Song &lt;3&gt;" in page
        assert "differs" in page


def test_a_move_is_shown_by_both_stores(new_url):
    source, target = new_url(), new_url()
    fill(source, 3)
    with move(source, target, SITE) as it:
        it.start()
        it.copy()
        with opened(source) as browser:
            page = browser.get("/moves")
            assert "the source" in page
            assert "oneread move status" in page
        it.cancel()


class Maker(Model[int]):
    number: Key[int]
    name: str


class MadeBy(Copy[Maker]):
    name: str


class Product(Model[int]):
    number: Key[int]
    maker: MadeBy

    def check(self):
        if self.maker.name != "old":
            raise ValueError("only the old name will do")


class Products(Index[Product]):
    maker: MadeBy = by(Product.maker)


def test_a_holder_that_was_set_aside_has_its_error_and_is_tried_again(url):
    schema = Schema(Maker, Product, Products, inline=0)
    with connect(url, schema, workers=0) as db:
        db.save(Maker(number=1, name="old"))
        db.save(Product(number=1, maker=MadeBy.of(1)))
        db.drain()
        db.patch(Maker, 1, name="new")
        db.drain()
    with opened(url, schema=schema) as browser:
        page = browser.get("/tasks")
        assert "only the old name will do" in page
        assert "once the cause is gone, try them again" in page
        assert "could not follow what they copy" in browser.get("/")


class Named(Model[int]):
    number: Key[int]


class SendMail(Job):
    number: int


def test_jobs_that_are_set_aside_are_listed(url):
    handlers = JobHandlers()
    handlers.handles(SendMail, tries=1)(lambda job, _run: 1 // job.number)
    schema = Schema(Named, SendMail)
    with connect(url, schema, workers=0) as db:
        db.enqueue(SendMail(number=0))
        db.enqueue(SendMail(number=1), delay=timedelta(days=1))
        assert db.run_jobs(handlers).set_aside == 1
        (aside,) = db.jobs(set_aside=True)
    with opened(url, schema=schema) as browser:
        page = browser.get("/tasks")
        assert "1 job waiting, 0 due; 1 job set aside" in page
        assert aside.token in page
        assert "ZeroDivisionError" in page


def test_workers_and_their_chores_are_named(filled):
    with connect(filled, SITE, workers=0) as db:
        assert db.run(ChoreLease(db.operations.committer, db.operations.outbox.leases, "sweep").take())
    with opened(filled) as browser:
        page = browser.get("/tasks")
        assert "Chores of workers" in page
        assert ">sweep<" in page


def test_a_report_that_cannot_be_read_is_an_error_in_words(filled):
    with connect(filled, SITE, workers=0) as db:

        def damage():
            for key in (REPORTS.start + b"verify", CONSOLE_LOG.start + bytes(12)):
                yield from Mutate("system", [RowMutation(key, {VALUE: Cell(b"\xff", wall_clock())})])

        db.run(damage())
        with pytest.raises(Corrupt, match="verify again"):
            db.run(last_verified())
        with pytest.raises(Corrupt, match="cannot be read"):
            db.run(logged(10))
        assert [each.kind for each in db.verify().faults] == []


def test_the_log_has_pages(filled):
    with opened(filled) as browser:
        for number in range(53):
            browser.send("/do/shards", changed={"shards": str(1 + number % 2 * 3)}, name="views:1")
        page = browser.get("/log")
        (onward,) = [each for each in links(page) if "before=" in each]
        assert 1 <= browser.get(onward).count("views:1:") <= 4


async def fails(_job):
    raise InvalidValue("this cannot be", field="x")


async def breaks(_job):
    raise ZeroDivisionError


async def waits(_job):
    await asyncio.sleep(60)
    return ""


@pytest.mark.parametrize(("work", "said"), [(fails, "this cannot be"), (breaks, "its log says how")])
def test_a_job_that_fails_says_why(work, said, caplog):
    async def run():
        job = ConsoleJobs().start("verify", "ada", work)
        await job.task
        return job

    job = asyncio.run(run())
    assert job.state == "failed"
    assert said in job.said
    assert job.seconds >= 0
    assert ("ZeroDivisionError" in caplog.text) == (work is breaks)


def test_a_job_ends_with_its_console():
    jobs, found = ConsoleJobs(), []

    async def run():
        found.append(jobs.start("verify", "ada", waits))
        with pytest.raises(Conflict):
            jobs.start("verify", "bob", waits)
        assert [each.kind for each in jobs.running()] == ["verify"]
        await asyncio.sleep(0)

    asyncio.run(run())
    assert (found[0].state, found[0].said) == ("stopped", "the console has ended")
    assert isinstance(found[0], ConsoleJob)


def test_a_store_closes_while_a_verification_waits_for_its_pace(url):
    """It waits for minutes, unless it is ended first."""
    fill(url)

    async def run():
        db = await connect_async(url, SITE, workers=0)
        made = console(db, auth=lambda _asked: "ada")
        transport = httpx.ASGITransport(made)
        async with httpx.AsyncClient(transport=transport, base_url="http://here", follow_redirects=True) as client:
            page = (await client.get("/do/verify")).text
            sent = {**dict(inputs_of(page)), "pace": "1"}
            assert ">running<" in (await client.post("/do/verify", data=sent)).text
            await asyncio.sleep(0.5)  # it has read its first rows, and waits
            assert ">running<" in (await client.get("/verify")).text
        await asyncio.wait_for(db.close(), 30)

    asyncio.run(run())
