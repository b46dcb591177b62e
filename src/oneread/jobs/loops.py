"""The event loop on which async handlers run; loaded when the first one does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Final

STOP_SECONDS: Final = 1.0
"""How long what still runs on a loop of the library may take to end when it is stopped."""


class JobLoop:
    """The program's event loop, or one of the library in a thread."""

    def __init__(self, given: asyncio.AbstractEventLoop | None) -> None:
        self._is_own = given is None
        self._loop = asyncio.new_event_loop() if given is None else given
        if self._is_own:
            threading.Thread(target=self._run, name="oneread-jobs-loop", daemon=True).start()

    def submit(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine. Raises RuntimeError where the loop is closed."""
        try:
            asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise

    def close(self) -> None:
        """Ends a loop of the library."""
        if self._is_own:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _run(self) -> None:
        """Until it is stopped; what still runs then is cancelled, and a job of that is tried again."""
        try:
            self._loop.run_forever()
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            if left:
                self._loop.run_until_complete(asyncio.wait(left, timeout=STOP_SECONDS))
        finally:
            self._loop.close()
