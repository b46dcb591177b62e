"""Conditional requests: an entity's version as its entity tag, and the tag that a client sends back as `if_version`.

Knows versions and headers. Must not know stores. The law is RFC 9110, section 13, where several tags in If-Match are
refused: a write is compared with one version.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.requests import HTTPConnection, Request

from oneread.database.results import version_of
from oneread.errors import InvalidValue

_TAG: Final = re.compile(r'(?P<weak>W/)?"(?P<opaque>[\x21\x23-\x7e\x80-\xff]*)"')
_OURS: Final = re.compile(r"v(?P<version>[0-9]{1,19})")
_NEVER: Final = -1
"""A version that no entity has."""


def etag(entity: object) -> str:
    """The entity tag of an entity that a database returned: its version, as a strong tag.

    Raises:
        UsageError: no database returned this.
    """
    return f'"v{version_of(entity)}"'


def if_version(request: Request) -> int | None:
    """What the request says of the version it is about, for `if_version=`; None when it says nothing.

    `If-Match: "v123"` is 123, `If-None-Match: *` is 0: there must be none. A tag that is weak, or none of ours, is a
    version that no entity has, so that the write is refused with 412.

    Raises:
        InvalidValue: If-Match names several tags, or `*`, or cannot be read.
    """
    if request.headers.get("if-none-match", "").strip() == "*":
        return 0
    given = request.headers.get("if-match")
    if given is None:
        return None
    tag = _TAG.fullmatch(given.strip())
    if tag is None:
        raise InvalidValue("If-Match takes one entity tag, as ETag gave it", field="If-Match")
    found = _OURS.fullmatch(tag["opaque"])
    return _NEVER if found is None or tag["weak"] else int(found["version"])


def is_conditional(request: HTTPConnection) -> bool:
    """Whether the request asks for a write under a condition."""
    return "if-match" in request.headers or request.headers.get("if-none-match", "").strip() == "*"


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has this very version already: a GET is answered 304 then."""
    given = request.headers.get("if-none-match")
    if given is None or request.method not in ("GET", "HEAD"):
        return False
    return given.strip() == "*" or any(f'"{each["opaque"]}"' == tag for each in _TAG.finditer(given))
