"""Histories on stores that change one row at a time, held against the naive oracle."""

from hypothesis import given, settings

from oneread.testing.proof import prove
from oneread.testing.steps import SaveAllStep, SweepStep
from oneread.testing.strategies import histories

URL = "memory://?span=row"
FEW = settings(max_examples=settings().max_examples // 4, deadline=None)


def of_one_row(history):
    """What such a store does: a batch of it is no transaction, and nothing is swept yet."""
    return [each for each in history if not isinstance(each, SaveAllStep | SweepStep)]


def check_histories(schema, fields, url, effort=FEW):
    """Histories of entities with these strategies for fields come to the same in database and oracle."""

    @effort
    @given(histories(schema, fields))
    def is_equal(history):
        prove(schema, of_one_row(history), url)

    is_equal()
