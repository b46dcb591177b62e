"""One field of one entity, and one entity: changed and deleted by the verbs of the library."""

from __future__ import annotations

from typing import Any

from oneread.console.acting import ActedOn, ActionDone, ActionPage, undo_of, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FoldBlock, FormInput, NoteBlock, PageBlock, TableBlock, columns, says
from oneread.console.masking import MASK
from oneread.console.pages.data import written_text
from oneread.database.places import Holder
from oneread.database.typed_keys import NONE, WantedType, has_words, key_parts, value, whole_key, word
from oneread.errors import InvalidQuery, NotFound, printable
from oneread.models.model import Model
from oneread.models.types import types_of

_HOLDERS = 10


def _named(ask: PageRequest) -> tuple[type[Model[Any]], list[str], tuple[Any, ...]]:
    """The model, the words of the key, and the key."""
    cls = ask.db.operations.schema.named().get(wanted(ask, "of"))
    if cls is None or not issubclass(cls, Model):
        raise NotFound("the schema has no model of this name", name=ask.one("of"))
    words = ask.several("key")
    return cls, words, whole_key(cls, key_parts(ask.catalog, cls), words)


async def entity_to_change(ask: PageRequest) -> ActedOn[Any]:
    """The entity, and its version."""
    cls, words, key = _named(ask)
    found = await ask.db.find(cls, *key)
    if found is None:
        raise NotFound("there is none of this key", of=cls, key=words)
    name = " ".join([cls.__name__, *words])
    return ActedOn(ask.label(cls, words), found, str(ask.db.version(found)), name)


def _field(ask: PageRequest, found: Any) -> tuple[str, WantedType]:
    """The field that is to be changed, and how its text is read."""
    name = wanted(ask, "field")
    known = types_of(type(found), ask.catalog.names).get(name)
    if known is None:
        raise InvalidQuery("this is not a field of the model", model=type(found), field=name)
    return name, WantedType(name, known.present.bare, known.optional)


async def describe_patch(ask: PageRequest, on: ActedOn[Any]) -> ActionPage:
    """A field, with what a change of it would write."""
    name, wanted_type = _field(ask, on.found)
    bound = ask.costs.patch(type(on.found), name)
    blocks: list[PageBlock] = [
        NoteBlock("warn", says(f"it {written_text(bound)}")),
        FoldBlock("what that is made of", str(bound)),
    ]
    label = f"{name}, {NONE} for none" if wanted_type.optional else name
    masks = ask.masking.masks_value(type(on.found), name)
    if masks:
        blocks.append(NoteBlock("", says("its value is masked here; what you type replaces it")))
    inputs = [FormInput("value", label, MASK if masks else _as_typed(on.found, name))]
    return ActionPage(f"Change {name} of {on.of}", blocks, "Change", inputs)


def _as_typed(found: Any, name: str) -> str:
    """The value as a field of a form has it. Raises InvalidQuery for a text that would come back as another one."""
    now = word(getattr(found, name))
    if printable(now) != now:
        raise InvalidQuery(
            "the text has line ends or control characters, which a form would change; use a program",
            model=type(found), field=name,
        )  # fmt: skip
    return now


async def patch_entity(ask: PageRequest, on: ActedOn[Any]) -> ActionDone:
    """Changes the field, where the entity has the version that was shown."""
    name, wanted_type = _field(ask, on.found)
    cls, words, key = _named(ask)
    if not has_words(wanted_type.type):
        raise InvalidQuery("fields of this type cannot be changed here; use a program", model=cls, field=name)
    link, masks = ask.link_of_key(cls, words), ask.masking.masks_value(type(on.found), name)
    if masks and ask.one("value") == MASK:
        return ActionDone("nothing was changed", link)
    given, before = value(cls, wanted_type, ask.one("value")), getattr(on.found, name)
    if given == before:
        return ActionDone("nothing was changed", link)
    await ask.db.patch(cls, *key, if_version=int(on.seen), **{name: given})
    if masks:  # the log would keep both
        return ActionDone(f"{on.of}: {name} was changed", link)
    undo = undo_of("patch", of=cls.__name__, key=words, field=name, value=word(before))
    return ActionDone(f"{on.of}: {name} is {ask.one('value')}", link, undo)


async def describe_delete(ask: PageRequest, on: ActedOn[Any]) -> ActionPage:
    """An entity, with what a delete of it would write."""
    cls, _words, key = _named(ask)
    holders = (await ask.db.places(cls, *key, limit=_HOLDERS)).holders
    bound = ask.costs.delete(type(on.found))
    blocks: list[PageBlock] = [
        NoteBlock("bad", says(f"there is no way back. It {written_text(bound)}")),
        FoldBlock("what that is made of", str(bound)),
    ]
    if holders:
        rows = [[says(_holder(ask, each)), says(", ".join(each.fields))] for each in holders]
        blocks.append(TableBlock("Who refers to it, the first ones", columns("entity", "by"), rows))
    return ActionPage(f"Delete {on.of}", blocks, "Delete")


def _holder(ask: PageRequest, holder: Holder) -> str:
    cls = ask.db.operations.schema.named().get(holder.model)
    return " ".join([holder.model, *ask.masking.words(cls, [word(each) for each in holder.key])])


async def delete_entity(ask: PageRequest, on: ActedOn[Any]) -> ActionDone:
    """Deletes it, where it has the version that was shown; one with children or references stays."""
    cls, _words, key = _named(ask)
    await ask.db.delete(cls, *key, if_version=int(on.seen))
    return ActionDone(f"{on.of} is deleted", ask.link_of(cls))
