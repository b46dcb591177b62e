"""A guard is held by one call at a time, and by none whose frame has ended."""

import os
import threading

import pytest

from oneread.engines.guard import Guard

LONG = 30


def take(guard, timeout=0):
    """Takes the guard for a call that ends without giving it back."""
    return guard.take(timeout)


def test_a_guard_that_is_held_is_not_taken():
    guard = Guard()
    hold = guard.take(LONG)
    assert guard.take(0) is None
    assert guard.take(-1) is None
    assert take(guard, 0.001) is None
    hold.give_back()
    assert guard.take(0) is not None


def test_a_guard_whose_call_has_ended_is_taken_over():
    guard = Guard()
    kept = take(guard)
    assert kept is not None
    assert take(guard) is not None
    hold = guard.take(0)
    kept.give_back()  # too late: others had it since
    assert take(guard) is None
    hold.give_back()


def test_a_guard_whose_thread_has_ended_is_taken_over():
    guard = Guard()
    holds = []
    thread = threading.Thread(target=lambda: holds.append(guard.take(0)))
    thread.start()
    thread.join()
    assert holds[0] is not None
    assert guard.take(0) is not None


def test_a_guard_that_is_held_below_is_held():
    guard = Guard()
    hold = guard.take(0)
    outcomes = []

    def inner():
        outcomes.append(take(guard))
        thread = threading.Thread(target=lambda: outcomes.append(take(guard, 0.01)))
        thread.start()
        thread.join()

    inner()
    assert outcomes == [None, None]
    hold.give_back()


@pytest.mark.usefixtures("busy_threads")
def test_a_guard_is_held_while_its_call_runs_generators():
    """A generator that has just given a value has left the stack of its thread, and its callers with it."""
    guard = Guard()
    inside, over = threading.Event(), threading.Event()

    def holds():
        hold = guard.take(0)
        inside.set()
        while not over.is_set():
            sum(number for number in range(100))
        hold.give_back()

    thread = threading.Thread(target=holds)
    thread.start()
    try:
        assert inside.wait(LONG)
        assert [guard.take(0) for _ in range(20_000)] == [None] * 20_000
    finally:
        over.set()
        thread.join()
    assert guard.take(0) is not None


def test_threads_hold_it_one_after_the_other():
    guard = Guard()
    total = 0

    def add():
        nonlocal total
        for _ in range(200):
            hold = guard.take(LONG)
            before = total
            total = before + 1
            hold.give_back()

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert total == 800


def test_a_guard_that_a_thread_of_the_parent_held_is_free_in_the_child_of_a_fork():
    guard = Guard()
    inside, go = threading.Event(), threading.Event()

    def holds():
        hold = guard.take(0)
        inside.set()
        assert go.wait(LONG)
        hold.give_back()

    thread = threading.Thread(target=holds)
    thread.start()
    assert inside.wait(LONG)
    pid = os.fork()
    if pid == 0:
        os._exit(0 if guard.take(0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert guard.take(0) is None
    go.set()
    thread.join()
