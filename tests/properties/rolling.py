"""Three versions of one schema on one store, and what a plain dict says that each of them shows.

Every version adds fields, in front, between and at the end, and calls some otherwise; the third adds a view of an added
field, too. The dict has the names of the first version, or that of the version which has added a field.
"""

import types
from decimal import Decimal
from random import Random

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    descending,
    least,
    renamed,
    shown,
    total,
    within,
)

AUTHORS, BOOKS = range(3), range(6)
ADDED = {
    1: {},
    2: {"born": (int | None, None), "extra": (list[int], []), "first": (int, 0)},
    3: {"born": (int | None, None), "extra": (list[int], []), "first": (int, 0), "rating": (Decimal | None, None)},
}
"""The fields that a version has beyond the first one: type and default."""
STEPS = {
    1: {},
    2: {"title": "heading"},
    3: {"title": "heading", "heading": "label", "sold": "copies", "extra": "more", "born": "birth"},
}
"""What a version calls otherwise than those before it, and what these called it since."""


def declared(name, base, fields, /, **values):
    space = {"__annotations__": dict(fields), "__module__": __name__} | values
    return types.new_class(name, (base,), {}, lambda into: into.update(space))


class Version:
    """The classes of one version."""

    def __init__(self, number):
        self.number = number
        self.added = ADDED[number]
        kinds = self.named({name: kind for name, (kind, _default) in self.added.items()})
        defaults = self.named({name: default for name, (_kind, default) in self.added.items()})
        front = {name: kinds[name] for name in kinds if name == "first"}
        rest = {name: kinds[name] for name in kinds if name != "first"}
        self.author = declared(
            "Author",
            Model,
            front | {"number": Key[int], "name": str} | rest | {"country": str},
            evolution=self.steps("born", "extra"),
            **defaults,
        )
        self.written_by = declared("WrittenBy", Copy[self.author], {"name": str})
        title, sold = self.named({"title": str}), self.named({"sold": int})
        fields = front | {"number": Key[int]} | title | {"author": self.written_by} | rest | sold
        self.book = book = declared(
            "Book", Model, fields | {"next": Ref["Book"] | None},
            evolution=self.steps(*STEPS[3]), next=None, **defaults,
        )  # fmt: skip
        title, sold = getattr(book, *title), getattr(book, *sold)
        of_title = declared(
            "BooksOfTitle",
            Index[book],
            {"title": str, "sold": int, "author": self.written_by},
            title=by(title), sold=descending(sold), author=shown(book.author),
        )  # fmt: skip
        of_country = declared(
            "BooksOfCountry", Index[book], {"country": str}, country=by(within(book.author, self.author.country))
        )
        sales = declared(
            "Sales",
            Aggregate[book],
            {"author": self.written_by, "books": int, "sold": int, "fewest": int | None},
            author=by(book.author), books=count(), sold=total(sold), fewest=least(sold),
        )  # fmt: skip
        self.views = [of_title, of_country, sales]
        if number == 3:
            self.views.append(declared("BooksOfFirst", Index[book], {"first": int}, first=by(book.first)))
        self.schema = Schema(self.author, book, *self.views, inline=2)

    def named(self, values):
        """Values by the names of this version."""
        return {self.name_of(name): each for name, each in values.items()}

    def name_of(self, name):
        steps = STEPS[self.number]
        while name in steps:
            name = steps[name]
        return name

    def steps(self, *names):
        steps = STEPS[self.number]
        return tuple(renamed(name, to=steps[name]) for name in names if name in steps)

    def shown(self, row):
        """What this version shows of a row of the dict."""
        names = ("name", "country") if "name" in row else ("title", "sold", "author")
        return {name: row[name] for name in names} | {
            name: row.get(name, default) for name, (_kind, default) in self.added.items()
        }


