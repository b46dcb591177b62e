"""Views are left out and dropped on a store that changes one row at a time, beside programs that declare them."""

import pytest

from oneread.evolution import changing, rolling
from tests.simulation.breaking import edit
from tests.simulation.row_fence import Wrong
from tests.simulation.row_undeclared import RowUndeclared

SEEDS = range(40)


def test_older_programs_lack_nothing_until_the_views_are_dropped():
    lines = []
    for seed in SEEDS:
        history = RowUndeclared(seed)
        history.run()
        lines += history.lines
    for end in ("closer drop: dropped", "closer backfill: done", "Outdated", "Unavailable", "killed"):
        assert any(end in line for line in lines), end


def undeclared_views_are_not_written(patch):
    patch.setattr(rolling, "_formers", lambda _views, _declared: ())


def all_programs_are_waited_for(patch):
    edit(patch, changing, "_change", ("raised=found.writers", "raised=stored.version + 1"))


@pytest.mark.parametrize("breaks", [undeclared_views_are_not_written, all_programs_are_waited_for])
def test_a_broken_rule_is_found(monkeypatch, breaks):
    breaks(monkeypatch)
    with pytest.raises(Wrong):
        run_all()


def run_all():
    for seed in SEEDS:
        RowUndeclared(seed).run()
