"""The contract of engines, on Bigtable."""

from uuid import uuid4

import pytest
from hypothesis import settings

from oneread.engines.bigtable import BigtableEngine, BigtableOptions, emulated
from oneread.testing.conformance import EngineConformance


class TestBigtable(EngineConformance):
    examples = settings().max_examples // 2  # each opens a store, and makes dozens of requests
    deletes_while_read = False  # of the emulator: see the test

    @pytest.fixture
    def open_engine(self, instances, emulator):
        def open_engine():
            options = BigtableOptions("test", f"i{uuid4().hex}")
            engine = BigtableEngine(options, emulated(emulator.host))
            instances[engine] = options
            return engine

        return open_engine

    @pytest.fixture
    def reopen_engine(self, instances, emulator):
        def reopen_engine(closed):
            engine = BigtableEngine(instances[closed], emulated(emulator.host))
            instances[engine] = instances[closed]
            return engine

        return reopen_engine

    @pytest.fixture
    def instances(self):
        """The options of each engine that was opened."""
        return {}
