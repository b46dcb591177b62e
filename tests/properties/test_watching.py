"""Whatever is written: a page and the changes since its cursor are the page as it is, in every list of a schema.

The machine that holds the database against the oracle writes; each call stays below the bound that says what its logs
cost, and each watched view and logged model is followed, by batches of different sizes, and by one follower that comes
back at the end.
"""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from oneread import Model, Schema
from oneread.costs import declared
from oneread.database.watching import Watcher
from oneread.models.registry import root_model
from tests.properties.schema_of_everything import EVERYTHING, INDEXES, INDEXES_OVER_GROUPS
from tests.properties.searching import UNTIL_FOUND
from tests.properties.test_costs_stay_below_bounds import WRITES, Priced
from tests.properties.test_derived_equals_recomputed import Machine

VIEWS = (*INDEXES, *INDEXES_OVER_GROUPS)
MODELS = tuple(dict.fromkeys(root_model(each) for each in EVERYTHING if issubclass(each, Model)))
THOROUGH = settings().max_examples > 1000


@pytest.fixture(autouse=True)
def watched(monkeypatch):
    for view in VIEWS:
        monkeypatch.setattr(view, "watched", timedelta(hours=1))
    for model in [each for each in EVERYTHING if issubclass(each, Model)]:
        monkeypatch.setattr(model, "logged", timedelta(days=7))


class Follower:
    """The rows of a page, by what they are of and by key."""

    def __init__(self, db, view, limit):
        self.view, self.limit = view, limit
        self.cursor = db.changes_cursor(view)
        self.rows = Counter()
        self.known = {}
        for page in db.scan(view):
            self.rows.update(map(repr, page))

    def follow(self, db):
        more = True
        while more:
            batch = next(db.changes(self.view, cursor=self.cursor, limit=self.limit, wait=0))
            assert len(batch) <= self.limit
            for change in batch:
                before = self.known.pop((change.source, change.key), None)
                if before is not None:
                    self.rows[before] -= 1
                if not change.is_removed:
                    self.known[change.source, change.key] = repr(change.row)
                    self.rows[repr(change.row)] += 1
            self.cursor, more = batch.cursor, batch.more

    def check(self, db):
        self.follow(db)
        found = Counter(repr(row) for page in db.scan(self.view) for row in page)
        assert +self.rows == found, self.view


class Followed(Priced):
    """A store that is empty at first, each view of which is followed from then on."""

    def __init__(self, url, clock):
        super().__init__(url, clock)
        self.costs = declared.of(self.schema)
        self.followers = [Follower(self.db, view, limit) for view in VIEWS for limit in (1, 100)]
        self.followers += [Follower(self.db, model, 3) for model in MODELS]
        self.late = [Follower(self.db, view, 7) for view in (*VIEWS, *MODELS)]
        self.calls = 0

    def __getattr__(self, verb):
        call = super().__getattr__(verb)
        if verb not in WRITES:
            return call

        def followed(*given, **named):
            self.calls += 1
            if self.calls % 5 == 0:
                for each in self.followers:
                    each.follow(self.db)
            return call(*given, **named)

        return followed

    def close(self):
        for each in (*self.followers, *self.late):
            each.check(self.db)
        super().close()


def run(persistent, effort):
    face = type("Followed", (Followed,), {"schema": Schema(*EVERYTHING, inline=3)})
    kind = type("Machine", (Machine,), {"face": face, "persistent": persistent})
    run_state_machine_as_test(
        kind,
        settings=settings(effort, stateful_step_count=25, suppress_health_check=list(HealthCheck)),
    )


@pytest.mark.parametrize("persistent", [False, True], ids=["memory", "lmdb"])
@pytest.mark.timeout(3600 if THOROUGH else 900)
def test_a_page_and_its_changes_are_the_page(persistent):
    run(persistent, settings(max_examples=max(4, settings().max_examples // 20)))


def test_changes_that_are_left_out_are_found(monkeypatch):
    read = Watcher._read

    def read_less(watcher, keys):
        return [each for each in (yield from read(watcher, keys)) if each.row is not None]

    monkeypatch.setattr(Watcher, "_read", read_less)
    with pytest.raises(AssertionError):
        run(persistent=False, effort=UNTIL_FOUND)
