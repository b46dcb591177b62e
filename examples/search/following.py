"""The job that keeps the search engine in step. It may be killed at any moment, and started again."""

from __future__ import annotations

from collections.abc import Callable

from examples.search.engine import SearchEngine
from examples.search.schema import Event
from oneread import Database
from oneread.errors import Expired

BATCH = 500


def fill(db: Database, engine: SearchEngine) -> str:
    """Puts every event; returns where the log is continued.

    The cursor is taken first and kept last: nothing that changes meanwhile is missed, and a fill that was killed is
    begun again.
    """
    cursor = db.changes_cursor(Event)
    engine.clear()
    for page in db.scan(Event):
        engine.apply({event.number: event for event in page}, None)
    engine.apply({}, cursor)
    return cursor


def follow(db: Database, engine: SearchEngine, stop: Callable[[], bool], wait: float = 1.0) -> None:
    """Applies what changes until it shall stop; with a `wait` of 0 until nothing has changed any more."""
    cursor = engine.position() or fill(db, engine)
    while not stop():
        try:
            for changes in db.changes(Event, cursor=cursor, limit=BATCH, wait=wait):
                engine.apply({change.key[0]: change.row for change in changes}, changes.cursor)
                cursor = changes.cursor
                if stop() or not (wait or changes.more):
                    return
        except Expired:  # it was away for longer than the log is kept
            cursor = fill(db, engine)
