"""The sources that copies are filled from, decoded when they are asked for."""

from __future__ import annotations

import msgspec

from oneread.derivations.catalog import Catalog
from oneread.derivations.copies import Source
from oneread.transactions.commit import CommittedRows


class SourceCache(msgspec.Struct, frozen=True, gc=False):
    """Sources by key, decoded from root rows on first use; a row that was not loaded counts as absent."""

    catalog: Catalog
    rows: CommittedRows

    def __getitem__(self, key: bytes) -> Source:
        rows, catalog = self.rows, self.catalog
        source: Source | None = rows.made.get(key)
        if source is None:
            source = catalog.source(key, rows.root(key))
            if catalog.expiries and catalog.is_expired(key, source.entity, rows.now):
                source = msgspec.structs.replace(source, expired=True)
            rows.made[key] = source
        return source
