import asyncio
import threading
from time import perf_counter

import pytest

from oneread.errors import BudgetExceeded, Unavailable
from oneread.launches.account import DarkAccount, Metered, TimedAllowance
from oneread.launches.dark_threads import DarkThreads


def test_a_twentieth_of_the_time_may_be_taken():
    now = 0.0
    account = DarkAccount(lambda: now)
    taken = 0.0
    for _ in range(10_000):
        now += 0.01
        if account.is_open:
            account.charge(0.02)
            taken += 0.02
    assert taken == pytest.approx(100 * 0.05 + 0.25, abs=0.05)


def test_a_pause_saves_no_more_than_a_quarter_of_a_second():
    now = 0.0
    account = DarkAccount(lambda: now)
    now = 10_000.0
    account.charge(0.0)
    account.charge(0.3)
    assert not account.is_open
    now += 1.1
    assert account.is_open


def test_no_request_is_begun_after_the_deadline():
    allowance = TimedAllowance(1, 10, perf_counter() + 60)
    allowance.begin(1, 1, 0)
    allowance.charge(1, 1, 10, (1, 1, 0))
    with pytest.raises(BudgetExceeded):
        allowance.begin(1, 1, 0)
    late = TimedAllowance(None, None, perf_counter() - 1)
    for verb in (late.begin, late.check):
        with pytest.raises(Unavailable, match="too long"):
            verb(1, 1, 0)


def test_a_task_is_charged_its_steps_and_not_its_waits():
    account = DarkAccount()

    async def work():
        await asyncio.sleep(0.3)
        until = perf_counter() + 0.05
        while perf_counter() < until:
            pass
        return 7

    async def main():
        return await Metered(work(), account)

    left = account._left
    assert asyncio.run(main()) == 7
    assert 0.03 < left - account._left < 0.2


def test_an_error_passes_through_a_metered_task():
    async def work():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            raise LookupError from None

    async def main():
        async with asyncio.timeout(0.01):
            await Metered(work(), DarkAccount())

    with pytest.raises(LookupError):
        asyncio.run(main())


def test_threads_end_while_the_keeper_starts_another_one():
    dark = DarkThreads(DarkAccount())
    dark._wanted = 2
    dark.tick()
    first, woken = list(dark._threads), dark._woken
    other = threading.Thread(target=len, args=("",))
    other.start()

    class Woken:
        """Puts a token; meanwhile another thread has come."""

        def put(self, token):
            dark._threads[other] = float("inf")
            woken.put(token)

    dark._woken = Woken()
    dark.end()
    assert not any(each.is_alive() for each in first)
