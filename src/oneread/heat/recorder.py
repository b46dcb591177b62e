"""Records what a process requests of which keys, in windows of time.

A thread puts recording verbs on the database object, and takes them off again, at moments drawn from an exponential
distribution: such moments see averages of time, whatever rhythm the program has (R. Wolff, "Poisson Arrivals See Time
Averages", Operations Research 1982). So no verb asks whether heat is recorded. The recorded verb runs on a twin of the
database whose requests are observed. See docs/decisions/0144-heat.md.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial, wraps
from inspect import iscoroutinefunction
from math import inf
from queue import SimpleQueue
from time import perf_counter
from typing import Any, Final, Protocol, TypeAlias

from oneread.derivations.catalog import Catalog
from oneread.errors import Closed, OnereadError
from oneread.heat.axis import read_axes
from oneread.heat.cells import HeatSums, encode_sums
from oneread.heat.counts import CallRecord, HeatCounts, RecordingReads, Touched, touched_by
from oneread.heat.passes import observed_verbs, passing_verbs
from oneread.heat.rows import MINUTE, HeatFolding, row_of_process
from oneread.plans.performer import elapsed
from oneread.plans.sync_driver import SyncDriver
from oneread.plans.trace import Observer, Trace
from oneread.plans.verbs import COUNTER_VERBS, VERBS, declaration_of
from oneread.store.engine import LocalReads
from oneread.store.keys import kind_part
from oneread.store.requests import Mutate, Request
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.store.uninterrupted import run_uninterrupted
from oneread.store.woken_thread import WokenThread
from oneread.transactions.chores import ChoreRunner
from oneread.transactions.commit import SystemCommitter
from oneread.transactions.leases import LeaseHolder
from oneread.transactions.outbox import FOLLOW

LONGEST_WINDOW: Final = 0.005
SHORTEST_WINDOW: Final = 0.0005
CALLS: Final = 200
"""Calls that a window of a busy process is to see."""
SETTLING: Final = 0.002
"""Seconds between putting verbs on and counting calls: the recording thread has stopped the others meanwhile."""
COUNTING: Final = 0.02
"""Seconds for which calls are only counted, which hardly makes them slower, before windows of 5 ms."""
FEWEST: Final = 500
"""Calls of a minute that were counted, and that were recorded, from which on their ratio says how slow recording is."""
MOST_COUNTED: Final = 1_000_000
LOOK_SECONDS: Final = 1.0
"""How often what was recorded is counted."""
WAITING: Final = 1_000
"""Calls that wait to be counted when the thread is woken."""
_RECENT: Final = 0.8

_log = logging.getLogger(__name__)

VerbTable: TypeAlias = Mapping[str, Callable[..., Any]]


FastPath: TypeAlias = Callable[[Any, Callable[[LocalReads], LocalReads]], dict[str, Any]]
"""The fast path of a database whose reads go through what the function makes of its engine, by attribute."""


class RecordedOutbox(Protocol):
    """The outbox of a database."""

    @property
    def leases(self) -> LeaseHolder: ...
    @property
    def source(self) -> bytes: ...


class RecordedOperations(Protocol):
    """The verbs of a database as plans."""

    @property
    def committer(self) -> SystemCommitter: ...
    @property
    def outbox(self) -> RecordedOutbox: ...
    @property
    def catalog(self) -> Catalog: ...


class RecordedWorker(Protocol):
    """The worker of a database."""

    watched: Callable[[str], Observer] | None


class Recordable(Protocol):
    """A database of either face."""

    _observers: tuple[Observer, ...]
    _worker_driver: SyncDriver

    @property
    def operations(self) -> RecordedOperations: ...
    @property
    def _worker(self) -> RecordedWorker | None: ...

    def run(self, plan: Any) -> Any: ...


class RecordedCall:
    """A call that is recorded, and what it has touched until now."""

    __slots__ = ("_declared", "_page", "_verb", "begun", "touched")

    def __init__(self, verb: str, declared: str | None) -> None:
        self._verb = verb
        self._declared = declared or ""
        self.begun = perf_counter()
        self.touched: list[Touched] = []
        self._page: tuple[int, int] | None = None

    def note(self, request: Request[Any], answer: Any) -> None:
        """Observes a request."""
        self.touched.append(touched_by(request, answer))

    def note_result(self, found: Any, named: Mapping[str, Any]) -> None:
        """Notes what a page with a condition has shown, and what it has passed over."""
        if self._verb == "page" and named.get("where") is not None:
            self._page = len(found), found.cost.skipped

    def end(self, now: int) -> CallRecord:
        """What is recorded. Results keep their trace and with it this call, so nothing stays here."""
        touched, self.touched = self.touched, []
        return CallRecord(self._verb, self._declared, now, perf_counter() - self.begun, touched, self._page)


_CALL: Final[ContextVar[RecordedCall | None]] = ContextVar("recorded call", default=None)
"""The call within which the fast path reads."""


def _note_fast(touched: Touched) -> None:
    call = _CALL.get()
    if call is not None:
        call.touched.append(touched)


def _recording(reads: LocalReads) -> LocalReads:
    return RecordingReads(reads, _note_fast)


class _Verbs:
    """Makes the recording verbs of one database; `hand_in` gets each recorded call."""

    def __init__(
        self, database: Recordable, fast_path: dict[str, Any], hand_in: Callable[[RecordedCall], None]
    ) -> None:
        self._database = database
        self._kind = type(database)
        self._hand_in = hand_in
        self._state: dict[str, Any] = vars(database) | fast_path
        self.window = object()
        """The window that is open, or was last."""

    def counting(self, note: Callable[[float], object]) -> dict[str, Callable[..., Any]]:
        """Verbs that note only when they are called, by name."""
        twin = object.__new__(self._kind)
        vars(twin).update(vars(self._database))

        def counted(name: str) -> Callable[..., Any]:
            verb = getattr(self._kind, name)
            if iscoroutinefunction(verb):

                @wraps(verb)
                async def noted_async(*given: Any, **named: Any) -> Any:
                    note(perf_counter())
                    return await verb(twin, *given, **named)

                return noted_async

            @wraps(verb)
            def noted(*given: Any, **named: Any) -> Any:
                note(perf_counter())
                return verb(twin, *given, **named)

            return noted

        counter: Callable[..., Any] = self._kind.counter  # type: ignore[attr-defined]  # of either face
        return {name: counted(name) for name in VERBS} | {"counter": partial(counter, self._database)}

    def table(self) -> dict[str, Callable[..., Any]]:
        """The recording verbs, by name."""
        return {name: self._recorded(name) for name in VERBS} | {"counter": self._counter}

    def _recorded(self, name: str) -> Callable[..., Any]:
        verb = getattr(self._kind, name)

        def bound(twin: Recordable) -> Callable[..., Any]:
            return partial(verb, twin)

        return self._around(name, verb, bound, None)

    def _around(
        self, name: str, verb: Callable[..., Any], bound: Callable[[Any], Callable[..., Any]], about: str | None
    ) -> Callable[..., Any]:
        """A verb that is recorded; `bound` gives the one of a twin."""
        if iscoroutinefunction(verb):

            @wraps(verb)
            async def recorded_async(*given: Any, **named: Any) -> Any:
                call = RecordedCall(name, about or declaration_of(given))
                outer = _CALL.set(call)
                try:
                    found = await bound(self._twin(call))(*given, **named)
                    call.note_result(found, named)
                finally:
                    _CALL.reset(outer)
                    self._hand_in(call)
                return found

            return recorded_async

        @wraps(verb)
        def recorded(*given: Any, **named: Any) -> Any:
            call = RecordedCall(name, about or declaration_of(given))
            outer = _CALL.set(call)
            try:
                found = bound(self._twin(call))(*given, **named)
                call.note_result(found, named)
            finally:
                _CALL.reset(outer)
                self._hand_in(call)
            return found

        return recorded

    def _twin(self, call: RecordedCall) -> Any:
        """The database with one observer more, and without its fast path."""
        twin = object.__new__(self._kind)
        vars(twin).update(self._state, _observers=(*self._state["_observers"], call.note))
        return twin

    def _counter(self, *given: Any, **named: Any) -> Any:
        """A counter whose verbs are recorded until the window ends; it may be kept longer."""
        make: Callable[..., Any] = self._kind.counter  # type: ignore[attr-defined]  # of either face
        made, window = make(self._database, *given, **named), self.window
        for name in COUNTER_VERBS:
            plain = getattr(made, name)

            def bound(twin: Any, name: str = name) -> Callable[..., Any]:
                found: Callable[..., Any] = getattr(make(twin, *given, **named), name)
                return found

            recorded = self._around(f"counter_{name}", plain, bound, "counter")
            setattr(made, name, self._while_open(window, recorded, plain))
        return made

    def _while_open(
        self, window: object, recorded: Callable[..., Any], plain: Callable[..., Any]
    ) -> Callable[..., Any]:
        if iscoroutinefunction(plain):

            @wraps(plain)
            async def verb_async(*given: Any, **named: Any) -> Any:
                return await (recorded if self.window is window else plain)(*given, **named)

            return verb_async

        @wraps(plain)
        def verb(*given: Any, **named: Any) -> Any:
            return (recorded if self.window is window else plain)(*given, **named)

        return verb


class HeatRecorder(WokenThread):
    """Records the calls of one open database, and what its worker does; `share` of the time, 1.0 for always."""

    thread_name = "oneread-heat"

    def __init__(self, database: Recordable, share: float, fast_path: FastPath, *, keys: bool = True) -> None:
        super().__init__()
        self._database = database
        self._share = share
        self._observers = database._observers  # noqa: SLF001 - of either face
        self._driver = database._worker_driver  # noqa: SLF001
        operations = database.operations
        self._folding = ChoreRunner(operations.committer, [HeatFolding(operations.committer)], operations.outbox.leases)
        self._made = _Verbs(database, fast_path(database, _recording), self._hand_in)
        self._on: dict[str, Callable[..., Any]] = self._made.table()
        self._called: deque[float] = deque(maxlen=MOST_COUNTED)
        self._counting_on = self._made.counting(self._called.append)
        self._off: dict[str, Callable[..., Any]] = {}
        self._passing = {**passing_verbs(database, self.observer), **observed_verbs(database, self.observer)}
        self._counts = HeatCounts(keys=keys)
        self._inbox: deque[CallRecord] = deque()
        self._counting = threading.Lock()
        self._chance = random.Random()
        self._length, self._calls = LONGEST_WINDOW, 0
        self._opened: float | None = None
        self._until = inf
        self._open_seconds = 0.0
        self._counted = self._recorded = 0
        self._counted_seconds = 0.0
        self._since = perf_counter()
        self._minute: int | None = None
        self._tended: int | None = None
        self._name_process()
        worker = database._worker  # noqa: SLF001
        if worker is not None:
            worker.watched = self._observer_of_work
        _OPEN.add(self)

    def _name_process(self) -> None:
        self._id = self._process.to_bytes(4, "big") + secrets.token_bytes(4)

    @property
    def process(self) -> str:
        """The name of this process in rows: its id, and 32 random bits."""
        return f"{self._process}-{self._id[-4:].hex()}"

    def measure(self, wrap: Callable[[VerbTable], dict[str, Callable[..., Any]]]) -> None:
        """Puts other verbs, as those of telemetry, around the recording ones; the database has such verbs already."""
        self._on, self._counting_on = wrap(self._on), wrap(self._counting_on)
        self._off = {name: vars(self._database)[name] for name in self._on}

    def start(self) -> None:
        """Starts the thread; with a share of 1.0 the window is open from now on."""
        self._since = perf_counter()
        vars(self._database).update(self._passing)
        if self._share >= 1:
            self.open_window()
        run_uninterrupted(self._start)

    def _stop(self, within: threading.Thread) -> None:
        """Takes the recording verbs off, and stores what was recorded; stopping twice does nothing."""
        if self._stopping.is_set():
            return
        super()._stop(within)
        self.end_window()
        for name in self._passing:
            vars(self._database).pop(name, None)
        _OPEN.discard(self)
        with suppress(OnereadError):  # the store is gone
            self._flush()

    def open_window(self) -> None:
        """Puts the recording verbs on the database."""
        self._made.window = object()
        vars(self._database).update(self._on)
        self._opened = perf_counter()
        self._until = self._opened + self._length if self._share < 1 else inf

    def end_window(self) -> None:
        """Takes the recording verbs off again; calls that have begun are recorded to their end."""
        opened, self._opened = self._opened, None
        if opened is None:
            return
        self._open_seconds += min(perf_counter(), self._until) - opened
        self._made.window = object()
        self._take_off()

    def _take_off(self) -> None:
        state = vars(self._database)
        for name in self._on:
            if name in self._off:
                state[name] = self._off[name]
            else:
                state.pop(name, None)

    def flush(self) -> None:
        """Stores what was recorded until now: a put. Raises what the store raises."""
        run_uninterrupted(self._flush)

    def _hand_in(self, call: RecordedCall) -> None:
        if call.begun > self._until:  # a window ends in time where the thread takes the verbs off late
            return
        record = call.end(self._driver.clock())
        self._inbox.append(record)
        self._calls += 1
        self._recorded += record.verb in VERBS
        if len(self._inbox) == WAITING:
            self._wanted.put(None)

    def _observer_of_work(self, work: str) -> Observer:
        """An observer of the worker: of copies that follow, with the model whose values they have."""
        if work != FOLLOW:
            return self.observer(work)
        operations = self._database.operations

        def note(request: Request[Any], answer: Any) -> None:
            kind = operations.catalog.kinds_by_prefix.get(kind_part(operations.outbox.source))
            self.observer(work, "" if kind is None else kind.cls.__name__)(request, answer)

        return note

    def observer(self, verb: str, declared: str = "") -> Observer:
        """An observer that records each request by itself, of what is not a call, or lasts longer than windows."""

        def note(request: Request[Any], answer: Any) -> None:
            if self._opened is not None and perf_counter() <= self._until:
                self._inbox.append(CallRecord(verb, declared, 0, 0.0, [touched_by(request, answer)]))

        return note

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                self._record()
            except Closed:
                return
            except Exception:  # noqa: BLE001 - recording continues whatever the store raises
                _log.warning("could not store what was recorded of a minute; it is lost", exc_info=True)

    def _record(self) -> None:
        if self._share >= 1:
            self._tend()
            self._sleep(LOOK_SECONDS)
            self._count()
            return
        until = elapsed() + self._chance.expovariate(self._share / ((1 - self._share) * self._length))
        while not self._stopping.is_set() and (pause := until - elapsed()) > 0:
            self._tend()
            self._sleep(min(pause, LOOK_SECONDS))
            self._count()
        if not self._stopping.is_set():
            self._sample()

    def _sample(self) -> None:
        """One window, whose length follows how many calls the last ones saw; before it calls are counted."""
        if self._chance.random() * LONGEST_WINDOW < self._length:  # before shorter windows, which are more, not always
            self._count_calls()
        self._calls = 0
        self.open_window()
        try:
            self._sleep(self._length)
        finally:
            self.end_window()
        wanted = min(LONGEST_WINDOW, max(SHORTEST_WINDOW, self._length * CALLS / max(1, self._calls)))
        self._length += (1 - _RECENT) * (wanted - self._length)

    def _count_calls(self) -> None:
        """Counts the calls of a moment: recorded ones are slower, so that a program that does not pause makes fewer."""
        begin = perf_counter() + SETTLING
        vars(self._database).update(self._counting_on)
        try:
            self._sleep(SETTLING + COUNTING)
        finally:
            self._take_off()
        counted = sum(begin <= each <= begin + COUNTING for each in self._called.copy())
        self._called.clear()
        if not self._stopping.is_set():
            self._counted += counted
            self._counted_seconds += COUNTING

    def _count(self) -> None:
        """Counts what was recorded; where the minute is over, it is stored."""
        with self._counting:
            while self._inbox:
                self._counts.take(self._inbox.popleft())
            ended, self._minute = self._minute, self._driver.now() // MINUTE
            if ended is not None and ended != self._minute:
                self._end_minute(ended)

    def _tend(self) -> None:
        """Once a minute: learns what ranges were measured, and folds rows that are old enough."""
        minute = self._driver.now() // MINUTE
        if minute == self._tended:
            return
        self._tended = minute
        axes = self._driver.run(read_axes(), self._trace())
        with self._counting:
            self._counts.learn({place: axis.firsts for place, axis in axes.items()})
        while not self._stopping.is_set() and self._driver.run(self._folding.step(), self._trace()):
            pass

    def _flush(self) -> None:
        self._count()
        with self._counting:
            if self._minute is not None and self._counts.cells:
                self._store(self._minute, self._sums())

    def _end_minute(self, ended: int) -> None:
        sums = self._sums() if self._counts.cells else None
        self._counts.reset()
        self._begin_minute()
        if self._opened is not None:
            self._opened = self._since
        if sums is not None:
            self._store(ended, sums)

    def _begin_minute(self) -> None:
        self._since, self._open_seconds = perf_counter(), 0.0
        self._counted = self._recorded = 0
        self._counted_seconds = 0.0

    def _sums(self) -> HeatSums:
        """What was recorded of this minute, for all of its time."""
        now = perf_counter()
        recorded = self._open_seconds + (0.0 if self._opened is None else now - self._opened)
        lasted = now - self._since
        always = self._share >= 1
        factor = 1.0 if always else self._factor(lasted, recorded)
        return self._counts.sums(factor, 1.0 if always or not lasted else min(1.0, recorded / lasted), self.process)

    def _factor(self, lasted: float, recorded: float) -> float:
        """How often each recorded call counts: by the time that was recorded, or by how many calls there were."""
        if not recorded:
            return 1 / self._share
        if min(self._counted, self._recorded) < FEWEST:
            return max(1.0, lasted / recorded)
        return max(1.0, self._counted / self._counted_seconds * lasted / self._recorded)

    def _store(self, minute: int, sums: HeatSums) -> None:
        cell = Cell(encode_sums(sums), self._driver.now())
        put = Mutate("system", [RowMutation(row_of_process(minute, self._id), {VALUE: cell})])
        self._driver.run(put.__iter__(), self._trace())

    def _trace(self) -> Trace:
        return Trace(self._observers)

    def after_fork(self) -> None:
        """In the child, which has no thread: what was recorded is the parent's, and it records its own."""
        self._renew()
        self._counting, self._wanted = threading.Lock(), SimpleQueue()
        self._inbox.clear()
        self._chance = random.Random()
        self.end_window()
        self._take_off()
        self._counts.forget()
        self._minute = None
        self._called.clear()
        self._begin_minute()
        self._name_process()
        if not self._stopping.is_set():
            if self._share >= 1:
                self.open_window()
            self._start()


_OPEN: Final[weakref.WeakSet[HeatRecorder]] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_OPEN):
        each.after_fork()


os.register_at_fork(after_in_child=_after_fork)
