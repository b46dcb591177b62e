"""The power fails, between any two calls that LMDB makes of the system; what was acknowledged must be there.

The story: a commit was acknowledged when its data had been synced, but LMDB's meta page, without which it does
not exist, had only been written. Nothing that kills processes shows that: the kernel keeps what they wrote. So calls of
real runs are recorded below the real LMDB, and files are put together as a disk may hold them at that moment.
ONEREAD_POWER_FAILURES says how often the power fails in each run; `make sim` sets it higher.
"""

import pytest

from tests.failures.stores import until
from tests.power.failures import BACKUP, FAILURES, WAYS, Run
from tests.power.recording import finished, started, url

OPENING = 1  # the sync of a data file that was there before: what earlier processes left is put on disk
MODES = ("group", "may_lose_last")


def test_one_writer(shim, opener, world, tmp_path):
    finished(started(shim, world, "one", url(world), 20))
    run = Run(world, opener)
    assert len(run.acknowledged(len(run.records))) == 12
    assert all(run.meta_writes()), "a meta page was written and not synced"
    assert run.broken(tmp_path / "left", run.sampled(FAILURES), run.acknowledged) == []


@pytest.mark.parametrize("mode", MODES)
def test_a_new_store_is_whole_or_absent_and_its_names_last(shim, opener, world, tmp_path, mode):
    finished(started(shim, world, "one", url(world, mode), 0))
    run = Run(world, opener)
    required = run.acknowledged if mode == "group" else run.all_but_last
    assert run.broken(tmp_path / "left", run.sampled(FAILURES), required) == []


@pytest.mark.parametrize("mode", MODES)
def test_eight_threads_share_syncs(shim, opener, world, tmp_path, mode):
    finished(started(shim, world, "threads", url(world, mode), 8, 5, slow=2000))
    run = Run(world, opener)
    commits, groups = len(run.acknowledgements(len(run.records))), len(run.meta_writes())
    assert commits == 8 * 5 + 2
    assert groups < commits
    assert all(run.meta_writes()) if mode == "group" else not any(run.meta_writes())
    assert len(run.syncs()) == groups + OPENING, "a group is one sync of its data and one of its meta page"
    required = run.acknowledged if mode == "group" else run.before_last_sync
    assert run.broken(tmp_path / "left", run.sampled(FAILURES), required) == []


@pytest.mark.parametrize("other", MODES)
def test_two_processes_keep_each_its_own_promise(shim, opener, world, tmp_path, other):
    first = started(shim, world, "second", url(world), 100, 10)
    until((world / "store" / "writer.lock").exists)  # what makes the folder is recorded when it has returned
    second = started(shim, world, "second", url(world, other), 200, 10)
    finished(first)
    finished(second)
    run = Run(world, opener)
    assert len({record.process for record in run.acknowledgements(len(run.records))}) == 2

    def required(end):
        own = None if other == "group" else first.pid
        return run.acknowledged(end, own)

    assert run.broken(tmp_path / "left", run.sampled(FAILURES), required) == []


def test_the_mode_that_may_lose_the_last_group_loses_no_more(shim, opener, world, tmp_path):
    finished(started(shim, world, "one", url(world, "may_lose_last"), 20))
    run = Run(world, opener)
    assert not any(run.meta_writes())
    assert run.broken(tmp_path / "all but last", run.sampled(FAILURES), run.all_but_last) == []
    assert run.broken(tmp_path / "all", run.sampled(FAILURES), run.acknowledged), (
        "a disk without the last meta page goes unseen"
    )


def test_a_backup_is_there_when_it_returns(shim, opener, world, tmp_path):
    finished(started(shim, world, "backed_up", url(world), world / "copy"))
    run = Run(world, opener)
    done = next(at for at, record in enumerate(run.records, 1) if record.data == BACKUP)
    failures = [(at, way) for at in (done, len(run.records)) for way in WAYS]
    assert run.broken(tmp_path / "left", failures, run.acknowledged, left_in="copy") == []
