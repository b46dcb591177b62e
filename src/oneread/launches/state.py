"""The state of a launch, one row of `system`: phase, percentages, options, and who changed it when.

Only its version orders states, never a clock. See "Launches" of docs/formats/rows.md.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from oneread.errors import Corrupt, InvalidValue, UsageError
from oneread.launches.options import LaunchOptions
from oneread.launches.sides import check_percent
from oneread.models.versions import ALL
from oneread.store.rows import UNDECODABLE

LaunchPhase: TypeAlias = Literal["building", "stopped", "shadow", "live", "finished"]
"""Old answers alone; the new side answers some; the new side answers all, and the old one is not called any more.

Of a view before: it is not built yet, or not written any more, which is not in the row of a launch.
"""
OF_MOVES: Final = "move:"
"""How the names of launches begin that are the shadowed reads of a move."""
_CHANGES: Final = 50
_NAME_BYTES: Final = 200
_REMARK_BYTES: Final = 500


class LaunchChange(msgspec.Struct, frozen=True):
    """A change of a launch: when in milliseconds since 1970, by whom, what, and why."""

    at: int
    by: str
    what: str
    why: str = ""


class LaunchState(msgspec.Struct, frozen=True):
    """A launch as it is stored. `taken_back` is why the guard did so, until reads are set again."""

    version: int = 0
    phase: LaunchPhase = "shadow"
    shadow: float = 0.0
    reads: float = 0.0
    check: float = 0.0
    options: LaunchOptions = LaunchOptions()
    taken_back: str = ""
    changes: tuple[LaunchChange, ...] = ()


NEW_STATE: Final = LaunchState(version=1)

encode_state: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(LaunchState).decode


def decode_state(name: str, stored: bytes) -> LaunchState:
    """A state from its bytes. Raises Corrupt."""
    try:
        return _decode(stored)
    except UNDECODABLE as error:
        raise Corrupt("the state of a launch cannot be read", launch=name) from error


def check_launch_name(name: str) -> str:
    """The name of a launch. Raises InvalidValue for one that cannot be part of a key."""
    if type(name) is not str or not name or "\x00" in name or not 0 < _bytes_of(name) <= _NAME_BYTES:
        raise InvalidValue("the name of a launch is text of 1 to 200 bytes, without the character 0", launch=name)
    return name


def _bytes_of(text: str) -> int:
    """How many bytes a text has in UTF-8; 0 for one that has none."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def check_remark(what: str, text: str) -> str:
    """A text of the history. Raises InvalidValue for one that is none, or is too long."""
    if type(text) is not str or (text and not 0 < _bytes_of(text) <= _REMARK_BYTES):
        raise InvalidValue("expected a text of at most 500 bytes", **{what: text})
    return text


class LaunchWanted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `set` changes; None stays as it is."""

    shadow: float | None = None
    reads: float | None = None
    check: float | None = None
    options: LaunchOptions | None = None


def change_state(name: str, state: LaunchState, wanted: LaunchWanted, change: LaunchChange) -> LaunchState:
    """The next state; the same one where nothing changes. `what` of the change is written here.

    Raises:
        InvalidValue: a percentage is out of bounds.
        UsageError: the launch is finished; or it is that of a move, whose new side only shadows reads.
    """
    if wanted.options is not None and type(wanted.options) is not LaunchOptions:
        raise InvalidValue("expected LaunchOptions", options=wanted.options)
    if state.phase == "finished":
        raise UsageError("this launch is finished; its new side answers all", launch=name)
    if wanted.reads and name.startswith(OF_MOVES):
        raise UsageError("the store that takes the writes answers all reads: run `oneread move switch`", launch=name)
    new: dict[str, Any] = {}
    for percent in ("shadow", "reads", "check"):
        given = getattr(wanted, percent)
        if given is not None and (rounded := check_percent(percent, given)) != getattr(state, percent):
            new[percent] = rounded
    what = [
        f"{percent} {shown_percent(getattr(state, percent))} -> {shown_percent(after)}"
        for percent, after in new.items()
    ]
    if wanted.options is not None and wanted.options != state.options:
        new["options"] = wanted.options
        what.append("options")
    if not new:
        return state
    if "reads" in new:
        new["phase"] = "live" if new["reads"] else "shadow"
        new["taken_back"] = ""
    return _changed(state, msgspec.structs.replace(change, what=", ".join(what)), new)


def take_back(state: LaunchState, change: LaunchChange, *, guarded: bool) -> LaunchState:
    """The state with reads of the old side alone; the same one where that is so."""
    if not state.reads or state.phase == "finished":
        return state
    new = {"phase": "shadow", "reads": 0.0, "taken_back": change.why if guarded else ""}
    return _changed(state, msgspec.structs.replace(change, what=f"reads {shown_percent(state.reads)} -> 0 %"), new)


def note_change(state: LaunchState, change: LaunchChange, what: str) -> LaunchState:
    """The state with a change in its history that is stored elsewhere."""
    return _changed(state, msgspec.structs.replace(change, what=what), {})


def finish_state(name: str, state: LaunchState, change: LaunchChange) -> LaunchState:
    """The finished state; the same one where it is that.

    Raises:
        UsageError: the new side does not answer all.
    """
    if state.phase == "finished":
        return state
    if state.reads != ALL:
        raise UsageError("finish a launch when its new side answers all: set reads to 100", launch=name)
    new = {"phase": "finished", "shadow": 0.0, "check": 0.0}
    return _changed(state, msgspec.structs.replace(change, what="finished"), new)


def _changed(state: LaunchState, change: LaunchChange, new: dict[str, Any]) -> LaunchState:
    changes = (*state.changes, change)[-_CHANGES:]
    return msgspec.structs.replace(state, version=state.version + 1, changes=changes, **new)


def shown_percent(percent: float) -> str:
    """A percentage for people."""
    return f"{percent:g} %"
