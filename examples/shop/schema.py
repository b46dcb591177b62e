"""The shop's models and views: this is the part to copy into a program of your own.

A model is written to; a view follows by itself, in the same commit. `portable=True` refuses, on this machine already,
what a store that changes one row at a time could not do.
"""

from datetime import datetime
from decimal import Decimal

from oneread import Aggregate, Copy, Index, Key, Model, Schema, bucket, by, count, greatest, mean, newest, shown, total

# --- What is written -------------------------------------------------------------------------------------------------


class Customer(Model[int]):
    """A customer. The data give customers a number and a country; the name is made from the number."""

    number: Key[int]
    name: str
    country: str


class Product(Model[str]):
    """Something that is sold; postage and bank charges have codes of their own and are products like any other."""

    code: Key[str]
    name: str


class Buyer(Copy[Customer]):
    """What a purchase shows of its customer: copied into the purchase, and kept right when the customer changes."""

    name: str
    country: str


class Sold(Copy[Product]):
    """What a purchase shows of its product."""

    name: str


class Purchase(Model[str, int]):
    """One line of one invoice, with everything that its page shows: it is read in one get.

    An invoice's lines have no key of their own in the data, so `line` counts them from 1.
    """

    order: Key[str]
    line: Key[int]
    buyer: Buyer | None  # None: sold without a customer; such a purchase is in no buyer's list and no buyer's totals
    product: Sold
    quantity: int  # negative: taken back, or written off
    unit_price: Decimal
    amount: Decimal  # quantity * unit_price, stored because totals are made of stored fields
    country: str  # where this order went; the buyer's own country (buyer.country) may have changed since
    ordered_at: datetime


# --- What follows from it --------------------------------------------------------------------------------------------


class PurchasesOfBuyer(Index[Purchase]):
    """A customer's purchases, newest first. Each row carries what the list shows, so a page is one range read."""

    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold = shown(Purchase.product)
    quantity: int = shown(Purchase.quantity)
    unit_price: Decimal = shown(Purchase.unit_price)


class PurchasesOfProduct(Index[Purchase]):
    """Who bought a product, newest first."""

    product: Sold = by(Purchase.product)
    ordered_at: datetime = newest(Purchase.ordered_at)
    buyer: Buyer | None = shown(Purchase.buyer)
    quantity: int = shown(Purchase.quantity)


class ProductSales(Aggregate[Purchase]):
    """What became of a product. Adding a purchase, changing or deleting it keeps every number exact."""

    product: Sold = by(Purchase.product)
    orders: int = count()
    units: int = total(Purchase.quantity)
    revenue: Decimal = total(Purchase.amount)
    mean_price: Decimal | None = mean(Purchase.unit_price)
    dearest: Decimal | None = greatest(Purchase.unit_price)


class BuyerTotals(Aggregate[Purchase]):
    """What a customer bought altogether."""

    buyer: Buyer = by(Purchase.buyer)
    orders: int = count()
    units: int = total(Purchase.quantity)
    spent: Decimal = total(Purchase.amount)


class MonthlyRevenue(Aggregate[Purchase]):
    """What came in month by month; months begin at midnight UTC."""

    month: datetime = bucket(Purchase.ordered_at, "month")
    orders: int = count()
    revenue: Decimal = total(Purchase.amount)


class CountryRevenue(Aggregate[Purchase]):
    """What came in from each country, purchases without a customer included."""

    country: str = by(Purchase.country)
    orders: int = count()
    revenue: Decimal = total(Purchase.amount)


SHOP = Schema(
    Customer,
    Product,
    Purchase,
    PurchasesOfBuyer,
    PurchasesOfProduct,
    ProductSales,
    BuyerTotals,
    MonthlyRevenue,
    CountryRevenue,
    portable=True,
)
