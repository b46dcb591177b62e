"""What a write promises when it returns, and what each peer calls the same promise: rows of the report name it.

`none` survives the process being killed, `group` a power failure. See "Durability in pairs" of the performance page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

Durability = Literal["none", "group"]
Peer = Literal["floor", "sqlite", "postgres", "redis"]

NAMES: Final[Mapping[Peer, str]] = {
    "floor": "floor",
    "sqlite": "SQLite",
    "postgres": "PostgreSQL",
    "redis": "Redis",
}
PROMISES: Final[Mapping[Durability, str]] = {"none": "safe from a kill", "group": "safe from a power failure"}
SETTINGS: Final[Mapping[Durability, Mapping[Peer, str]]] = {
    "none": {
        "floor": "no sync",
        "sqlite": "synchronous=NORMAL",
        "postgres": "synchronous_commit=off",
        "redis": "appendfsync=everysec",
    },
    "group": {
        "floor": "data and meta page synced",
        "sqlite": "synchronous=FULL",
        "postgres": "synchronous_commit=on",
        "redis": "appendfsync=always",
    },
}


def redis_options(durability: Durability) -> Mapping[str, str]:
    """What a Redis that keeps the promise is started with: it logs each command."""
    option, _, value = SETTINGS[durability]["redis"].partition("=")
    return {"appendonly": "yes", option: value}


def named(peer: Peer, durability: Durability, how: str = "") -> str:
    """A peer as rows of writes name it: how it does the work, and the setting that makes the promise."""
    return ", ".join(part for part in (NAMES[peer], how, SETTINGS[durability][peer]) if part)
