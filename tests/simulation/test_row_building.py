"""Feeds are added and changed on a store that changes one row at a time, beside older programs: no entry is wrong.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rule 17 of the commit protocol.
"""

import os

import pytest

from tests.simulation import row_building as broken
from tests.simulation.row_building import RowBuilding
from tests.simulation.row_fence import Wrong
from tests.simulation.stored_seeds import check_stored_seed

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "100"))
AT_A_TIME = 25
ONLY = os.environ.get("ONEREAD_SIM_SEED")
FIRSTS = [int(ONLY)] if ONLY else range(0, SEEDS, AT_A_TIME)
SEARCHED = 4000


@pytest.mark.parametrize("first", FIRSTS)
def test_a_feed_is_whole_when_it_is_built_and_at_the_end(first):
    for seed in [first] if ONLY else range(first, min(first + AT_A_TIME, SEEDS)):
        RowBuilding(seed).run()


def test_every_release_and_every_kind_of_end_is_met():
    releases, lines = set(), []
    for seed in range(60):
        history = RowBuilding(seed)
        history.run()
        releases.add(history.release)
        lines += history.lines
    assert releases == {"added", "both", "shown", "owners", "beside", "few"}
    for end in ("old 0 drain", "old 1 save", "new writer drain", "closer open", "closer backfill"):
        assert any(end in line and line.endswith(": done") for line in lines), end
    for end in ("SchemaMismatch", "Unavailable", "killed", "NotFound"):
        assert any(f": {end}" in line for line in lines), end


BROKEN = {
    broken.what_older_code_removed_stays: 73,
    broken.memberships_are_left_out_where_both_parts_were_there: 6,
    broken.a_cursor_of_a_former_generation_is_taken: 2824,
    broken.a_worker_sets_a_newer_feed_aside: 5,
    broken.entries_are_swept_before_they_are_built: 0,
    broken.nothing_follows_from_the_commits_of_a_backfill: 0,
}
"""Rules broken on purpose, each with a seed that finds it."""


@pytest.mark.parametrize(("mutation", "likely"), BROKEN.items(), ids=[each.__name__ for each in BROKEN])
def test_a_broken_rule_is_found_by_a_seed(mutation, likely, monkeypatch):
    check_stored_seed(
        mutation, likely, lambda seed: RowBuilding(seed).run(), monkeypatch, searched=SEARCHED, wrong=Wrong
    )
