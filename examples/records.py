"""Rows of the files that the examples read, and what of them does not fit."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from examples.shop.mistakes import Mistake

Row = dict[str, str]
Rows: TypeAlias = "Callable[[], Iterable[tuple[str, Row]]]"
"""The rows of a file from its beginning, each with the words by which a person finds it."""


class Misfits:
    """Rows that were left out or changed: how many for each reason, and where the first of them is."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, reason: str, where: str) -> None:
        self.counts[reason] += 1
        self.first.setdefault(reason, where)


def rows_of(path: Path, columns: Collection[str]) -> Iterator[tuple[str, Row]]:
    """The rows of a `.csv.gz` that must have these columns, each with the words by which a person finds it.

    Raises:
        Mistake: the file cannot be read, or lacks a column.
    """
    number = 1
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            names = rows.fieldnames or ()
            if missing := set(columns) - {*names}:
                raise Mistake(f"{path} has no column {', '.join(sorted(missing))}")
            for row in rows:
                number = rows.line_num
                yield f"{path.name} line {number}", {name: row.get(name) or "" for name in names}
    except (EOFError, OSError, UnicodeDecodeError, csv.Error, zlib.error) as error:
        raise Mistake(f"{path} cannot be read behind line {number}: {error}") from error


def numbered(name: str, rows: list[Row]) -> Rows:
    """Rows that are made up."""
    return lambda: ((f"{name} row {at}", row) for at, row in enumerate(rows, 1))


def located(data: Path, folder: str, name: str, columns: Collection[str]) -> Rows:
    """The rows of a file in the folder of its data set.

    Raises:
        Mistake: there is no such file.
    """
    path = data / folder / f"{name}.csv.gz"
    if not path.is_file():
        raise Mistake(f"{data} lacks {folder}/{path.name}: name the folder of all data sets with --data")
    return lambda: rows_of(path, columns)
