"""Feeds are added and changed on a store that changes one row at a time, beside older programs: no entry is wrong.

`ONEREAD_SIM_SEEDS` says how many seeds, `ONEREAD_SIM_SEED` replays one. See rule 17 of the commit protocol.
"""

import pytest

from oneread import Schema, connect
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from oneread.testing.clock import Clock
from tests.simulation import row_building as broken
from tests.simulation.row_building import RowBuilding
from tests.unit.feeds.community import Group, Home, Member, Membership, Post, membership, post


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
    for end in ("Outdated", "Unavailable", "killed", "NotFound"):
        assert any(f": {end}" in line for line in lines), end


BROKEN = {
    broken.what_older_code_removed_stays: 17,
    broken.a_worker_sets_a_newer_feed_aside: 5,
    broken.entries_are_swept_before_they_are_built: 0,
    broken.nothing_follows_from_the_commits_of_a_backfill: 0,
}
"""Rules broken on purpose, each with a seed that finds it."""


BY_SCHEDULE = {
    broken.a_cursor_of_a_former_generation_is_taken: "the other side of a feed is built again between two batches",
}
"""What 20,000 seeds do not find, each with the schedule by hand that does."""


def begin_again():
    """A batch of a task whose cursor is behind a row of the memberships' former generation."""
    with connect("memory://?span=row", Schema(Member, Group, Membership, Post, Home), workers=0, clock=Clock()) as db:
        db.save(Group(number=1))
        for number in (1, 2):
            db.save(Member(number=number))
            db.save(membership(1, number))
        db.save(post(1))
        feeds = db.operations.committer.views.feeds
        (feed,) = feeds._of_items.values()
        ((item, _row),) = db.run(Scan("views", RowRange.under(feed.items), 2).__iter__())
        first, second = [key for key, _row in db.run(Scan("views", RowRange.under(feed.members), 3).__iter__())]
        former = (int.from_bytes(first, "big") + (1 << 8 * (len(first) - 4))).to_bytes(len(first), "big")
        assert db.run(feeds.give(feed, item, b"", 1)) == first
        assert db.run(feeds.give(feed, item, first, 1)) == second
        assert db.run(feeds.give(feed, item, former, 1)) == first


def test_a_batch_behind_another_generation_begins_again(monkeypatch):
    begin_again()
    for mutation in BY_SCHEDULE:
        with monkeypatch.context() as patch:
            mutation(patch)
            with pytest.raises(AssertionError):
                begin_again()
