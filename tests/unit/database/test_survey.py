"""Surveys: every row is counted once, and whose nobody knows is told as such."""

import asyncio

import pytest

from oneread import Aggregate, Index, Key, Model, Schema, by, connect, connect_async, count, counter, rollup
from oneread.cli import stat
from oneread.counters.rows import mark_key, name_key
from oneread.database.survey import BATCH, SurveyPart
from oneread.derivations.pending_tasks import COUNTER, PendingTasks, TaskLag, WaitingTask
from oneread.errors import Closed
from oneread.plans.effects import Atomically
from oneread.plans.progress import Progress
from oneread.store.engine import Measured, TableSize
from oneread.store.requests import Mutate, Read
from oneread.store.rows import TABLES, Cell, RowMutation
from oneread.transactions import outbox
from oneread.transactions.leases import LEASE
from oneread.transactions.unit_of_work import UnitOfWork
from tests.unit.database.faces import FACES


class Pupil(Model[int]):
    number: Key[int]
    form: str


class PupilsOfForm(Index[Pupil]):
    form: str = by(Pupil.form)


class Forms(Aggregate[Pupil]):
    form: str = by(Pupil.form)
    pupils: int = count()


SCHOOL = Schema(Pupil, PupilsOfForm, Forms)


@pytest.fixture
def school(url):
    with connect(url, SCHOOL, workers=0) as db:
        db.save_all(Pupil(number=number, form=f"form {number % 3}") for number in range(10))
        db.delete(Pupil, 9)
        yield db


def put(db, table, **rows):
    wanted = {key.encode(): {b"d:b": Cell(value, 1)} for key, value in rows.items()}
    db.run(Atomically(lambda store: store.replace(table, wanted)).__iter__())


def parts(db):
    return {(part.table, part.name): part for part in db.survey(exact=True).parts}


def test_rows_are_counted_by_model_and_view(school):
    found = parts(school)
    assert (found["roots", "Pupil"].rows, found["roots", "Pupil"].deleted) == (10, 1)
    assert (found["views", "PupilsOfForm"].rows, found["views", "PupilsOfForm"].state) == (9, "readable")
    assert found["counts", "Forms"].rows == 3
    assert found["system", "schema"].rows == 1


def test_bytes_are_those_of_keys_columns_and_values(school):
    put(school, "views", zzzz1=b"12345", zzzz2=b"")
    assert parts(school)["views", b"zzzz".hex()] == SurveyPart(
        "views", b"zzzz".hex(), 2, 5 + 3 + 5 + 5 + 3, state="unknown"
    )


def test_an_unknown_prefix_is_named_by_its_bytes(school):
    put(school, "roots", zz=b"?")
    put(school, "counts", zzzzkey=b"?")
    found = parts(school)
    assert found["roots", b"zz".hex()].state == "unknown"
    assert found["counts", b"zzzz".hex()].state == "unknown"


def test_the_engine_counts_the_same(school):
    found = school.survey(exact=True)
    for table in TABLES:
        assert found.engine.tables[table].rows == sum(part.rows for part in found.parts if part.table == table)


def test_without_being_asked_no_row_is_counted(school):
    seen = []
    found = school.survey(progress=seen.append)
    assert (found.parts, seen) == ((), [])
    assert (found.schema_version, found.views, found.tasks) == (1, {"Forms": "readable", "PupilsOfForm": "readable"}, 0)


def test_progress_is_reported_after_each_scan(school):
    seen = []
    school.survey(exact=True, progress=seen.append)
    assert seen[0] == Progress("counting rows of roots", 10, 10)
    assert [each.phase.rpartition(" ")[2] for each in seen] == list(TABLES)


def test_more_rows_than_one_scan_reads_are_counted_once(school):
    rows = {f"zzzz{number:05}": b"" for number in range(2 * BATCH)}
    put(school, "views", **rows, zzzy=b"", zzzzz=b"")
    found = parts(school)
    assert found["views", b"zzzz".hex()].rows == 2 * BATCH + 1
    assert found["views", b"zzzy".hex()].rows == 1


def test_tasks_are_counted_beyond_one_scan(school):
    tasks = {f"task:{number:05}": b"?" for number in range(501)}
    put(school, "system", **tasks)
    assert school.survey().tasks == 501
    listed = school.run(school.operations.waiting(2))
    assert listed == [WaitingTask(f"task:{number:05}".encode().hex(), 0, readable=False) for number in range(2)]


def test_tasks_of_groups_are_listed_behind_those_that_are_done(school):
    """Whose rows keep their leases, on stores that change one row at a time."""
    (waiting,) = outbox.group_task_rows([(b"source", 5, [b"z"])])
    done = {outbox.group_task(b"%03d" % number): {LEASE: Cell(b"?", 1)} for number in range(outbox.BATCH)}
    rows = {**done, waiting.key: waiting.puts}
    school.run(Atomically(lambda store: store.replace("system", rows)).__iter__())
    listed = school.run(PendingTasks(school.operations.catalog, [outbox.GROUP_TASKS]).waiting(3))
    assert listed == [WaitingTask(waiting.key.hex(), 0, readable=False)]


