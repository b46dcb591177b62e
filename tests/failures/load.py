"""A load of saves, adds, renames and deletes by the public verbs, which knows what each entity may be afterwards."""

import threading
from random import Random

from oneread import Aggregate, Copy, Index, Key, Model, Schema, add, ascending, by, count, shown, total
from oneread.errors import NotFound, OutcomeUnknown, StoreError
from oneread.store.requests import Scan
from oneread.testing.audit import Audit
from oneread.transactions.intents import JOURNAL


class Author(Model[int]):
    number: Key[int]
    name: str


class Writer(Copy[Author]):
    name: str


class Note(Model[int]):
    number: Key[int]
    author: Writer
    text: str
    likes: int = 0


class NotesOfAuthor(Index[Note]):
    author: Writer = by(Note.author)
    number: int = ascending(Note.number)
    likes: int = shown(Note.likes)


class Likes(Aggregate[Note]):
    author: Writer = by(Note.author)
    notes: int = count()
    likes: int = total(Note.likes)


SCHEMA = Schema(Author, Note, NotesOfAuthor, Likes)
AUTHORS = 3
KEYS = 6
"""Entities of one worker: few, so that each is changed often."""


class Load:
    """Workers that change entities of their own until they are told to stop.

    An acknowledged change is made once, one of unknown outcome once or not. `acknowledged` counts changes.
    """

    def __init__(self, db, workers=3):
        self._db = db
        self._stop = threading.Event()
        self._lock = threading.Condition()
        self.possible = {}
        self.acknowledged = 0
        self.errors = []
        self.violations = []
        for number in range(AUTHORS):
            db.save(Author(number=number, name="first"))
        self._threads = [threading.Thread(target=self._work, args=(each,)) for each in range(workers)]
        for each in self._threads:
            each.start()

    def wait(self, more, seconds=180.0):
        """Waits until so many more changes are acknowledged."""
        with self._lock:
            wanted = self.acknowledged + more
            came = self._lock.wait_for(lambda: self.acknowledged >= wanted, seconds)
        assert came, [*map(str, self.errors[-3:])]

    def stop(self):
        self._stop.set()
        for each in self._threads:
            each.join(180)
            assert not each.is_alive()

    def _work(self, worker):
        chance = Random(worker)
        while not self._stop.is_set():
            self._change(worker * KEYS + chance.randrange(KEYS), chance)

    def _change(self, key, chance):
        possible = self.possible.setdefault(key, {None})
        text = f"text {chance.randrange(1_000_000)}"
        author = chance.randrange(AUTHORS)
        kind = chance.choice(["save", "add", "add", "rename", "delete"])
        made, change = {
            "save": (lambda _old: (text, 7), lambda: self._save(key, author, text)),
            "add": (lambda old: old and (old[0], old[1] + 1), lambda: self._db.patch(Note, key, likes=add(1))),
            "delete": (lambda _old: None, lambda: self._db.delete(Note, key)),
            "rename": (lambda old: old, lambda: self._db.patch(Author, author, name=text)),
        }[kind]
        try:
            change()
        except NotFound:
            if None not in possible:
                self.violations.append(f"{kind} of {key}: not found, should be one of {possible}")
            self.possible[key] = {None}
        except OutcomeUnknown as error:
            self.errors.append(error)
            self.possible[key] = possible | {made(each) for each in possible}
        except StoreError as error:  # nothing was written
            self.errors.append(error)
        else:
            self.possible[key] = {made(each) for each in possible}
            with self._lock:
                self.acknowledged += 1
                self._lock.notify_all()

    def _save(self, key, author, text):
        self._db.save(Note(number=key, author=Writer.of(author), text=text, likes=7))


def check(load, db):
    """Recovers and drains, and compares everything: what was acknowledged, and what is derived."""
    operations = db.operations
    db.run(operations.committer.recovery.recover(patience=0.0))
    db.drain()
    engine = db._driver.engine
    assert engine.answer(Scan("system", JOURNAL, 1)) == []
    assert not load.violations
    for key, possible in load.possible.items():
        found = db.find(Note, key)
        assert (None if found is None else (found.text, found.likes)) in possible, key
    audit = Audit(engine, operations)
    audit.check()
    audit.check_totals()
    assert not audit.pending
