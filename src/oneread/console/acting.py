"""What can be done, and how it is asked for: a page says what would follow, a form does it, and a row logs it.

An action names what its page had `seen`, a version or a state, and is refused where that is another one by now: so two
people who act at once learn of each other. See "What can be done" in docs/reference/console.md.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import urlencode

from oneread.console.asking import PageRequest
from oneread.console.blocks import ActionForm, CellTexts, ConsolePage, FormInput, NoteBlock, PageBlock, says
from oneread.console.log import log_action, logged
from oneread.errors import Conflict, NotFound, UsageError

CSRF: Final = "csrf"
SEEN: Final = "seen"
_OWN: Final = (CSRF, SEEN)
_RECENT: Final = 50
_SAID: Final = 1_000
"""Characters of what was done that are logged."""
_ADDRESS: Final = 8_000
"""Characters of an address that every browser and server takes: nothing longer is undone by one."""


@dataclass(frozen=True)
class ActionPage:
    """What an action would do: the title of its page, and `of` what it is done to.

    The blocks say what will follow, and at most how much that is; `seen` is the version or state that the page shows;
    `inputs` are what is asked for besides what the address has.
    """

    title: str
    of: str
    blocks: Sequence[PageBlock]
    button: str
    seen: str = ""
    inputs: Sequence[FormInput] = ()


class ActionDone(NamedTuple):
    """What an action did: in words, the page to look at, and the page that undoes it."""

    said: str
    link: str
    undo: str = ""


@dataclass(frozen=True)
class ConsoleAction:
    """Something that can be done: described by a page, done by a POST. One that does not write needs no `--write`."""

    describe: Callable[[PageRequest], Awaitable[ActionPage]]
    act: Callable[[PageRequest], Awaitable[ActionDone]]
    writes: bool = True


def offer(ask: PageRequest, label: str, action: str, command: str, **given: str | Sequence[str]) -> NoteBlock:
    """A link to an action; where nothing may be written, the command to type."""
    if ask.may_write:
        return NoteBlock("", says(label, link=ask.link(f"/do/{action}", **given)))
    return NoteBlock("", says(f"{label}:", "dim"), command)


async def describe_action(ask: PageRequest, action: ConsoleAction) -> ConsolePage:
    """The page of an action."""
    check_may(ask, action)
    described = await action.describe(ask)
    asked_for = {each.name for each in described.inputs}
    given = {name: several for name, several in ask.query.items() if name not in asked_for and name not in _OWN}
    hidden = [(CSRF, ask.csrf), (SEEN, described.seen)]
    form = ActionForm(ask.link(f"/do/{ask.path['action']}", **given), hidden, described.inputs, described.button)
    return ConsolePage(described.title, [*described.blocks, form])


async def do_action(ask: PageRequest, action: ConsoleAction) -> ConsolePage:
    """Does what the form of an action's page asks for, and writes that down."""
    check_may(ask, action)
    if not hmac.compare_digest(ask.one(CSRF).encode(), ask.csrf.encode()):
        raise NotAllowed("this form is not one of this console, or it is too old; open its page again")
    described = await action.describe(ask)
    if described.seen != ask.one(SEEN):
        raise Conflict("this was changed meanwhile; look again", of=described.of, **(await _by_whom(ask, described.of)))
    done = await action.act(ask)
    said = done.said if len(done.said) <= _SAID else f"{done.said[:_SAID]}…"
    undo = done.undo if len(done.undo) <= _ADDRESS else ""
    if ask.may_write:
        doing = ask.path["action"], described.of
        await ask.db.run(log_action(ask.db.operations.committer, ask.user, doing, said, undo))
    more: CellTexts = says("look at it", link=done.link)
    if undo:
        more += says("undo", link=f"{ask.root}{undo}")
    return ConsolePage(described.title, [NoteBlock("ok", says(said)), NoteBlock("", more)])


def check_may(ask: PageRequest, action: ConsoleAction) -> None:
    """Raises NotAllowed where the one who asks may not do it."""
    if action.writes and not ask.may_write:
        raise NotAllowed("this console is read-only: start it with --write, or mount it with writes=")


class NotAllowed(UsageError):
    """What the one who asks may not do: answered with 403."""


async def _by_whom(ask: PageRequest, of: str) -> dict[str, str]:
    """Who did something to the same last, by the log."""
    last = next((each for _at, each in await ask.db.run(logged(_RECENT)) if each.of == of), None)
    return {} if last is None else {"by": last.by, "did": last.said}


def undo_of(action: str, **given: str | Sequence[str]) -> str:
    """The path and parameters of an action's page."""
    return f"/do/{action}?{urlencode(given, doseq=True)}"


def wanted(ask: PageRequest, name: str) -> str:
    """A parameter that an action needs. Raises NotFound."""
    found = ask.one(name)
    if not found:
        raise NotFound("the address lacks a parameter", parameter=name)
    return found
