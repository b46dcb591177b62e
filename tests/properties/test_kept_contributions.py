"""A change that keeps contributions of the record before makes what emitting everything makes, to the byte."""

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from oneread import Schema, connect
from oneread.derivations.emitted_record import encode_record
from oneread.derivations.entity_type import EntityType
from oneread.testing.proof import prove
from oneread.testing.strategies import histories
from tests.properties.schema_of_everything import EVERYTHING, Buyer, City, Customer, Purchase

SCHEMA = Schema(*EVERYTHING)


@pytest.fixture(scope="module")
def kept():
    """While it lasts, each entity is filled twice and compared; the tokens that were kept, and of what."""
    found = []
    fill = EntityType.fill

    def compared(self, key, entity, refs, inputs):
        assert refs == self.refs(entity) == {each.name: each.keys(entity) for each in self.references}
        part, whole = (fill(self, key, entity, refs, each) for each in (inputs, replace(inputs, differing=None)))
        assert part.body == whole.body
        assert part.emission.record == whole.emission.record
        assert encode_record(part.emission.record) == encode_record(whole.emission.record)
        for place, shown in part.emission.shown.items():
            assert whole.emission.shown[place] == shown
        tokens = self._kept_tokens(inputs)
        if tokens:
            found.append((self.cls, tokens))
        return part

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntityType, "fill", compared)
        yield found


@pytest.mark.usefixtures("kept")
@settings(max_examples=40, deadline=None)
@given(history=histories(SCHEMA))
def test_it_equals_emitting_everything_after_any_history(history):
    prove(SCHEMA, history)


def test_a_rename_and_a_patch_keep_what_does_not_look_there(kept):
    del kept[:]
    at = datetime(2024, 1, 1, tzinfo=UTC)
    with connect("memory://", SCHEMA, workers=0) as db:
        db.save(City(code="P", name="Paris"))
        db.save(Customer(number=1, name="Ada"))
        db.save(Purchase(order="A", line=1, buyer=Buyer.of(1), ordered_at=at, shipped_to=City.at("P"), tags=[]))
        assert not kept
        every = frozenset(db.operations.catalog.entity_types[Purchase].missing_views({}))
        db.patch(Customer, 1, name="Eve")
        db.patch(Purchase, "A", 1, note="gift")
        assert [cls for cls, _tokens in kept] == [Customer, Purchase, Purchase]
        assert all(0 < len(tokens) < len(every) for cls, tokens in kept if cls is Purchase)
        assert db.verify().clean
