"""Verify, repair and drop as an open database does them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oneread.derivations.catalog import Catalog
from oneread.derivations.schema_rows import stored_schema
from oneread.errors import NotReady
from oneread.feeds.feed_view import FeedView
from oneread.plans.effects import Now
from oneread.plans.plan import Plan
from oneread.plans.progress import Fault
from oneread.store.rows import Row
from oneread.verify.entity_rows import CheckedRows, DerivedPlace, check_entity
from oneread.verify.feed_member import MemberCheck, MemberComparison, MemberFeed
from oneread.verify.keyspace import StoreKeyspaces
from oneread.verify.repair import Inspection, Repaired, Repairer, drop
from oneread.verify.verify import Verification, Verifier, VerifyOptions


class Inspector:
    """Verifies and repairs one store, as `inspection` says."""

    def __init__(self, catalog: Catalog, inspection: Inspection) -> None:
        self._catalog = catalog
        self._inspection = inspection

    def verify(self, options: VerifyOptions) -> Plan[Verification]:
        """One verification; raises what `Database.verify` does."""
        return Verifier(self._catalog, self._inspection.comparison(options), options).plan()

    def repair(self, options: VerifyOptions) -> Plan[Repaired]:
        """One repair; raises what `Database.repair` does."""
        return Repairer(self._catalog, self._inspection, options).plan()

    def check_entity(self, key: bytes, row: Row, recorded: Iterable[DerivedPlace]) -> Plan[CheckedRows]:
        """Compares the rows that follow from one root row with it; one request for the schema and one for each table.

        Raises SchemaMismatch where a newer program has changed a model or a view.
        """
        scanner = self._inspection.comparison(VerifyOptions()).scanner
        keyspaces = StoreKeyspaces(self._catalog, (yield from stored_schema()), now=(yield from Now()))
        return (yield from check_entity(keyspaces, scanner, key, row, recorded))

    def compare_member(self, feed: FeedView, member: tuple[Any, ...], limit: int) -> Plan[MemberFeed]:
        """Compares the newest entries of one member of a feed, up to `limit`.

        Raises NotReady where the feed is being built, InvalidKey for a member of other types than declared, and
        SchemaMismatch where a newer program has changed a model or a view.
        """

        def check(keyspaces: StoreKeyspaces, comparison: MemberComparison) -> Plan[MemberFeed]:
            entries = keyspaces.feeds.get(feed.cls.__name__)
            if entries is None:
                raise NotReady("this feed is still being built; run `oneread backfill`", view=feed.cls)
            return (yield from MemberCheck(keyspaces, comparison, entries, member, limit).run())

        return self._inspection.member(check)

    def drop(self, faults: Sequence[Fault]) -> Plan[tuple[Fault, ...]]:
        """Removes what cannot be mended; raises what `Database.drop` does."""
        return drop(self._inspection, faults)
