"""The contract of engines, on LMDB."""

from itertools import count

import pytest

from oneread.engines.lmdb import LmdbEngine, binding
from oneread.testing.conformance import EngineConformance


class TestLmdb(EngineConformance):
    decides_in_turn = not binding.COMMITS_DECISIONS

    @pytest.fixture
    def open_engine(self, tmp_path):
        numbers = count()
        return lambda: LmdbEngine(str(tmp_path / f"store{next(numbers)}"), durability="none")

    @pytest.fixture
    def reopen_engine(self):
        return lambda engine: LmdbEngine(engine._path, durability="none")


class TestLmdbOnDisk(EngineConformance):
    @pytest.fixture
    def open_engine(self, tmp_path):
        numbers = count()
        return lambda: LmdbEngine(str(tmp_path / f"store{next(numbers)}"), prefix="tenant.")

    @pytest.fixture
    def reopen_engine(self):
        return lambda engine: LmdbEngine(engine._path, prefix="tenant.")

    test_any_sequence_of_requests_answers_as_a_plain_dict_does = None  # as above, with a wait for the disk per request
