"""A small site, declared as the doctor finds it or as it proposes, and loads on it."""

import random
from datetime import UTC, datetime, timedelta

from oneread import GENERATED, Aggregate, Index, Key, Model, Schema, by, count, newest
from oneread.heat.axis import read_axes
from oneread.heat.doctor import check_up, recorded_loads
from oneread.heat.rows import MINUTE, read_heat_rows
from oneread.store.requests import Read
from tests.unit.database.faces import FACES

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
NOW = int(START.timestamp() * 1000)
"""The clock stands still, so that a load is of one minute however long it takes."""


def made(*, spread=1, shards=1):
    """The schema, with the options that a doctor may propose."""

    class Vote(Model[int]):
        number: Key[int]
        town: str
        cast_at: datetime

    class VotesOfTown(Aggregate[Vote]):
        town: str = by(Vote.town)
        votes: int = count()
        locals()["shards"] = shards

    class TownsByVotes(Index[VotesOfTown]):
        votes: int = by(VotesOfTown.votes)

    class NewestVotes(Index[Vote]):
        cast_at: datetime = newest(Vote.cast_at)
        locals()["spread"] = spread

    class Thread(Model[str]):
        name: Key[str]
        title: str = ""

    class Comment(Model[str, int]):
        child_of = Thread
        name: Key[str]
        number: Key[int] = GENERATED

    return Schema(Vote, VotesOfTown, TownsByVotes, NewestVotes, Thread, Comment)


class Site:
    """An open store whose heat is recorded, and a load by hand."""

    def __init__(self, url, schema, face="sync", **options):
        self.url, self.schema = url, schema
        self.db = FACES[face](url, schema, workers=0, heat=1.0, clock=lambda: NOW, **options)
        self.named = schema.named()

    def vote(self, votes, seed=7):
        """Saves votes of (seconds since the start, town), with numbers that do not ascend."""
        numbers = random.Random(seed).sample(range(1 << 40), len(votes))
        for number, (place, town) in zip(numbers, votes, strict=True):
            self.db.save(self.named["Vote"](number=number, town=town, cast_at=START + timedelta(seconds=place)))

    def findings(self, remedy):
        return [each for each in self.db.doctor() if each.remedy == remedy]

    def checkup(self):
        """What rules look at."""
        self.db.doctor()
        driver, operations, minute = getattr(self.db, "db", self.db)._driver, self.db.operations, NOW // MINUTE
        of_store = operations.changed_costs(), operations.counters, driver.engine.capabilities
        rows, axes = self.db.run(read_heat_rows(minute - 9, minute + 1)), self.db.run(read_axes())
        return self.db.run(check_up(*of_store, driver.hot, recorded_loads(operations.catalog, rows, axes)))

    def hottest(self, name):
        """The rows a second that are written in the hottest range of a view."""
        return self.db.heat(operation="write", measure="rows", declared=self.named[name]).hottest(1)[0][1]

    def hottest_group(self):
        """How often the row of a group that was written most was written."""
        counts = [
            load for load in self.checkup().loads if (load.place.table, load.declared) == ("counts", "VotesOfTown")
        ]
        return max(each.most for load in counts for each in load.hot if each.operation == "write")

    @property
    def spans_rows(self):
        return self.db.operations.spans_rows

    def close(self):
        self.db.close()


def towns(number, hot=0):
    """So many towns: of each ten, so many are one town, and the others are of forty."""
    return ["Ghent" if place % 10 < hot else f"town {place * 7 % 43}" for place in range(number)]


class Meeting:
    """Has another program change what a read is of, before that is written again: the compare-and-set is lost.

    `table` is that of the reads behind which `change` is called with the other program, of as many as are `left`.
    """

    def __init__(self, other, table, change):
        self.other, self.table, self.change = other, table, change
        self.left = 0

    def __call__(self, request, _answer):
        if self.left and isinstance(request, Read) and request.table == self.table:
            self.left -= 1
            self.change(self.other)
