"""Observers see every request: those of the direct path of `get` and those of the worker as well."""

from oneread import Copy, Key, Model, Schema, connect


class Author(Model[int]):
    number: Key[int]
    name: str


class By(Copy[Author]):
    name: str


class Book(Model[int]):
    number: Key[int]
    author: By


BOOKS = 12


def test_a_get_is_seen(url):
    seen = []
    with connect(url, Schema(Author), observers=(lambda request, _answer: seen.append(request),), workers=0) as db:
        db.save(Author(number=1, name="Ada"))
        seen.clear()
        assert db.get(Author, 1).name == "Ada"
        assert db.find(Author, 2) is None
    assert [type(request).__name__ for request in seen] == ["Read", "Read"]


def test_observers_see_what_the_worker_asks_for(url):
    rows = []
    observers = (lambda request, _answer: rows.append(len(getattr(request, "rows", ()))),)
    with connect(url, Schema(Author, Book, inline=2), observers=observers, workers=1) as db:
        db.save(Author(number=1, name="Ada"))
        db.save_all([Book(number=number, author=By.of(1)) for number in range(BOOKS)])
        rows.clear()
        renamed = db.patch(Author, 1, name="Augusta")
        db.tasks(renamed).wait()
        assert db.get(Book, BOOKS - 1).author.name == "Augusta"
    assert sum(rows) >= 1 + BOOKS  # the author, and every book that the worker wrote
