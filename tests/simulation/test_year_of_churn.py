"""A year of changes on a store that changes one row at a time: it neither grows nor slows.

The same five days come again and again, so a store that keeps something of each day, or reads past it, differs at the
end.
"""

from datetime import timedelta

import msgspec
import pytest

from benchmarks.workloads.shop_schema import Buyer, Customer, Product, Purchase
from oneread.database.purge import Purge
from oneread.derivations.emitted_record import RecordedPointers
from oneread.errors import Unavailable
from oneread.store.limits import GRACE
from oneread.store.requests import Mutate, Scan
from tests.unit.transactions.test_journal_commits import ALL, Store, bought, failing, is_commit

DAY = 86_400_000
PHASES = 5
CODES = "abcde"
TABLES = ("roots", "views", "counts", "system")


class Shop(Store):
    """A shop whose purchases move from buyer to buyer, are changed, deleted and made again, by programs that die."""

    def __init__(self):
        super().__init__()
        self.requests_of_purge = 0
        for number in range(PHASES):
            self.save(Customer(number=number, name=f"name {number}", country="at"))
            self.save(Product(code=CODES[number], name="p"))
        for line in range(3 * PHASES):
            self.save(self.line(line, 0))

    def line(self, line, number):
        """A purchase of one day: its rows in lists are at places that never come again."""
        made = bought(line, buyer=number % PHASES, product=CODES[line % PHASES])
        return msgspec.structs.replace(made, ordered_at=made.ordered_at + timedelta(days=number))

    def day(self, number, *, purges):
        phase = number % PHASES
        self.numbers %= 7_000  # of what is random, which is below 8
        for line in range(phase, 3 * PHASES, PHASES):
            self.patch(Purchase, "o", line, buyer=Buyer.of((line + number) % PHASES))
        self.patch(Product, CODES[phase], name=f"name {number % 2}")
        self.delete(Purchase, "o", phase)
        self.save(self.line(phase, number))
        self.fail = failing(is_commit, Unavailable)  # its back-references stay
        with pytest.raises(Unavailable):
            self.save(self.line(phase + PHASES, number + 1))
        self.fail = failing(lambda asked: type(asked) is Mutate and asked.table == "views", Unavailable, times=1)
        self.patch(Purchase, "o", phase, quantity=2 + number % 7)  # recovery does the rest
        self.fail = None
        self.settle()
        self.now += DAY
        self.engine.compact()
        if purges and phase == 0:
            self.requests_of_purge = self.purge()

    def purge(self):
        one, requests, more = Purge(self.operations.catalog, RecordedPointers(), GRACE), 0, True
        while more:
            more = self.run(one.step())
            requests += self.requests
        return requests

    def looked_at(self):
        """Rows and cells of each table, and the requests of a save and of the last purge."""
        found = {}
        for table in TABLES:
            rows = self.engine.answer(Scan(table, ALL, 10**6, families="dm"))
            found[table] = len(rows), sum(len(row) for _key, row in rows)
        self.patch(Purchase, "o", 1, quantity=9)
        return found | {"requests": (self.requests, self.requests_of_purge)}


def test_a_year_leaves_no_more_than_a_month():
    shop, found = Shop(), {}
    for number in range(1, 366):
        shop.day(number, purges=True)
        if number in (30, 180, 365):
            found[number] = shop.looked_at()
    assert found[30] == found[180] == found[365]


def test_without_a_purge_a_month_leaves_more_than_ten_days():
    """What the test above would see."""
    shop, found = Shop(), {}
    for number in range(1, 31):
        shop.day(number, purges=False)
        if number in (10, 30):
            found[number] = shop.looked_at()["views"]
    assert found[10] < found[30]
