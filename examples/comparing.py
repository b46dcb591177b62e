"""What the `check` of an example finds: numbers and lists of a store beside those that plain Python makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import groupby, zip_longest
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

from examples.shop.printing import table
from oneread import Database, Model
from oneread.derivations.views import View

A = TypeVar("A", bound="Model[*tuple[Any, ...]] | View[Any]")

H = TypeVar("H", bound=Hashable)

Keyed: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""A number or several under their key."""

MOST_SHOWN = 20
"""Differences that are printed one by one."""


class Compared(NamedTuple):
    """One kind of number: how many were compared, and what is said of each that differs."""

    name: str
    numbers: int
    differences: list[str]


def compare(name: str, expected: Mapping[Any, object], found: Mapping[Any, object]) -> Compared:
    """Each expected number beside the one that was found; what is found and not expected differs as well."""
    nothing = "nothing"
    keys = [*expected, *(key for key in found if key not in expected)]
    differences = [
        f"{name} of {shown(key)}: {found.get(key, nothing)} is stored, {expected.get(key, nothing)} is right"
        for key in keys
        if key not in expected or key not in found or found[key] != expected[key]
    ]
    return Compared(name, len(keys), differences)


def compare_in_order(
    name: str, expected: Iterable[tuple[object, ...]], found: Iterable[tuple[object, ...]]
) -> Compared:
    """Each row of a list beside the one that belongs there."""
    place, differences = 0, list[str]()
    for place, (wanted, there) in enumerate(zip_longest(expected, found), 1):
        if wanted != there:
            differences.append(f"{name}, row {place}: {shown(there)} is stored, {shown(wanted)} is right")
    return Compared(name, place, differences)


def compare_by_key(name: str, expected: Iterable[Keyed], found: Iterable[Keyed]) -> Compared:
    """Like `compare`, for numbers that both come in the order of their keys: holds none of them."""
    both = groupby(merge(((*each, 0) for each in expected), ((*each, 1) for each in found)), lambda each: each[0])
    numbers, differences = 0, list[str]()
    for key, several in both:
        numbers += 1
        values = {side: value for _key, value, side in several}
        if values.get(0) != values.get(1):
            differences.append(
                f"{name} of {shown(key)}: {shown(values.get(1))} is stored, {shown(values.get(0))} is right"
            )
    return Compared(name, numbers, differences)


def compare_lists(
    name: str, expected: Iterable[tuple[Any, Sequence[H]]], found: Callable[[Any], Sequence[H]]
) -> Compared:
    """Each list under its key: the rows that are missing, those that do not belong there, and their order."""
    numbers, differences = 0, list[str]()
    for key, wanted in expected:
        there = found(key)
        numbers += max(len(wanted), len(there))
        if [*wanted] == [*there]:
            continue
        ours, theirs = Counter(wanted), Counter(there)
        apart = [f"{shown(row)} is missing" for row in ours - theirs]
        apart += [f"{shown(row)} is stored, and not right" for row in theirs - ours]
        differences += [f"{name} of {shown(key)}: {each}" for each in apart or ["the order is not right"]]
    return Compared(name, numbers, differences)


def all_rows(db: Database, listed: type[A]) -> Iterable[A]:
    """All rows of a list, or all entities of a model, in their order."""
    return (each for page in db.scan(listed) for each in page)


def shown(key: object) -> str:
    """A key or a row as a person reads it."""
    if isinstance(key, tuple):
        return " ".join(map(shown, cast("tuple[object, ...]", key)))
    if isinstance(key, datetime):
        return f"{key:%Y-%m}" if key == key.replace(day=1, hour=0, minute=0, second=0) else f"{key:%Y-%m-%d %H:%M:%S}"
    return "nothing" if key is None else str(key)


def print_compared(found: Sequence[Compared]) -> int:
    """Prints how many numbers of each kind were compared, and the first that differ; returns how many do."""
    rows = [(each.name, each.numbers, len(each.differences)) for each in found]
    print(table(("compared", "how many", "differ"), rows))
    differences = [said for each in found for said in each.differences]
    for said in differences[:MOST_SHOWN]:
        print(f"  {said}")
    if len(differences) > MOST_SHOWN:
        print(f"  and {len(differences) - MOST_SHOWN:,} more")
    return len(differences)


def print_verified(db: Database) -> bool:
    """Verifies the store, and prints what was found; returns whether no fault was, and all could be compared."""
    verified = db.verify()
    found = "clean" if verified.clean else f"{verified.total:,} faults"
    print(f"  verify: {verified.entities:,} entities, {verified.rows:,} rows: {found}")
    for fault in verified.faults[:MOST_SHOWN]:
        print(f"  {fault}")
    if verified.skipped:
        print(f"  not compared, since others changed it at every look: {', '.join(verified.skipped)}")
    return verified.clean
