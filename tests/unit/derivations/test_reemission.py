"""A root row that is committed again takes the present values of living sources, and nothing from a deleted one."""

from oneread import Copy, Index, Key, Model, Schema, by, connect, shown


class Author(Model[int]):
    number: Key[int]
    name: str


class By(Copy[Author]):
    missing_ok = True
    name: str


class Book(Model[int]):
    number: Key[int]
    by: By
    title: str


class BooksOfTitle(Index[Book]):
    title: str = by(Book.title)
    by: By = shown(Book.by)


def test_a_reference_made_after_its_source_was_deleted_stays_empty_when_a_view_is_added(url):
    with connect(url, Schema(Author, Book)) as db:
        db.save(Author(number=1, name="Ada"))
        db.save(Book(number=1, by=By.of(1), title="held it"))
        db.delete(Author, 1)
        db.save(Book(number=2, by=By.of(1), title="came later"))
        before = [db.get(Book, 1).by.name, db.get(Book, 2).by.name]
    assert before == ["Ada", None]
    with connect(url, Schema(Author, Book, BooksOfTitle)) as db:
        assert db.backfill(fence=True).done
        assert [db.get(Book, 1).by.name, db.get(Book, 2).by.name] == before
        assert [row.by.name for row in db.page(BooksOfTitle).rows] == [None, "Ada"]
        assert db.verify().clean
