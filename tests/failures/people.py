"""People to erase, and what is stored of them: the shop of tests/unit/database/test_erasing.py, with many holders."""

from datetime import UTC, datetime

from oneread import Schema
from tests.unit.database.test_erasing import (
    SHOP,
    Buyer,
    Customer,
    Goes,
    Held,
    Line,
    Login,
    LoginName,
    Membership,
    OfPurchase,
    Photo,
    Post,
    Purchase,
    Session,
)

PEOPLE = 9
PURCHASES = 6
SCHEMA = Schema(*SHOP.models, *[each for each in SHOP.views if not each.is_added], inline=3)
"""More holders than a commit updates, so that a task does."""


def name_of(number):
    return f"Zwiebel{chr(ord('A') + number)}"


def add_person(db, number):
    name = name_of(number)
    db.save(Customer(number=number, name=name, email=f"{name}@x.org", secret=f"{name} is shy", tags=[f"tag {name}"]))
    for each in range(PURCHASES):
        db.save(Purchase(number=number * 10 + each, buyer=Buyer.of(number)))
    db.save(Line(number=number, of=OfPurchase.of(number * 10)))
    db.save(Login(number=number, of=Goes.of(number)))
    db.save(Session(number=number, login=LoginName.of(number)))
    db.save(Membership(number=number, member=Customer.at(number)))
    db.save(Post(number=number, author=Held.of(number), room=1, at_=datetime.now(UTC)))
    db.save(Photo(number=number, title=f"{name} at the sea"))
    db.counter(f"visits:{number}").add(1)


__all__ = ["PEOPLE", "SCHEMA", "Buyer", "Customer", "Goes", "Login", "Photo", "Purchase", "add_person", "name_of"]
