"""`oneread worker`: a process that runs the tasks in the outbox until it is stopped.

See "Workers" of the decisions page.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator
from typing import Annotated, Final

import typer

from oneread.cli.options import Invocation, with_shared_options, writing
from oneread.cli.output import counted
from oneread.derivations.pending_tasks import count_set_aside, count_tasks

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)

ForOption = Annotated[float, typer.Option("--for", metavar="SECONDS", min=0, help="Stop after this long; 0 for never.")]


@with_shared_options
def command(given: Invocation, *, seconds: ForOption = 0) -> None:
    """Runs the tasks in the outbox until it is stopped with Ctrl-C or SIGTERM.

    Tasks update the copies of an entity that has more of them than one commit updates. Programs that have the store
    open run them too, unless they opened it with workers=0.

    Example: oneread worker --schema shop.models:shop --db lmdb:///var/lib/shop
    """
    output = given.output
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    with _stopping() as stopped, writing(given.db, given.schema, workers=1) as database:
        output.note(f"worker {os.getpid()} runs the tasks of {given.db}; stop it with Ctrl-C")
        stopped.wait(seconds or None)
        waiting, aside = database.run(count_tasks()), database.run(count_set_aside())
    output.document({"waiting": waiting, "set_aside": aside})
    named = f", {counted(aside, 'holder')} set aside: oneread tasks" if aside else ""
    output.text(f"stopped; {counted(waiting, 'task')} waiting{named}")


@contextlib.contextmanager
def _stopping() -> Generator[threading.Event]:
    """Makes SIGTERM and Ctrl-C set an event instead of ending the process."""
    stopped = threading.Event()
    before = {number: signal.signal(number, lambda _number, _frame: stopped.set()) for number in _SIGNALS}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
