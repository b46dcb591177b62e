"""The garbage collector rests in blocks of any threads, and works again when the last of them has ended."""

import gc
import os
import sys

import pytest

from oneread.plans.collector import PausedCollector


@pytest.fixture(autouse=True)
def enabled():
    assert gc.isenabled()
    yield
    gc.enable()


def test_the_collector_rests_until_the_last_batch_of_all_threads_has_ended():
    assert gc.isenabled()
    with PausedCollector():
        with PausedCollector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    with PausedCollector():
        pass
    assert not gc.isenabled()
    gc.enable()


def test_the_collector_works_in_the_child_of_a_fork_during_a_batch():
    with PausedCollector():
        child = os.fork()
        if child == 0:
            works = gc.isenabled()
            with PausedCollector():
                rests = not gc.isenabled()
            os._exit(0 if works and rests and gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not gc.isenabled()
    assert gc.isenabled()


class Interrupted(BaseException):
    pass


def interrupted(count):
    """Runs a block, and raises at the given line of entering and leaving it; whether there are so many."""
    left = [count]
    lines = {PausedCollector.__enter__.__code__, PausedCollector.__exit__.__code__}

    def step(frame, event, _argument):
        if frame.f_code not in lines or frame.f_back.f_code is PausedCollector.__del__.__code__:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise Interrupted
        return step

    before = sys.gettrace()
    try:
        sys.settrace(step)
        with PausedCollector():
            pass
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interrupt_at_any_line_leaves_no_pause_behind():
    counts = range(1, 30)
    working = [(interrupted(count), gc.isenabled()) for count in counts]
    assert [enabled for _raised, enabled in working] == [True for _count in counts]
    assert 5 < sum(raised for raised, _enabled in working) < len(counts)
