"""Who answers: Google's service, or an emulator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oneread.errors import InvalidUrl
from oneread.store.urls import redact

_HOST: Final = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


class Server(NamedTuple):
    """The hosts of tables and of their administration, and what makes credentials; without, TLS is not used."""

    host: str
    admin_host: str
    credentials: Callable[[], Any] | None = None


def google(credentials: Callable[[], Any]) -> Server:
    """The service."""
    return Server("bigtable.googleapis.com:443", "bigtableadmin.googleapis.com:443", credentials)


def emulated(host: str) -> Server:
    """An emulator at a host and port. Raises InvalidUrl."""
    if not _HOST.fullmatch(host):
        raise InvalidUrl("BIGTABLE_EMULATOR_HOST is a host and a port, as in localhost:8086", given=redact(host))
    return Server(host, host)
