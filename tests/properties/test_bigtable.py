"""Any history by the public verbs, on Google's emulator, comes to the same as in the oracle."""

import asyncio
from uuid import uuid4

from hypothesis import Phase, given, settings

from examples.shop import cleaning
from examples.shop.loading import Source
from examples.shop.schema import SHOP, Customer, Product, Purchase
from oneread import connect, connect_async
from oneread.testing import strategies
from oneread.testing.proof import prove
from tests.properties.one_row import of_one_row
from tests.simulation.schema import WORLD

FEW = settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.generate])
"""Each opens a store, and asks it hundreds of times; shrinking would take minutes."""


LINES = 60
TOGETHER = 10


def test_a_history_comes_to_the_same_in_bigtable_and_oracle(monkeypatch, emulator):
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)

    @FEW
    @given(strategies.histories(WORLD))
    def is_equal(history):
        prove(WORLD, of_one_row(history), f"bigtable://test/i{uuid4().hex}")

    is_equal()


def test_the_shop_written_by_many_tasks_of_a_loop_is_that_of_memory(monkeypatch, emulator):
    """Purchases of the same products and customers are saved, changed and deleted at the same time."""
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", emulator.host)
    url = f"bigtable://test/i{uuid4().hex}"
    survey = cleaning.survey(Source(limit=LINES).lines())
    purchases = list(cleaning.purchases(Source(limit=LINES).lines()))
    rounds = [[*survey.customers.values(), *survey.products.values()], purchases]
    renamed, deleted = purchases[0].product.ref.key, [(each.order, each.line) for each in purchases[::7]]

    async def written():
        async with connect_async(url, SHOP, workers=0) as db:
            for several in rounds:
                for at in range(0, len(several), TOGETHER):
                    await asyncio.gather(*map(db.save, several[at : at + TOGETHER]))
            rename = db.patch(Product, *renamed, name="RENAMED")
            await asyncio.gather(rename, *(db.delete(Purchase, *key) for key in deleted))
            await db.drain()
            return [[row async for page in db.scan(view) for row in page] for view in shown]

    shown = [Customer, Product, Purchase, *SHOP.views]
    found = asyncio.run(written())
    with connect("memory://", SHOP) as db:
        for several in rounds:
            for each in several:
                db.save(each)
        db.patch(Product, *renamed, name="RENAMED")
        for key in deleted:
            db.delete(Purchase, *key)
        assert [repr(rows) for rows in found] == [
            repr([row for page in db.scan(view) for row in page]) for view in shown
        ]
