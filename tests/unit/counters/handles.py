"""Counters of both faces behind one: each verb is called in the same way."""

import inspect

from oneread import Key, Model, Schema


class Nothing(Model[int]):
    number: Key[int]


SCHEMA = Schema(Nothing)


class Handle:
    """A counter of either face."""

    def __init__(self, face, counter):
        self._face = face
        self._counter = counter

    def __getattr__(self, verb):
        found = getattr(self._counter, verb)

        def call(*given, **named):
            result = found(*given, **named)
            return self._face.runner.run(result) if inspect.iscoroutine(result) else result

        return call


def handle(face, name, **options):
    return Handle(face, face.db.counter(name, **options))


def is_clean(face):
    """Whether verify finds nothing; a store that changes one row at a time does not have it yet."""
    return not face.db.operations.spans_rows or face.verify().clean