class Writers:
    """Programs of several versions that write in turn, and a dict that is told the same.

    `open` opens the store under a schema.
    """

    def __init__(self, seed, open):  # noqa: A002 - what it does
        self.chance = Random(seed)
        self._open = open
        self.versions = {number: Version(number) for number in ADDED}
        self.programs = {}
        self.authors, self.books = {}, {}
        self.steps = 0

    def start(self, number):
        """Starts a program, or starts it again."""
        if number in self.programs:
            self.programs.pop(number).close()
        self.programs[number] = self._open(self.versions[number].schema)

    def step(self, number):
        """One write of a program, chosen by chance; its worker's tasks are done at once."""
        self.steps += 1
        version, db, chance = self.versions[number], self.programs[number], self.chance
        act = chance.choice([self.author, self.book, self.patch, self.patch, self.delete, self.transact])
        act(version, db)
        db.drain()

    def extra(self, version):
        made = {
            "born": lambda: self.chance.choice([None, 1900, 2**70]),
            "extra": lambda: [self.chance.randrange(9), 2 ** self.chance.choice([3, 66])],
            "first": lambda: self.chance.choice([1, 2, 2**65]),
            "rating": lambda: Decimal(self.chance.randrange(99)) / 8,
        }
        return {name: made[name]() for name in version.added}

    def author(self, version, db):
        number = self.chance.choice(AUTHORS)
        values = {"name": self.chance.choice("abc"), "country": self.chance.choice("xy")} | self.extra(version)
        db.save(version.author(number=number, **version.named(values)))
        self.authors[number] = self.authors.get(number, {}) | values

    def book(self, version, db):
        if not self.authors:
            return
        number, author = self.chance.choice(BOOKS), self.chance.choice(sorted(self.authors))
        values = self.of_book(version) | {"author": author}
        db.save(version.book(number=number, **version.named(values) | {"author": version.written_by.of(author)}))
        self.books[number] = self.books.get(number, {}) | values

    def of_book(self, version):
        sold = self.chance.choice([1, 2, 3, 2**70])
        return {"title": self.chance.choice("stu"), "sold": sold} | self.extra(version)

    def patch(self, version, db):
        rows, model = self.chance.choice([(self.authors, version.author), (self.books, version.book)])
        if not rows:
            return
        number = self.chance.choice(sorted(rows))
        values = self.of_book(version) if rows is self.books else {"name": self.chance.choice("abcd")}
        name = self.chance.choice(sorted(values))
        db.patch(model, number, **version.named({name: values[name]}))
        rows[number] = rows[number] | {name: values[name]}

    def delete(self, version, db):
        number = self.chance.choice(BOOKS)
        db.delete(version.book, number)
        self.books.pop(number, None)

    def transact(self, version, db):
        numbers = self.chance.sample(BOOKS, 2)
        if not self.books.keys() >= {*numbers}:
            return
        title, (one, two) = version.name_of("title"), numbers
        author = self.chance.choice(sorted(self.authors))

        def move(t):
            first, second = t.get(version.book, one), t.get(version.book, two)
            t.patch(version.book, one, **{title: getattr(second, title)}, author=version.written_by.of(author))
            t.save(second)
            if getattr(first, title) == getattr(second, title):
                t.delete(version.book, two)

        db.transact(move)
        before = self.books[one]["title"]
        self.books[one] = self.books[one] | {"title": self.books[two]["title"], "author": author}
        if before == self.books[two]["title"]:
            del self.books[two]

    def check(self):
        """Every program shows what the dict says, as far as it knows it; and every view is right."""
        for number, db in self.programs.items():
            version = self.versions[number]
            for model, rows in ((version.author, self.authors), (version.book, self.books)):
                assert {row.number: self.row(version, row) for row in db.page(model)} == {
                    key: version.shown(row) for key, row in rows.items()
                }, (self.steps, number)
            for row in db.page(version.book):
                assert row.author.name == self.authors[row.author.ref.key[0]]["name"]
            of_title, of_country, sales, *_later = version.views
            for title in "stu":
                assert [(row.source.key[0], row.sold, row.author.name) for row in db.page(of_title, title)] == sorted(
                    (
                        (key, row["sold"], self.authors[row["author"]]["name"])
                        for key, row in self.books.items()
                        if row["title"] == title
                    ),
                    key=lambda row: (-row[1], row[0]),
                )
            for country in "xy":
                assert [row.source.key[0] for row in db.page(of_country, country)] == sorted(
                    key for key, row in self.books.items() if self.authors[row["author"]]["country"] == country
                )
            for author in self.authors:
                sold = [row["sold"] for row in self.books.values() if row["author"] == author]
                found = db.get(sales, author)
                assert (found.books, found.sold, found.fewest) == (len(sold), sum(sold), min(sold, default=None))
        newest = self.programs[max(self.programs)]
        assert newest.verify().clean, self.steps

    def row(self, version, row):
        names = version.shown({"name": 0, "country": 0} if type(row) is version.author else
                              {"title": 0, "sold": 0, "author": 0})  # fmt: skip
        return {name: getattr(row, version.name_of(name)) for name in names} | (
            {} if type(row) is version.author else {"author": row.author.ref.key[0]}
        )
