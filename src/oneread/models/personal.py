"""Personal data: what a declaration says of a field whose values are about a person.

See "Personal data" of docs/reference/declarations.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec


class Personal(msgspec.Struct, frozen=True):
    """Says that the values of a field are about a person: `name: Annotated[str, Personal()]`.

    `oneread privacy` lists every place where such values are stored, copied and shown, and a dump without personal data
    has placeholders in their place. Nothing that is stored depends on it, so it may be added to a field at any time. A
    part of a key is `email: Key[Annotated[str, Personal()]]`. A field that refers is not personal; the fields are of
    what it refers to.

    Arguments:
        placeholder: makes what a dump without personal data has in place of a value, from a whole number of 64 bits,
            one for each value: `Personal(lambda number: f"+49{number % 10**10:010}")`. Without it the placeholder is
            made by the type of the value, within the constraints that msgspec knows, but for a pattern.
    """

    placeholder: Callable[[int], Any] | None = None
