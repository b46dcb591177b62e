"""URLs of stores and caches: their parts, and what of them errors and logs may show.

Python's own `urlsplit` takes tabs and line breaks out of a URL, so that another store would be opened. See
docs/reference/urls.md.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from oneread.errors import InvalidUrl

_USERS: Final = ("redis", "rediss")
"""Schemes of URLs that may have a user and a password."""
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_NAME: Final = re.compile(r"[a-z_]{1,32}")
_BEGINNING: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:/+")
_OPTIONS: Final = re.compile(r"[?#&;=].*", re.DOTALL)
_NO_PORT: Final = re.compile(r":(?![0-9]{1,5}(?:[,/]|$)).*", re.DOTALL)
"""What follows a colon and is not a port: a password, where its `@` is missing."""

READ_ONLY: Final = "read_only"
"""The option that opens a store without writing to it."""
IS_HOST: Final = re.compile(r"[A-Za-z0-9_.-]+|\[[A-Za-z0-9_.:%-]+\]").fullmatch
"""The name or address of a host; one with colons is in brackets, so that a user and a password are not a host."""
IS_PORT: Final = re.compile(r"[0-9]{1,5}").fullmatch


class UrlParts(NamedTuple):
    """Scheme, place and options of a URL, without escapes."""

    scheme: str
    place: str
    options: dict[str, str]


def split_url(url: object, known: Collection[str]) -> UrlParts:
    """Splits a URL of one of the known schemes; raises InvalidUrl, which shows no password."""
    if not isinstance(url, str):
        raise InvalidUrl("not a URL", given=type(url))
    shown = redact(url)
    _check_characters(url, shown)
    if "#" in url:
        raise InvalidUrl("the URL has a fragment, which means nothing here; write a # of a name as %23", url=shown)
    scheme, slashes, rest = url.partition("://")
    scheme = scheme.lower()
    if not slashes or not _SCHEME.fullmatch(scheme):
        raise InvalidUrl("not a URL", url=shown, known=[f"{each}://" for each in sorted(known)])
    if scheme not in known:
        raise InvalidUrl("the scheme of the URL is unknown", url=shown, scheme=scheme, known=sorted(known))
    place, _question, query = rest.partition("?")
    _check_user(scheme, place, shown)
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query), errors="strict")
        plain = unquote(place, errors="strict")
    except ValueError:  # its text may have a password in it, so that it is not the cause either
        raise InvalidUrl(
            "the options or escapes of the URL cannot be read: ?NAME=VALUE&NAME=VALUE", url=shown
        ) from None
    names = [name for name, _value in given]
    if not all(map(_NAME.fullmatch, names)):
        raise InvalidUrl("the name of an option has other characters than a-z and _", url=shown)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidUrl("the URL has an option twice", option=twice[0], url=shown)
    return UrlParts(scheme, plain, dict(given))


def with_read_only(url: str, known: Collection[str]) -> str:
    """The URL of a store with the option by which nothing is written to it."""
    if READ_ONLY in split_url(url, known).options:
        return url
    return f"{url}{'&' if '?' in url else '?'}{READ_ONLY}=true"


def _check_characters(url: str, shown: str) -> None:
    """Raises InvalidUrl for a line break, a tab and their like, blanks around the URL, and bytes that are not UTF-8."""
    wrong = next((each for each in url if not each.isprintable()), None)
    if wrong is None and url != url.strip():
        wrong = " "
    if wrong is not None:
        escape = "".join(f"%{byte:02X}" for byte in wrong.encode(errors="surrogatepass"))
        raise InvalidUrl(
            "the URL has a character that URLs do not have", character=ascii(wrong), escape=escape, url=shown
        )


def _check_user(scheme: str, place: str, shown: str) -> None:
    """Raises InvalidUrl for a user or a password where the scheme has none: it would be a part of a name."""
    first = place.partition("/")[0]
    before, at, _after = place.rpartition("@")
    has_user = bool(at and (first or ":" in before)) or (scheme == "lmdb" and ":" in first)
    if has_user and scheme not in _USERS:
        raise InvalidUrl(
            "URLs of this scheme have no user, password or port; write an @ or : of a name as %40 or %3A",
            scheme=scheme,
            url=shown,
        )


def redact(url: str) -> str:
    """A URL as it may be shown, however it was mistyped: without user, password and options."""
    text = unicodedata.normalize("NFKC", unquote(url))
    beginning = _BEGINNING.match(text)
    scheme = beginning[0] if beginning else ""
    hidden, at, place = text[len(scheme) :].rpartition("@")
    if _OPTIONS.search(hidden):  # the @ may be in an option, and what is behind it the rest of a secret
        return f"{scheme}..."
    return scheme + ("...@" if at else "") + _NO_PORT.sub(":...", _OPTIONS.sub("...", place))
