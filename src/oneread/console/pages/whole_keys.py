"""What there is of a whole key that was asked for: an entity, or that it was deleted."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from oneread.console.asking import PageRequest
from oneread.console.blocks import NoteBlock, ShownText, instant, says
from oneread.database.typed_keys import key_parts, whole_key
from oneread.errors import Corrupt, NotFound


async def entity_of_key(ask: PageRequest, cls: Any, words: list[str]) -> NoteBlock:
    """Whether there is an entity of a whole key, or there was, with its page."""
    key = whole_key(cls, key_parts(ask.catalog, cls), words)
    name, link = ask.label(cls, words), ask.link_of_key(cls, words)
    try:
        found = await ask.db.places(cls, *key, limit=1)
    except NotFound:
        return NoteBlock("", says(f"there is no {name}, and none was deleted"))
    except Corrupt as error:
        return NoteBlock("bad", (ShownText(name, link=link), ShownText(ask.error_text(error))))
    if not found.versions.deleted:
        return NoteBlock("", says(name, link=link))
    at = datetime.fromtimestamp(found.versions.row / 1000, UTC)
    said = (
        ShownText(name, link=link),
        ShownText("was deleted:"),
        instant(at),
        ShownText("see what it left", link=link),
    )
    return NoteBlock("warn", said)
