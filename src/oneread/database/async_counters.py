"""The asynchronous face of named counters.

The synchronous face is generated from this module. See docs/explanation/counters.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeVar

from oneread.counters.counters import CounterEntry, CounterPlans, CounterWindow, Shard
from oneread.counters.reading import Reading
from oneread.counters.rows import CounterSettings, WindowSize
from oneread.counters.wanted import OnceToken, check_name
from oneread.database.transaction import TransactionWork
from oneread.errors import UsageError
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan

T = TypeVar("T")


class AsyncPlanRunner(Protocol):
    """What a handle of a counter needs of its database."""

    async def run(self, plan: Plan[T]) -> T:
        """Runs a plan against the store."""
        ...


class AsyncTransactionCounter:
    """A named counter in a transaction: `await tx.counter("votes:42").add(1)`."""

    def __init__(self, work: TransactionWork, plans: CounterPlans, name: str, declared: CounterSettings) -> None:
        self._work = work
        self._plans = plans
        self._key = check_name(name)
        self._declared = declared
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def add(self, amount: int = 1, /, *, once: OnceToken | None = None, at: datetime | None = None) -> None:
        """Adds to the counter when the transaction commits, and not if it does not. No request before the commit.

        There it costs what `add` costs outside, but for the transaction; adds without a token and without `at` are
        done together.

        Arguments:
            amount: a whole number of 64 bits.
            once: a token: an add that was counted before with it is left out; the rest of the transaction is not.
            at: the moment whose windows count it, as for `Counter.add`. One that is more than a day ahead of the clock
                is refused by the commit, and with it the transaction.

        Raises:
            InvalidValue: the amount is not a whole number of 64 bits, the token not text or bytes of 1 to 200 bytes, or
                `at` not a datetime with a time zone, of 1970 or later.
            UsageError: the schema is portable. A store that changes one row at a time could not do it: add after the
                transaction, with a token.
        """
        once_given = self._plans.once(self._key, once)
        self._work.count(self._plans.wanted(self._key, self._declared, amount, at), once_given)

    def _outside(self, *_given: object, **_named: object) -> NoReturn:
        """Raises UsageError: a transaction adds, and does nothing else with a counter."""
        raise UsageError(
            "a transaction only adds to a counter, when it commits: read it with db.counter(...), before or after",
            counter=self.name,
        )

    if not TYPE_CHECKING:  # type checkers refuse these by themselves
        read = look = windows = shards = settings = configure = delete = _outside


class AsyncCounter:
    """A named counter: `await db.counter("votes:42").add(1)`. Made by its first add; a read before that is 0.

    The handle holds nothing of the store and costs nothing to make. See `AsyncDatabase.counter`.
    """

    def __init__(
        self,
        database: AsyncPlanRunner,
        plans: CounterPlans,
        name: str,
        declared: CounterSettings,
        unobserved: Performer | None,
    ) -> None:
        self._database = database
        self._unobserved = unobserved
        self._plans = plans
        self._key = check_name(name)
        self._declared = declared
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def add(self, amount: int = 1, /, *, once: OnceToken | None = None, at: datetime | None = None) -> bool:
        """Adds to the counter, a negative amount too; returns whether it was counted by this call.

        One transaction of two requests, three rows and one more for each size of windows: the counter's settings and
        one shard are read, the shard is written. The first add of a process to a counter may cost a request more, and
        so does the first one in a window, which removes expired windows. A token costs three or four rows more.

        On a store that changes one row at a time: one request, two with a token; up to five more for the first add of a
        process to a counter or to a row of it. To an approximate counter always one, but for the first in 30 seconds,
        which reads the settings.

        Arguments:
            amount: a whole number of 64 bits; from 1 to 2**32 for an approximate counter.
            once: a token, such as a request's id: however often an add with it is tried, it is counted once. Kept for
                `CounterRules.once_for`, an hour unless the schema says otherwise: give up trying well before. A token
                belongs to one counter, and the first amount counts.
            at: the moment whose windows count it, with a time zone: that of a line of a log, say. The clock's unless
                given. A counter keeps so many windows up to its newest one: an older moment counts in the value only.
                May be up to a day ahead of the clock, as the clocks of other machines are, and `windows` shows it when
                its window begins. With it an add asks one scan more for each window that begins.

        Returns:
            False when this token was counted before; nothing is added then.

        Raises:
            InvalidValue: the amount is not a whole number of 64 bits, the token not text or bytes of 1 to 200 bytes, or
                `at` not a datetime with a time zone, of 1970 or later, at most a day ahead of the clock.
            UsageError: the counter is approximate and this handle does not say so, or the other way round; or an
                approximate one was given a token, or is shown by a field of an entity.
            Unavailable: the store did not answer; nothing was added.
            OutcomeUnknown: it may be counted or not. With a token, add again with the same one, unless the call was
                tried for half of the time that the token is kept. An add to an approximate counter is never repeated
                by the library; adding again may count it twice.

        Examples:
            ```python
            votes = db.counter("votes:42")
            assert await votes.add(1, once="request 7") is True
            assert await votes.add(1, once="request 7") is False
            ```
        """
        if at is None and self._unobserved is not None:
            added = self._plans.add_now(self._unobserved, self._key, self._declared, amount, once)
            if added is not None:
                return added
        return await self._database.run(self._plans.add(self._key, self._declared, amount, once, at))

    async def read(self, *, max_age: float | None = None) -> int:
        """The counter's value; 0 before its first add.

        Exact without `max_age`: the sum at one moment of this call. One request, and a row for each shard that exists.

        Arguments:
            max_age: seconds. Then the value may be one that this process read before, and was exactly the counter's at
                a moment no longer ago; one that is remembered costs no request. A counter that is only added to never
                has less than that, and readers through one open database never see it fall while it is remembered: what
                exact reads find is remembered, too. `look` returns the age.

        Raises:
            InvalidValue: `max_age` is not a number of seconds from 0 to a year.

        Examples:
            ```python
            assert await db.counter("votes:42").read(max_age=60) <= await db.counter("votes:42").read()
            ```
        """
        return await self._database.run(self._plans.read(self._key, max_age))

    async def look(self, *, max_age: float | None = None) -> Reading:
        """Like `read`, with the age of the value and what was added and taken. Costs the same.

        Examples:
            ```python
            seen = await db.counter("votes:42").look(max_age=60)
            assert seen.value == seen.raised - seen.lowered
            assert seen.age <= 60
            ```
        """
        return await self._database.run(self._plans.look(self._key, max_age))

    async def windows(
        self, size: WindowSize, *, last: int | None = None, until: datetime | None = None
    ) -> list[CounterWindow]:
        """What was counted in the last windows of a size, oldest first; without `until` the last one is not over yet.

        Windows begin at whole minutes, hours and days of UTC, by the clock of the process that adds, or by `at`. Two
        requests, and a row for each window with an add; with `until` three, and a row more.

        Arguments:
            size: "minute", "hour" or "day".
            last: how many; all that are kept unless given. Windows without an add are 0.
            until: the windows that began before this moment, which has a time zone; those up to now unless given. The
                windows that are kept are so many up to the newest one with an add, or up to now if that is earlier;
                others are left out. So what was added with `at=` is read by the time of its log.

        Raises:
            InvalidQuery: the counter keeps no windows of this size.
            InvalidValue: `until` is not a datetime with a time zone, of 1970 or later.

        Examples:
            ```python
            views = db.counter("views:7", keep={"hour": 48})
            await views.add(1)
            today = sum(each.value for each in await views.windows("hour", last=24))
            ```
        """
        return await self._database.run(self._plans.windows(self._key, self._declared, size, last, until))

    async def shards(self) -> list[Shard]:
        """The rows that hold the counter, those included that get no more adds. One request, a row each."""
        return await self._database.run(self._plans.shards(self._key))

    async def settings(self) -> CounterEntry:
        """How the counter is kept. One request, one row."""
        return self._entry(await self._database.run(self._plans.settings(self._key, self._declared)))

    async def configure(
        self, *, shards: int | None = None, keep: Mapping[WindowSize, int] | None = None
    ) -> CounterEntry:
        """Changes how the counter is kept, while others add to it; its value does not change. One transaction.

        Arguments:
            shards: rows that later adds are spread over, 1 to 256. No value is moved: rows that exist are read for
                ever, so fewer shards make no read cheaper.
            keep: how many windows of each size are kept, in place of what is kept now. Windows of other sizes are
                removed. A program that declares more sizes with `db.counter(..., keep=)` adds them again.

        Raises:
            InvalidValue: a number is out of bounds.
        """
        return self._entry(await self._database.run(self._plans.configure(self._key, self._declared, shards, keep)))

    async def delete(self) -> None:
        """Removes the counter with its windows and settings; does nothing for one that is not there.

        The next add makes it again, from 0. A token that was counted before is still counted: adding with it again adds
        nothing. What others remember (`max_age`) stays until it is too old, and a batch adds what waits in it. An
        entity that shows the counter shows 0 within its `every`. One transaction, a row for each row of the counter.

        Examples:
            ```python
            await db.counter("votes:42").delete()
            ```
        """
        await self._database.run(self._plans.delete(self._key))

    def _entry(self, settings: CounterSettings) -> CounterEntry:
        return CounterEntry(self.name, settings.shards, dict(settings.windows), settings.approximate)
