"""Launches: percentages, back, and stop."""

from __future__ import annotations

from oneread.console.acting import ActionDone, ActionPage, undo_of, wanted
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


async def _report(ask: PageRequest) -> LaunchReport:
    return await launch_named(ask, wanted(ask, "name"))


def _seen(found: LaunchReport) -> str:
    return f"{found.phase} {found.writes:g} {found.shadow:g} {found.reads:g} {found.check:g}"


async def describe_launch(ask: PageRequest) -> ActionPage:
    """The percentages of a launch, to be changed."""
    found = await _report(ask)
    inputs = [
        FormInput(share, label, ask.one(share) or f"{getattr(found, share):g}") for share, label in _SHARES.items()
    ]
    said = "programs follow within seconds; the old side is written all along, so that every step can be taken back"
    return ActionPage(
        f"Change launch {found.name}", found.name, [NoteBlock("", says(said))], "Change", _seen(found), inputs
    )


async def set_launch(ask: PageRequest) -> ActionDone:
    """Changes what differs."""
    found = await _report(ask)
    shares = {share: _share(ask, share) for share in _SHARES}
    changed = {share: given for share, given in shares.items() if given != getattr(found, share)}
    if not changed:
        return ActionDone("nothing was changed", ask.link(f"/launches/{found.name}"))
    await ask.db.launches.set(found.name, by=ask.user, **changed)  # type: ignore[arg-type]  # the names are those above
    before = {share: f"{getattr(found, share):g}" for share in changed}
    said = ", ".join(f"{share} {before[share]} % -> {given:g} %" for share, given in changed.items())
    undo = undo_of("launch", name=found.name, **before)
    return ActionDone(f"{found.name}: {said}", ask.link(f"/launches/{found.name}"), undo)


def _share(ask: PageRequest, name: str) -> float:
    try:
        return float(ask.one(name))
    except ValueError as error:
        raise UsageError("a share is a number of per cent", share=name, given=ask.one(name)) from error


async def describe_back(ask: PageRequest) -> ActionPage:
    """Reads go back to the old side."""
    found = await _report(ask)
    said = f"the old side answers all again: reads {found.reads:g} % -> 0 %"
    return ActionPage(f"Take {found.name} back", found.name, [NoteBlock("warn", says(said))], "Take back", _seen(found))


async def take_launch_back(ask: PageRequest) -> ActionDone:
    """Takes reads back."""
    found = await _report(ask)
    await ask.db.launches.back(found.name, by=ask.user, why="by the console")
    undo = undo_of("launch", name=found.name, reads=f"{found.reads:g}")
    return ActionDone(f"{found.name}: reads {found.reads:g} % -> 0 %", ask.link(f"/launches/{found.name}"), undo)


async def describe_stop_launch(ask: PageRequest) -> ActionPage:
    """The new view is not written any more."""
    found = await _report(ask)
    said = "the new view is neither read nor written any more; to go on, it is built again by a backfill"
    return ActionPage(f"Stop {found.name}", found.name, [NoteBlock("bad", says(said))], "Stop", _seen(found))


async def stop_launch(ask: PageRequest) -> ActionDone:
    """Stops writing it."""
    found = await _report(ask)
    await ask.db.launches.stop(found.name, by=ask.user)
    undo = undo_of("launch", name=found.name, writes=f"{found.writes:g}")
    return ActionDone(f"{found.name} is stopped", ask.link(f"/launches/{found.name}"), undo)
