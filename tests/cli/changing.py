"""A schema before and after a change, for `oneread migrate`."""

from oneread import Index, Key, Model, Schema, at_once, by, descending, renamed, shown


def before():
    class Note(Model[int]):
        number: Key[int]
        text: str
        stars: int = 0

    class NotesByText(Index[Note]):
        text: str = by(Note.text)

    return Schema(Note, NotesByText)


def after():
    class Note(Model[int]):
        evolution = (renamed("text", to="title"),)

        number: Key[int]
        title: str
        tag: str | None = None

    class NotesByTag(Index[Note]):
        tag: str = by(Note.tag)

    return Schema(Note, NotesByTag)


def added():
    class Note(Model[int]):
        number: Key[int]
        text: str
        tag: str | None = None
        stars: int = 0

    class NotesByText(Index[Note]):
        text: str = by(Note.text)

    return Schema(Note, NotesByText)


def replaced():
    class Note(Model[int]):
        number: Key[int]
        text: str
        stars: int = 0

    class NotesByText(Index[Note]):
        text: str = by(Note.text)

    class NotesBackwards(Index[Note]):
        replaces = at_once(NotesByText)
        text: str = descending(Note.text)

    return Schema(Note, NotesByText, NotesBackwards)


def edited(*, shows_more=False):
    class Note(Model[int]):
        number: Key[int]
        text: str
        stars: int = 0

    if shows_more:

        class NotesByText(Index[Note]):
            text: str = by(Note.text)
            stars: int = shown(Note.stars)

    else:

        class NotesByText(Index[Note]):
            text: str = descending(Note.text)

    return Schema(Note, NotesByText)


BEFORE, AFTER, ADDED, REPLACED = before(), after(), added(), replaced()
EDITED, MORE_SHOWN, LEFT_OUT = edited(), edited(shows_more=True), Schema(BEFORE.models[0])
