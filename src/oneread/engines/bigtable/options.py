"""The place and the options of a store's URL. See the page of URLs in the reference."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from oneread.errors import InvalidUrl
from oneread.store.rows import Table
from oneread.store.splits import splits_from_url
from oneread.store.urls import redact

POOL: Final = 32
LARGEST_POOL: Final = 256
REQUEST_SECONDS: Final = 10.0
LONGEST_SECONDS: Final = 60.0
"""A request may be under way this long, retries included: what purging relies on (rule P1 of the commit protocol)."""

_PROJECT: Final = re.compile(r"(?:[a-z0-9.-]{1,60}:)?[a-z][a-z0-9-]{0,62}")
_INSTANCE: Final = re.compile(r"[a-z][a-z0-9-]{0,62}")
_PROFILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,49}")
_PREFIX: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,39})?")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_SECONDS: Final = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,6})?")


class BigtableOptions(msgspec.Struct, frozen=True):
    """Where a store is, and how it is asked."""

    project: str
    instance: str
    profile: str = ""
    """The application profile, which must route to one cluster; empty for the instance's default."""
    prefix: str = ""
    """Comes before the names of the tables."""
    pool: int = POOL
    """Requests of one process at the same time."""
    timeout: float = REQUEST_SECONDS
    """Seconds that one request may take, retries included."""
    read_only: bool = False
    """Never writes; the store must exist."""
    splits: Mapping[Table, tuple[bytes, ...]] = {}
    """Where tables that are made are split."""
    grace: int | None = None
    """Seconds that removed rows stay; None for good."""

    @property
    def parent(self) -> str:
        """The instance's name in requests."""
        return f"projects/{self.project}/instances/{self.instance}"

    def table_name(self, table: str) -> str:
        """A table's name in requests."""
        return f"{self.parent}/tables/{self.prefix}{table}"


def options_from_url(
    place: str, query: Mapping[str, str], patience: float, *, grace: int | None = None
) -> BigtableOptions:
    """The options of a URL; InvalidUrl names what is unknown or wrong. `patience` is the seconds of a whole call."""
    project, slash, instance = place.removesuffix("/").partition("/")
    if not slash or not _PROJECT.fullmatch(project) or not _INSTANCE.fullmatch(instance):
        raise InvalidUrl(
            "a Bigtable store is a project and an instance: bigtable://project/instance", place=redact(place)
        )
    options: dict[str, Any] = {"timeout": min(max(patience, 1.0), REQUEST_SECONDS), "grace": grace}
    for name, value in query.items():
        parse = _OPTIONS.get(name)
        if parse is None:
            raise InvalidUrl("bigtable: URLs do not have this option", option=name, known=sorted(_OPTIONS))
        options[name] = parse(name, value)
    return BigtableOptions(project, instance, **options)


def _profile(name: str, value: str) -> str:
    if not _PROFILE.fullmatch(value):
        raise InvalidUrl("an application profile is 1 to 50 letters, digits, dots, dashes and underscores",
                         option=name, value=value)  # fmt: skip
    return value


def _prefix(name: str, value: str) -> str:
    if not _PREFIX.fullmatch(value):
        raise InvalidUrl(
            "a prefix is up to 40 letters, digits, dots, dashes and underscores, and begins with none of the dots and"
            " dashes",
            option=name,
            value=value,
        )
    return value


def _pool(name: str, value: str) -> int:
    if not _NUMBER.fullmatch(value) or not 1 <= int(value) <= LARGEST_POOL:
        raise InvalidUrl("this option is a whole number from 1 to 256", option=name, value=value)
    return int(value)


def _truth(name: str, value: str) -> bool:
    if value not in ("true", "false"):
        raise InvalidUrl("this option is true or false", option=name, value=value)
    return value == "true"


def _timeout(name: str, value: str) -> float:
    if not _SECONDS.fullmatch(value) or not 0 < float(value) <= LONGEST_SECONDS:
        raise InvalidUrl("timeout is seconds, above 0 and up to 60", option=name, value=value)
    return float(value)


_OPTIONS: Final[dict[str, Callable[[str, str], Any]]] = {
    "pool": _pool,
    "prefix": _prefix,
    "profile": _profile,
    "read_only": _truth,
    "splits": splits_from_url,
    "timeout": _timeout,
}
