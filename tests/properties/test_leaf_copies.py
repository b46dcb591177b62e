"""Copies in cells: any history of several programs, on many schemas, reads as the oracle says, by every verb."""

from functools import cache

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from oneread.database import journal_parts
from oneread.database.operations import Operations
from oneread.testing.audit import Offence
from oneread.testing.proof import Disagreement
from oneread.transfer.dump import Dump
from tests.properties.leaf_copies import PROGRAMS, Declared, Programs
from tests.simulation import row_cells
from tests.simulation.breaking import edit

SCHEMAS = 30
FEW = settings(max_examples=max(10, settings().max_examples // 5), deadline=None)
QUICK = settings(max_examples=200, deadline=None, database=None, phases=[Phase.generate])

declared = cache(Declared)


def histories(number):
    """Steps on one schema, each with the program that does it: see `Programs.do_by`."""
    program = st.integers(1 - PROGRAMS, PROGRAMS - 1)
    some = st.lists(st.tuples(program, declared(number).steps()), min_size=10, max_size=40)
    again = st.tuples(*[st.tuples(program, st.just(step)) for step in declared(number).going_again()])
    return st.tuples(st.just(number), some | some | some | again)


def holds(deletes, effort=FEW):
    @effort
    @given(st.integers(0, SCHEMAS - 1).flatmap(histories))
    def is_equal(drawn):
        number, history = drawn
        with Programs(declared(number).schema, deletes) as programs:
            for step in declared(number).beginning():
                programs.do_by(0, step)
            for program, step in history:
                programs.do_by(program, step)
            programs.look()

    is_equal()


@pytest.mark.parametrize("deletes", ["hide", "remove"])
@pytest.mark.timeout(900)
def test_every_verb_reads_what_the_oracle_says(deletes):
    holds(deletes)


def pages_show_documents(patch):
    patch.setattr(journal_parts, "_lay", lambda _cells, found: found)


def get_shows_documents(patch):
    edit(patch, Operations, "_entity", ("self.parts.cells.lay(key, row)[BODY]", "row[BODY]"))


def dumps_have_documents(patch):
    edit(patch, Dump, "__init__", ("self._lay = parts.cells.lay", "self._lay = lambda _key, row: row"))


BROKEN = [
    pages_show_documents,
    get_shows_documents,
    dumps_have_documents,
    row_cells.a_cell_is_compared_with_its_holders_version,
    row_cells.a_commit_takes_the_versions_of_cells_without_their_values,
    row_cells.the_cell_of_a_child_is_put_into_its_root,
    row_cells.copies_in_views_are_in_cells_too,
]


@pytest.mark.parametrize("broken", BROKEN, ids=[each.__name__ for each in BROKEN])
def test_a_broken_rule_is_found(broken, monkeypatch):
    with monkeypatch.context() as patch:
        broken(patch)
        with pytest.raises((Disagreement, Offence, ExceptionGroup)):
            holds("hide", lambda test: seed(1)(QUICK(test)))
