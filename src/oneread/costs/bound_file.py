"""The bound file: the bounds of a schema as text that is committed with it, so that a review shows when one rises.

See docs/decisions/0024-the-bound-file.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from oneread.costs.bounds import Bound
from oneread.costs.declared import of
from oneread.errors import Unsupported, UsageError
from oneread.evolution.schema import Schema
from oneread.store import unfinished

FORMAT: Final = 1

COMMAND: Final = "oneread cost --schema package.module:name --write FILE"


RESOURCES: Final = ("requests", "rows", "bytes", "rounds")


class Recorded(msgspec.Struct, frozen=True):
    """One bound as the file holds it; files of older releases have no rounds, which are not compared then."""

    requests: int
    rows: int
    bytes: int
    rounds: int | None = None


class BoundFile(msgspec.Struct, frozen=True):
    """The content of the file: bounds by target and verb.

    `row` are those on stores that change one row at a time, if such stores keep everything that is declared.
    """

    format: int
    bounds: dict[str, dict[str, Recorded]]
    row: dict[str, dict[str, Recorded]] = {}


_decode_file: Final = msgspec.json.Decoder(BoundFile).decode


class ChangedBound(msgspec.Struct, frozen=True):
    """A bound that differs from the file.

    Arguments:
        name: verb and target.
        resource: requests, rows, bytes or rounds; "all" for a bound that only the file or only the schema has.
        recorded: the number in the file; None for a bound that it does not have.
        declared: the number by the declarations; None for a verb that they do not have.
        because: the terms of a bound that rose.
    """

    name: str
    resource: str
    recorded: int | None
    declared: int | None
    because: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.recorded is None:
            return f"{self.name}: not in the file"
        if self.declared is None:
            return f"{self.name}: in the file, but not declared"
        text = f"{self.name}: {self.resource} {self.recorded:,} -> {self.declared:,}"
        return "\n".join([text, *(f"    {line}" for line in self.because)])


class BoundComparison(msgspec.Struct, frozen=True):
    """A schema compared with its bound file.

    Arguments:
        risen: bounds that are higher than in the file.
        unknown: verbs that the file does not have.
        fallen: bounds that are lower or not declared any more: the file can be tightened.
    """

    risen: tuple[ChangedBound, ...] = ()
    unknown: tuple[ChangedBound, ...] = ()
    fallen: tuple[ChangedBound, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether no verb costs more than the file allows."""
        return not self.risen and not self.unknown

    def __str__(self) -> str:
        parts: list[str] = []
        for title, changes in (
            ("costs more than the bound file allows:", self.risen),
            ("has no bound in the file:", self.unknown),
            ("costs less than the bound file says; write the file again:", self.fallen),
        ):
            if changes:
                parts += [title, *(f"  {line}" for change in changes for line in str(change).splitlines())]
        return "\n".join(parts) or "every bound is as the file says"


class BoundRisen(AssertionError):
    """A schema costs more than its bound file allows; the text says which verbs, why, and how to accept it."""


def text_of(schema: Schema) -> str:
    """The bound file of a schema: JSON with sorted keys, a line for each bound."""
    sections = ['  "bounds": ' + _section(of(schema).table())]
    if on_one_row := bounds_of_one_row(schema):
        sections.append('  "row": ' + _section(on_one_row))
    return "\n".join(["{", f'  "format": {FORMAT},', ",\n".join(sections), "}", ""])


def bounds_of_one_row(schema: Schema) -> list[Bound]:
    """The bounds on stores that change one row at a time; none where they do not keep something that is declared."""
    try:
        return of(schema, "row").table()
    except Unsupported:
        return []


def _section(bounds: Iterable[Bound]) -> str:
    by_target: dict[str, dict[str, Bound]] = {}
    for bound in bounds:
        by_target.setdefault(bound.target, {})[bound.verb] = bound
    blocks = [_block(target, by_target[target]) for target in sorted(by_target)]
    return "\n".join(["{", ",\n".join(blocks), "  }"])


