"""The counters of one open database: what its faces ask of this room, as plans.

See docs/explanation/counters.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from oneread.counters import reading
from oneread.counters.cache import CounterCache, Remembered
from oneread.counters.committer import CounterCommitter, Once
from oneread.counters.reading import Reading
from oneread.counters.rows import SETTINGS, CounterSettings, Sums, WindowSize, kept, text_of
from oneread.counters.wanted import (
    NO_TOKENS,
    NO_WINDOWS,
    NOT_SHOWN,
    Add,
    CounterRules,
    check_amount,
    check_growth,
    check_keep,
    check_limit,
    check_moment,
    check_seconds,
    check_shards,
    check_size,
    check_token,
)
from oneread.counters.windows import WantedWindows, read_windows
from oneread.errors import InvalidQuery, InvalidValue, UsageError
from oneread.plans.allowance import CURRENT
from oneread.plans.performer import Performer
from oneread.plans.plan import Plan
from oneread.transactions.chores import Chore

DEFAULT_RULES: Final = CounterRules()


class CounterEntry(msgspec.Struct, frozen=True):
    """A counter in a list.

    Arguments:
        name: of the counter.
        shards: rows that adds are spread over.
        windows: how many of each size are kept.
        approximate: whether adds to it are increments of the store, which may be lost with their answers.
    """

    name: str
    shards: int
    windows: dict[WindowSize, int]
    approximate: bool = False


class Shard(msgspec.Struct, frozen=True):
    """One row of a counter.

    Arguments:
        number: from 0. One that is not below the counter's number of shards gets no more adds; it still counts.
        value: what was added here less what was taken.
        raised: all that was added.
        lowered: all that was taken.
    """

    number: int
    value: int
    raised: int
    lowered: int


class CounterWindow(msgspec.Struct, frozen=True):
    """What one window of a counter holds.

    Arguments:
        start: when it began, in UTC; it ends where the next one begins.
        value: what was added in it less what was taken.
    """

    start: datetime
    value: int


class CounterPlans:
    """The verbs of counters as plans; `declared` says how a counter is kept that is new.

    `committer` changes them, and `sweeper` removes what is not needed any more. `showing` finds what entities show the
    counter of a name.
    """

    def __init__(
        self,
        committer: CounterCommitter,
        sweeper: Chore,
        rules: CounterRules,
        showing: Callable[[str], Sequence[object]],
    ) -> None:
        self.committer = committer
        self.sweeper = sweeper
        self.rules = rules
        self._showing = showing
        self.cache = CounterCache()

    def declared(
        self, shards: object, keep: object, *, approximate: object = False, name: object = ""
    ) -> CounterSettings:
        """How a counter is kept that is new; `name` is that of an approximate one, which no entity may show."""
        if shards is None and keep is None and approximate is False:  # most
            return CounterSettings(0, self.rules.shards)
        many = self.rules.shards if shards is None else check_shards(shards)
        windows = check_keep(keep)
        if type(approximate) is not bool:
            raise InvalidValue("approximate is True or False", approximate=approximate)
        if approximate and windows:
            raise UsageError(NO_WINDOWS, keep=windows)
        if approximate and isinstance(name, str) and self._showing(name):
            raise UsageError(NOT_SHOWN, counter=name)
        return CounterSettings(0, many, windows, approximate=approximate)

    def add(
        self, name: bytes, declared: CounterSettings, amount: object, token: object, at: object = None
    ) -> Plan[bool]:
        if declared.approximate:
            check_growth(amount)
            if token is not None:
                raise UsageError(NO_TOKENS, counter=text_of(name), once=token)
        once = self.once(name, token)
        return self.committer.add([self.wanted(name, declared, amount, at, checks_kind=True)], once)

    def add_now(
        self, driver: Performer, name: bytes, declared: CounterSettings, amount: object, token: object = None
    ) -> bool | None:
        """`add` without its plan, where compiled code does it; None where only the plan can, or refuses.

        Stepping the plan costs as much as the add. The plan is for those who count requests, too.
        """
        commits = driver.at_once
        if commits is None or CURRENT.get() is not None:
            return None
        if declared.approximate:
            if token is not None:
                return None
            check_growth(amount)
        once = self.once(name, token)
        wanted = self.wanted(name, declared, amount, None, checks_kind=True)
        asked = self.committer.question(wanted, once, driver.now(), driver.chance())
        return None if asked is None else commits.add_compiled(asked)

    def wanted(
        self, name: bytes, declared: CounterSettings, amount: object, at: object, *, checks_kind: bool = False
    ) -> Add:
        """One add, in the windows of a moment unless that is None."""
        moment = None if at is None else check_moment("at", at)
        return Add(name, check_amount(amount), declared, moment, checks_kind)

    def once(self, name: bytes, token: object) -> Once | None:
        """What makes an add with a token count once; None for one without."""
        return None if token is None else Once(name, check_token(token), float(self.rules.once_for))

    def read(self, name: bytes, max_age: object) -> Plan[int]:
        return (yield from reading.read_remembered(self.cache, name, _oldest(max_age))).sums.value

    def look(self, name: bytes, max_age: object) -> Plan[Reading]:
        found = yield from reading.read_remembered(self.cache, name, _oldest(max_age))
        return reading.reading(found, 0.0 if max_age is None else self.cache.age(found))

    def windows(
        self, name: bytes, declared: CounterSettings, size: object, last: object, until: object
    ) -> Plan[list[CounterWindow]]:
        wanted = check_size(size)
        end = None if until is None else check_moment("until", until)
        if last is not None and not (type(last) is int and last > 0):
            raise InvalidQuery("last is how many windows to read, 1 or more", last=last)
        found = yield from read_windows(self.committer, name, WantedWindows(wanted, last, end), declared)
        return [CounterWindow(datetime.fromtimestamp(start, UTC), sums.value) for start, sums in found]

    def shards(self, name: bytes) -> Plan[list[Shard]]:
        seen, since = self.cache.get(name), self.cache.clock()
        rows: list[tuple[int, Sums]] = yield from reading.read_shards(name)
        self.cache.replace(name, seen, Remembered(*reading.added_up(rows), since))
        return [Shard(number, sums.value, *sums) for number, sums in rows]

    def settings(self, name: bytes, declared: CounterSettings) -> Plan[CounterSettings]:
        return kept((yield from reading.read_settings(name)), declared)

    def configure(self, name: bytes, declared: CounterSettings, shards: object, keep: object) -> Plan[CounterSettings]:
        many = None if shards is None else check_shards(shards)
        windows = None if keep is None else check_keep(keep)
        return self.committer.configure(name, declared, many, windows)

    def delete(self, name: bytes) -> Plan[None]:
        yield from self.committer.delete(name)
        self.cache.forget(name)

    def entries(self, prefix: object, limit: object, after: object) -> Plan[list[CounterEntry]]:
        within = reading.names_of(SETTINGS, prefix, after)
        found = yield from reading.list_counters(within, check_limit(limit))
        declared = self.declared(None, None)
        kept_as = [(name, kept(settings, declared)) for name, settings in found]
        return [
            CounterEntry(name, settings.shards, dict(settings.windows), settings.approximate)
            for name, settings in kept_as
        ]


def _oldest(max_age: object) -> float:
    """How old a value may be that is remembered; an exact read takes none."""
    return 0.0 if max_age is None else check_seconds("max_age", max_age)
