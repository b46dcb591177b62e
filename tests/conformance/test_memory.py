"""The contract of engines, in memory."""

import pytest

from oneread.engines.memory import MemoryEngine
from oneread.testing.conformance import EngineConformance


class TestMemory(EngineConformance):
    @pytest.fixture
    def open_engine(self):
        return MemoryEngine
