"""Each marked line is a mistake that both type checkers report."""

from oneread.models.expressions import Expression, field
from oneread.models.model import Key, Model
from oneread.models.paths import each, within
from oneread.models.references import Copy, Ref


class Customer(Model[int]):
    number: Key[int]
    name: str
    quantity: int
    tags: list[str]


class Buyer(Copy[Customer]):
    name: str


class Purchase(Model[str]):
    code: Key[str]
    buyer: Buyer | None


class Seen(Copy[Purchase]):
    name: str = within(Purchase.buyer, Buyer.name)
    wrong: int = within(Purchase.buyer, Buyer.name)  # rejected


def where(condition: Expression) -> Expression:
    return condition


field(Customer.quantity) > "x"  # rejected
field(within(Purchase.buyer, Buyer.name)) < 3  # rejected
field(Customer.quantity).starts_with("x")  # rejected
field(Customer.quantity).one_of("x")  # rejected
where(field(Customer.quantity) == "x")  # rejected
where(Customer.quantity > 0)  # rejected
field(Customer.tags).contains(1)  # rejected
tag: int = each(Customer.tags)  # rejected
Seen(ref=Ref((1,)), wrong=1)  # rejected
