"""A load generator for HTTP/1.1 over kept-alive connections, cheap enough that the server is what is measured.

Each connection sends its next request when it has its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

import uvloop

from benchmarks.measure import Round

PATIENCE_SECONDS = 120
"""A round that takes longer fails: a server that hangs must not hang the run."""

_END = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass
class Latencies:
    """Seconds of each answer, over all rounds that count."""

    seconds: list[float] = field(default_factory=list)

    def share(self, part: float) -> float:
        """The seconds within which this part of the answers came."""
        ranked = sorted(self.seconds)
        return ranked[min(len(ranked) - 1, int(len(ranked) * part))]


class _Connection(asyncio.Protocol):
    """One connection; takes requests from what all share until there are none."""

    def __init__(self, requests: Iterator[bytes], done: asyncio.Future[None], taken: list[float]) -> None:
        self._requests = requests
        self._done = done
        self._taken = taken
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(_END)
        if end < 0:
            return
        place = self._buffer.index(_LENGTH) + len(_LENGTH)
        size = int(self._buffer[place : self._buffer.index(b"\r\n", place)])
        if len(self._buffer) < end + len(_END) + size:
            return
        self._taken.append(perf_counter() - self._sent)
        if not self._buffer.startswith(b"HTTP/1.1 200 "):
            self._fail(ValueError(self._buffer[:200]))
            return
        self._buffer = b""
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionResetError("the server hung up"))

    def _next(self) -> None:
        request = next(self._requests, None)
        if request is not None:
            self._sent = perf_counter()
            self._transport.write(request)
        elif not self._done.done():
            self._done.set_result(None)
            self._transport.close()

    def _fail(self, error: Exception) -> None:
        if not self._done.done():
            self._done.set_exception(error)


def load(port: int, paths: Sequence[str], connections: int, latencies: Latencies) -> Round:
    """A round that asks for every path over several connections at once; seconds for one answer."""
    requests = [f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for path in paths]

    async def ask() -> float:
        loop = asyncio.get_running_loop()
        rest = iter(requests)
        taken: list[float] = []
        done = [loop.create_future() for _ in range(connections)]
        started = perf_counter()
        for each in done:
            await loop.create_connection(lambda each=each: _Connection(rest, each, taken), "127.0.0.1", port)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*done)
        latencies.seconds += taken
        return (perf_counter() - started) / len(requests)

    def run() -> float:
        return uvloop.run(ask())

    return run
