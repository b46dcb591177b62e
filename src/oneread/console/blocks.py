"""What pages are made of: facts, tables, forms and pictures. Every text in them is text: templates escape it.

A page's JSON is made of the same blocks, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["", "bad", "warn", "ok", "dim"]

CUT: Final = 200
"""Characters of a text that are shown; the rest behind a click."""


class Text(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of text.

    Arguments:
        text: as it is stored; templates escape control characters.
        tone: how it is meant; never by colour alone.
        link: an address of the console.
        at: an instant, shown in the viewer's time zone.
        code: whether it is shown in a font of equal widths.
        whole: all of it, where `text` is its beginning.
    """

    text: str
    tone: Tone = ""
    link: str = ""
    at: datetime | None = None
    code: bool = False
    whole: str = ""


Cell: TypeAlias = tuple[Text, ...]


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a table; numbers are at the right."""

    name: str
    right: bool = False


class Facts(msgspec.Struct, frozen=True, tag="facts"):
    """Names with what is known of them, one a line."""

    heading: str
    rows: Sequence[tuple[str, Cell]]


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Rows below a heading; `empty` is said where there are none."""

    heading: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    empty: str = ""


class Numbers(msgspec.Struct, frozen=True, tag="numbers"):
    """A few numbers, large: each with its name, tone and link."""

    numbers: Sequence[tuple[Text, str]]


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field of a form; `choices` are those of a list to choose from, empty for a text."""

    name: str
    label: str
    value: str = ""
    hint: str = ""
    choices: Sequence[str] = ()


class Form(msgspec.Struct, frozen=True, tag="form"):
    """Fields that are sent to another page."""

    action: str
    inputs: Sequence[Input]
    button: str


class Sending(msgspec.Struct, frozen=True, tag="sending"):
    """A form that does something: values that it has already, what is asked for, and its button."""

    action: str
    hidden: Sequence[tuple[str, str]]
    inputs: Sequence[Input]
    button: str


class Note(msgspec.Struct, frozen=True, tag="note"):
    """A remark, with code to copy."""

    tone: Tone
    text: Cell
    code: str = ""


class Fold(msgspec.Struct, frozen=True, tag="fold"):
    """What is shown on a click."""

    summary: str
    code: str


class Ways(msgspec.Struct, frozen=True, tag="ways"):
    """Where the pages before and after this one are; empty for none."""

    previous: str = ""
    next: str = ""


class Picture(msgspec.Struct, frozen=True, tag="picture"):
    """A picture of the library's own making, as SVG."""

    heading: str
    svg: str
    style: Literal["graph", "heat"] = "graph"


Block: TypeAlias = Facts | Table | Numbers | Form | Sending | Note | Fold | Ways | Picture


class ConsolePage(msgspec.Struct, frozen=True):
    """A page.

    Arguments:
        title: its heading.
        blocks: in two columns where the second one, `beside`, is not empty.
        about: what is said beside the heading.
        most: what it may cost at most, in words.
        live: seconds after which what is shown is asked for again; 0 for never.
    """

    title: str
    blocks: Sequence[Block]
    beside: Sequence[Block] = ()
    about: Cell = ()
    most: str = ""
    live: int = 0

    @property
    def draws_graph(self) -> bool:
        """Whether it needs the style sheet of graphs."""
        return any(isinstance(each, Picture) and each.style == "graph" for each in self.blocks)


def says(text: str, tone: Tone = "", link: str = "") -> Cell:
    """A cell of one text."""
    return (Text(text, tone, link),)


def number(amount: float) -> Cell:
    """A cell of a number."""
    return (Text(f"{amount:,}" if isinstance(amount, int) else f"{amount:,.1f}"),)


def instant(at: datetime) -> Text:
    """An instant: UTC until the page knows its viewer's time zone."""
    return Text(f"{at:%Y-%m-%d %H:%M:%S} UTC", at=at)
