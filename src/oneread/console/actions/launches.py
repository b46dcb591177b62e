"""Launches: percentages, back, and stop."""

from __future__ import annotations

from oneread.console.acting import ActedOn, ActionDone, ActionPage, undo_of, wanted
from oneread.console.asking import PageRequest
from oneread.console.blocks import FormInput, NoteBlock, says
from oneread.console.pages.launches import launch_named
from oneread.errors import UsageError
from oneread.launches.reports import LaunchReport

_SHARES = {
    "writes": "entities for which the view is written, %",
    "shadow": "answers of the old side that are compared, %",
    "reads": "keys that the new side answers, %",
    "check": "answers of the new side that are compared, %",
}


async def launch_to_change(ask: PageRequest) -> ActedOn[LaunchReport]:
    """The launch, with its percentages."""
    found = await launch_named(ask, wanted(ask, "name"))
    seen = f"{found.phase} {found.writes:g} {found.shadow:g} {found.reads:g} {found.check:g}"
    return ActedOn(found.name, found, seen)


async def describe_launch(_ask: PageRequest, on: ActedOn[LaunchReport]) -> ActionPage:
    """The percentages of a launch, to be changed."""
    inputs = [FormInput(share, label, f"{getattr(on.found, share):g}") for share, label in _SHARES.items()]
    said = "programs follow within seconds; the old side is still written, so that every step can be taken back"
    return ActionPage(f"Change launch {on.of}", [NoteBlock("", says(said))], "Change", inputs)


async def set_launch(ask: PageRequest, on: ActedOn[LaunchReport]) -> ActionDone:
    """Changes what differs."""
    shares = {share: _share(ask, share) for share in _SHARES}
    changed = {share: given for share, given in shares.items() if given != getattr(on.found, share)}
    link = ask.link(f"/launches/{on.of}")
    if not changed:
        return ActionDone("nothing was changed", link)
    await ask.db.launches.set(on.of, by=ask.user, **changed)  # type: ignore[arg-type]  # the names are those above
    before = {share: f"{getattr(on.found, share):g}" for share in changed}
    said = ", ".join(f"{share} {before[share]} % -> {given:g} %" for share, given in changed.items())
    return ActionDone(f"{on.of}: {said}", link, undo_of("launch", name=on.of, **before))


def _share(ask: PageRequest, name: str) -> float:
    try:
        return float(ask.one(name))
    except ValueError as error:
        raise UsageError("a share is a number of per cent", **{name: ask.one(name)}) from error


async def describe_back(_ask: PageRequest, on: ActedOn[LaunchReport]) -> ActionPage:
    """Reads go back to the old side."""
    said = f"the old side answers all again: reads {on.found.reads:g} % -> 0 %"
    return ActionPage(f"Take {on.of} back", [NoteBlock("warn", says(said))], "Take back")


async def take_launch_back(ask: PageRequest, on: ActedOn[LaunchReport]) -> ActionDone:
    """Takes reads back."""
    await ask.db.launches.back(on.of, by=ask.user, why="by the console")
    undo = undo_of("launch", name=on.of, reads=f"{on.found.reads:g}")
    return ActionDone(f"{on.of}: reads {on.found.reads:g} % -> 0 %", ask.link(f"/launches/{on.of}"), undo)


async def describe_stop_launch(_ask: PageRequest, on: ActedOn[LaunchReport]) -> ActionPage:
    """The new view is not written any more."""
    said = "the new view is neither read nor written any more; to launch it later, a backfill builds it again"
    return ActionPage(f"Stop {on.of}", [NoteBlock("bad", says(said))], "Stop")


async def stop_launch(ask: PageRequest, on: ActedOn[LaunchReport]) -> ActionDone:
    """Stops writing it."""
    await ask.db.launches.stop(on.of, by=ask.user)
    undo = undo_of("launch", name=on.of, writes=f"{on.found.writes:g}")
    return ActionDone(f"{on.of} is stopped", ask.link(f"/launches/{on.of}"), undo)
