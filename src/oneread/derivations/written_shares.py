"""Views that are written for a share of the entities: which of them an entity's record leaves out.

The side of an entity is that of its key, as of a launch's keys. An entity beyond the share is committed as by a program
that does not know the view. See docs/decisions/0149-writes-by-percent.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from oneread.derivations.compiled_schema import CompiledSchema
from oneread.derivations.derivation import CompiledView
from oneread.derivations.emitters import NO_TOKENS
from oneread.launches.sides import BUCKETS, bucket_of, buckets_below, seed_of
from oneread.models.model import stored_name
from oneread.models.versions import ALL, StoredSchema
from oneread.store.keys import kind_part


class _Share(NamedTuple):
    tokens: frozenset[int]
    seed: int
    buckets: int


class WrittenShares:
    """The shares that one open store knows. Another object has others, so that identity says whether they changed."""

    def __init__(self, by_kind: Mapping[bytes, tuple[_Share, ...]] = {}, percents: Mapping[type, float] = {}) -> None:
        self._by_kind = by_kind
        self.leaves_out_some = bool(by_kind)
        """Whether there are views that are not written for all entities."""
        self._percents = percents

    def left_out(self, key: bytes) -> frozenset[int]:
        """The tokens of views for which the entity of a root row is not written."""
        shares = self._by_kind.get(kind_part(key)) if self._by_kind else None
        if not shares:
            return NO_TOKENS
        found = [each.tokens for each in shares if bucket_of(key, each.seed) >= each.buckets]
        return NO_TOKENS.union(*found)

    def leaves_out(self, kind: bytes) -> bool:
        """Whether there are views that are not written for all entities of a kind."""
        return kind in self._by_kind

    def percent(self, view: CompiledView) -> float:
        """For how many of the entities a view is written."""
        return self._percents.get(view.cls, ALL)

    def learn(self, stored: StoredSchema, compiled: CompiledSchema) -> WrittenShares:
        """Those of a schema row; this object where they are the same."""
        by_kind: dict[bytes, tuple[_Share, ...]] = {}
        percents: dict[type, float] = {}
        for cls, pair in compiled.replaced.items():
            if cls is not pair.new.cls or not pair.is_launched:
                continue
            known = stored.views.get(stored_name(cls))
            if known is not None and known.prefix == pair.new.prefix and known.writes < ALL:
                percents[cls] = known.writes
                for kind, share in _shares_of(pair.new, known.writes, compiled):
                    by_kind[kind] = (*by_kind.get(kind, ()), share)
        return self if by_kind == self._by_kind else WrittenShares(by_kind, percents)


def _shares_of(view: CompiledView, percent: float, compiled: CompiledSchema) -> Iterator[tuple[bytes, _Share]]:
    """The shares of a view and of what the schema adds to it, by the prefixes of kinds.

    Of a feed the share is of memberships, the last of its parts: its items have rows as long as it is not 0.
    """
    name, tokens = stored_name(view.cls), dict[tuple[bytes, int], set[int]]()
    for cls, each in compiled.views.items():
        if cls is view.cls or stored_name(cls).startswith(f"{name}."):
            is_whole = percent > 0 and cls not in view.parts[-1:] and bool(view.parts)
            buckets = buckets_below(ALL if is_whole else percent)
            tokens.setdefault((compiled.kinds[each.model].prefix, buckets), set()).update(each.tokens)
    for (kind, buckets), several in tokens.items():
        if buckets < BUCKETS:
            yield kind, _Share(frozenset(several), seed_of(name), buckets)
