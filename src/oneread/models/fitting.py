"""Whether a value fits a type: it is taken as a save takes it, or refused.

What a page, a get or a condition is given is never saved, so nothing else would say that it has another type than the
field it is compared with; it would just equal nothing. See "Values" of docs/reference/declarations.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from oneread.models.annotations import FieldType
from oneread.models.differences import difference, is_abstract
from oneread.models.shadow import Shapes, revive
from oneread.models.wide import pack_wide, unpack_wide

Fitting: TypeAlias = Callable[[Any], Any]
"""A value to the value that a field would be read with; ValueError when a save would refuse it."""

_REFUSED: Final = (TypeError, OverflowError, AttributeError, RecursionError, msgspec.MsgspecError)


def fitting(given: FieldType) -> Fitting:
    """The function that takes values as a field of this type does."""
    concrete, loose = Shapes(given.names, frozenset()).concrete(given), is_abstract(given)

    def fit(value: Any) -> Any:
        try:
            (plain,) = unpack_wide(pack_wide((value,)))
            read = msgspec.convert(plain, concrete, dec_hook=revive)
        except _REFUSED as error:
            raise ValueError(str(error)) from error
        found = difference(value, read, loose=loose)
        if found is not None:
            raise ValueError(f"expected another type than {type(found.given).__name__}")
        return read

    return fit
