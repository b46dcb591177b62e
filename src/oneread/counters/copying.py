"""Copies the values of counters to the fields that show them.

An add never writes an entity. The first add after a copy marks the counter in its own transaction; a worker takes the
mark away, reads the counter and commits the entities that show it, in one transaction: so a counter is marked, or its
entities show its value. See docs/decisions/0055-counters-as-sources.md.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from oneread.counters.rows import (
    MARKED,
    SETTINGS,
    encode_settings,
    mark_key,
    marked_since,
    name_key,
    name_of,
    new_mark,
)
from oneread.counters.settings import read_settings_row
from oneread.errors import OnereadError
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.scans import check_ascending
from oneread.store.requests import Scan
from oneread.store.rows import VALUE, Cell, Row, later
from oneread.transactions import outbox
from oneread.transactions.derived_writes import Group
from oneread.transactions.native import NativeCommitter, TaskStep
from oneread.transactions.refusals import ENDING

BATCH: Final = 100
"""Counters copied in one transaction."""
PAUSE_SECONDS: Final = 5.0
"""The longest that a worker waits before it looks for marks again."""

_log = logging.getLogger(__name__)


class CounterSources(Protocol):
    """Which entities show which counters."""

    def __bool__(self) -> bool:
        """Whether any entity shows a counter."""
        ...

    def groups(self, name: str) -> list[Group]:
        """The counter of this name, once for each kind of entity that could show it."""
        ...

    def every(self, name: str) -> float:
        """Seconds within which the value is copied; 0 for a counter that is not shown."""
        ...

    @property
    def soonest(self) -> float:
        """The least `every` of all."""
        ...


class CounterCopier:
    """Copies the values of the counters of one open database, when they are due; the stores differ in how."""

    def __init__(self, sources: CounterSources) -> None:
        self._sources = sources
        self._last = b""

    @property
    def pause(self) -> float:
        """Seconds after which a worker looks for marks again, so that none is copied too late."""
        return min(PAUSE_SECONDS, self._sources.soonest / 2)

    def step(self, batch: int = BATCH) -> Plan[bool]:
        """Looks at some marked counters, of all in turn, and copies those that are due; whether to go on at once.

        Costs nothing where no entity shows a counter; else one scan, and a transaction for those that are copied: what
        a commit of the entities costs, and for each counter a row for the mark and a scan of its shards.
        """
        if not self._sources:
            return False
        now = yield from Now()
        marked, self._last = yield from self._marked(self._last, batch)
        due = {name: mark for name, mark in marked.items() if self._is_due(name, marked_since(mark), now)}
        copied = (yield from self.copy(due)) if due else 0
        return bool(copied or self._last)

    def copy_all(self, batch: int = BATCH) -> Plan[bool]:
        """Copies all marked counters, also before they are due; whether there were any. Costs what its steps would."""
        copied, last, more = 0, b"", bool(self._sources)
        while more:
            marked, last = yield from self._marked(last, batch)
            copied += (yield from self.copy(marked)) if marked else 0
            more = bool(last)
        return bool(copied)

    def _marked(self, last: bytes, batch: int) -> Plan[tuple[dict[str, Row], bytes]]:
        """Marked counters behind a row, by name with their marks; and the last row, empty if there are no more."""
        within = MARKED.behind(last) if last else MARKED
        found = yield from Scan("counts", within, batch)
        check_ascending("counts", within, found)
        return {name_of(key): row for key, row in found}, found[-1][0] if len(found) == batch else b""

    def copy(self, marked: Mapping[str, Row]) -> Plan[int]:
        """Copies counters, by their names with their marks; returns how many could be."""
        raise NotImplementedError

    def _is_due(self, name: str, since: int, now: int) -> bool:
        """Whether a mark cannot wait for the next look; a mark from the future is of a clock that was set back."""
        left = since + (self._sources.every(name) - self.pause) * 1000 - now
        return left <= 0 or since > now


class NativeCopier(CounterCopier):
    """That of stores whose transactions span rows: several counters in one transaction."""

    def __init__(self, committer: NativeCommitter, sources: CounterSources) -> None:
        super().__init__(sources)
        self._committer = committer

    def copy(self, marked: Mapping[str, Row]) -> Plan[int]:
        return self._copy(list(marked))

    def _copy(self, names: Sequence[str], before: Exception | None = None) -> Plan[int]:
        """Copies some counters in one transaction, else one by one; returns how many could be.

        An error of another library may come from outside: it is the counter's where it is met again. `before` is the
        first one.
        """
        try:
            yield from self._committer.step(lambda step: self._show(step, names))
        except (*ENDING, MemoryError):
            raise
        except Exception as error:
            is_foreign = not isinstance(error, OnereadError)
            if len(names) > 1 or (is_foreign and before is None):
                copied = 0
                for name in names:
                    copied += yield from self._copy([name], None if len(names) > 1 else error)
                if is_foreign and copied == len(names):
                    raise
                return copied
            if is_foreign and type(before) is not type(error):
                raise
            warn_of_refusal(names[0], error)
            yield from self._committer.step(lambda step: self._put_off(step, names[0]))
            return 0
        return len(names)

    def _show(self, step: TaskStep, names: Sequence[str]) -> None:
        unit = step.unit
        keys = {name: mark_key(name_key(name)) for name in names}
        unit.load("counts", [*keys.values(), *(SETTINGS + name_key(name) for name in names)])
        step.begin()
        groups: list[Group] = []
        for name, key in keys.items():
            if unit.get("counts", key) is None:  # another worker was faster
                continue
            unit.remove("counts", key)
            found = self._sources.groups(name)
            groups += found
            if not found:
                place = SETTINGS + name_key(name)
                hidden = read_settings_row(b"", unit.get("counts", place)).hidden().settings
                self._put(step, place, None if hidden is None else encode_settings(hidden))
        step.show_groups(groups)

    def _put_off(self, step: TaskStep, name: str) -> None:
        """Marks a counter as if it had been added to just now."""
        key = mark_key(name_key(name))
        step.unit.load("counts", [key])
        step.begin()
        self._put(step, key, new_mark(step.now))

    def _put(self, step: TaskStep, key: bytes, value: bytes | None) -> None:
        if value is None:
            step.unit.remove("counts", key)
        else:
            step.unit.put("counts", key, {VALUE: Cell(value, later(step.unit.get("counts", key), step.now))})


def warn_of_refusal(name: str, error: Exception) -> None:
    """Logs why an entity does not show a counter."""
    text = outbox.text_of(error)
    _log.warning("could not show counter %r in its entity; trying again later: %s", name, text)
