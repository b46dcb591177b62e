"""The contract of engines, in memory and one row at a time."""

import pytest

from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.testing.conformance import EngineConformance


@pytest.fixture(params=["hide", "remove"])
def deletes(request):
    return request.param


class TestOneRowMemory(EngineConformance):
    @pytest.fixture
    def open_engine(self, deletes):
        return lambda: OneRowMemoryEngine(deletes)
