"""Views added and changed while old and new code write and backfills die: complete when they are read, never before."""

import os

import pytest

from oneread.derivations import changes, decisions
from oneread.derivations.entity_type import EntityType
from oneread.evolution.backfill import Backfill
from oneread.evolution.backfill_position import BackfillPosition
from oneread.evolution.fence import Fence
from oneread.transactions.root import BODY
from tests.simulation.two_schemas import Found, TwoSchemas

SEEDS = int(os.environ.get("ONEREAD_SIM_SEEDS", "20"))


@pytest.mark.parametrize("start", range(0, SEEDS, 10))
def test_a_backfill_ends_with_everything_right(start):
    for seed in range(start, start + 10):
        TwoSchemas(seed).run()


def deleted_rows_are_skipped(patch):
    skip(patch, lambda _key, row: BODY not in row)


def sources_are_skipped(patch):
    skip(patch, lambda key, _row: key[:2] in (b"\x00\x01", b"\x00\x03"))


def skip(patch, skipped):
    missing = Backfill._lacking
    patch.setattr(Backfill, "_lacking", lambda self, key, row: None if skipped(key, row) else missing(self, key, row))


def the_first_pass_is_the_last(patch):
    """The fence is raised, and what was written before it is not looked for."""
    next_pass = BackfillPosition.next_pass
    patch.setattr(
        BackfillPosition,
        "next_pass",
        lambda self, phase: next_pass(self, "ending" if phase == "closed" and self.phase == "open" else phase),
    )


def the_fence_is_not_read(patch):
    patch.setattr(Fence, "check_writable", lambda *_asked: None)


def the_position_is_moved_before_the_work(patch):
    move = Backfill._move

    def moving(self, position, changes=()):
        if changes:
            yield from move(self, position)
        return (yield from move(self, position, changes))

    patch.setattr(Backfill, "_move", moving)


def a_row_is_known_by_its_tokens_alone(patch):
    """The values that its holders have may be those of older code."""
    patch.setattr(EntityType, "needs_state", property(lambda _self: False))


def old_rows_of_a_changed_view_stay(patch):
    """Contributions under a token that is no longer declared are forgotten instead of deleted."""
    diff = decisions.record_diff
    for module in (changes, decisions):
        patch.setattr(
            module,
            "record_diff",
            lambda key, old, new, shown: diff(key, {t: c for t, c in old.items() if t in new}, new, shown),
        )
    patch.setattr(Backfill, "_sweep", lambda *_arguments: iter(()))


BROKEN = {
    deleted_rows_are_skipped: 5,
    sources_are_skipped: 0,
    the_first_pass_is_the_last: 0,
    the_fence_is_not_read: 0,
    the_position_is_moved_before_the_work: 25,
    a_row_is_known_by_its_tokens_alone: 0,
    old_rows_of_a_changed_view_stay: 1,
}
"""Rules broken on purpose, each with the first seed that finds it."""


@pytest.mark.parametrize(("broken", "likely"), BROKEN.items(), ids=[each.__name__ for each in BROKEN])
def test_a_broken_rule_is_found(broken, likely, monkeypatch):
    with monkeypatch.context() as patch:
        broken(patch)
        with pytest.raises(Found):
            TwoSchemas(likely).run()
