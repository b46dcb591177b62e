"""The power fails, between any two calls that LMDB makes of the system; what was acknowledged must be there.

The story: a commit was acknowledged when its data had been synced, but LMDB's meta page, without which the commit does
not exist, had only been written. Nothing that kills processes shows that: the kernel keeps what they wrote. So the calls
of real runs are recorded below the real LMDB, and files are put together as a disk may hold them at that moment.
ONEREAD_POWER_FAILURES says how often the power fails in each run; `make sim` sets it higher.
"""

import os

import pytest

from tests.power.failures import BACKUP, Run
from tests.power.recording import finished, started

FAILURES = int(os.environ.get("ONEREAD_POWER_FAILURES", "20"))
OPENING = 1  # the sync of a data file that was there before: what earlier processes left is put on disk
MODES = ("group", "may_lose_last")


@pytest.fixture
def world(tmp_path):
    folder = tmp_path / "world"
    folder.mkdir()
    return folder


def url(world, durability="group"):
    return f"lmdb://{world}/store?durability={durability}"


def test_one_writer(shim, world, tmp_path):
    finished(started(shim, world, "one", url(world), 20))
    run = Run(world)
    assert len(run.acknowledged(len(run.records))) == 12
    assert all(run.meta_writes()), "a meta page was written and not synced"
    assert run.broken(tmp_path / "left", FAILURES, run.acknowledged) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_new_store_is_whole_or_absent_and_its_names_last(shim, world, tmp_path, mode):
    finished(started(shim, world, "one", url(world, mode), 0))
    run = Run(world)
    required = run.acknowledged if mode == "group" else run.all_but_last
    assert run.broken(tmp_path / "left", FAILURES, required) == []


@pytest.mark.parametrize("mode", MODES)
def test_eight_threads_share_syncs(shim, world, tmp_path, mode):
    finished(started(shim, world, "threads", url(world, mode), 8, 5, slow=2000))
    run = Run(world)
    commits, groups = len(run.acknowledgements(len(run.records))), len(run.meta_writes())
    assert commits == 8 * 5 + 2
    assert groups < commits
    assert all(run.meta_writes()) if mode == "group" else not any(run.meta_writes())
    assert len(run.syncs()) == groups + OPENING, "a group is one sync of its data and one of its meta page"
    required = run.acknowledged if mode == "group" else run.before_last_sync
    assert run.broken(tmp_path / "left", FAILURES, required) == []


@pytest.mark.parametrize("other", MODES)
def test_two_processes_keep_each_its_own_promise(shim, world, tmp_path, other):
    finished(started(shim, world, "one", url(world), 0))
    first = started(shim, world, "second", url(world), 100, 10)
    second = started(shim, world, "second", url(world, other), 200, 10)
    finished(first)
    finished(second)
    run = Run(world)
    assert len({record.process for record in run.acknowledgements(len(run.records))}) == 3

    def required(end):
        own = None if other == "group" else first.pid
        return run.acknowledged(end, own)

    assert run.broken(tmp_path / "left", FAILURES, required) == []


def test_the_mode_that_may_lose_the_last_group_loses_no_more(shim, world, tmp_path):
    finished(started(shim, world, "one", url(world, "may_lose_last"), 20))
    run = Run(world)
    assert not any(run.meta_writes())
    assert run.broken(tmp_path / "all but last", FAILURES, run.all_but_last) == []
    assert run.broken(tmp_path / "all", FAILURES, run.acknowledged), "a disk without the last meta page goes unseen"


def test_a_backup_is_there_when_it_returns(shim, world, tmp_path):
    finished(started(shim, world, "backed_up", url(world), world / "copy"))
    run = Run(world)
    done = next(at for at, record in enumerate(run.records) if record.data == BACKUP)

    def required(end):
        return run.acknowledged(end) if end > done else []

    assert run.broken(tmp_path / "left", FAILURES, required, store="copy") == []
