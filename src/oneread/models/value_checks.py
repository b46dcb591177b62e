"""What a save asks of values besides their types: limits that msgspec has not, predicates, and validators of pydantic.

See "Constraints" of docs/reference/declarations.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, get_args

import msgspec

from oneread.errors import InvalidDeclaration
from oneread.models.fields import defaults_of
from oneread.models.metadata import ANOTHER_FIELD, Check, Refused, describes_field, is_for_others, is_own
from oneread.models.types import FieldType, Names, field_names, field_types

RunCheck: TypeAlias = Callable[[Any], None]
"""Raises UnfitValue for a value that a field's checks refuse."""

_INSIDE: Final = (
    "in a class used as a field's type a constraint is a msgspec.Meta, which it is checked by: "
    "Annotated[str, msgspec.Meta(max_length=3)]"
)
_NOT_OF_A_MODEL: Final = (
    "only a field of a model has predicates, validators, and limits of Decimals and instants: the values of copies "
    "and of rows are those of an entity, which was checked when it was saved"
)
_ONE_OF_SEVERAL: Final = "a value of several types is checked as a whole: Annotated[int | str, ...], or in check()"


class UnfitValue(ValueError):
    """A value that a check refuses; `path` leads to it from the field's value: `[2]`."""

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


def refuse_metadata(given: FieldType, names: Names, *, of_model: bool) -> None:
    """Raises InvalidDeclaration for metadata of a field's type that would be ignored."""
    for each in given.walk():
        if each.kind == "class":
            _refuse_inside(given, each.cls, names)
        if each.owner is not given.owner:
            continue
        for found in (found for layer in each.layers for found in layer):
            if isinstance(found, Refused):
                _refuse(found.reason, given, found.metadata)
            if isinstance(found, Check) and not of_model:
                _refuse(_NOT_OF_A_MODEL, given, each.bare)
        if each.kind == "union" and not each.optional and any(check_of(part) for part in each.parts):
            _refuse(_ONE_OF_SEVERAL, given, each.bare)


def _refuse_inside(given: FieldType, cls: Any, names: Names) -> None:
    """Refuses what msgspec, which decodes a class used as a type by itself, does not know."""
    for name, annotation in field_types(cls, names).items():
        for found in _metadata_of(annotation):
            if not (is_own(found) or is_for_others(found)):
                raise InvalidDeclaration(
                    _INSIDE, declaration=given.owner, field=f"{given.field}.{name}", type=cls, metadata=found
                )
    defaults = defaults_of(cls) if issubclass(cls, msgspec.Struct) else vars(cls)
    for name in (name for name in field_names(cls) if describes_field(defaults.get(name))):
        raise InvalidDeclaration(
            ANOTHER_FIELD, declaration=given.owner, field=f"{given.field}.{name}", type=cls, default=defaults[name]
        )


def _metadata_of(annotation: Any) -> Iterable[object]:
    yield from getattr(annotation, "__metadata__", ())
    for each in get_args(annotation):
        yield from _metadata_of(each)


def _refuse(reason: str, given: FieldType, metadata: object) -> None:
    raise InvalidDeclaration(reason, declaration=given.owner, field=given.field, metadata=metadata)


def check_of(given: FieldType) -> RunCheck | None:
    """The function that runs all checks of a type, the innermost first; None for a type without any."""
    own = [each.run for layer in given.layers for each in layer if isinstance(each, Check)]
    inner = _check_of_parts(given)
    if not own and inner is None:
        return None

    def check(value: Any) -> None:
        if inner is not None:
            inner(value)
        for run in own:
            try:
                run(value)
            except ValueError as error:
                raise UnfitValue(str(error)) from error

    return check


def fits(check: RunCheck, value: object) -> bool:
    """Whether a value passes a check."""
    try:
        check(value)
    except UnfitValue:
        return False
    return True


def _check_of_parts(given: FieldType) -> RunCheck | None:
    checks = tuple(check_of(each) for each in given.parts if each.kind != "ellipsis")
    if not any(checks):
        return None
    if given.kind == "union":
        return _unless_none(next(each for each in checks if each is not None))
    if given.kind == "mapping":
        return _each_pair(*checks)
    if given.kind == "tuple" and len(checks) == len(given.parts):
        return lambda value: _run_each(enumerate(value), checks)
    (element,) = checks
    return lambda value: _run_each(enumerate(value), [element] * len(value))


def _unless_none(check: RunCheck) -> RunCheck:
    return lambda value: None if value is None else check(value)


def _each_pair(of_key: RunCheck | None, of_value: RunCheck | None) -> RunCheck:
    def check(value: Any) -> None:
        _run_each([(repr(key), key) for key in value], [of_key] * len(value))
        _run_each([(repr(key), each) for key, each in value.items()], [of_value] * len(value))

    return check


def _run_each(values: Iterable[tuple[object, Any]], checks: Iterable[RunCheck | None]) -> None:
    for (at, each), check in zip(values, checks, strict=False):
        if check is None:
            continue
        try:
            check(each)
        except UnfitValue as error:
            raise UnfitValue(str(error), f"[{at}]{error.path}") from error
