"""The rows of the `system` table: which there are. See "The four tables" of docs/formats/rows.md."""

from __future__ import annotations

from typing import Final

from oneread.store.rows import RowRange
from oneread.transactions import outbox

SCHEMA_ROW: Final = b"schema"
FENCE_ROW: Final = b"fence"
BACKFILL_ROW: Final = b"backfill"
SINGLE_ROWS: Final = frozenset({SCHEMA_ROW, FENCE_ROW, BACKFILL_ROW})
"""The rows of which there is one each."""

CHECKPOINT_PREFIX: Final = b"bulk:"
RANGES: Final = (outbox.TASKS, outbox.SET_ASIDE, RowRange.under(CHECKPOINT_PREFIX))
"""Where the other rows are."""
