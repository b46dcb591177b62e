"""Large groups on a store that changes one row at a time: what loses items for readers is reported, and mended."""

import pytest

from oneread.feeds.large_group_cells import GroupMode, Places
from oneread.store.requests import Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, Cell, RowMutation, RowRange
from oneread.transactions import outbox
from oneread.verify import looks
from oneread.verify.feed_looks import PlacesReader
from tests.unit.feeds.test_cell_crossing import World

FAR = 1 << 50


@pytest.fixture
def world(monkeypatch):
    """Group a is large, b too, and c is not; member 1 is in all, with places for two."""
    monkeypatch.setattr(looks, "APART", 0.0)
    made = World()
    made.fill()
    for group, numbers in (("b", (11, 12, 13, 14, 15)), ("c", (21, 22)), ("d", (31, 32, 33, 34))):
        for number in numbers:
            made.join(number, group)
    for number, groups in enumerate(("a", "ab", "c", "d", "d"), 10):
        made.publish(number, *groups)
    made.db.drain()
    yield made
    made.db.close()


def stored(world, key):
    return world.db.run(Read("views", [key], "dm").__iter__())[0]


def under(world, prefix):
    return world.db.run(Scan("views", RowRange.under(prefix), 1_000, families="dm").__iter__())


def replace(world, key, row):
    engine = world.db._driver.engine
    engine._store.transaction(lambda inside: inside.replace("views", {key: row}), 30)


def pages(world):
    return {member: [row.text for row in world.db.page(world.home, member).rows] for member in range(1, 6)}


def told(world):
    found = world.db.verify()
    assert found.skipped == ()
    return [(fault.view, fault.kind, fault.key) for fault in found.faults]


def mend(world):
    repaired = world.db.repair()
    assert (repaired.clean, repaired.reasons) == (True, ()), (repaired.left, repaired.reasons)
    world.db.drain()
    assert told(world) == []


def written(world):
    return [key for key, row in under(world, world.rows.written_key(b"", b"")) if row[VALUE].value != REMOVED]


def test_groups_in_every_mode_have_no_fault(world):
    modes = [world.rows.mode_of(row) for _key, row in under(world, world.rows.groups)]
    assert sorted(each.reads for each in modes) == [True] * 3
    assert written(world)
    assert told(world) == []


def test_a_member_whom_new_items_do_not_reach(world):
    """He has no place, and no row says that he is written to; what he has is right until an item comes."""
    before, (key, *_rest) = pages(world), written(world)
    replace(world, key, None)
    assert told(world) == [("Wide.written", "missing", key)]
    mend(world)
    assert (pages(world), key in written(world)) == (before, True)
    world.publish(40, "d")
    world.db.drain()
    assert "40" in pages(world)[1]


def test_a_row_that_says_so_by_a_removed_cell(world):
    key = written(world)[0]
    replace(world, key, {VALUE: Cell(REMOVED, FAR)})
    assert told(world) == [("Wide.written", "missing", key)]


def test_places_that_are_lost(world):
    before, member = pages(world), world.rows.feed.view.member_codec.encode((1,))
    key = world.rows.places_key(member)
    assert len(world.rows.places_of(stored(world, key)).groups) == 2
    replace(world, key, None)
    assert {view for view, _kind, _key in told(world)} == {"Wide", "Wide.written"}
    mend(world)
    assert pages(world) == before


def test_places_that_cannot_be_read(world):
    before, member = pages(world), world.rows.feed.view.member_codec.encode((1,))
    key = world.rows.places_key(member)
    replace(world, key, {VALUE: Cell(b"\xff", stored(world, key)[VALUE].stamp)})
    assert told(world) == [("Wide.read", "different", key)]
    mend(world)
    assert pages(world) == before
    assert world.rows.places_of(stored(world, key)) != Places()


