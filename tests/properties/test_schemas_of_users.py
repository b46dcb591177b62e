"""What users are given to prove their own schemas: on five that have little in common, and on a broken library."""

from datetime import UTC, datetime

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from examples.shop.schema import SHOP, Purchase
from oneread import Schema
from oneread.testing import strategies
from oneread.testing.audit import Offence
from oneread.testing.crashes import survive
from oneread.testing.machine import database_machine
from oneread.testing.processes import JUMPS
from oneread.testing.proof import Disagreement, prove, with_inline
from oneread.testing.simulator import Simulation
from oneread.testing.steps import DrainStep, SaveAllStep, SaveStep
from tests.properties.forum import FORUM
from tests.properties.memberships import MEMBERSHIPS
from tests.properties.pages_and_views import PAGES
from tests.properties.schema_of_everything import EVERYTHING
from tests.properties.schema_of_feeds import FEED_SCHEMA, Group, Member, Membership, Post
from tests.properties.votes_and_answers import SITE
from tests.simulation import mutations, test_feeds, test_large_groups
from tests.simulation.row_world import Harmless

SCHEMAS = {
    "shop": SHOP,
    "forum": FORUM,
    "everything": Schema(*EVERYTHING),
    "feeds": FEED_SCHEMA,
    "keys": MEMBERSHIPS,
}


ROW_SCHEMAS = {
    "shop": SHOP,
    "forum": FORUM,
    "everything": SCHEMAS["everything"],
    "feeds": FEED_SCHEMA,
    "totals": SITE,
    "counters": PAGES,
    "keys": MEMBERSHIPS,
}
"""The same, as far as a store that changes one row at a time keeps them."""

THOROUGH = settings().max_examples > 1000
SOME = settings(max_examples=settings().max_examples // 4, deadline=None)
FEW = settings(max_examples=settings().max_examples // 10, deadline=None)

each_schema = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
patient = pytest.mark.timeout(3600 if THOROUGH else 900)


@each_schema
@patient
def test_a_history_comes_to_the_same_in_database_and_oracle(schema):
    @SOME
    @given(strategies.histories(schema))
    def holds(history):
        prove(schema, history)

    holds()


@pytest.mark.parametrize("schema", ROW_SCHEMAS.values(), ids=ROW_SCHEMAS)
@patient
def test_every_view_survives_crashes_where_one_row_changes_at_a_time(schema):
    @FEW
    @given(strategies.crashes(schema))
    def holds(crash):
        assert survive(schema, crash, span="row")

    holds()


@pytest.mark.parametrize("schema", ROW_SCHEMAS.values(), ids=ROW_SCHEMAS)
@patient
def test_a_history_comes_to_the_same_where_one_row_changes_at_a_time(schema):
    @FEW
    @given(strategies.histories(schema))
    def holds(history):
        prove(schema, [step for step in history if not isinstance(step, SaveAllStep)], "memory://?span=row")

    holds()


@each_schema
@patient
def test_every_view_survives_crashes(schema):
    @SOME
    @given(strategies.crashes(schema))
    def holds(crash):
        assert survive(schema, crash)

    holds()


def test_an_entry_that_expired_by_the_clock_of_a_worker_need_not_be_there():
    """Its clock is ten years ahead, so it leaves out what is younger by all others."""
    at, group = datetime(2024, 2, 28, tzinfo=UTC), Group.at("")
    members = [Membership(number=each, member=Member.at(1), group=group, role=None, at=at) for each in range(3)]
    simulation = Simulation(0, with_inline(FEED_SCHEMA, 0), fates=Harmless())
    post = Post(number=0, group=group, groups=[], at=at, text="", author=None, home=None)
    simulation.prepare(*[SaveStep(each) for each in [*members, post]])
    simulation.process("worker", [DrainStep(2)] * 20)
    simulation._processes[0].skew = max(JUMPS)
    simulation.run()


@pytest.mark.parametrize("engine", ["memory", "lmdb"])
@patient
def test_a_ready_made_machine(engine):
    machine = database_machine(SHOP, {Purchase.quantity: st.integers(1, 3)}, engine=engine)
    run_state_machine_as_test(machine, settings=FEW)


BROKEN = [
    mutations.a_delete_forgets_its_contributions,
    mutations.back_references_stay_when_a_reference_changes,
    mutations.index_rows_are_put_and_never_taken_back,
    mutations.a_sum_is_stated_instead_of_added,
    mutations.claims_are_not_looked_at,
    mutations.a_copy_is_kept_although_its_reference_changed,
    mutations.a_leaf_copy_does_not_follow,
    mutations.more_than_the_bound_is_forgotten,
]

BROKEN_FEEDS = [
    test_feeds.a_batch_never_takes,
    test_large_groups.a_crossing_visits_nothing,
    test_large_groups.nothing_is_trimmed,
]

FOUND_IN_THE_FORUM = {mutations.claims_are_not_looked_at, mutations.a_leaf_copy_does_not_follow}
"""Where everything depends on everything, few copies are leaves and few unique values meet."""


@pytest.mark.parametrize("broken", BROKEN, ids=[each.__name__ for each in BROKEN])
@patient
def test_a_broken_derivation_is_found(broken, monkeypatch):
    find(broken, SCHEMAS["forum" if broken in FOUND_IN_THE_FORUM else "everything"], monkeypatch)


@pytest.mark.parametrize("broken", BROKEN_FEEDS, ids=[each.__name__ for each in BROKEN_FEEDS])
@patient
def test_a_broken_feed_is_found(broken, monkeypatch):
    find(broken, FEED_SCHEMA, monkeypatch)


def find(broken, schema, monkeypatch):
    """Fails unless the histories of a schema find what is broken."""
    with monkeypatch.context() as patch:
        broken(patch)
        with pytest.raises((Disagreement, Offence, ExceptionGroup)):
            search(schema)


def search(schema):
    """Proves 600 histories and more in short searches: hypothesis begins a long one with dozens that are small."""
    for first in range(150):

        @seed(first)
        @settings(max_examples=5, deadline=None, database=None, phases=[Phase.generate])
        @given(strategies.histories(schema))
        def holds(history):
            prove(schema, history)

        holds()
