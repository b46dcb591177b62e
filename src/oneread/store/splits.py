"""Splits: the keys at which a table is cut into ranges when it is made, as URLs and the tools of stores write them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from oneread.errors import InvalidUrl
from oneread.store.rows import TABLES, Table

_KEYS: Final = re.compile(r"([0-9a-fA-F]{2}){1,255}(,([0-9a-fA-F]{2}){1,255})*").fullmatch


def splits_from_url(name: str, value: str) -> dict[Table, tuple[bytes, ...]]:
    """`roots:0001,0002;views:0003`: of each table the keys that a new range begins with, in hexadecimal.

    Raises:
        InvalidUrl: it is something else; `name` is the option of the URL.
    """
    splits: dict[Table, tuple[bytes, ...]] = {}
    for part in value.split(";"):
        named, colon, keys = part.partition(":")
        table: Table | None = next((each for each in TABLES if each == named), None)
        if table is None or table in splits or not colon or not _KEYS(keys):
            raise InvalidUrl(
                "splits are tables with keys in hexadecimal: roots:0001,0002;views:0003",
                option=name,
                part=part,
                tables=TABLES,
            )
        splits[table] = tuple(sorted({bytes.fromhex(key) for key in keys.split(",")}))
    return splits


def splits_as_url(splits: Mapping[Table, tuple[bytes, ...]]) -> str:
    """The value of the option `splits` of a URL; tables without keys are left out."""
    return ";".join(f"{table}:{','.join(key.hex() for key in keys)}" for table, keys in splits.items() if keys)
