"""A planned migration in words, as the command line and the console show it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from oneread.evolution.migrate import Planned

DIFFERENCE_COLUMNS: Final = ("", "what", "of", "stored", "declared")


def difference_rows(found: Planned) -> list[tuple[str, str, str, str, str]]:
    """What differs, in `DIFFERENCE_COLUMNS`."""
    return [
        (
            "refused" if each.refused else "LOSES DATA" if each.loses else "",
            each.what,
            f"{each.name}.{each.field}" if each.field else each.name,
            each.before,
            each.after,
        )
        for each in found.differences
    ]


def planned_lines(found: Planned) -> Iterator[str]:
    """What the differences lead to, a line each: what is refused, who is cut off, what is built."""
    if found.nothing:
        yield f"nothing to do: the store is at version {found.version}"
        if found.continues:
            yield f"this schema is version {found.continues[0]}; its programs may continue until a backfill"
        return
    for each in found.differences:
        if each.refused:
            yield f"{each.name}{'.' if each.field else ''}{each.field}: {each.refused}"
    for model, field, was in found.missing:
        yield f"refused: {model}.{field}: rows of type {was} may exist; declare retyped({field!r}, was=...)"
    if found.becomes != found.version:
        yield f"version {found.version} -> {found.becomes}"
    if found.cuts_off:
        yield f"cuts off programs under {_versions(found.cuts_off)}: their writes are refused, because"
        yield from (f"  {reason}" for reason in found.why)
    if found.continues:
        yield (
            f"programs under {_versions(found.continues)} may continue, and be started again, until a backfill ends "
            "that: they keep what they do not know"
        )
    yield from _built(found)


def _built(found: Planned) -> Iterator[str]:
    if found.builds:
        yield f"not readable until a backfill has finished: {', '.join(found.builds)}"
    yield from (f"  {name}: {why}" for name, why in found.unserved.items())
    for name, other in found.answered:
        by = f"its former generation, {other}," if other in found.formers else other
        yield f"{name} is answered by {by} until a backfill has finished"
    if found.undeclared:
        names = ", ".join(found.undeclared)
        yield f"not read any more, and written for older programs until they are gone and it is dropped: {names}"
    former = "former views" if found.undeclared else "former generations"
    for name, rows in found.twice.items():
        yield f"a save of {name} writes {_rows(rows)} more until {former} are dropped"
    yield from (f"each entry of {name} is written twice until then" for name in found.entries)
    yield from (f"a backfill rewrites {_rows(rows)} of {name}" for name, rows in found.rows.items())


def _rows(number: int) -> str:
    return f"{number:,} row{'' if number == 1 else 's'}"


def _versions(numbers: Sequence[int]) -> str:
    return f"version{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
