"""PostgreSQL through the ORM of SQLAlchemy: a session for each request, related rows loaded by a join."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import psycopg
from sqlalchemy import ForeignKey, bindparam, create_engine, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, joinedload, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Customer(Base):
    __tablename__ = "customer"
    number: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    country: Mapped[str]


class Product(Base):
    __tablename__ = "product"
    code: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]


class Purchase(Base):
    __tablename__ = "purchase"
    order_number: Mapped[str] = mapped_column(primary_key=True)
    line: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[int | None] = mapped_column(ForeignKey("customer.number"))
    code: Mapped[str] = mapped_column(ForeignKey("product.code"))
    quantity: Mapped[int]
    unit_price: Mapped[Decimal]
    ordered_at: Mapped[datetime]
    buyer: Mapped[Customer | None] = relationship()
    product: Mapped[Product] = relationship()


GET = (
    select(Purchase)
    .options(joinedload(Purchase.buyer), joinedload(Purchase.product))
    .where(Purchase.order_number == bindparam("order"), Purchase.line == bindparam("line"))
)
PAGE = (
    select(Purchase)
    .options(joinedload(Purchase.product))
    .where(Purchase.customer == bindparam("customer"))
    .order_by(Purchase.ordered_at.desc(), Purchase.order_number, Purchase.line)
    .limit(10)
)


class Orm:
    """A pooled engine in autocommit: a read needs no transaction around it."""

    def __init__(self, dsn: str) -> None:
        self._engine = create_engine(
            "postgresql+psycopg://",
            creator=lambda: psycopg.connect(dsn, prepare_threshold=0),
            isolation_level="AUTOCOMMIT",
        )

    def close(self) -> None:
        self._engine.dispose()

    def get(self, order: str, line: int) -> Purchase:
        with Session(self._engine) as session:
            return session.execute(GET, {"order": order, "line": line}).scalar_one()

    def page(self, customer: int) -> list[Purchase]:
        with Session(self._engine) as session:
            return list(session.execute(PAGE, {"customer": customer}).scalars())