def _block(target: str, bounds: Mapping[str, Bound]) -> str:
    lines = [f"      {_quoted(verb)}: {_recorded(bounds[verb])}" for verb in sorted(bounds)]
    return f"    {_quoted(target)}: {{\n" + ",\n".join(lines) + "\n    }"


def _quoted(name: str) -> str:
    return msgspec.json.encode(name).decode()


def _recorded(bound: Bound) -> str:
    return "{" + ", ".join(f'"{name}": {getattr(bound, name)}' for name in RESOURCES) + "}"


def write(schema: Schema, path: str | Path) -> None:
    """Writes the bound file of a schema, whole or not at all."""
    target = Path(path)
    unfinished.remove_leftovers(target)
    beside = unfinished.name_beside(target)
    try:
        with beside.open("x", encoding="utf-8") as file:
            unfinished.hold(file.fileno())
            file.write(text_of(schema))
            file.flush()
            beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def read(path: str | Path) -> BoundFile:
    """A bound file.

    Raises:
        UsageError: the file does not exist, or is not a bound file of this release.
    """
    try:
        found = _decode_file(Path(path).read_bytes())
    except FileNotFoundError:
        raise UsageError("there is no bound file yet; write and commit it", path=str(path), command=COMMAND) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, IsADirectoryError) as error:
        raise UsageError(
            "this is not a complete bound file; write it again", path=str(path), reason=str(error), command=COMMAND
        ) from error
    if found.format != FORMAT:
        raise UsageError(
            "this bound file is of another release; write it again", path=str(path), format=found.format, known=FORMAT
        )
    return found


def compare(schema: Schema, recorded: BoundFile) -> BoundComparison:
    """Compares a schema with a bound file."""
    spanning = _compare(of(schema).table(), recorded.bounds, "")
    one_row = _compare(bounds_of_one_row(schema), recorded.row, " on one row")
    return BoundComparison(
        spanning.risen + one_row.risen, spanning.unknown + one_row.unknown, spanning.fallen + one_row.fallen
    )


def _compare(bounds: Iterable[Bound], recorded: Mapping[str, Mapping[str, Recorded]], where: str) -> BoundComparison:
    """Compares the bounds on one sort of stores, which `where` names."""
    risen: list[ChangedBound] = []
    unknown: list[ChangedBound] = []
    fallen: list[ChangedBound] = []
    left = {(target, verb): bound for target, verbs in recorded.items() for verb, bound in verbs.items()}
    for bound in bounds:
        name = f"{bound.name}{where}"
        before = left.pop((bound.target, bound.verb), None)
        if before is None:
            unknown.append(ChangedBound(name, "all", None, bound.rows))
            continue
        for resource in RESOURCES:
            old, new = getattr(before, resource), getattr(bound, resource)
            if old is None:
                continue
            if new > old:
                risen.append(ChangedBound(name, resource, old, new, tuple(str(bound).splitlines()[1:])))
            elif new < old:
                fallen.append(ChangedBound(name, resource, old, new))
    fallen += [
        ChangedBound(f"{verb} {target}{where}", "all", each.rows, None) for (target, verb), each in sorted(left.items())
    ]
    return BoundComparison(_explained_once(risen), tuple(unknown), tuple(fallen))


def _explained_once(changes: list[ChangedBound]) -> tuple[ChangedBound, ...]:
    """Keeps the terms of a bound for the last of its resources only."""
    last = {change.name: place for place, change in enumerate(changes)}
    return tuple(
        change if last[change.name] == place else msgspec.structs.replace(change, because=())
        for place, change in enumerate(changes)
    )


def check_bounds(schema: Schema, path: str | Path) -> BoundComparison:
    """Fails when a schema costs more than its bound file allows, for a test of your own.

    `def test_costs(): check_bounds(shop, "bounds.json")`. Bounds that became lower do not fail; the result has them.

    Raises:
        BoundRisen: an AssertionError whose text names each bound that rose, and the declarations that cause it.
        UsageError: the file does not exist, or is not a bound file of this release.
    """
    found = compare(schema, read(path))
    if not found.holds:
        raise BoundRisen(f"{found}\nto accept this: {COMMAND}")
    return found
