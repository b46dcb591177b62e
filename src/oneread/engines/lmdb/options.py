"""The options of a store's URL. See the page of URLs in the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypedDict

from oneread.errors import InvalidUrl

Durability: TypeAlias = Literal["group", "may_lose_last", "none"]


class LmdbOptions(TypedDict, total=False):
    """The options of a store's folder that all engines of a process share.

    `durability` names the acknowledged commits that survive a power failure. `group`: all; commits that wait at one
    time share one pair of syncs, of the data and of LMDB's meta page. `may_lose_last`: all but the last group; one sync
    a group. `none`: no promise, the store may be damaged; a process that dies alone loses nothing.
    """

    durability: Durability
    read_only: bool
    """Never writes; the store must exist."""
    map_size: int
    """The most bytes the store may grow to: address space, not memory or disk."""
    max_readers: int
    """The most readers at one time, of all processes together."""


MAX_DATABASES: Final = 129
"""In one file: 32 prefixes of four tables, and the mark."""

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_SIZE: Final = re.compile(r"(\d+)(|[KMGT])(?:i?B)?", re.IGNORECASE)
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TRUTHS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_LONGEST_SECONDS: Final = 86_400.0
_DURABILITIES: Final[Mapping[str, Durability]] = {
    "group": "group",
    "may_lose_last": "may_lose_last",
    "none": "none",
    "sync": "group",  # the name in releases whose `group` could lose the last commits at a power failure
}


def options_from_url(query: Mapping[str, str]) -> dict[str, Any]:
    """The keyword arguments of `LmdbEngine` from a URL's query; InvalidUrl names an unknown or wrong option."""
    options: dict[str, Any] = {}
    for name, value in query.items():
        parse = _OPTIONS.get(name)
        if parse is None:
            raise InvalidUrl("lmdb: URLs do not have this option", option=name, known=sorted(_OPTIONS))
        options[name] = parse(name, value)
    return options


def check_prefix(prefix: str) -> str:
    """Refuses a prefix of other characters, or of more than 64."""
    if not _PREFIX.fullmatch(prefix):
        raise InvalidUrl(
            "a prefix is up to 64 letters, digits, dots, dashes and underscores", option="prefix", value=prefix
        )
    return prefix


def check_durability(durability: str) -> Durability:
    """The durability of this name; `sync` is an older name of `group`."""
    if durability not in _DURABILITIES:
        raise InvalidUrl("the durability is group, may_lose_last or none", option="durability", value=durability)
    return _DURABILITIES[durability]


def _truth(name: str, value: str) -> bool:
    if value.lower() not in _TRUTHS:
        raise InvalidUrl("this option is true or false", option=name, value=value)
    return _TRUTHS[value.lower()]


def _size(name: str, value: str) -> int:
    parts = _SIZE.fullmatch(value)
    size = int(parts[1]) * _UNITS[parts[2].upper()] if parts else 0
    if not 1 << 20 <= size <= 1 << 46:
        raise InvalidUrl("this option is a size from 1M to 64T, as in 512M or 1T", option=name, value=value)
    return size


def _count(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or not 1 <= int(value) <= 1 << 16:
        raise InvalidUrl("this option is a whole number from 1 to 65536", option=name, value=value)
    return int(value)


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise InvalidUrl("this option is a number of seconds, at most a day", option=name, value=value)
    return seconds


_OPTIONS: Final[dict[str, Callable[[str, str], Any]]] = {
    "durability": lambda _name, value: check_durability(value),
    "read_only": _truth,
    "map_size": _size,
    "max_readers": _count,
    "prefix": lambda _name, value: check_prefix(value),
    "timeout": _seconds,
}
