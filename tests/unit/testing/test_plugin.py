"""Each test is a pytest of its own, in a process of its own, that loads the plugin as a user's does."""

import pytest

pytest_plugins = ["pytester"]

SCHEMA = """
from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count


class Author(Model[str]):
    name: Key[str]
    title: str = ""


class By(Copy[Author]):
    title: str


class Note(Model[int]):
    number: Key[int]
    author: By


class NotesOfAuthor(Index[Note]):
    author: By = by(Note.author)


class AuthorUse(Aggregate[Note]):
    author: By = by(Note.author)
    notes: int = count()


notes = Schema(Author, Note, NotesOfAuthor, AuthorUse, inline=0)


def filled(db):
    db.save(Author(name="ada", title="Dr"))
    db.save_all([Note(number=number, author=By.of("ada")) for number in range(10)])
    return db
"""


@pytest.fixture
def run(pytester):
    """Runs a test module with the plugin, beside a package with a schema."""

    def running(tests, *options, ini=""):
        pytester.makepyfile(notes_schema=SCHEMA, test_it=f"import pytest\nfrom notes_schema import *\n\n{tests}")
        pytester.makeini(f"[pytest]\nfilterwarnings = error\n{ini}")
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers", *options)

    return running


NAMED = "oneread_schema = notes_schema:notes\n"


def test_each_test_has_a_store_of_its_own_with_a_clock_and_a_meter(run):
    tests = """
@pytest.mark.parametrize("again", [1, 2])
def test_a_store_is_fresh(oneread_db, again):
    assert not oneread_db.exists(Author, "ada")
    filled(oneread_db)

def test_the_clock_stands_until_it_is_moved(oneread_db, oneread_clock):
    first = oneread_db.version(oneread_db.save(Author(name="ada")))
    assert first == oneread_clock()
    oneread_clock.tick(60)
    assert oneread_db.version(oneread_db.save(Author(name="ada"))) == first + 60_000

def test_costs(oneread_db, oneread_cost):
    filled(oneread_db)
    with oneread_cost(requests=1, rows=5):
        oneread_db.page(NotesOfAuthor, "ada", limit=4)

def test_costs_too_much(oneread_db, oneread_cost):
    filled(oneread_db)
    with oneread_cost.at_most(rows=2):
        oneread_db.page(NotesOfAuthor, "ada", limit=4)

def test_tasks_wait_for_the_test(oneread_db):
    db = filled(oneread_db)
    db.patch(Author, "ada", title="Prof")
    assert db.get(Note, 1).author.title == "Dr"
    db.drain()
    assert db.get(Note, 1).author.title == "Prof"
"""
    result = run(tests, ini=NAMED)
    result.assert_outcomes(passed=5, failed=1)
    result.stdout.fnmatch_lines(
        ["*WrongCost: this costs at most 2 rows, not 5; requests:", "*1. Scan views NotesOfAuthor: 5 rows*"]
    )


def test_the_schema_is_overridden_or_marked(run):
    tests = """
@pytest.mark.oneread(schema=Schema(Author))
def test_marked(oneread_db, oneread_schema):
    assert oneread_schema.models == (Author,)
    oneread_db.save(Author(name="ada"))

class TestOverridden:
    @pytest.fixture
    def oneread_schema(self):
        return notes

    def test_it(self, oneread_db):
        filled(oneread_db)

def test_nothing_said(oneread_db):
    pass

@pytest.mark.oneread(schema="nonsense")
def test_no_name(oneread_db):
    pass

@pytest.mark.oneread(schema="notes_schema:Author")
def test_no_schema(oneread_db):
    pass

@pytest.mark.oneread(schema=notes, engine="paper")
def test_no_engine(oneread_db):
    pass
"""
    result = run(tests)
    result.assert_outcomes(passed=2, errors=4)
    result.stdout.fnmatch_lines(
        [
            "*which schema? Name it once*",
            "*nonsense: *package.module:name*",
            "*expected a Schema, got *Author*",
            "*knows the engines memory, row, lmdb, not 'paper'*",
        ]
    )


def test_lmdb_on_request(run):
    tests = """
def test_it(oneread_db, oneread_url, tmp_path):
    filled(oneread_db)
    assert (tmp_path / "oneread" / "data.mdb").exists()

@pytest.mark.oneread(engine="memory")
def test_the_marker_is_nearer(oneread_url):
    assert oneread_url.startswith("memory://test-")
"""
    run(tests, "--oneread-engine=lmdb", ini=NAMED).assert_outcomes(passed=2)
    run(tests, ini=NAMED + "oneread_engine = lmdb\n").assert_outcomes(passed=2)


