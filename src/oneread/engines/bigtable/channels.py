"""Connections to Bigtable, and the two ways to run the steps of a request on them: in a thread, and on an event loop.

A process has one connection for its main thread, one for its other threads, and one for each event loop, so that a
call on a loop needs no thread. They are made when they are first used, and again in the child of a fork, which must not
touch those of its parent.

Signals interrupt the main thread only, and gRPC there may never release a lock that every call on the connection takes:
that connection is left then, and the call of no other thread waits for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
import time
import weakref
from _thread import start_new_thread
from base64 import urlsafe_b64encode
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

import grpc
import grpc.aio
from grpc._cython.cygrpc import fork_unregister_channel  # no public name of gRPC does this

from oneread.engines.bigtable.calls import Call, Method, Pause, Steps
from oneread.engines.bigtable.messages import MESSAGES
from oneread.engines.bigtable.servers import Server
from oneread.errors import Closed, OnereadError, Unavailable, Unsupported
from oneread.store.engine import finish

T = TypeVar("T")

_FEATURES: Final = urlsafe_b64encode(
    MESSAGES["FeatureFlags"](reverse_scans=True, last_scanned_row_responses=True).SerializeToString()
).decode()
"""Without it Bigtable refuses reversed scans."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),  # by default a restarted server is tried again after up to 7 s
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # not a pause: what one attempt to connect may take
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.use_local_subchannel_pool", 1),  # otherwise channels of several databases share connections
)
_WITHOUT_TLS: Final = (("grpc.enable_http_proxy", 0),)
_OF_THREADS: Final = (("SingleThreadedUnaryStream", 1),)
"""A stream is read by the thread that asked for it: gRPC's own thread between them costs several times the CPU."""


_CLOSE_SECONDS: Final = 5.0
"""How long closing waits for event loops, which may be busy."""


class _Lines(NamedTuple):
    """The channels to each host, and the methods that were called: by path, and whether the answer is a stream."""

    channels: dict[str, Any]
    methods: dict[tuple[str, bool], Callable[..., Any]]


