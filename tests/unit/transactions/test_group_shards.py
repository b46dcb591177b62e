"""Groups of several rows on a store that changes one row at a time: requests, pages, programs that declare others."""

import pytest

from oneread import Aggregate, Key, Model, Schema, any_of, by, connect, count, greatest, total
from oneread.costs.budgets import budget
from oneread.engines import one_row_memory
from oneread.errors import InvalidDeclaration
from oneread.store.requests import CheckAndMutate, Mutate, Read, Scan
from oneread.store.rows import REMOVED, VALUE, RowRange
from oneread.transactions.group_shards import SHARDS
from tests.unit.transactions.test_journal_commits import Store

POSTS = "abcdefg"


class Vote(Model[int]):
    number: Key[int]
    post: str
    points: int = 1


def votes_of_post(rows):
    class VotesOfPost(Aggregate[Vote]):
        shards = rows

        post: str = by(Vote.post)
        votes: int = count()
        points: int = total(Vote.points)
        best: int | None = greatest(Vote.points)

    return VotesOfPost


@pytest.fixture
def url():
    yield "memory://votes?span=row"
    one_row_memory.forget("votes")


def opened(url, shards):
    view = votes_of_post(shards)
    return connect(url, Schema(Vote, view), workers=0), view


def voted(db, numbers):
    db.save_all([Vote(number=each, post=POSTS[each % 7], points=each) for each in numbers])


def rows_of(db):
    found = db._driver.engine.answer(Scan("counts", RowRange(b"", b""), 1000, families="dm"))
    return [key for key, row in found if VALUE in row and row[VALUE].value != REMOVED]


def test_votes_for_one_post_are_in_so_many_rows(url):
    db, view = opened(url, 4)
    with db:
        db.save_all([Vote(number=each, post="a") for each in range(40)])
        assert len(rows_of(db)) == 4
        assert db.get(view, "a") == view(post="a", votes=40, points=40, best=1)


@pytest.mark.parametrize(("before", "after"), [(4, 1), (1, 4), (3, 5), (64, 2)])
def test_the_number_may_be_changed_at_any_time(url, before, after):
    db, view = opened(url, before)
    other, changed = opened(url, after)
    with db, other:
        voted(db, range(70))
        voted(other, range(50, 90))
        for number in range(0, 90, 2):
            other.patch(Vote, number, points=1_000 + number)
        for number in range(0, 90, 3):
            db.delete(Vote, number)
        left = [each for page in db.scan(Vote) for each in page]
        shown = {post: [each.points for each in left if each.post == post] for post in POSTS}
        for database, of in ((db, view), (other, changed)):
            wanted = [of(post=post, votes=len(each), points=sum(each), best=max(each)) for post, each in shown.items()]
            assert [database.get(of, post) for post in POSTS] == wanted
            assert database.get_many(of, [(post,) for post in POSTS]) == wanted
            assert database.page(of).rows == wanted
            assert database.page(of, any_of("f", "c")).rows == [wanted[5], wanted[2]]
            assert [row for page in database.scan(of, batch=2) for row in page] == wanted
            assert database.page(of, limit=3, backward=True).rows == wanted[-3:]
            assert database.page(of, since="c", until="e").rows == wanted[2:4]
            assert database.page(of, after="c", through="e").rows == wanted[3:5]


@pytest.mark.parametrize("backward", [False, True])
def test_pages_follow_each_other_in_both_directions(url, backward):
    db, view = opened(url, 5)
    with db:
        voted(db, range(60))
        page, met = db.page(view, limit=2, backward=backward), []
        while page is not None:
            met.append([row.post for row in page])
            cursor = page.previous if backward else page.next
            page = None if cursor is None else db.page(view, limit=2, cursor=cursor)
        assert met == (
            [["f", "g"], ["d", "e"], ["b", "c"], ["a"]] if backward else [["a", "b"], ["c", "d"], ["e", "f"], ["g"]]
        )
        first = db.page(view, limit=2)
        assert db.page(view, limit=2, cursor=db.page(view, limit=2, cursor=first.next).previous).rows == first.rows
        assert db.page(view, "g").next is None


def test_a_group_whose_entities_all_went_is_not_shown(url):
    db, view = opened(url, 3)
    with db:
        voted(db, range(14))
        for number in (1, 8):
            db.delete(Vote, number)
        assert [row.post for row in db.page(view)] == list("acdefg")
        assert db.page(view, limit=1).rows[0].post == "a"
        assert db.page(view, limit=1, cursor=db.page(view, limit=1).next).rows[0].post == "c"
        assert db.get(view, "b") == view(post="b", votes=0, points=0, best=None)


def test_a_read_is_one_request_and_a_page_as_many_rows_as_there_are_shards(url):
    db, view = opened(url, 4)
    with db:
        db.save_all([Vote(number=each, post=POSTS[each % 7]) for each in range(280)])
        assert db.page(view, limit=3).cost.requests == 1 + 3  # one for each greatest value
        assert db.page(view, limit=3).cost.rows == 4 * (3 + 1) + 3
        db.get(view, "a")
        with budget() as spent:
            db.get(view, "a")
        assert (spent.requests, spent.rows) == (2, 4 + 1)
    other, changed = opened(url, 1)
    with other, budget() as spent:  # one request more for what another program has spread
        other.get(changed, "a")
    assert (spent.requests, spent.rows) == (3, 4 + 1)


def test_a_group_is_announced_once_before_the_commit_point():
    class Votes(Aggregate[Vote]):
        shards = 8

        post: str = by(Vote.post)
        votes: int = count()

    store = Store(Schema(Vote, Votes))
    store.save(Vote(number=1, post="a"))
    announced = [each for each in store.made if type(each[1]) is Mutate and each[1].table == "counts"]
    assert [round_ for round_, _asked in announced] == [2]
    (row,) = announced[0][1].rows
    assert {column: (cell.value, cell.stamp) for column, cell in row.puts.items()} == {SHARDS: (b"\x08", 8)}
    first = store.costs
    store.save(Vote(number=2, post="a"))
    assert store.costs == (first[0] - 1, *first[1:])
    assert not [each for _round, each in store.made if type(each) is Mutate and each.table == "counts"]
    added = [each for _round, each in store.made if type(each) is CheckAndMutate and each.table == "counts"]
    assert len(added) == 1


def test_other_stores_have_one_row_for_each_group():
    view = votes_of_post(4)
    with connect("memory://", Schema(Vote, view)) as db:
        voted(db, range(70))
        assert len(rows_of(db)) == 7
        assert db.get(view, "a").votes == 10
        assert db.page(view, limit=3).cost.rows == 3 + 1 + 3
        read = db._driver.engine.answer(Read("counts", rows_of(db)))
        assert all(set(row) == {VALUE} for row in read)


@pytest.mark.parametrize("rows", [0, 65, True, "4", 2.0, None])
def test_a_number_of_shards_is_from_1_to_64(rows):
    with pytest.raises(InvalidDeclaration, match="shards") as error:
        Schema(Vote, votes_of_post(rows)).check()
    assert error.value.facts["shards"] == rows
