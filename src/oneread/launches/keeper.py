"""The thread of a process that keeps its launches: reads states, writes counts and differences, and guards.

It is started by the first call of a launch, and sleeps while none is called. So no call of an application waits for the
store on behalf of a launch, but for the first one and the first after a pause. Callers wake it without a lock, as they
do a worker. See docs/decisions/0142-dark-launch-of-functions.md.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final, Protocol, TypeVar

import msgspec

from oneread.errors import Conflict, OnereadError
from oneread.launches.differences import LaunchDifference, bounded
from oneread.launches.guards import reason_to_go_back
from oneread.launches.plans import StoredLaunches
from oneread.launches.rows import MINUTE, minute_key
from oneread.launches.sweeping import trim_differences
from oneread.launches.tallies import LaunchTally
from oneread.launches.tracks import LaunchTrack
from oneread.plans.plan import Plan
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Observer, Trace
from oneread.store.woken_thread import WokenThread

TICK_SECONDS: Final = 0.25
"""Between two rounds; a state that is wanted is read at once."""
_DARK_SECONDS: Final = 0.05
"""Between two times at which dark reads begin."""
_STORED_A_SECOND: Final = 10
_REMEMBERED: Final = 1_000
"""Differences of which this process knows the rows, to raise their counts."""
_TRIMMED: Final = 100
"""Differences after which those that are too many are removed."""
_TOGETHER_SECONDS: Final = 10.0
"""Between two looks of the guard at what all processes count."""
_AWAKE_SECONDS: Final = 5.0
"""How long the thread looks on after there was something to do."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class DarkReads(Protocol):
    """Threads or tasks that read the dark side."""

    @property
    def is_stuck(self) -> bool: ...
    @property
    def is_idle(self) -> bool: ...
    def tick(self) -> None: ...


class LaunchMeter(Protocol):
    """What records launches, under telemetry."""

    def note_launch(self, name: str, counts: Sequence[tuple[str, dict[str, str], int]], age: float) -> None: ...
    def note_launch_answer(self, name: str, side: str, seconds: float) -> None: ...