class Channels:
    """The connections of one store."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._closed = False
        self._forget()
        _OPEN.add(self)

    def run(self, steps: Steps[T]) -> T:
        """Makes the calls in this thread."""
        return finish(self._make(steps, ahead=False))

    def begin(self, steps: Steps[T]) -> Generator[bool, None, T]:
        """Makes the calls in this thread, and pauses when the first one is sent: it yields True."""
        return self._make(steps, ahead=True)

    def _make(self, steps: Steps[T], *, ahead: bool) -> Generator[bool, None, T]:
        try:
            step = next(steps)
            while True:
                pauses, ahead = ahead, False
                try:
                    answer = yield from self._perform(step, pauses=pauses)
                except (grpc.RpcError, Closed) as failure:
                    step = steps.throw(failure)
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except Unavailable as error:
            self._check_open(error)
            raise
        except (OnereadError, GeneratorExit):
            raise
        except BaseException:  # of a signal handler, which may have interrupted gRPC
            self._leave()
            raise

    async def run_async(self, steps: Steps[T]) -> T:
        """Makes the calls on the running loop. A caller that is cancelled cancels the call under way."""
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._perform_async(step)
                except (grpc.RpcError, Closed) as failure:
                    step = steps.throw(failure)
                except asyncio.CancelledError:
                    if not self._closed or _is_cancelled():
                        raise
                    step = steps.throw(_ended())
                else:
                    step = steps.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except Unavailable as error:
            self._check_open(error)
            raise

    def close(self) -> None:
        """Ends all connections; closing twice does nothing. Calls under way are cancelled: writes may be applied."""
        with self._lock:
            self._closed = True
            channels, left = [*self._main.channels.values(), *self._threads.channels.values()], self._left
        for channel in channels:
            channel.close()
        for channel in left:  # closing one may wait without end
            with suppress(RuntimeError):  # no thread can be started: it ends with the process
                start_new_thread(channel.close, ())
        running = [(loop, lines) for loop, lines in list(self._loops.items()) if loop.is_running()]
        closing = [
            asyncio.run_coroutine_threadsafe(channel.close(), loop)
            for loop, lines in running
            for channel in lines.channels.values()
        ]
        if asyncio._get_running_loop() is None:  # noqa: SLF001 - a loop cannot wait for itself
            concurrent.futures.wait(closing, _CLOSE_SECONDS)
        self._forget()

    def after_fork(self) -> None:
        """In the child of a fork: leaves the parent's connections alone."""
        _INHERITED.append((self._main, self._threads, self._left, self._loops))
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._left: list[Any] = []
        self._main_thread = threading.main_thread().ident
        self._main = _Lines({}, {})
        self._threads = _Lines({}, {})
        self._loops: dict[asyncio.AbstractEventLoop, _Lines] = {}

    def _leave(self) -> None:
        """Has the next call of the main thread make new channels; of another thread nothing is interrupted."""
        if threading.get_ident() == self._main_thread:
            with self._lock:
                self._left += self._main.channels.values()
                self._main = _Lines({}, {})

    def _check_open(self, cause: Exception | None = None) -> None:
        if self._closed:
            raise Closed("the store was closed before this call, or while it read") from cause

    def _perform(self, step: Call | Pause, *, pauses: bool) -> Generator[bool, None, Any]:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        if not (pauses or step.method.streams):
            return self._send(step, streams=False)
        stream = self._send(step, streams=True)
        try:
            if pauses:
                yield True
            return _received(step, stream)
        finally:
            stream.cancel()

    def _send(self, step: Call, *, streams: bool) -> Any:
        """Sends a call: its answer, or the stream of it, which is waited for when it is read.

        The answer of any method can be a stream, of one message; only streams are read by the thread that asked.
        """
        lines = self._main if threading.get_ident() == self._main_thread else self._threads
        call = lines.methods.get((step.method.path, streams)) or self._connect(lines, step.method, streams=streams)
        try:
            return call(step.message, timeout=step.seconds, metadata=_metadata(step.routing))
        except ValueError as failure:  # gRPC's own, for a closed channel
            self._check_open()
            raise Closed("the connection was closed during the call") from failure

    async def _perform_async(self, step: Call | Pause) -> Any:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        answer = self._on_loop(step.method)(step.message, timeout=step.seconds, metadata=_metadata(step.routing))
        if step.receive is None:
            return await answer
        try:
            async for message in answer:
                step.receive(message)
        finally:
            answer.cancel()
        return None

    def _connect(self, lines: _Lines, method: Method, *, streams: bool) -> Callable[..., Any]:
        with self._lock:
            self._check_open()
            return self._method(lines, method._replace(streams=streams), grpc, _OF_THREADS)

    def _on_loop(self, method: Method) -> Callable[..., Any]:
        self._check_open()
        loop = asyncio.get_running_loop()
        lines = self._loops.get(loop)
        if lines is None:
            _check_process()
            lines = self._add_loop(loop)
        known = lines.methods.get((method.path, method.streams))
        return known or self._method(lines, method, grpc.aio, ())

    def _add_loop(self, loop: asyncio.AbstractEventLoop) -> _Lines:
        """Notes a loop, and forgets those that were closed: their connections end."""
        lines = _Lines({}, {})
        with self._lock:
            self._check_open()
            for each in [known for known in self._loops if known.is_closed()]:
                del self._loops[each]
            self._loops[loop] = lines
        return lines

    def _method(
        self, lines: _Lines, method: Method, client: Any, options: tuple[tuple[str, Any], ...]
    ) -> Callable[..., Any]:
        """Makes what calls a method, and the channel that it needs."""
        host = self._server.admin_host if method.is_admin else self._server.host
        channel = lines.channels.get(host)
        if channel is None:
            credentials = self._server.credentials
            if credentials is None:
                channel = client.insecure_channel(host, options=(*_OPTIONS, *_WITHOUT_TLS, *options))
            else:
                channel = client.secure_channel(host, credentials(), options=(*_OPTIONS, *options))
            fork_unregister_channel(channel)  # in the child of a fork gRPC would wait for calls that were interrupted
            lines.channels[host] = channel
        make = channel.unary_stream if method.streams else channel.unary_unary
        made: Callable[..., Any] = make(
            method.path,
            request_serializer=method.asked.SerializeToString,
            response_deserializer=method.answer.FromString,
        )
        return lines.methods.setdefault((method.path, method.streams), made)


def _received(step: Call, stream: Any) -> Any:
    """What a stream brings: the answer of a method that has one, which `receive` of the step does not take."""
    answer = None
    for message in stream:
        if step.receive is None:
            answer = message
        else:
            step.receive(message)
    return answer


def _metadata(routing: str) -> tuple[tuple[str, str], ...]:
    return (("x-goog-request-params", routing), ("bigtable-features", _FEATURES))


def _ended() -> grpc.aio.AioRpcError:
    """What a thread gets when its channel is closed. On an event loop gRPC says that the caller was cancelled."""
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.CANCELLED, nothing, nothing, "the store was closed")


def _is_cancelled() -> bool:
    """Whether the running task was cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


_OPEN: weakref.WeakSet[Channels] = weakref.WeakSet()
_INHERITED: Final[list[Any]] = []
"""Connections of a parent process, which are never closed here: that would end them for the parent."""
_LOOPS_OF: Final[list[int]] = []
"""The process that first asked on an event loop: gRPC polls for loops in a thread that no child of a fork has."""


def _check_process() -> None:
    """Refuses calls on an event loop where they would never end."""
    if not _LOOPS_OF:
        _LOOPS_OF.append(os.getpid())
    if _LOOPS_OF[0] != os.getpid():
        raise Unsupported(
            "gRPC serves no event loop in the child of a process that had one; fork before a loop asks, or start a new"
            " process"
        )


def _after_fork() -> None:
    for channels in list(_OPEN):
        channels.after_fork()


os.register_at_fork(after_in_child=_after_fork)
