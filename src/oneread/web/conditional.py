"""Conditional requests: the entity tag of a result, and the tag that a client sends back as `if_version`.

See RFC 9110, sections 8.8.3 and 13, with the exceptions of docs/decisions/0036-entity-tags.md: a copy may change while
the version stays, so a read compares the JSON, and a write compares the version.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, Final

from starlette.requests import HTTPConnection, Request

from oneread.database.page_json import to_json
from oneread.database.results import version_of
from oneread.errors import InvalidValue
from oneread.models.model import Model

_TAG: Final = re.compile(r'(?P<weak>W/)?"(?P<opaque>[\x21\x23-\x7e\x80-\xff]*)"')
_OURS: Final = re.compile(r"v(?P<version>[0-9]{1,19})(?:-[0-9a-f]{32})?")
_DIGEST_BYTES: Final = 16
SAFE: Final = ("GET", "HEAD")
"""Methods that read: what they answer has a tag, and may be known already."""
_NEVER: Final = -1
"""A version that no entity has."""


def etag(result: Any) -> str:
    """The strong entity tag of an entity, a page, a view row, or what holds them: a digest of its JSON.

    It changes whenever anything in it changed, copies and cursors too. Before the digest an entity's tag has the
    entity's version, `"v1766238000000-..."`, which stays while its copies change; `if_version` reads it. Costs no
    request, and what `to_json` costs.

    Arguments:
        result: what a database returned, also inside lists and dicts.

    Raises:
        UsageError: no database returned this entity.
    """
    return tag_of(result, to_json(result))


def tag_of(result: Any, body: bytes | memoryview) -> str:
    """The entity tag of a result whose JSON is there already."""
    digest = blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()
    return f'"v{version_of(result)}-{digest}"' if isinstance(result, Model) else f'"{digest}"'


def if_version(request: Request) -> int | None:
    """What the request says of the version it is about, for `if_version=`; None when it says nothing.

    `If-Match: "v123-..."` is 123, `If-None-Match: *` is 0: there must be none. What the tag says of copies is not
    compared: they never make a write fail. A tag that is weak, or of anything but an entity, is a version that no
    entity has, so that the write is refused with 412.

    Raises:
        InvalidValue: If-Match names several tags, or `*`, or cannot be read; or If-None-Match anything but `*`.
    """
    matched, unmatched = _sent(request, "if-match"), _sent(request, "if-none-match")
    if unmatched is not None and request.scope.get("method") not in SAFE:
        if unmatched != "*":
            raise InvalidValue("If-None-Match takes * where something is written", field="If-None-Match")
        return 0 if matched is None else _NEVER
    if matched is None:
        return None
    tag = _TAG.fullmatch(matched)
    if tag is None:
        raise InvalidValue("If-Match takes one entity tag, as ETag gave it", field="If-Match")
    found = _OURS.fullmatch(tag["opaque"])
    return _NEVER if found is None or tag["weak"] else int(found["version"])


def is_conditional(request: HTTPConnection) -> bool:
    """Whether the request asks for a write under a condition."""
    return "if-match" in request.headers or _sent(request, "if-none-match") == "*"


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has what bears this tag already: a GET is answered 304 then.

    By the weak comparison, as RFC 9110 asks: a proxy that compresses makes a strong tag weak.
    """
    given = _sent(request, "if-none-match")
    if given is None or request.method not in SAFE:
        return False
    return given == "*" or any(f'"{each["opaque"]}"' == tag for each in _TAG.finditer(given))


def _sent(request: HTTPConnection, header: str) -> str | None:
    """A header whose value may be spread over several lines."""
    lines = request.headers.getlist(header)
    return ", ".join(lines).strip() if lines else None
