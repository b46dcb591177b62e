"""Who may see the console: the owner of a token, or whom a proxy names.

See "Who may see it" in docs/reference/console.md.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from starlette.requests import HTTPConnection

from oneread.errors import UsageError

Authenticate: TypeAlias = Callable[[HTTPConnection], "str | Awaitable[str | None] | None"]
"""Says who asks; None refuses."""

TOKEN: Final = "token"  # noqa: S105 - a name
"""The parameter of an address that has a token."""
HOURS: Final = 12
_LEAST: Final = 16


class TokenAccess:
    """One token, given in an address once and kept in a cookie for 12 hours.

    The cookie holds the end of its time and a digest of it that only this token makes, so that the server keeps
    nothing. Compared in constant time.

    Arguments:
        token: at least 16 characters.

    Raises:
        UsageError: the token is shorter.
    """

    def __init__(self, token: str) -> None:
        if len(token) < _LEAST:
            raise UsageError("a token has at least 16 characters", given=len(token))
        self.token: Final = token
        self._key = token.encode()
        self.cookie: Final = f"oneread-{hashlib.sha256(self._key).hexdigest()[:8]}"
        """The name of the cookie: consoles on other ports of one host have others."""

    def __call__(self, connection: HTTPConnection) -> str | None:
        """`token` for a connection that has the token's cookie."""
        end, _dot, sign = connection.cookies.get(self.cookie, "").partition(".")
        is_whole = end.isascii() and end.isdigit()
        if is_whole and hmac.compare_digest(sign, self._sign(end)) and int(end) > time.time():
            return TOKEN
        return None

    def fits(self, connection: HTTPConnection) -> bool:
        """Whether the address has the token."""
        return hmac.compare_digest(connection.query_params.get(TOKEN, "").encode(), self._key)

    def session(self) -> str:
        """The value of a new cookie."""
        end = str(int(time.time()) + HOURS * 3600)
        return f"{end}.{self._sign(end)}"

    def _sign(self, end: str) -> str:
        return hmac.new(self._key, f"console {end}".encode(), hashlib.sha256).hexdigest()


def proxy_user(header: str, *, trusted: str | Sequence[str]) -> Authenticate:
    """Whom a proxy in front of the site names, for `auth=proxy_user("x-forwarded-user", trusted="10.0.0.0/8")`.

    Arguments:
        header: that the proxy sets, and removes where a client sends it.
        trusted: networks or addresses of the proxy; the header of any other client counts for nothing.

    Raises:
        UsageError: a network is not one.
    """
    given = [trusted] if isinstance(trusted, str) else list(trusted)
    try:
        networks = [ipaddress.ip_network(each) for each in given]
    except ValueError as error:
        raise UsageError("expected networks as 10.0.0.0/8, or addresses", trusted=given) from error

    def authenticate(connection: HTTPConnection) -> str | None:
        if connection.client is None:
            return None
        try:
            address = ipaddress.ip_address(connection.client.host)
        except ValueError:
            return None
        if not any(address in network for network in networks):
            return None
        return connection.headers.get(header) or None

    return authenticate
