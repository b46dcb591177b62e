"""What is saved together is returned as it will be read, however the entities of a batch copy from each other."""

import pytest

from oneread import Schema, connect
from oneread.errors import Conflict
from tests.unit.database.shop import SHOP, Product, Purchase, fill, purchase


@pytest.fixture
def db(url):
    with connect(url, Schema(*SHOP)) as database:
        fill(database)
        yield database


def test_an_entity_saved_with_its_changed_source_is_returned_with_the_new_copy(db):
    product, bought = db.save_all([Product(code="p", name="Pear"), purchase(1, quantity=9)])
    assert (product.name, bought.product.name, bought.quantity) == ("Pear", "Pear", 9)
    assert bought == db.get(Purchase, "o", 1)
    assert db.version(bought) == db.version(db.get(Purchase, "o", 1))


def test_what_a_transaction_wrote_has_the_version_that_stands_after_its_source_was_followed(db):
    def body(transaction):
        bought = transaction.patch(Purchase, "o", 1, quantity=7)
        transaction.save(Product(code="p", name="Pear"))
        return bought

    version = db.version(db.transact(body))
    db.patch(Purchase, "o", 1, quantity=8, if_version=version)
    with pytest.raises(Conflict):
        db.patch(Purchase, "o", 1, quantity=9, if_version=version)
