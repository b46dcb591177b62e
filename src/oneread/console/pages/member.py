"""One member's feed: what is stored, beside what a verification of this member says that it should be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from oneread.console.acting import offer
from oneread.console.asking import InputRefused, PageRequest, cell_of, text_cell
from oneread.console.blocks import (
    CellTexts,
    ConsolePage,
    FormBlock,
    FormInput,
    NoteBlock,
    PageBlock,
    ShownText,
    TableBlock,
    columns,
    says,
)
from oneread.console.masking import MASK
from oneread.costs.bounds import counted
from oneread.database.typed_keys import WantedType, key_parts, values, word
from oneread.derivations.views import Feed
from oneread.errors import InvalidKey, InvalidQuery
from oneread.feeds.feed_view import FeedView
from oneread.plans.progress import Fault
from oneread.verify.feed_member import MemberEntry, MemberFeed

ENTRIES: Final = 20
"""The newest of a member that are compared."""


async def show_member(ask: PageRequest) -> ConsolePage:
    """The newest entries of one member, each right or wrong."""
    feed = ask.declared()
    view = ask.catalog.views.get(feed)
    if not isinstance(view, FeedView):
        raise InvalidQuery("this is not a feed", view=feed)
    parts = key_parts(ask.catalog, feed)[: len(view.member_codec.elements)]
    words = ask.several("key")
    about: CellTexts = (ShownText(feed.__name__, link=ask.link_of(feed)), ShownText("a member's feed, compared"))
    form = _form(ask, feed, parts, words)
    if not all(words) or len(words) < len(parts):
        whose = NoteBlock("", says("say whose feed is to be compared with what it should be"))
        return ConsolePage(f"{feed.__name__} compared", [form, whose], about=about)
    try:
        member = values(feed, parts, words)
    except InvalidKey as error:
        wrong = [
            replace(each, error=ask.error_text(error)) if each.label == error.facts.get("part") else each
            for each in form.inputs
        ]
        page = ConsolePage(f"{feed.__name__} compared", [replace(form, inputs=wrong)], about=about)
        raise InputRefused(page, error) from error
    found = await ask.db.run(ask.db.operations.parts.inspector.compare_member(view, member, ENTRIES))
    title = f"{feed.__name__} of {' '.join(ask.masking.words(feed, words))}"
    return ConsolePage(title, [form, *_found(ask, view, found)], about=about)


def _form(ask: PageRequest, feed: type[Feed[Any]], parts: Sequence[WantedType], words: Sequence[str]) -> FormBlock:
    filled = [*words, *[""] * len(parts)]
    inputs = [
        FormInput("key", each.name, ask.typed(filled[place]), getattr(each.type, "__name__", ""))
        for place, each in enumerate(parts)
    ]
    return FormBlock(ask.link(f"/feeds/{feed.__name__}"), inputs, "Compare")


def _found(ask: PageRequest, view: FeedView, found: MemberFeed) -> list[PageBlock]:
    name = view.cls.__name__
    wrong = [each for each in found.entries if each.fault is not None]
    faults = len(wrong) + len(found.faults)
    blocks: list[PageBlock] = []
    if faults:
        blocks.append(
            NoteBlock(
                "bad",
                says(f"{counted(faults, 'fault')} beside {counted(len(found.entries) - len(wrong), 'right row')}"),
            )
        )
        blocks.append(offer(ask, f"repair {name}", "repair", f"oneread repair {name}", of=name))
    elif found.settled:
        blocks.append(NoteBlock("ok", says("every entry that is compared is as it should be")))
    if not found.settled:
        blocks.append(NoteBlock("warn", says("some of it was being changed whenever it was looked at: look again")))
    blocks += [NoteBlock("bad", (text_cell(ask.masking.text_of(name, each.text)),)) for each in found.faults]
    left_out = {*view.rules.member, *([] if view.groups else ["source"])}  # they are in the heading, and in "item"
    fields = dict.fromkeys(field for each in found.entries for field in each.stored or ())
    names = [each for each in fields if each not in left_out]
    rows = [_row(ask, view, each, names) for each in found.entries]
    heads = columns("item", *names, "is", "should be")
    blocks.append(
        TableBlock("Stored, newest first", heads, rows, empty="this member has no entries, and should have none")
    )
    return [*blocks, _compared(ask, view, found)]


def _row(ask: PageRequest, view: FeedView, entry: MemberEntry, names: Sequence[str]) -> list[CellTexts]:
    words = [word(each) for each in entry.item]
    item = says(ask.label(view.model, words), link=ask.link_of_key(view.model, words) if words else "")
    if not words:
        item = says(" / ".join(ask.masking.words(view.cls, [word(each) for each in entry.values])))
    stored = entry.stored or {}
    cells: list[CellTexts] = [
        cell_of(ask, view.cls, name, stored[name]) if name in stored else says("-", "dim") for name in names
    ]
    fault = entry.fault
    if fault is None:
        return [item, *cells, says("right", "ok"), says("the same", "dim")]
    return [item, *cells, says(fault.kind, "bad"), _expected(ask, view.cls, fault)]


def _expected(ask: PageRequest, feed: type, fault: Fault) -> CellTexts:
    """What an entry should be: the values that differ, or all of it behind a click."""
    if fault.expected and ask.masking.masks_any_of(feed):
        return says(MASK, "dim")
    if fault.differences:
        return says(", ".join(f"{each.field} {each.expected}" for each in fault.differences))
    if not fault.expected:
        return says("not there", "dim")
    return (ShownText("there, with", whole=fault.expected),)


def _compared(ask: PageRequest, view: FeedView, found: MemberFeed) -> NoteBlock:
    """What was compared, and what was not."""
    said = [f"the newest {ENTRIES:,} were compared, and older ones are there" if found.older else "all were compared"]
    more = "; the member has more" if found.more_groups else ""
    said.append(f"in {counted(found.groups, 'group')}{more}")
    if view.large is not None:
        said.append(f"groups of more than {view.large.above:,} are merged by pages and may have no entries")
    said.append("what a task will still write is not wrong")
    link = ShownText("compare all", link=ask.link("/do/verify", of=view.cls.__name__))
    return NoteBlock("", (*says("; ".join(said), "dim"), link))
