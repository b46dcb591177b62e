"""The Bigtable engine: the store contract on the rows of Bigtable, synchronously and on an event loop.

It changes one row at a time. See docs/how-to/operate-bigtable.md and docs/decisions/0095-bigtable.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from oneread.engines import embedded
from oneread.engines.bigtable.calls import Steps
from oneread.engines.bigtable.channels import Channels
from oneread.engines.bigtable.options import POOL, BigtableOptions
from oneread.engines.bigtable.servers import Server
from oneread.engines.bigtable.steps import BigtableSteps
from oneread.engines.bigtable.tables import make_tables
from oneread.errors import Unsupported
from oneread.store.engine import Begun, Capabilities, RowTransaction
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Replace, Request, Scan

T = TypeVar("T")

CAPABILITIES: Final = Capabilities(
    spans_rows=False,
    reverse_scan=True,
    snapshot=False,
    persistent=True,
    local=False,
    max_key=embedded.MAX_KEY,
    max_value=embedded.MAX_VALUE,
    max_row=embedded.MAX_ROW,
    in_flight=POOL,
)

_CURSOR_KEY: Final = b"cursor_key"
_CURSOR_KEY_BYTES: Final = 32


class BigtableEngine:
    """An open store in an instance of Bigtable, or in an emulator.

    Opening it costs 5 requests, 6 more where the store is new.
    """

    def __init__(self, options: BigtableOptions, server: Server) -> None:
        self._place = options.parent
        self._channels = Channels(server)
        steps = self._steps = BigtableSteps(options)
        self._answers: Mapping[type[Request[Any]], Callable[[Any], Steps[Any]]] = {
            Read: steps.read,
            Scan: steps.scan,
            Mutate: steps.mutate,
            CheckAndMutate: steps.check_and_mutate,
            Increment: steps.increment,
            Replace: _refuse,
        }
        if options.read_only:
            self._answers = {**dict.fromkeys(self._answers, _refuse_writes), Read: steps.read, Scan: steps.scan}
        self.capabilities = msgspec.structs.replace(CAPABILITIES, in_flight=options.pool, grace=options.grace)
        try:
            self._channels.run(make_tables(options))
            self._cursor_key = self._channels.run(steps.own_value(_CURSOR_KEY, os.urandom(_CURSOR_KEY_BYTES)))
        except BaseException:
            self._channels.close()
            raise

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._place}>"

    def answer(self, request: Request[Any]) -> Any:
        return self._channels.run(self._answers[type(request)](request))

    def begin(self, request: Request[Any]) -> Begun:
        return self._channels.begin(self._answers[type(request)](request))

    async def answer_async(self, request: Request[Any]) -> Any:
        return await self._channels.run_async(self._answers[type(request)](request))

    def transaction(self, run: Callable[[RowTransaction], T], timeout: float) -> T:  # noqa: ARG002 - of the contract
        raise Unsupported("Bigtable changes one row at a time: it has no transactions over several rows")

    def cursor_key(self) -> bytes:
        return self._cursor_key

    def close(self) -> None:
        self._channels.close()


def _refuse_writes(_asked: Request[Any]) -> Steps[None]:
    raise Unsupported(embedded.READ_ONLY)


def _refuse(_asked: Replace) -> Steps[None]:
    raise Unsupported(embedded.NEEDS_TRANSACTION)
