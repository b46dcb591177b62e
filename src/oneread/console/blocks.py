"""What pages are made of: facts, tables, forms and pictures. Every text in them is text: templates escape it.

A page's JSON is made of the same blocks, so that both always say the same.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias

import msgspec

Tone: TypeAlias = Literal["", "bad", "warn", "ok", "dim"]

CUT: Final = 200
"""Characters of a text that are shown; the rest behind a click."""


class ShownText(msgspec.Struct, frozen=True, omit_defaults=True):
    """A piece of text, as it is stored: templates escape control characters.

    `tone` says how it is meant, never by colour alone; `link` is an address of the console; `at` an instant, shown in
    the zone of the viewer; `code` has letters of equal widths; `whole` is all of it where `text` is its beginning.
    """

    text: str
    tone: Tone = ""
    link: str = ""
    at: datetime | None = None
    code: bool = False
    whole: str = ""


CellTexts: TypeAlias = tuple[ShownText, ...]


class TableColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a table; numbers are at the right."""

    name: str
    right: bool = False


class FactsBlock(msgspec.Struct, frozen=True, tag="facts"):
    """Names with what is known of them, one a line."""

    heading: str
    rows: Sequence[tuple[str, CellTexts]]


class TableBlock(msgspec.Struct, frozen=True, tag="table"):
    """Rows below a heading; `empty` is said where there are none."""

    heading: str
    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[CellTexts]]
    empty: str = ""


class NumbersBlock(msgspec.Struct, frozen=True, tag="numbers"):
    """A few numbers, large: each with its name, tone and link."""

    numbers: Sequence[tuple[ShownText, str]]


class FormInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """A field of a form; `choices` are those of a list to choose from, empty for a text.

    `now` is the value that there is where another one was typed; `error` is why that was refused.
    """

    name: str
    label: str
    value: str = ""
    hint: str = ""
    choices: Sequence[str] = ()
    now: str = ""
    error: str = ""


class FormBlock(msgspec.Struct, frozen=True, tag="form"):
    """Fields that are sent to another page."""

    action: str
    inputs: Sequence[FormInput]
    button: str


class ActionForm(msgspec.Struct, frozen=True, tag="sending"):
    """A form that does something: values that it has already, what is asked for, and its button."""

    action: str
    hidden: Sequence[tuple[str, str]]
    inputs: Sequence[FormInput]
    button: str


class NoteBlock(msgspec.Struct, frozen=True, tag="note"):
    """A remark, with code to copy."""

    tone: Tone
    text: CellTexts
    code: str = ""


class FoldBlock(msgspec.Struct, frozen=True, tag="fold"):
    """What is shown on a click."""

    summary: str
    code: str


class WaysBlock(msgspec.Struct, frozen=True, tag="ways"):
    """Where the pages before and after this one are; empty for none."""

    previous: str = ""
    next: str = ""


class PictureBlock(msgspec.Struct, frozen=True, tag="picture"):
    """A picture of the library's own making, as SVG."""

    heading: str
    svg: str
    style: Literal["graph", "heat"] = "graph"


PageBlock: TypeAlias = (
    FactsBlock | TableBlock | NumbersBlock | FormBlock | ActionForm | NoteBlock | FoldBlock | WaysBlock | PictureBlock
)


class ConsolePage(msgspec.Struct, frozen=True):
    """A page: its blocks, in two columns where the second one, `beside`, is not empty.

    `about` is said beside the heading; `most` is what it may cost, in words; it is asked for again after `live`
    seconds, 0 for never.
    """

    title: str
    blocks: Sequence[PageBlock]
    beside: Sequence[PageBlock] = ()
    about: CellTexts = ()
    most: str = ""
    live: int = 0

    @property
    def draws_graph(self) -> bool:
        """Whether it needs the style sheet of graphs."""
        return any(isinstance(each, PictureBlock) and each.style == "graph" for each in self.blocks)


def says(text: str, tone: Tone = "", link: str = "") -> CellTexts:
    """A cell of one text."""
    return (ShownText(text, tone, link),)


def columns(*names: str, right: Collection[str] = ()) -> list[TableColumn]:
    """Columns of these names; those of numbers are at the right."""
    return [TableColumn(name, right=name in right) for name in names]


def number(amount: float) -> CellTexts:
    """A cell of a number."""
    return (ShownText(f"{amount:,}" if isinstance(amount, int) else f"{amount:,.1f}"),)


def instant(at: datetime) -> ShownText:
    """An instant: UTC until the page knows its viewer's time zone."""
    return ShownText(f"{at:%Y-%m-%d %H:%M:%S} UTC", at=at)