def test_a_mode_that_cannot_be_read(world):
    before = pages(world)
    (key, row) = under(world, world.rows.groups)[0]
    replace(world, key, {VALUE: Cell(b"\xff", row[VALUE].stamp)})
    assert told(world) == [("Wide.groups", "different", key)]
    mend(world)
    mode = world.rows.mode_of(stored(world, key))
    assert (mode.reads, mode.crosses, pages(world)) == (True, False, before)


def test_a_group_that_crosses_without_a_task(world):
    before = pages(world)
    (key, row) = under(world, world.rows.groups)[0]
    mode = world.rows.mode_of(row)
    crossing = GroupMode(mode.epoch + 1, mode.reads, crosses=True)
    assert world.db.run(world.rows.swap_mode(key[4:], mode, crossing))
    assert told(world) == [("Wide.groups", "different", key)]
    mend(world)
    assert (world.rows.mode_of(stored(world, key)).crosses, pages(world)) == (False, before)


def test_a_group_that_crosses_with_a_task_is_not_a_fault(world):
    (key, row) = under(world, world.rows.groups)[0]
    mode = world.rows.mode_of(row)
    task = world.rows.crossing_task(key[4:], mode.epoch + 1)
    world.db.run(Mutate("system", [task]).__iter__())
    assert world.db.run(world.rows.swap_mode(key[4:], mode, GroupMode(mode.epoch + 1, False, crosses=True)))
    while True:
        found = world.db.verify()
        assert found.clean, (found.faults, found.skipped)
        if not world.db.run(world.db.operations.drain_step(1)):
            break


def test_entries_of_a_merged_group_are_not_judged(world):
    """No reader sees them."""
    feed = world.rows.feed
    member = feed.view.member_codec.encode((2,))
    group = world.rows.places_of(stored(world, world.rows.places_key(member))).groups[0]
    (item, _row), *_rest = under(world, feed.items + group)
    replace(world, feed.prefix + member + item[4 + len(group) :], None)
    assert told(world) == []


def test_an_entry_of_who_is_written_to_is_judged(world):
    before, feed, (key, *_rest) = pages(world), world.rows.feed, written(world)
    group = feed.group_of(key)
    (item, _row), *_rest = under(world, feed.items + group)
    place = feed.prefix + key[4 + len(group) :] + item[4 + len(group) :]
    replace(world, place, None)
    assert told(world) == [("Wide", "missing", place)]
    mend(world)
    assert pages(world) == before


def test_places_that_move_during_a_look_leave_the_feed_to_be_compared_later(world, monkeypatch):
    """An entry that was hidden for long may have ended in between."""
    monkeypatch.setattr(looks, "LOOKS", 2)
    feed, (key, *_rest) = world.rows.feed, written(world)
    group = feed.group_of(key)
    (item, _row), *_others = under(world, feed.items + group)
    replace(world, feed.prefix + key[4 + len(group) :] + item[4 + len(group) :], None)
    read, versions = PlacesReader.places, iter(range(1_000))

    def moving(reader, members):
        found = yield from read(reader, members)
        return {member: Places(next(versions), places.groups) for member, places in found.items()}

    monkeypatch.setattr(PlacesReader, "places", moving)
    found = world.db.verify(world.home)
    assert (found.found, found.skipped) == ({}, ("feed Wide",))


def test_who_has_just_joined_a_large_group_has_no_place_yet(world):
    committer = world.db.operations.committer
    follow, committer.views.feeds.follow = committer.views.feeds.follow, lambda *_given: waiting()
    world.join(6)
    assert world.db.survey().tasks
    assert told(world) == []
    lost = [key for key, _row in world.db.run(Scan("system", outbox.TASKS, 9).__iter__())]
    world.db.run(Mutate("system", [RowMutation(key, delete_row=FAR) for key in lost]).__iter__())
    assert [(view, kind) for view, kind, _key in told(world)][-1:] == [("Wide.written", "missing")]
    committer.views.feeds.follow = follow
    mend(world)


def waiting():
    """What a worker does that has no time yet."""
    yield from ()
    return b""