def test_a_task_is_named_by_its_source(school):
    key = school.operations.catalog.kinds[Pupil].key((3,))

    def leave(store):
        unit = UnitOfWork(store, school.operations.catalog.name_of)
        unit.load("system", [b"task:x"])
        outbox.save_task(unit, b"task:x", outbox.Task(key, b"", 7), 1)
        unit.flush(1)

    school.run(Atomically(leave).__iter__())
    (task,) = school.run(school.operations.waiting(9))
    assert (task.source, task.done, task.readable, task.worker) == ("Pupil(3)", 7, True, "")


def test_the_asynchronous_face_surveys_as_well(url):
    async def surveyed():
        async with connect_async(url, SCHOOL, workers=0) as db:
            await db.save(Pupil(number=1, form="a"))
            return await db.survey(exact=True)

    found = asyncio.run(surveyed())
    assert [part.rows for part in found.parts if part.name == "Pupil"] == [1]


def test_an_engine_says_how_large_it_is_until_it_is_closed(school):
    engine = school._driver.engine
    assert isinstance(engine, Measured)
    assert isinstance(engine.statistics().tables["roots"], TableSize)
    engine.close()
    with pytest.raises(Closed):
        engine.statistics()


def test_memory_says_bytes_of_keys_columns_and_values(url):
    with connect(url, SCHOOL) as db:
        before = db._driver.engine.statistics().tables["views"]
        put(db, "views", key=b"value")
        after = db._driver.engine.statistics().tables["views"]
    assert (after.rows - before.rows, after.bytes - before.bytes) == (1, 3 + 3 + 5)


class Page(Model[int]):
    number: Key[int]
    views: int = rollup(counter("views:{number}"), every=10)


class Clock:
    def __init__(self):
        self.now = 1_700_000_000_000

    def __call__(self):
        return self.now


SHOWING = ["memory://", "lmdb://{}/store?durability=none", "memory://?span=row"]


@pytest.mark.parametrize("url", SHOWING)
@pytest.mark.parametrize("face", FACES.values(), ids=FACES)
def test_a_counter_that_is_to_be_shown_waits_as_a_task(face, url, tmp_path):
    clock = Clock()
    db = face(url.format(tmp_path), Schema(Page), workers=0, clock=clock)
    operations = db.db.operations
    try:
        for number in range(3):
            db.save(Page(number=number))
        db.drain()
        clock.now += 60_000
        quiet = db.survey()
        assert (quiet.tasks, quiet.behind, quiet.lag[COUNTER]) == (0, 0.0, TaskLag())
        assert stat._behind(quiet) == "views, copies and totals show every change"
        for number in (1, 2):
            made = db.db.counter(f"views:{number}").add(7)
            if asyncio.iscoroutine(made):
                db.runner.run(made)
            clock.now += 5_000
        found = db.survey()
        assert (found.tasks, found.behind, found.are_all) == (2, 10.0, True)
        assert found.lag[COUNTER] == TaskLag(2, 0, 10.0)
        assert "may lack changes of the last 10.0 s" in stat._behind(found)
        waiting = db.run(operations.waiting(20))
        assert waiting == [WaitingTask("counter 'views:1'", 0, age=10.0), WaitingTask("counter 'views:2'", 0, age=5.0)]
        assert db.run(operations.waiting(1)) == waiting[:1]
        assert db.run(operations.behind(db.run(operations.lag()))) == 10.0
        db.drain()
        assert [db.get(Page, number).views for number in range(3)] == [0, 7, 7]
        after = db.survey()
        assert (after.tasks, after.behind, after.lag) == (0, 0.0, quiet.lag)
    finally:
        db.close()


@pytest.mark.parametrize("url", SHOWING)
def test_a_mark_that_cannot_be_read_waits_all_the_same(url, tmp_path):
    with connect(url.format(tmp_path), Schema(Page), workers=0) as db:
        db.save(Page(number=1))
        db.counter("views:1").add(7)
        key = mark_key(name_key("views:1"))
        (row,) = db.run(Read("counts", [key]).__iter__())
        puts = {column: Cell(b"\xc1\xc1", cell.stamp) for column, cell in row.items()}
        if db.operations.spans_rows:
            db.run(Atomically(lambda store: store.replace("counts", {key: puts})).__iter__())
        else:
            db.run(Mutate("counts", [RowMutation(key, puts)]).__iter__())
        assert db.survey().tasks == 1
        assert db.run(db.operations.waiting(9)) == [WaitingTask("counter 'views:1'", 0, readable=False)]


def test_a_store_whose_entities_show_no_counters_is_asked_for_none(school):
    school.counter("views:1").add(1)
    assert COUNTER not in school.survey().lag
