from uuid import uuid4

import pytest

from oneread.engines.bigtable import BigtableEngine, BigtableOptions, emulated
from oneread.testing.conformance import EngineConformance


class TestBigtable(EngineConformance):
    examples = 25  # each opens a store, and makes dozens of requests

    @pytest.fixture
    def open_engine(self, emulator):
        return lambda: BigtableEngine(BigtableOptions("test", f"i{uuid4().hex}"), emulated(emulator.host))
