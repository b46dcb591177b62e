"""Leases that are over at once, so that no test waits for one: they are counted by the clock of the machine."""

import pytest

from oneread.evolution import leased_fence
from oneread.transactions import journal_recovery


@pytest.fixture(autouse=True)
def short_leases(monkeypatch):
    monkeypatch.setattr(leased_fence, "LEASE_SECONDS", 0.015)
    monkeypatch.setattr(journal_recovery, "END_SECONDS", 0.02)
    monkeypatch.setattr(leased_fence, "MOVING_LEASE_SECONDS", 0.01)
    monkeypatch.setattr(journal_recovery, "MOVING_END_SECONDS", 0.015)
