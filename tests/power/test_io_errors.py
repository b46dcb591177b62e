"""Calls fail below LMDB: syncs, writes, writes of the meta page; then the power fails as well.

The story: a sync that fails is reported once. The kernel then takes the pages for clean, so the next sync succeeds
though they never reached the disk, and what is acknowledged on that basis is lost. The model's disk does the same.
"""

import json

import pytest

from tests.power.failures import FAILURES, Run
from tests.power.recording import DSYNC, finished, started, url

UNKNOWN, FULL, GONE = "OutcomeUnknown", "LimitExceeded", "Unavailable"
SYNC, WRITE, META = "S", "W", "D"
CASES = {
    "a sync": (SYNC, 1, "EIO", 0, [UNKNOWN]),
    "a sync, and the one after it": (SYNC, 2, "EIO", 0, [UNKNOWN]),
    "syncs for a while": (SYNC, 5, "EIO", 0, [UNKNOWN, GONE, GONE, GONE]),
    "a sync, for want of room": (SYNC, 1, "ENOSPC", 0, [FULL]),
    "a write": (WRITE, 1, "EIO", 0, [UNKNOWN]),
    "a write, for want of room": (WRITE, 1, "ENOSPC", 0, [FULL]),
    "a write, cut short": (WRITE, 1, "short", 0, [UNKNOWN]),
    "a write that is on disk all the same": (WRITE, 1, "EIO", 1, [UNKNOWN]),
    "a meta page": (META, 1, "EIO", 0, [UNKNOWN, *[GONE] * 5]),
    "a meta page that is on disk all the same": (META, 1, "EIO", 1, [UNKNOWN, *[GONE] * 5]),
    "a meta page, cut short": (META, 1, "short", 0, [UNKNOWN, *[GONE] * 5]),
}
STORES = [
    (mode, name)
    for mode in ("group", "may_lose_last")
    for name, (kind, *_) in CASES.items()
    if mode == "group" or kind == SYNC
]


@pytest.fixture(scope="module")
def tried(shim, tmp_path_factory):
    """All cases, each on a store of its own, in one process; what the saves of each became."""
    world = tmp_path_factory.mktemp("failing") / "world"
    world.mkdir()
    asked = [[f"store-{at}", mode, *CASES[name][:-1]] for at, (mode, name) in enumerate(STORES)]
    return world, json.loads(finished(started(shim, world, "failing", world, json.dumps(asked))))


@pytest.mark.parametrize("at", range(len(STORES)), ids=[", ".join(store) for store in STORES])
def test_what_failed_is_said_and_what_is_acknowledged_lasts(tried, opener, tmp_path, at):
    (world, became), (mode, name) = tried, STORES[at]
    expected = CASES[name][-1]
    assert became[at] == [*expected, *["saved"] * (6 - len(expected))]
    run = Run(world, opener, f"store-{at}")
    if mode == "group":
        assert run.broken(tmp_path / "left", run.sampled(FAILURES // 3), run.acknowledged) == []
    else:
        failures = [(at, "nothing that was not synced") for at in run.marks()]
        assert run.broken(tmp_path / "left", failures, run.all_but_last) == []


def test_a_meta_page_that_failed_in_one_process_harms_no_other(shim, opener, world, tmp_path):
    """LMDB puts the old meta page back in memory only: what the other writes may reach the disk before that does."""
    other = started(shim, world, "second", url(world), 100, 3, "later")
    assert other.stdout.readline() == "ready\n", other.stderr.read()
    failing = started(shim, world, "meta_fails", url(world))
    assert failing.stdout.readline() == "failed\n", failing.stderr.read()
    finished(other)
    finished(failing)
    run = Run(world, opener)
    failed = next(at for at, record in enumerate(run.records) if record.flags & DSYNC and record.result < 0)
    moments = range(failed + 1, failed + 30)
    assert run.broken(tmp_path / "left", [(at, "an older meta page") for at in moments], run.acknowledged) == []
