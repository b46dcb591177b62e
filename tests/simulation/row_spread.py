"""The world with every model and index spread over ranges."""

from contextlib import contextmanager

import pytest

from oneread import Index, Model, Schema
from oneread.derivations import emitted_record
from oneread.store import keys
from oneread.store.keys import row_part, view_part
from tests.simulation.row_world import row_world
from tests.simulation.schema import WORLD

RANGES = 3


@contextmanager
def spread_over(schema, ranges):
    """The same schema with every model, and every index that may be, spread over so many ranges."""
    declared = [each for each in (*schema.models, *schema.views) if not getattr(each, "is_added", False)]
    with pytest.MonkeyPatch.context() as patch:
        for each in declared:
            if issubclass(each, Model) or (issubclass(each, Index) and not each.unique):
                patch.setattr(each, "spread", ranges)
        yield Schema(*declared, inline=schema.inline, portable=schema.portable, counters=schema.counters)


def spread_world(seed):
    with spread_over(WORLD, RANGES) as schema:
        return row_world(seed, schema=schema)


def rows_are_removed_where_they_are_unspread(patch):
    """As a program would that records the values of a row, and not its range."""
    diff_rows = emitted_record._DIFFS[emitted_record.ROWS]

    def without_range(diff, token, old, new):
        diff_rows(diff, token, old, new)
        diff.writes.deletes[:] = [view_part(key) + row_part(key)[keys.SPREAD_BYTES :] for key in diff.writes.deletes]

    patch.setitem(emitted_record._DIFFS, emitted_record.ROWS, without_range)


BY_SEED = {rows_are_removed_where_they_are_unspread: 0}
"""Each with the first seed that finds it: tried before all others."""
