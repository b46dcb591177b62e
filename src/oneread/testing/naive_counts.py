"""How many raw rows the oracle expects of each kind of view.

See "Semantics" of the decisions page.
"""

from __future__ import annotations

from typing import Any

from oneread.derivations.extrema import EXTREMA
from oneread.derivations.rules import rules_of
from oneread.derivations.views import Aggregate, Feed, Index


def count_index(oracle: Any, view: type[Index[Any]]) -> dict[tuple[str, str], int]:
    """How many rows there are of an index, and of its claims, by table and keyspace."""
    entries = oracle.entries(view)
    counted = {("views", view.__name__): len(entries)}
    if view.unique:
        counted["counts", view.__name__] = len({values for values, *_ in entries if None not in values})
    return counted


def count_aggregate(oracle: Any, view: type[Aggregate[Any]]) -> dict[tuple[str, str], int]:
    """How many rows there are of an aggregate, and of its extrema, by table and keyspace."""
    members = oracle.members(view)
    counted = {("counts", view.__name__): len(members)}
    for name, rule in rules_of(view).items():
        if rule.fold in EXTREMA:
            several = [oracle.folded(rule, held) for _group, held in members]
            counted["views", f"{view.__name__}.{name}"] = sum(map(len, several))
    return counted


def count_feed(oracle: Any, view: type[Feed[Any]]) -> dict[tuple[str, str], int]:
    """How many rows there are of a feed, and of what it is made of, by table and keyspace."""
    return {("views", view.__name__ + keyspace): count for keyspace, count in oracle.sides(view).counts().items()}
