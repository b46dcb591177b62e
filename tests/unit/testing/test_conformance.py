"""The suite of engines is worth what it finds: each engine that breaks a promise fails at least one of its tests.

Without the test that tries sequences at random: the others are to find every one, whichever sequences are tried.
"""

import inspect
import os
from importlib import import_module

import pytest

from oneread.engines.memory import MemoryEngine
from oneread.engines.one_row_memory import OneRowMemoryEngine
from tests.unit.testing.broken_stores import SOUND

ENGINES = (MemoryEngine, OneRowMemoryEngine)
MODULES = ("tests.unit.testing.broken_engines", "tests.unit.testing.broken_stores")

SLOW = ("test_a_reader_sees_a_row_before_a_change_or_after_it", "test_a_scan_answers_more_rows_than_a_batch_has")
OPTIONS = ("--import-mode=importlib", "--assert=plain", "--tb=no", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")

SUITE = """
import pytest
from oneread.testing.conformance import EngineConformance

@pytest.fixture
def reopen_engine():
    return lambda engine: engine.opened_again()

def suite(name, engine):
    open_engine = pytest.fixture(lambda self: engine)
    return type(f"Test{name}", (EngineConformance,), {"open_engine": open_engine})
"""


def engines(module):
    """The engines of a module."""
    return {
        name: each
        for name, each in vars(import_module(module)).items()
        if inspect.isclass(each) and each.__module__ == module and issubclass(each, ENGINES) and name != "Altered"
    }


class Found:
    """Runs the tests of an engine until one fails, those that take longest at the end."""

    def __init__(self):
        self.by = {}
        self.ran = set()

    def pytest_collection_modifyitems(self, items):
        kept = [item for item in items if "async" not in item.name and "any_sequence" not in item.name]
        items[:] = sorted(kept, key=lambda item: item.originalname in SLOW)

    def pytest_runtestloop(self, session):
        for item in session.items:
            if item.cls.__name__ not in self.by:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return True

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.split("::")[1]
        self.ran.add(name)
        if report.failed:
            self.by.setdefault(name, report.nodeid.split("::")[2])


@pytest.mark.parametrize("module", MODULES)
def test_the_suite_finds_each_engine_that_breaks_a_promise(tmp_path, module):
    given = engines(module)
    classes = [f"Test{name} = suite({name!r}, {name})" for name in given]
    written = tmp_path / f"test_{module.rpartition('.')[2]}.py"
    written.write_text("\n".join([f"from {module} import *", SUITE, *classes]))
    found = Found()
    pytest.main([*OPTIONS, "--rootdir", str(tmp_path), "-c", os.devnull, str(written)], plugins=[found])
    assert found.ran == {f"Test{name}" for name in given}
    assert {name: found.by.get(f"Test{name}") for name in given.keys() & SOUND} == dict.fromkeys(given.keys() & SOUND)
    assert sorted(given.keys() - SOUND - {name.removeprefix("Test") for name in found.by}) == []
