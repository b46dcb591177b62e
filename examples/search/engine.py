"""The search engine: SQLite's FTS5 in a file. Another one needs the same four methods: put, forget, clear, position."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from examples.search.schema import Event

Document: TypeAlias = tuple[str, str, int]
"""What is kept of an event: its title, the name of its venue, how many have answered."""


def document_of(event: Event) -> Document:
    """What the search engine has of an event."""
    return event.title, event.place.name, event.answers


class SearchEngine:
    """Documents by number, and the position in the log up to which they are right.

    Both change in one transaction. An engine without transactions puts the documents first: what is put again is the
    same.
    """

    def __init__(self, file: Path) -> None:
        self.db = sqlite3.connect(file, timeout=60)
        with self.db:
            self.db.execute("create virtual table if not exists events using fts5(title, place, answers unindexed)")
            self.db.execute("create table if not exists position (cursor text)")

    def position(self) -> str | None:
        """The cursor behind what was applied last; None until all events were put once."""
        found = self.db.execute("select cursor from position").fetchone()
        return None if found is None else found[0]

    def apply(self, changed: Mapping[int, Event | None], cursor: str | None) -> None:
        """Puts the events that are there, and forgets the others; `cursor` is where the log is continued."""
        with self.db:
            self.db.executemany("delete from events where rowid = ?", [(number,) for number in changed])
            found = [(number, *document_of(each)) for number, each in changed.items() if each is not None]
            self.db.executemany("insert into events (rowid, title, place, answers) values (?, ?, ?, ?)", found)
            if cursor is not None:
                self.db.execute("delete from position")
                self.db.execute("insert into position values (?)", (cursor,))

    def clear(self) -> None:
        """Forgets everything, the position first of all."""
        with self.db:
            self.db.execute("delete from position")
            self.db.execute("delete from events")

    def find(self, words: str, most: int) -> list[tuple[int, str, str]]:
        """The events that have all these words, best first: number, title and place."""
        quoted = " ".join('"' + each.replace('"', '""') + '"' for each in words.split())
        asked = "select rowid, title, place from events where events match ? order by rank limit ?"
        return self.db.execute(asked, (quoted, most)).fetchall() if quoted else []

    def documents(self) -> dict[int, Document]:
        """All that it has."""
        return {
            number: (*rest,) for number, *rest in self.db.execute("select rowid, title, place, answers from events")
        }

    def close(self) -> None:
        """Closes the file."""
        self.db.close()
