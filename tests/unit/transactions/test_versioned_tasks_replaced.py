"""Tasks on a store that changes one row at a time."""

from oneread import Copy, Index, Key, Model, Schema, by, connect, within


class Author(Model[str]):
    code: Key[str]
    name: str


class Writer(Copy[Author]):
    name: str


class Book(Model[str]):
    title: Key[str]
    author: Writer


class BooksOfName(Index[Book]):
    name: str = by(within(Book.author, Writer.name))


def test_an_older_task_has_ended_when_the_newer_one_has():
    with connect("memory://?span=row", Schema(Author, Book, BooksOfName, inline=0)) as db:
        db.save(Author(code="a", name="old"))
        db.save_all([Book(title=title, author=Writer.of("a")) for title in "xyz"])
        tasks = [db.tasks(db.patch(Author, "a", name=name)) for name in ("new", "newest")]
        db.run(db.operations.outbox.step(1))  # drops the older task, and one holder follows
        assert [db.get(Book, title).author.name for title in "xyz"] == ["newest", "old", "old"]
        assert [each.done() for each in tasks] == [False, False]
        db.drain()
        assert [each.done() for each in tasks] == [True, True]
        assert {db.get(Book, title).author.name for title in "xyz"} == {"newest"}
