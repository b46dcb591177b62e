"""One entity with its personal values: shown by a form, to whom the console allows it, and logged.

See "Personal values" in docs/reference/console.md.
"""

from __future__ import annotations

from msgspec.structs import replace

from oneread.console.acting import NotAllowed, check_form
from oneread.console.asking import PageRequest
from oneread.console.blocks import ConsolePage, NoteBlock, says
from oneread.console.log import log_action
from oneread.console.pages.entity import show_entity

_ACTION = "show personal"


async def reveal(ask: PageRequest) -> ConsolePage:
    """The page of an entity with the personal values of its own row, once the log says who sees it.

    Raises:
        NotAllowed: the one who asks may not see them, or the form is not of this console.
    """
    if not ask.may_show:
        raise NotAllowed("this console masks personal values: start it with --personal, or mount it with personal=")
    check_form(ask)
    page = await show_entity(ask, shows=True)
    doing = _ACTION, " ".join([ask.declared().__name__, *ask.several("key")])
    await ask.db.run(log_action(ask.db.operations.committer, ask.user, doing, "its personal values were shown"))
    note = NoteBlock("warn", says("the personal values of its row are shown; the log says to whom"))
    return replace(page, blocks=[note, *page.blocks], most=f"{page.most}, and 2 requests for the log")