def test_one_row_at_a_time_on_request(run):
    tests = """
def test_it(oneread_db, oneread_url):
    assert oneread_url.endswith("?span=row")
    db = filled(oneread_db)
    db.patch(Author, "ada", title="Prof")
    db.drain()
    assert db.get(Note, 1).author.title == "Prof"

@pytest.mark.parametrize("again", [1, 2])
def test_a_store_is_fresh(oneread_db, again):
    assert not oneread_db.exists(Author, "ada")
    filled(oneread_db)
"""
    run(tests, "--oneread-engine=row", "--oneread-audit", ini=NAMED).assert_outcomes(passed=3)


def test_an_audit_finds_a_wrong_view_where_one_row_changes_at_a_time(run):
    tests = """
from oneread.store.requests import Mutate, Scan
from oneread.store.rows import Cell, RowMutation, RowRange

def test_it(oneread_db):
    db = filled(oneread_db)
    engine = db._driver.engine
    key, row = engine.answer(Scan("views", RowRange(b"", b""), 1))[0]
    column = next(iter(row))
    engine.answer(Mutate("views", [RowMutation(key, {column: Cell(b"damaged", row[column].stamp + 1)})]))
"""
    run(tests, "--oneread-engine=row", "--oneread-audit", ini=NAMED).assert_outcomes(failed=1)


def test_the_asynchronous_face_in_any_event_loop(run):
    tests = """
import asyncio

@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.anyio
async def test_in_a_plugins_loop(oneread_async_db, oneread_cost, anyio_backend):
    db = oneread_async_db
    with oneread_cost.watch() as spent:
        saved = await db.save(Author(name="ada"))
    assert spent.cost.requests == db.cost(saved).requests
    with oneread_cost(requests=1, rows=1):
        await db.get(Author, "ada")

def test_in_a_loop_of_its_own(oneread_async_db):
    async def body():
        await oneread_async_db.save(Author(name="ada"))
        return await oneread_async_db.get(Author, "ada")

    assert asyncio.run(body()).name == "ada"
"""
    run(tests, ini=NAMED).assert_outcomes(passed=2)
    run(tests, "--oneread-engine=lmdb", "--oneread-audit", ini=NAMED).assert_outcomes(passed=2)


def test_bounds_are_checked_and_updated_beside_the_configuration(run, pytester):
    tests = """
@pytest.mark.parametrize("schema", [
    pytest.param(notes, marks=pytest.mark.oneread(schema=notes)),
    pytest.param(None, marks=pytest.mark.oneread(schema=Schema(Author, Note))),
])
def test_it(oneread_bounds, schema):
    oneread_bounds("bounds.json")
"""
    run(tests).assert_outcomes(failed=2)  # there is no file yet
    run(tests, "--oneread-bounds=update", "-k", "None").assert_outcomes(passed=1, deselected=1)
    assert (pytester.path / "bounds.json").exists()
    result = run(tests)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*BoundRisen: *"])


DAMAGED = """

def damage(db):
    prefix = db.operations.catalog.views[AuthorUse].prefix
    engine = db._driver.engine
    key = engine.transaction(lambda transaction: lose(transaction, prefix), 1)

def lose(transaction, prefix):
    from oneread.store.rows import RowRange
    (found,) = transaction.scan("counts", RowRange(prefix, prefix + b"\\xff"), 10)
    transaction.replace("counts", {found[0]: None})

def test_whole(oneread_db):
    filled(oneread_db)

def test_damaged(oneread_db):
    damage(filled(oneread_db))

@pytest.mark.oneread(audit=False)
def test_damaged_on_purpose(oneread_db):
    damage(filled(oneread_db))

def test_fails_by_itself(oneread_db):
    damage(filled(oneread_db))
    assert 1 == 2

def test_closes_it(oneread_db):
    damage(filled(oneread_db))
    oneread_db.close()

def test_has_none():
    pass
"""


@pytest.mark.parametrize(("options", "ini"), [(["--oneread-audit"], ""), ([], "oneread_audit = true\n")])
def test_a_test_that_leaves_a_view_wrong_fails(run, options, ini):
    result = run(DAMAGED, *options, ini=NAMED + ini)
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["the test ends with a wrong view: a sum or a claim is missing*", "*assert 1 == 2"])


def test_nothing_is_audited_by_default(run):
    run(DAMAGED, ini=NAMED).assert_outcomes(passed=5, failed=1)


def test_the_plugin_says_what_it_offers_and_leaves_hypothesis_alone(run):
    tests = """
import sys

def test_it():
    assert "oneread.testing.plugin" in sys.modules
    assert "oneread.engines.lmdb" not in sys.modules
    assert "oneread.testing.strategies" not in sys.modules
"""
    run(tests).assert_outcomes(passed=1)
    result = run("", "--fixtures", "--markers")
    result.stdout.fnmatch_lines(["*@pytest.mark.oneread(schema=None, engine=None, audit=None)*"])
    result = run("", "--fixtures")
    result.stdout.fnmatch_lines(["oneread_db*", "oneread_async_db*"])
