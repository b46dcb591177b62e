"""Many empty stores in the tables of one: making tables takes HBase seconds, and tests need hundreds of stores.

A room is what follows a prefix of the keys. Everything else is the engine's own.
"""

import msgspec

from oneread.encoding.ranges import prefix_range
from oneread.errors import Closed, InvalidKey
from oneread.store.requests import CheckAndMutate, Increment, Mutate, Read, Replace, Scan
from oneread.store.rows import RowRange


class RoomOfKeys:
    """An engine whose keys begin with a prefix in another one, which it closes."""

    def __init__(self, engine, prefix):
        self.engine = engine
        self._prefix = prefix
        self._closed = False
        limits = engine.capabilities
        self.capabilities = msgspec.structs.replace(limits, max_key=limits.max_key - len(prefix))

    def answer(self, request):
        self._check_open()
        return self._shown(request, self.engine.answer(_ASKED[type(request)](self, request)))

    def begin(self, request):
        self._check_open()
        return self._shown(request, (yield from self.engine.begin(_ASKED[type(request)](self, request))))

    def transaction(self, run, timeout):
        return self.engine.transaction(run, timeout)

    def cursor_key(self):
        return self.engine.cursor_key()

    def close(self):
        self._closed = True

    def _check_open(self):
        if self._closed:
            raise Closed("the room was closed")

    def _shown(self, request, answer):
        return [(key.removeprefix(self._prefix), row) for key, row in answer] if type(request) is Scan else answer

    def _key(self, key):
        if not key:
            raise InvalidKey("a row's key is at least one byte long")
        return self._prefix + key

    def _mutation(self, mutation):
        return msgspec.structs.replace(mutation, key=self._key(mutation.key))

    def _range(self, within):
        stop = self._prefix + within.stop if within.stop else prefix_range(self._prefix)[1]
        return RowRange(self._prefix + within.start, stop)

    def _read(self, asked):
        return msgspec.structs.replace(asked, keys=[self._prefix + key for key in asked.keys])


_ASKED = {
    Read: RoomOfKeys._read,
    Scan: lambda room, asked: msgspec.structs.replace(asked, range=room._range(asked.range)),
    Mutate: lambda room, asked: Mutate(asked.table, [*map(room._mutation, asked.rows)]),
    CheckAndMutate: lambda room, asked: msgspec.structs.replace(asked, mutation=room._mutation(asked.mutation)),
    Increment: lambda room, asked: msgspec.structs.replace(asked, key=room._key(asked.key)),
    Replace: lambda _room, asked: asked,
}
