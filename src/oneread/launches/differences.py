"""What two sides answer differently: row by row for pages, else as a whole.

A difference counts when it is there at two looks: writes between two reads make differences that are gone at the next
look, and most mismatches of code that runs beside code are such races.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

DifferenceKind: TypeAlias = Literal["missing", "extra", "other value", "other order", "other end", "failed"]
"""Of a page: a row that the new side lacks, has besides, has with other values, or has at another place; or there is a
next page on one side only. `failed`: one side raised an error. Other results have other values."""

KINDS: Final[tuple[DifferenceKind, ...]] = get_args(DifferenceKind)

_MOST_BYTES: Final = 4_000
_MOST_OF_PAGE: Final = 100


class LaunchDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One row, end or failure that the sides answer differently.

    Arguments:
        launch: its name.
        kind: what differs.
        at: when it was seen last.
        process: which process saw it: the host's name and the number of the process.
        verb: what was called.
        key: the key that the call was about.
        row: the key of the row; of a result that is not a page, nothing.
        place: the row's place in the page that has it, from 0.
        old: the JSON form of the old side's row, None for no row.
        new: likewise of the new side's.
        fields: those of `old` that differ.
        count: how often it was seen by this process.
    """

    launch: str
    kind: DifferenceKind
    at: datetime
    process: str
    verb: str
    key: tuple[Any, ...] = ()
    row: tuple[Any, ...] = ()
    place: int = 0
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
    fields: tuple[str, ...] = ()
    count: int = 1


class ShownRow(NamedTuple):
    """A row of a page: its key, and its JSON form."""

    key: tuple[Any, ...]
    fields: Mapping[str, Any]


class ShownPage(NamedTuple):
    """A page as it is compared."""

    rows: Sequence[ShownRow]
    has_next: bool


class SideOutcome(NamedTuple):
    """How one side answered."""

    result: Any = None
    error: type[BaseException] | None = None


class FoundDifference(NamedTuple):
    """A difference of one look; what the other look has too has the same `identity`."""

    kind: DifferenceKind
    row: tuple[Any, ...] = ()
    place: int = 0
    old: Mapping[str, Any] | None = None
    new: Mapping[str, Any] | None = None
    fields: tuple[str, ...] = ()

    @property
    def identity(self) -> bytes:
        return msgspec.msgpack.encode([self.kind, self.row, self.fields], enc_hook=repr)


class ResultForms(NamedTuple):
    """How results are compared: `page_of` is None for what is not a page, `plain` the JSON form of any value."""

    page_of: Callable[[Any], ShownPage | None]
    are_equal_pages: Callable[[Any, Any], bool]
    plain: Callable[[Any], Any]


def compare_outcomes(
    old: SideOutcome, new: SideOutcome, equal: Callable[[Any, Any], bool] | None, forms: ResultForms
) -> list[FoundDifference]:
    """What differs; raises what `equal` raises."""
    if old.error is not None or new.error is not None:
        if old.error is new.error:
            return []
        return [FoundDifference("failed", old=_error_shown(old.error), new=_error_shown(new.error))]
    if forms.are_equal_pages(old.result, new.result):
        return []
    page, other = forms.page_of(old.result), forms.page_of(new.result)
    if page is not None and other is not None:
        return compare_pages(page, other)
    if old.result == new.result if equal is None else equal(old.result, new.result):
        return []
    return [FoundDifference("other value", old={"result": old.result}, new={"result": new.result})]


def compare_pages(old: ShownPage, new: ShownPage) -> list[FoundDifference]:
    """Differences of two pages; fields that only the new side shows are none."""
    before, after = _by_key(old), _by_key(new)
    found = [FoundDifference("missing", key, place, row) for key, (place, row) in before.items() if key not in after]
    found += [
        FoundDifference("extra", key, place, None, row) for key, (place, row) in after.items() if key not in before
    ]
    common = [key for key in before if key in after]
    for key in common:
        (place, row), (_place, other) = before[key], after[key]
        fields = tuple(name for name, value in row.items() if name not in other or other[name] != value)
        if fields:
            found.append(FoundDifference("other value", key, place, row, other, fields))
    for key, instead in zip(common, [key for key in after if key in before], strict=True):
        if key != instead:
            found.append(FoundDifference("other order", key, *before[key], after[instead][1]))
            break
    if old.has_next != new.has_next:
        found.append(FoundDifference("other end", old={"next": old.has_next}, new={"next": new.has_next}))
    return found[:_MOST_OF_PAGE]


def _by_key(page: ShownPage) -> dict[tuple[Any, ...], tuple[int, Mapping[str, Any]]]:
    return {row.key: (place, row.fields) for place, row in enumerate(page.rows)}


def unchanged(first: Sequence[FoundDifference], second: Sequence[FoundDifference]) -> list[FoundDifference]:
    """The differences of the second look that the first one had, of which the old side shows the same at both."""
    known = {each.identity: each.old for each in first}
    return [each for each in second if each.identity in known and known[each.identity] == each.old]


def at_both_looks(first: Sequence[FoundDifference], second: Sequence[FoundDifference]) -> list[FoundDifference]:
    """The differences of the second look that the first one had."""
    known = {each.identity for each in first}
    return [each for each in second if each.identity in known]


def bounded(difference: LaunchDifference, *, values: bool) -> LaunchDifference:
    """A difference as it is stored: without values where they are not wanted, or are too many bytes."""
    if not values or len(msgspec.msgpack.encode(difference, enc_hook=repr)) > _MOST_BYTES:
        difference = msgspec.structs.replace(difference, old=_nothing(difference.old), new=_nothing(difference.new))
    return difference


def _nothing(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """That there is a row, and nothing of it."""
    return None if row is None else {}


def _error_shown(error: type[BaseException] | None) -> dict[str, Any] | None:
    """The class of an error; its message may hold what a difference without values must not."""
    return None if error is None else {"error": error.__name__}
