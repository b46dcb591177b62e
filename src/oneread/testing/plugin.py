"""The pytest plugin: a fresh store, a clock and a meter for each test, and an audit of every view at its end.

See "Users' tests" of the decisions page.
"""

from __future__ import annotations

import asyncio
import pkgutil
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar
from uuid import uuid4

import pytest

from oneread.connect import connect, connect_async
from oneread.costs.bound_file import check_bounds, write
from oneread.database._sync.database import Database
from oneread.database.async_database import AsyncDatabase
from oneread.engines import memory, one_row_memory
from oneread.errors import Closed
from oneread.evolution.schema import Schema
from oneread.testing.audit import Audit, Offence
from oneread.testing.clock import Clock
from oneread.testing.meter import Meter

T = TypeVar("T")

ENGINES: Final = ("memory", "row", "lmdb")
"""`row` is memory that changes one row at a time, as HBase and Bigtable do."""

_OPENED: Final = pytest.StashKey[list[Any]]()
_MARKER: Final = (
    "oneread(schema=None, engine=None, audit=None): the schema, the engine (memory, row or lmdb) and whether to audit"
    " every view at the end, for the oneread fixtures of this test"
)
_NO_SCHEMA: Final = (
    "which schema? Name it once in the configuration of pytest (oneread_schema = package.module:name), mark the test"
    " (@pytest.mark.oneread(schema=shop)), or override the fixture oneread_schema"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declares the options, on the command line and in the configuration."""
    group = parser.getgroup("oneread", "oneread")
    group.addoption("--oneread-engine", choices=ENGINES, help="the engine of the oneread fixtures (default: memory)")
    group.addoption(
        "--oneread-audit",
        action="store_true",
        default=None,
        help="a test fails if a view, a sum or a copy differs from what its entities say",
    )
    group.addoption(
        "--oneread-bounds", choices=("check", "update"), default="check", help="what oneread_bounds does with its file"
    )
    parser.addini("oneread_schema", "the schema of the oneread fixtures, as package.module:name")
    parser.addini("oneread_engine", "the engine of the oneread fixtures: memory, row or lmdb", default="memory")
    parser.addini("oneread_audit", "whether to audit every view at the end of a test", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Audits the stores of a test that passed, where the configuration or a marker says so."""
    result = yield
    if _marked(item, "audit", item.config.getoption("oneread_audit") or item.config.getini("oneread_audit")):
        for database in item.stash.get(_OPENED, []):
            _audit(database)
    return result


@pytest.fixture
def oneread_schema(request: pytest.FixtureRequest) -> Schema:
    """The schema that `oneread_db` is opened under. Override it, mark the test, or name it in the configuration."""
    given = _marked(request.node, "schema", request.config.getini("oneread_schema"))
    if isinstance(given, str) and given:
        try:
            given = pkgutil.resolve_name(given)
        except (ImportError, AttributeError, ValueError) as error:
            pytest.fail(f"oneread_schema = {given}: {error}; it is written package.module:name", pytrace=False)
    if not isinstance(given, Schema):
        pytest.fail(f"oneread_schema: expected a Schema, got {given!r}" if given else _NO_SCHEMA, pytrace=False)
    return given


@pytest.fixture
def oneread_url(request: pytest.FixtureRequest) -> Generator[str]:
    """Where the store of this test is: memory, or a folder of its own for LMDB. It may be opened again and again."""
    configured = request.config.getoption("oneread_engine") or request.config.getini("oneread_engine")
    engine = _marked(request.node, "engine", configured)
    if engine not in ENGINES:
        pytest.fail(f"oneread knows the engines {', '.join(ENGINES)}, not {engine!r}", pytrace=False)
    if engine != "lmdb":
        name = f"test-{uuid4().hex}"
        yield f"memory://{name}" + ("?span=row" if engine == "row" else "")
        memory.forget(name)
        one_row_memory.forget(name)
        return
    folder: Path = request.getfixturevalue("tmp_path")
    yield f"lmdb://{folder}/oneread?durability=none"


@pytest.fixture
def oneread_clock() -> Clock:
    """The clock of this test's databases: the beginning of 2024 until the test moves it."""
    return Clock()


@pytest.fixture
def oneread_cost() -> Meter:
    """A meter: called with a cost it gives a block that costs exactly that, by `at_most` a block with a bound."""
    return Meter()


@pytest.fixture
def oneread_bounds(request: pytest.FixtureRequest, oneread_schema: Schema) -> Callable[[str | Path], None]:
    """Fails where the schema costs more than its bound file allows: `oneread_bounds("bounds.json")`.

    The file is beside the configuration of pytest; `pytest --oneread-bounds=update` rewrites it.
    """

    def check(path: str | Path) -> None:
        __tracebackhide__ = True
        file = request.config.rootpath / path
        if request.config.getoption("oneread_bounds") == "update":
            write(oneread_schema, file)
        check_bounds(oneread_schema, file)

    return check


@pytest.fixture
def oneread_db(
    request: pytest.FixtureRequest, oneread_schema: Schema, oneread_url: str, oneread_clock: Clock, oneread_cost: Meter
) -> Generator[Database]:
    """A fresh store for this test, under its clock and its meter.

    No worker runs: the copies of a fan-out too big for its commit follow when the test says `db.drain()`.
    """
    database = connect(oneread_url, oneread_schema, clock=oneread_clock, workers=0, observers=(oneread_cost.observe,))
    _remember(request, database, oneread_cost)
    with database:
        yield database


@pytest.fixture
def oneread_async_db(
    request: pytest.FixtureRequest, oneread_schema: Schema, oneread_url: str, oneread_clock: Clock, oneread_cost: Meter
) -> Generator[AsyncDatabase]:
    """Like `oneread_db`, with `await`: for the event loop of whatever plugin runs the test, or `asyncio.run` in it."""

    async def opening() -> AsyncDatabase:
        return await connect_async(
            oneread_url, oneread_schema, clock=oneread_clock, workers=0, observers=(oneread_cost.observe,)
        )

    with ThreadPoolExecutor(1) as aside:  # a thread of its own, since the test may run an event loop
        database = aside.submit(lambda: asyncio.run(opening())).result()
        _remember(request, database, oneread_cost)
        yield database
        aside.submit(lambda: asyncio.run(database.close())).result()


def _marked(node: pytest.Item, name: str, configured: T) -> T:
    """The value of the nearest marker of a test, or the configured one."""
    for marker in node.iter_markers("oneread"):
        if marker.kwargs.get(name) is not None:
            found: T = marker.kwargs[name]
            return found
    return configured


def _remember(request: pytest.FixtureRequest, database: Database | AsyncDatabase, meter: Meter) -> None:
    meter.catalog = database.operations.catalog
    request.node.stash.setdefault(_OPENED, []).append(database)


def _audit(database: Database | AsyncDatabase) -> None:
    __tracebackhide__ = True
    engine = database._driver.engine  # noqa: SLF001 - the audit reads past everything that is under test
    try:
        Audit(engine, database.operations).check()
    except Closed:  # the test closed its store, so there is nothing to audit
        return
    except Offence as offence:
        pytest.fail(f"the test ends with a wrong view: {offence}", pytrace=False)
