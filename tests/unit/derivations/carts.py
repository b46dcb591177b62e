"""Items at copied prices, summed for each cart: a new price changes the sums of many."""

from oneread import Aggregate, Copy, Key, Model, by, total, within


class Price(Model[int]):
    number: Key[int]
    amount: int


class Paid(Copy[Price]):
    amount: int


class Item(Model[int]):
    number: Key[int]
    price: Paid
    cart: int


class Items(Aggregate[Item]):
    cart: int = by(Item.cart)
    amount: int = total(within(Item.price, Paid.amount))
