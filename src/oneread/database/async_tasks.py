"""The asynchronous face of tasks: what an operation has left to the worker.

The synchronous face is generated from this module.
"""

from __future__ import annotations

from oneread.database.async_counters import AsyncPlanRunner
from oneread.database.cursors import CursorCipher
from oneread.database.freshness import make_token
from oneread.errors import Unavailable
from oneread.plans.effects import Sleep
from oneread.transactions.tasks import OutboxRunner

POLL_SECONDS = 0.005
LONGEST_POLL_SECONDS = 1.0
POLLED = 8
"""Who has waited so long looks again after this part of it: a look is a request of the store."""


class AsyncTasks:
    """What an operation gave to the worker: fan-outs too big for its commit, and a commit that is not applied yet."""

    def __init__(
        self, database: AsyncPlanRunner, outbox: OutboxRunner, cipher: CursorCipher, keys: tuple[bytes, ...]
    ) -> None:
        self._database = database
        self._outbox = outbox
        self._cipher = cipher
        self._keys = keys

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {f'{len(self._keys)} given to the worker' if self._keys else 'none'}>"

    def __bool__(self) -> bool:
        return bool(self._keys)

    @property
    def token(self) -> str:
        """The tasks as text for another process, or for a client to send back: `includes=` and `db.tasks` take it.

        Raises:
            LimitExceeded: they are too many for a text of 4,096 characters.
        """
        return make_token(self._cipher, self._keys)

    async def done(self) -> bool:
        """Whether every copy is right by now. One request, and one for each task that has ended.

        Raises:
            StaleCopies: the tasks have ended; the error names holders that could not be updated.
        """
        if self._keys:
            ended: bool = await self._database.run(self._outbox.have_ended(self._keys))
            self._keys = () if ended else self._keys
        return not self._keys

    async def wait(self, timeout: float = 60.0) -> None:  # noqa: ASYNC109, RUF100 - ends the wait, cancels nothing
        """Returns when every copy is right.

        Raises:
            StaleCopies: the error names holders that could not be updated.
            Unavailable: not within `timeout` seconds; the worker continues with the tasks.
        """
        waited = 0.0  # counted in pauses: a test's clock may not advance
        while not await self.done():
            if waited >= timeout:
                raise Unavailable("the tasks are not done yet; wait longer", left=len(self._keys), timeout=timeout)
            pause = min(LONGEST_POLL_SECONDS, max(POLL_SECONDS, waited / POLLED))
            await self._database.run(Sleep(pause).__iter__())
            waited += pause