class LaunchKeeper(WokenThread):
    """Keeps the launches of one open database; stopped, it has written what was counted."""

    thread_name = "oneread-launches"

    def __init__(
        self, launches: StoredLaunches, driver: SyncDriver, dark: DarkReads, observers: tuple[Observer, ...] = ()
    ) -> None:
        super().__init__()
        self._launches = launches
        self._driver = driver
        self._observers = observers
        self._dark = dark
        self.tracks: dict[str, LaunchTrack] = {}
        self.meter: LaunchMeter | None = None
        self._writing = threading.Lock()
        self.name = _process_name()
        self._found: deque[LaunchDifference] = deque(maxlen=_REMEMBERED)
        self._stored: dict[bytes, tuple[bytes, int]] = {}
        self._metered: dict[str, LaunchTally] = {}
        self._storable = float(_STORED_A_SECOND)
        self._ticked = self._busy_at = perf_counter()

    def track(self, name: str) -> LaunchTrack:
        """What this process has of a launch."""
        return self.tracks.setdefault(name, LaunchTrack(name))

    def add_differences(self, found: list[LaunchDifference]) -> None:
        """Has differences stored, at most ten a second; others are only counted."""
        self._found.extend(found)

    def _renew(self) -> None:
        """What was counted and found is the parent's."""
        super()._renew()
        self._writing = threading.Lock()
        self.name = _process_name()
        self._found.clear()
        for track in self.tracks.values():
            track.written = track.tally.copy()

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._rest()
            self._try(self._tick)
        self._try(self.flush)

    def _rest(self) -> None:
        """Until the next round; while no launch is called, until one is."""
        is_quiet = self._is_quiet
        if not is_quiet:
            self._busy_at = perf_counter()
        elif perf_counter() - self._busy_at > _AWAKE_SECONDS:
            for track in self.tracks.values():
                track.minute = 0  # what is counted next belongs to the minute in which it is
        else:
            is_quiet = False
        self._sleep(None if is_quiet else _DARK_SECONDS)
        self._forget_wakes()

    @property
    def _is_quiet(self) -> bool:
        """Whether there is nothing to do until a launch is called again."""
        return (
            self._dark.is_idle
            and not self._found
            and all(track.tally == track.written and not track.is_wanted for track in self.tracks.values())
        )

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OnereadError as failure:
            _log.warning("launches could not be kept: %s", failure)
        except Exception:  # noqa: BLE001 - the thread continues, whatever one round raises
            _log.exception("launches could not be kept")

    def _tick(self) -> None:
        """One round; what fails does not keep the rest from being done."""
        self._dark.tick()
        self._try(self._read_states)
        now = perf_counter()
        if now - self._ticked < TICK_SECONDS:
            return
        self._storable = min(self._storable + (now - self._ticked) * _STORED_A_SECOND, _STORED_A_SECOND)
        self._ticked = now
        for work in (self._guard, self._store_differences, self._flush_minutes, self._record):
            if not self._stopping.is_set():
                self._try(work)

    def _read_states(self) -> None:
        wanted = [track for track in self.tracks.values() if track.is_wanted]
        if not wanted:
            return
        asked = perf_counter()
        for track in wanted:
            track.is_wanted = False
        states = self._ask(self._launches.states([track.name for track in wanted]))
        for track, state in zip(wanted, states, strict=True):
            track.adopt(self._ask(self._launches.add(track.name)) if state is None else state, asked)

    def _guard(self) -> None:
        now = perf_counter()
        for track in list(self.tracks.values()):
            state = track.state
            if state is None or not track.buckets or track.is_finished or state.options.guard is None:
                continue
            why = track.window.look(state.options.guard, now, track.tally.copy())
            if not why and self._dark.is_stuck and state.options.guard.slower is not None:
                why = "slower: all dark reads are stuck"
            if not why and now - track.looked_at >= _TOGETHER_SECONDS:
                track.looked_at = now
                counted = self._ask(self._launches.counted(track.name, state, state.options.guard.within))
                why = reason_to_go_back(state.options.guard, counted)
            if why:
                self._take_back(track, why)

    def _take_back(self, track: LaunchTrack, why: str) -> None:
        track.refuse(why)
        _log.warning("launch %s: reads go back to the old side: %s", track.name, why)
        try:
            state = self._ask(self._launches.back(track.name, why, self.name, guarded=True))
        except Conflict:
            track.is_wanted = True  # another program changed it: its state decides, and the guard looks again
        else:
            track.adopt(state, perf_counter())

    def _store_differences(self) -> None:
        while self._found and self._storable >= 1:
            self._storable -= 1
            self._store(self._found.popleft())

    def _store(self, found: LaunchDifference) -> None:
        state = self.tracks[found.launch].state
        about = msgspec.msgpack.encode([found.launch, found.kind, found.key, found.row], enc_hook=repr)
        key, count = self._stored.get(about, (None, 0))
        shown = msgspec.structs.replace(found, count=count + 1)
        key = self._ask(
            self._launches.put_difference(key, bounded(shown, values=state is None or state.options.values))
        )
        if len(self._stored) >= _REMEMBERED:
            self._stored.clear()
        self._stored[about] = (key, count + 1)
        if state is not None and not (len(self._stored) - 1) % _TRIMMED:
            self._ask(trim_differences(self._launches, found.launch, state))

    def flush(self) -> None:
        """Writes what this process has counted so far: a transaction for each launch that was called."""
        self._write_counts(at_once=True)

    def _flush_minutes(self) -> None:
        self._write_counts(at_once=False)

    def _write_counts(self, *, at_once: bool) -> None:
        with self._writing:
            minute = self._driver.now() // MINUTE
            for track in list(self.tracks.values()):
                track.minute = track.minute or minute
                ends = track.minute != minute
                tally = track.tally.copy()
                if tally != track.written and (at_once or ends):
                    key = minute_key(track.name, track.minute, self.name)
                    self._ask(self._launches.put_counts(key, tally.less(track.written)))
                if ends:
                    track.minute = minute
                    track.written = tally

    def _record(self) -> None:
        meter = self.meter
        if meter is None:
            return
        for track in list(self.tracks.values()):
            tally = track.tally.copy()
            before = self._metered.get(track.name, LaunchTally())
            meter.note_launch(track.name, _metered(tally.less(before)), track.age)
            self._metered[track.name] = tally

    def _ask(self, plan: Plan[T]) -> T:
        return self._driver.run(plan, Trace(self._observers))


def _metered(tally: LaunchTally) -> list[tuple[str, dict[str, str], int]]:
    """What was counted, by counter and attributes of telemetry."""
    sides = {"old": tally.old, "new": tally.new}
    return [
        *(("reads", {"oneread.launch.side": side}, each.answered) for side, each in sides.items()),
        *(("failed", {"oneread.launch.side": side}, each.failed) for side, each in sides.items()),
        *(("differences", {"oneread.launch.kind": kind}, count) for kind, count in tally.differ.items()),
        ("compared", {}, tally.compared),
        ("dropped", {}, tally.dropped + tally.late),
    ]


def _process_name() -> str:
    """A name for this process that no other has: the host, the process's number, and 16 random bits."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
