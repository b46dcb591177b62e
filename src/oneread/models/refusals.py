"""Why a value does not fit its field, in Python's words.

msgspec checks a document, in which a timedelta is text and a UUID is bytes: so what it says of a wrong value
speaks of a text that was never given. Here the value itself is found, and its type is said.
"""

from __future__ import annotations

import re
from typing import Any, Final

_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]|\[\.\.\.\]")
_GOT: Final = re.compile(r"(Expected `[^`]*`), got `(?!null`)[^`]*`")
_EXPECTED: Final = {"duration": "timedelta", "uuid": "UUID", "decimal": "Decimal"}
"""Types that msgspec calls otherwise than Python does."""
_WORDS: Final = re.compile(r"\b(?:duration|uuid|decimal)\b")
_INVALID: Final = {
    "Invalid RFC3339 encoded datetime": "datetime",
    "Invalid RFC3339 encoded date": "date",
    "Invalid RFC3339 encoded time": "time",
    "Invalid ISO8601 duration": "timedelta",
    "Invalid UUID": "UUID",
    "Invalid UUID bytes": "UUID",
    "Invalid decimal string": "Decimal",
}
"""What msgspec says of text, or bytes, that are not of the type that it reads from them."""
_ENUM: Final = "Invalid enum value "
_MISSING: Final = object()


def spelled(reason: str, entity: object, path: str) -> str:
    """What msgspec says of the value at a dotted path (`lines[0].price`), with the types of Python in it."""
    value = _at(entity, path)
    got = "" if value is _MISSING else f", got `{type(value).__name__}`"
    if reason in _INVALID and type(value).__name__ != _INVALID[reason]:
        return f"Expected `{_INVALID[reason]}`{got}"
    if reason.startswith(_ENUM) and value is not _MISSING and not isinstance(value, (str, int)):
        return f"Expected one of the declared values{got}"
    if not _GOT.fullmatch(reason):
        return reason
    expected = _WORDS.sub(lambda found: _EXPECTED[found[0]], reason.partition(", got ")[0])
    return expected + (got or reason[reason.index(", got ") :])


def _at(entity: object, path: str) -> Any:
    """The value at a path; _MISSING where it does not lead, as into a dict, of which msgspec names no key."""
    found: Any = entity
    for step in _STEP.finditer(path):
        name, place = step.groups()
        if name is not None:
            found = getattr(found, name, _MISSING)
        elif place is not None and isinstance(found, (list, tuple)) and int(place) < len(found):
            found = found[int(place)]
        else:
            return _MISSING
    return found if path else _MISSING
