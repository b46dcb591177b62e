"""Stores of ours on servers that change one row at a time, each beside the bare client on the same tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from benchmarks.peers.remote import RawBigtable, RawHbase, RawStore
from oneread import Copy, Database, Key, Model, Schema, connect
from oneread.store.requests import CheckAndMutate, Read, Request, Scan
from tools.servers.bigtable import bigtable_emulator
from tools.servers.hbase import hbase_server, thrift_server

HBASE: Final = "HBase"
EMULATOR: Final = "Bigtable's emulator"
_VARIABLE: Final = "BIGTABLE_EMULATOR_HOST"


class Label(Model[str]):
    code: Key[str]
    name: str


class Labelled(Copy[Label]):
    name: str


class Box(Model[int]):
    """Holds a copy that no view shows: a leaf."""

    number: Key[int]
    label: Labelled


LEAVES: Final = Schema(Label, Box)


@dataclass(frozen=True)
class Remote:
    """One server: `opens` makes a database in a place of its own, with the bare client on its tables."""

    name: str
    opens: Callable[[Schema], tuple[Callable[..., Database], RawStore]]


@contextmanager
def remotes() -> Generator[Sequence[Remote]]:
    """HBase with one Thrift2 server, and Bigtable's emulator, until the block ends."""
    with ExitStack() as stack:
        thrift = stack.enter_context(hbase())
        emulator = stack.enter_context(bigtable_emulator())
        before = os.environ.get(_VARIABLE)
        os.environ[_VARIABLE] = emulator.host
        stack.callback(_restore, before)

        def tables(schema: Schema) -> tuple[Callable[..., Database], RawStore]:
            place = HbaseTables(thrift)
            return lambda **options: connect(place.url, schema, **options), place.bare()

        def bigtable(schema: Schema) -> tuple[Callable[..., Database], RawStore]:
            instance = f"b{uuid4().hex[:8]}"
            url = f"bigtable://test/{instance}"
            return lambda **options: connect(url, schema, **options), RawBigtable(emulator.host, instance)

        yield [Remote(HBASE, tables), Remote(EMULATOR, bigtable)]


@contextmanager
def hbase() -> Generator[str]:
    """HBase with one Thrift2 server, until the block ends; where that answers."""
    with hbase_server() as server, thrift_server(server.zookeeper) as thrift:
        yield thrift.place


class HbaseTables:
    """Tables of their own on a server of HBase."""

    def __init__(self, thrift: str) -> None:
        self._thrift = thrift
        self._prefix = f"b{uuid4().hex[:8]}_"

    @property
    def url(self) -> str:
        return f"hbase://{self._thrift}/default?compression=none&prefix={self._prefix}"

    def bare(self) -> RawHbase:
        """The bare client on these tables."""
        host, _colon, port = self._thrift.partition(":")
        return RawHbase(host, int(port), self._prefix)


def _restore(before: str | None) -> None:
    if before is None:
        os.environ.pop(_VARIABLE, None)
    else:
        os.environ[_VARIABLE] = before


class Recorder:
    """Keeps the reads of a database, so that the bare client makes the same."""

    def __init__(self) -> None:
        self.gets: list[tuple[str, bytes]] = []
        self.scans: list[tuple[str, bytes, bytes, int]] = []

    def __call__(self, request: Request[Any], _answer: object) -> None:
        if isinstance(request, Read):
            self.gets += [(request.table, key) for key in request.keys]
        elif isinstance(request, Scan):
            self.scans.append((request.table, request.range.start, request.range.stop, request.limit))


class Lost:
    """Counts the compare-and-sets that others came before."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, request: Request[Any], answer: object) -> None:
        self.count += isinstance(request, CheckAndMutate) and not answer
