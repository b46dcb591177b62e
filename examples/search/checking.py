"""Whether the search engine has what the store has, by plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from random import Random

from examples.comparing import all_rows, compare, print_compared, print_verified
from examples.search.engine import Document, SearchEngine, document_of
from examples.search.schema import Event
from oneread import Database

_ASKED = 50


def compare_all(db: Database, engine: SearchEngine) -> int:
    """Compares each document and some searches, and verifies the store; returns how much is wrong."""
    stored = {event.number: document_of(event) for event in all_rows(db, Event)}
    asked = [*_some_words(stored)]
    right = {words: _having(words, stored) for words in asked}
    answered = {words: {number for number, *_rest in engine.find(words, len(stored) + 1)} for words in asked}
    found = [compare("document", stored, engine.documents()), compare("search", right, answered)]
    return print_compared(found) + (not print_verified(db))


def _some_words(stored: Mapping[int, Document]) -> Iterator[str]:
    chance, words = Random(7), sorted({word for each in stored.values() for word in _words(each)})
    for _ in range(_ASKED if words else 0):
        yield " ".join(chance.sample(words, min(len(words), chance.randint(1, 2))))


def _having(words: str, stored: Mapping[int, Document]) -> set[int]:
    return {number for number, document in stored.items() if {*words.split()} <= _words(document)}


def _words(document: Document) -> set[str]:
    title, place, _answers = document
    return {*re.findall(r"\w+", f"{title} {place}")}
