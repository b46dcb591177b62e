"""Pages walk a list in both directions, across values of one field, past what is gone, and back again."""

import pytest

from oneread import Aggregate, Index, Key, Model, Ref, Schema, any_of, by, connect, count, field
from oneread.database.pages import Query, page
from oneread.encoding.ranges import KeyBounds
from oneread.errors import InvalidQuery
from oneread.plans.trace import Trace


class Item(Model[str, int]):
    group: Key[str]
    number: Key[int]
    size: int = 0


class Box(Item):
    lid: str = ""


class ItemsBySize(Index[Item]):
    size: int = by(Item.size)


class Sizes(Aggregate[Item]):
    group: str = by(Item.group)
    size: int = by(Item.size)
    items: int = count()


@pytest.fixture
def db(url):
    with connect(url, Schema(Item, Box, ItemsBySize, Sizes), workers=0) as db:
        yield db


def numbers(rows):
    return [row.number for row in rows]


def filled(db, several=range(10)):
    db.save_all([Item(group="a", number=number, size=number) for number in several])


def test_a_page_is_a_sequence(db):
    filled(db, range(3))
    found = db.page(Item, "a")
    assert len(found) == 3
    assert found[1].number == 1
    assert numbers(found) == [0, 1, 2]
    assert repr(found).startswith("Page([Item(")
    assert (found.next, found.previous, found.truncated) == (None, None, False)


def test_rows_that_come_and_go_meanwhile_move_no_other_row(db):
    filled(db)
    first = db.page(Item, "a", limit=4)
    db.delete(Item, "a", 3)
    db.save(Item(group="a", number=-5))
    second = db.page(Item, "a", limit=4, cursor=first.next)
    assert numbers(second) == [4, 5, 6, 7]
    assert numbers(db.page(Item, "a", limit=9, cursor=second.previous)) == [-5, 0, 1, 2]


def test_backward_without_a_cursor_is_the_end_of_the_list(db):
    filled(db)
    last = db.page(Item, "a", limit=3, backward=True)
    assert numbers(last) == [7, 8, 9]
    assert last.next is None
    before = db.page(Item, "a", limit=3, cursor=last.previous)
    assert numbers(before) == [4, 5, 6]
    assert numbers(db.page(Item, "a", limit=3, cursor=before.next)) == [7, 8, 9]


def test_an_empty_page_leads_back_both_ways(db):
    filled(db, range(4))
    first = db.page(Item, "a", limit=2)
    for number in (2, 3):
        db.delete(Item, "a", number)
    behind = db.page(Item, "a", limit=2, cursor=first.next)
    assert numbers(behind) == []
    assert behind.next is None
    assert numbers(db.page(Item, "a", limit=2, cursor=behind.previous)) == [0, 1]


def test_an_empty_page_of_a_view_that_was_read_backwards_leads_to_the_start(db):
    filled(db, range(4))
    second = db.page(ItemsBySize, limit=2, cursor=db.page(ItemsBySize, limit=2).next)
    for number in (0, 1):
        db.delete(Item, "a", number)
    nothing = db.page(ItemsBySize, limit=2, cursor=second.previous)
    assert list(nothing) == []
    filled(db, range(2))
    assert [row.size for row in db.page(ItemsBySize, limit=2, cursor=nothing.next)] == [0, 1]


def test_behind_an_empty_page_read_backwards_a_row_that_ends_where_the_parameters_end_is_found(db):
    """Each branch of the any_of is one whole key, so that nothing follows the parameters."""
    db.save_all([Item(group="a", number=size, size=size) for size in (1, 2)])
    several = ("a", any_of(1, 2))
    first = db.page(Sizes, *several, limit=1)
    second = db.page(Sizes, *several, limit=1, cursor=first.next)
    assert [row.size for row in second] == [2]
    db.delete(Item, "a", 1)
    nothing = db.page(Sizes, *several, limit=1, cursor=second.previous)
    assert list(nothing) == []
    assert [row.size for row in db.page(Sizes, *several, limit=1, cursor=nothing.next)] == [2]


def test_a_page_whose_budget_is_used_up_says_so_and_has_a_next(db):
    filled(db)
    where = field(Item.number) >= 8
    found, cursor, pages = [], None, 0
    while True:
        part = db.page(Item, "a", limit=2, budget=1, where=where, cursor=cursor)
        found += numbers(part)
        pages += 1
        cursor = part.next
        if cursor is None:
            break
        assert part.truncated == (len(part) < 2)
        assert part.cost.skipped <= 3
    assert found == [8, 9]
    assert pages == 4
    back = db.page(Item, "a", limit=2, budget=0, where=field(Item.number) < 1, backward=True)
    assert back.truncated
    assert numbers(db.page(Item, "a", limit=2, where=field(Item.number) < 1, cursor=back.previous)) == [0]


def test_tombstones_are_skipped_and_counted(db):
    filled(db)
    for number in range(6):
        db.delete(Item, "a", number)
    found = db.page(Item, "a", limit=2)
    assert numbers(found) == [6, 7]
    assert found.cost.skipped == 6


def test_the_same_value_twice_in_any_of_is_one(db):
    filled(db, range(3))
    assert sorted(row.size for row in db.page(ItemsBySize, any_of(1, 1, 0))) == [0, 1]


def test_a_page_of_a_variant_shows_that_variant_only(db):
    db.save_all([Item(group="a", number=1), Box(group="a", number=2), Item(group="a", number=3)])
    assert numbers(db.page(Item, "a")) == [1, 2, 3]
    assert numbers(db.page(Box, "a")) == [2]
    assert db.find(Box, "a", 1) is None
    assert db.get_many(Box, [("a", 1), ("a", 2)])[0] is None


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("limit", [1, 3, 50])
def test_the_fast_path_of_page_answers_as_the_plan(db, backward, limit):
    filled(db)
    db.page(ItemsBySize)
    of = db._lists[ItemsBySize]
    cursor = None
    while True:
        query = Query((), limit, cursor, backward, KeyBounds(2))
        found = db._pages.any_page(of, query)
        for listed in (of, of._replace(decoder=None)):  # as a whole, and row by row
            trace = Trace()
            planned = db._driver.run(page(listed, query, db._cipher, trace), trace)
            assert found.rows == planned.rows
            assert (found.next, found.previous, found.cost) == (planned.next, planned.previous, planned.cost)
        cursor = found.previous if backward else found.next
        if cursor is None:
            break


def test_scan_walks_everything_from_a_cursor_on(db):
    filled(db)
    pages = list(db.scan(Item, "a", batch=4))
    assert [numbers(each) for each in pages] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [numbers(each) for each in db.scan(Item, "a", batch=4, cursor=pages[0].next)] == [[4, 5, 6, 7], [8, 9]]
    assert [row.source for each in db.scan(ItemsBySize, where=field(ItemsBySize.size) > 8) for row in each] == [
        Ref(("a", 9))
    ]


def test_a_bound_needs_a_key_field_that_is_left(url) -> None:
    class Note(Model[int]):
        number: Key[int]

    with connect(url, Schema(Note)) as db, pytest.raises(InvalidQuery):
        db.page(Note, 1, since=2)
