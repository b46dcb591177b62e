"""What can be done, and how it is asked for: a page says what would follow, a form does it, and a row logs it.

An action names what its page had `seen`, a version or a state, and is refused where that is another one by now: so two
people who act at once learn of each other. See "What can be done" in docs/reference/console.md.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from msgspec.structs import replace

from oneread.console.asking import PageRequest
from oneread.console.blocks import ActionForm, ConsolePage, FormInput, NoteBlock, PageBlock, says
from oneread.console.log import log_action, logged
from oneread.errors import Conflict, NotFound, OnereadError, UsageError

T = TypeVar("T")

CSRF: Final = "csrf"
SEEN: Final = "seen"
DID: Final = "did"
"""The parameter of an address whose page says what was done: it names a row of the log."""
_OWN: Final = (CSRF, SEEN)
_RECENT: Final = 50
_SAID: Final = 1_000
"""Characters of what was done that are logged."""
_ADDRESS: Final = 8_000
"""Characters of an address that every browser and server takes: nothing longer is undone by one."""


@dataclass(frozen=True)
class ActedOn(Generic[T]):
    """What an action is done to: its name, what was read of it, and the version or state in which that is.

    `logged` is the name that the log has, where pages mask a part of it.
    """

    of: str
    found: T
    seen: str = ""
    logged: str = ""


@dataclass(frozen=True)
class ActionPage:
    """What an action would do: the title of its page.

    The blocks say what will follow, and at most how much that is; `inputs` are what is asked for besides what the
    address has, with the values of now.
    """

    title: str
    blocks: Sequence[PageBlock]
    button: str
    inputs: Sequence[FormInput] = ()


class ActionDone(NamedTuple):
    """What an action did: in words, the page to look at, and the page that undoes it."""

    said: str
    link: str
    undo: str = ""


@dataclass(frozen=True)
class ConsoleAction(Generic[T]):
    """Something that can be done: described by a page, done by a POST. One that does not write needs no `--write`.

    `find` reads what it is done to, and no more than that: a POST compares its state, and `act` uses it.
    """

    find: Callable[[PageRequest], Awaitable[ActedOn[T]]]
    describe: Callable[[PageRequest, ActedOn[T]], Awaitable[ActionPage]]
    act: Callable[[PageRequest, ActedOn[T]], Awaitable[ActionDone]]
    writes: bool = True


def always(of: str) -> Callable[[PageRequest], Awaitable[ActedOn[None]]]:
    """For an action on something that is always there, and has no state."""

    async def find(_ask: PageRequest) -> ActedOn[None]:
        return ActedOn(of, None)

    return find


def offer(ask: PageRequest, label: str, action: str, command: str, **given: str | Sequence[str]) -> NoteBlock:
    """A link to an action; where nothing may be written, the command to type."""
    if ask.may_write:
        return NoteBlock("", says(label, link=ask.link(f"/do/{action}", **given)))
    return NoteBlock("", says(f"{label}:", "dim"), command)


async def describe_action(ask: PageRequest, action: ConsoleAction[T], error: OnereadError | None = None) -> ConsolePage:
    """The page of an action, with what was typed; after an error with that, beside the field that it is about."""
    check_may(ask, action)
    on = await action.find(ask)
    described = await action.describe(ask, on)
    wrong = "" if error is None else _input_of(error, described.inputs)
    words = "" if error is None else ask.error_text(error)
    inputs = [_typed(ask, each, words if each.name == wrong else "") for each in described.inputs]
    asked_for = {each.name for each in inputs}
    given = {
        name: [ask.typed(each) for each in several]
        for name, several in ask.query.items()
        if name not in asked_for and name not in _OWN
    }
    hidden = [(CSRF, ask.csrf), (SEEN, on.seen)]
    form = ActionForm(ask.link(f"/do/{ask.path['action']}", **given), hidden, inputs, described.button)
    said = [] if error is None or wrong else [NoteBlock("bad", says(words))]
    return ConsolePage(described.title, [*said, *described.blocks, form])


def _typed(ask: PageRequest, shown: FormInput, error: str) -> FormInput:
    """A field with what the address or the form has for it, beside what is so by now."""
    if shown.name not in ask.query:
        return shown
    typed = ask.typed(ask.one(shown.name))
    return replace(shown, value=typed, now=shown.value if typed != shown.value else "", error=error)


def _input_of(error: OnereadError, inputs: Sequence[FormInput]) -> str:
    """The field that an error is about: one whose value is a fact of it, or the only one where a value was refused."""
    named = next((each.name for each in inputs if each.name in error.facts), "")
    refuses_value = isinstance(error, UsageError) and not isinstance(error, NotFound | NotAllowed)
    return named or (inputs[0].name if len(inputs) == 1 and refuses_value else "")


async def do_action(ask: PageRequest, action: ConsoleAction[T]) -> str:
    """Does what the form of an action's page asks for, and logs it; the address of the page that shows what was done.

    Raises:
        NotAllowed: the one who asks may not do it, or the form is not of this console.
        Conflict: what it is done to is in another state than its page showed.
    """
    check_may(ask, action)
    check_form(ask)
    on = await action.find(ask)
    if on.seen != ask.one(SEEN):
        raise Conflict("this was changed meanwhile; look again", of=on.of, **(await _by_whom(ask, on.logged or on.of)))
    done = await action.act(ask, on)
    if not ask.may_write:
        return done.link
    said = done.said if len(done.said) <= _SAID else f"{done.said[:_SAID]}…"
    undo = done.undo if len(done.undo) <= _ADDRESS else ""
    doing = ask.path["action"], on.logged or on.of
    did = await ask.db.run(log_action(ask.db.operations.committer, ask.user, doing, said, undo))
    return with_parameter(done.link, DID, did)


def with_parameter(address: str, name: str, value: str) -> str:
    """An address with one more parameter."""
    return f"{address}{'&' if '?' in address else '?'}{urlencode({name: value})}"


def check_form(ask: PageRequest) -> None:
    """Raises NotAllowed for a form that this console has not made for the one who asks."""
    if not hmac.compare_digest(ask.one(CSRF).encode(), ask.csrf.encode()):
        raise NotAllowed("this form is not one of this console, or it is too old: look at it, and send it again")


def check_may(ask: PageRequest, action: ConsoleAction[Any]) -> None:
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
