"""Rules broken on purpose, each by substituting one function, and the first seed whose program finds it.

`python -m tests.schemas.broken_rules` searches for the seeds again, which change when the generator does.
"""

import sys

import msgspec
import pytest

from oneread.costs.declared import Costs
from oneread.derivations import changes
from oneread.derivations.aggregates import AggregateView
from oneread.derivations.operations import CompiledCondition, SkipExpired
from oneread.engines.one_row_memory import OneRowMemoryEngine
from oneread.feeds.marks import FeedPosition
from oneread.store.keys import entity_part
from oneread.store.requests import Scan
from tests.schemas.trial import failure_of, make
from tests.simulation import mutations, test_feeds

MOST = 600
"""Seeds within which each must be found."""


def a_store_compares_bytes_with_a_sign(patch):
    """Bytes from 0x80 on come first, as where a store's comparator takes them for negative; only on one store."""
    answer = OneRowMemoryEngine.answer

    def signed(self, request):
        found = answer(self, request)
        if type(request) is not Scan or request.table != "views":
            return found
        return sorted(found, key=lambda each: [byte - 256 if byte > 127 else byte for byte in each[0]])

    patch.setattr(OneRowMemoryEngine, "answer", signed)


def what_is_not_filled_yet_is_read(patch):
    """What a save adds to is guessed with copies that only refer and totals that are not known."""

    def of_everything(self, now):
        of, entity = self._entity_type, changes.stamped(self._entity_type, self._entity, None, now)
        emit = of.emitters.skipping(frozenset())
        found = emit(entity, {}, of.kind.parts(entity), entity_part(self.key), self._refs, 0)
        return [place for place, _amounts, _sign in found.deltas]

    patch.setattr(changes.Save, "likely_sums", of_everything)


def a_bound_of_a_save_lacks_a_request(patch):
    """The declared cost says less than what is asked."""
    save = Costs.save

    def less(self, cls, **options):
        bound = save(self, cls, **options)
        return msgspec.structs.replace(bound, requests=bound.requests - 2)

    patch.setattr(Costs, "save", less)


def a_number_is_folded_from_all_entities_of_its_group(patch):
    """Its condition is not asked."""
    register = CompiledCondition.register
    patch.setattr(CompiledCondition, "register", lambda self, code: register(self._replace(test=lambda _e: True), code))


def an_entity_stays_in_its_groups_when_its_time_is_over(patch):
    """A commit emits what has ended as well."""
    program = AggregateView.program

    def without_expiry(self):
        found = program(self)
        return found._replace(once=tuple(each for each in found.once if not isinstance(each, SkipExpired)))

    patch.setattr(AggregateView, "program", without_expiry)


def a_mark_moves_back(patch):
    """To mark an older entry takes the mark away from a newer one."""
    patch.setattr(FeedPosition, "is_newer", lambda _self, _other: True)


BROKEN = {
    a_bound_of_a_save_lacks_a_request: 4,
    a_mark_moves_back: 54,
    a_number_is_folded_from_all_entities_of_its_group: 12,
    an_entity_stays_in_its_groups_when_its_time_is_over: 276,
    what_is_not_filled_yet_is_read: 3,
    a_store_compares_bytes_with_a_sign: 3,
    mutations.a_delete_forgets_its_contributions: 3,
    mutations.index_rows_are_put_and_never_taken_back: 0,
    mutations.a_sum_is_stated_instead_of_added: 3,
    mutations.a_holder_that_followed_has_no_fan_out: 45,
    mutations.a_leaf_copy_does_not_follow: 4,
    mutations.a_copy_is_kept_although_its_reference_changed: 88,
    mutations.claims_are_not_looked_at: 3,
    mutations.more_than_the_bound_is_forgotten: 12,
    mutations.back_references_stay_when_a_reference_changes: 45,
    test_feeds.a_batch_never_takes: 54,
}
"""Each with the first seed that finds it."""


def finds(broken, seed):
    """How the program of a seed fails while a rule is broken."""
    program = make(seed)
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        return failure_of(program)


def first_seed(broken):
    """The first seed that finds a broken rule; None if none within MOST does."""
    return next((seed for seed in range(MOST) if finds(broken, seed)), None)


if __name__ == "__main__":
    for each in BROKEN:
        sys.stdout.write(f"{each.__name__} {first_seed(each)}\n")
