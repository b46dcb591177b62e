"""Views that are written for a share of the entities: which of them an entity's record leaves out.

The side of an entity is that of its key, as of a launch's keys. An entity beyond the share is committed as by a program
that does not know the view. See docs/decisions/0149-writes-by-percent.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from oneread.derivations.compiled_schema import CompiledSchema
from oneread.derivations.derivation import CompiledView
from oneread.derivations.emitters import NO_TOKENS
from oneread.launches.sides import bucket_of, buckets_below, seed_of
from oneread.models.model import stored_name
from oneread.models.versions import ALL, StoredSchema
from oneread.store.keys import kind_part


class _Share(NamedTuple):
    tokens: frozenset[int]
    seed: int
    buckets: int


class WrittenShares:
    """The shares that one open store knows. Another object has others, so that identity says whether they changed."""

    def __init__(self, by_kind: Mapping[bytes, tuple[_Share, ...]] = {}) -> None:
        self._by_kind = by_kind

    def left_out(self, key: bytes) -> frozenset[int]:
        """The tokens of views for which the entity of a root row is not written."""
        shares = self._by_kind.get(kind_part(key)) if self._by_kind else None
        if not shares:
            return NO_TOKENS
        found = [each.tokens for each in shares if bucket_of(key, each.seed) >= each.buckets]
        return NO_TOKENS.union(*found)

    def percent(self, view: CompiledView) -> float:
        """For how many of the entities a view is written."""
        shares = (each for several in self._by_kind.values() for each in several)
        return next((each.buckets / 100 for each in shares if each.tokens.issuperset(view.tokens)), ALL)

    def learn(self, stored: StoredSchema, compiled: CompiledSchema) -> WrittenShares:
        """Those of a schema row; this object where they are the same."""
        by_kind: dict[bytes, tuple[_Share, ...]] = {}
        for cls, pair in compiled.replaced.items():
            if cls is not pair.new.cls or not pair.is_launched:
                continue
            name = stored_name(cls)
            known = stored.views.get(name)
            if known is not None and known.prefix == pair.new.prefix and known.writes < ALL:
                kind = compiled.kinds[pair.new.model].prefix
                share = _Share(frozenset(pair.new.tokens), seed_of(name), buckets_below(known.writes))
                by_kind[kind] = (*by_kind.get(kind, ()), share)
        return self if by_kind == self._by_kind else WrittenShares(by_kind)
