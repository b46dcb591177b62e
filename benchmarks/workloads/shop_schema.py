"""The shop that P1 to P8 measure: purchases with two copies, two covering indexes and two aggregates.

A purchase is nine rows: itself, two back-references, two index rows, two aggregates, and a row for each of their
extrema.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, greatest, mean, newest, shown, total


class Customer(Model[int]):
    number: Key[int]
    name: str
    country: str


class Product(Model[str]):
    code: Key[str]
    name: str
    description: str | None = None


class Buyer(Copy[Customer]):
    name: str
    country: str


class Sold(Copy[Product]):
    name: str


class Purchase(Model[str, int]):
    order: Key[str]
    line: Key[int]
    buyer: Buyer | None
    product: Sold
    quantity: int
    unit_price: Decimal
    ordered_at: datetime


class PurchasesOfBuyer(Index[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    ordered_at: datetime = newest(Purchase.ordered_at)
    product: Sold = shown(Purchase.product)
    quantity: int = shown(Purchase.quantity)


class PurchasesOfProduct(Index[Purchase]):
    product: Sold = by(Purchase.product)
    ordered_at: datetime = newest(Purchase.ordered_at)
    quantity: int = shown(Purchase.quantity)
    unit_price: Decimal = shown(Purchase.unit_price)


class ProductSales(Aggregate[Purchase]):
    product: Sold = by(Purchase.product)
    orders: int = count()
    units: int = total(Purchase.quantity)
    mean_price: Decimal | None = mean(Purchase.unit_price)
    dearest: Decimal | None = greatest(Purchase.unit_price)


class BuyerSales(Aggregate[Purchase]):
    buyer: Buyer = by(Purchase.buyer)
    orders: int = count()
    units: int = total(Purchase.quantity)
    mean_price: Decimal | None = mean(Purchase.unit_price)
    dearest: Decimal | None = greatest(Purchase.unit_price)


SHOP = Schema(Customer, Product, Purchase, PurchasesOfBuyer, PurchasesOfProduct, ProductSales, BuyerSales)
