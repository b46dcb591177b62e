"""Conditional requests: the entity tag of a result, and the tag that a client sends back as `if_version`.

A copy may change while the version of its holder stays, so a read compares the JSON, and a write compares the version.
See RFC 9110, sections 8.8.3 and 13, and docs/decisions/0036-entity-tags.md.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, Final, cast

from starlette.requests import HTTPConnection, Request

from oneread.database.page_json import to_json
from oneread.database.results import version_of
from oneread.database.shapes import PublicShape
from oneread.errors import InvalidValue
from oneread.models.model import Model

_TAG: Final = re.compile(r'(?P<weak>W/)?"(?P<opaque>[\x21\x23-\x7e\x80-\xff]*)"')
_OURS: Final = re.compile(r"v(?P<version>[0-9]{1,19})(?:-[0-9a-f]{32})?")
_DIGEST_BYTES: Final = 16
SAFE: Final = ("GET", "HEAD")
"""Methods that read: their responses have a tag."""
CONDITIONS: Final = ("If-Match", "If-None-Match")
"""The headers that make a request conditional."""
_NEVER: Final = -1
"""A version that no entity has."""


def etag(result: object) -> str:
    """The strong entity tag of an entity, a page, a view row, or a list or dict of them: a digest of the JSON.

    It changes with any part of the JSON, copies and cursors too. The tag of an entity begins with the entity's version,
    `"v1766238000000-..."`, which does not change with its copies; `if_version` reads it. Costs no request, and the time
    of `to_json`.

    Arguments:
        result: what a database returned, also inside lists and dicts.

    Raises:
        UsageError: the entity was not returned by a database.
    """
    return tag_of(result, to_json(result))


def tag_of(result: object, body: bytes | memoryview) -> str:
    """The entity tag of a result with this JSON."""
    digest = blake2b(body, digest_size=_DIGEST_BYTES).hexdigest()
    entity = entity_in(result)
    return f'"{digest}"' if entity is None else f'"v{version_of(entity)}-{digest}"'


def entity_in(result: object) -> Model[Any] | None:
    """The entity that a result is, or is a shape of; None for other results."""
    found = cast("PublicShape[object]", result).entity if isinstance(result, PublicShape) else result
    return cast("Model[Any]", found) if isinstance(found, Model) else None


def if_version(request: Request) -> int | None:
    """The version that the request requires, for `if_version=`; None when it requires none.

    `If-Match: "v123-..."` is 123, `If-None-Match: *` is 0: the entity must not exist. The digest in the tag is not
    compared, so a changed copy does not make a write fail. A tag that is weak, or not an entity's, is a version that no
    entity has, so that the write is refused with 412.

    Raises:
        InvalidValue: If-Match has several tags, or `*`, or cannot be read; or If-None-Match has anything but `*`.
    """
    matched, unmatched = _header(request, "if-match"), _header(request, "if-none-match")
    if unmatched is not None and request.scope.get("method") not in SAFE:
        if unmatched != "*":
            raise InvalidValue("If-None-Match must be * in a write", field="If-None-Match")
        return 0 if matched is None else _NEVER
    if matched is None:
        return None
    tag = _TAG.fullmatch(matched)
    if tag is None:
        raise InvalidValue("If-Match must be one entity tag, as sent in ETag", field="If-Match")
    found = _OURS.fullmatch(tag["opaque"])
    return _NEVER if found is None or tag["weak"] else int(found["version"])


def is_conditional(request: HTTPConnection) -> bool:
    """Whether the request is conditional on a version."""
    return "if-match" in request.headers or _header(request, "if-none-match") == "*"


def is_known(request: Request, tag: str) -> bool:
    """Whether the client has the representation with this tag, so that the response to a GET is 304.

    By the weak comparison, as RFC 9110 requires: a proxy that compresses makes a strong tag weak.
    """
    given = _header(request, "if-none-match")
    if given is None or request.method not in SAFE:
        return False
    return given == "*" or any(f'"{each["opaque"]}"' == tag for each in _TAG.finditer(given))


def _header(request: HTTPConnection, header: str) -> str | None:
    """A header, joined where it was sent in several lines."""
    lines = request.headers.getlist(header)
    return ", ".join(lines).strip() if lines else None
