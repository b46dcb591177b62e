"""A small data set of the columns of online-retail, so that no benchmark needs the real one in order to be tried."""

import csv
import gzip
import random
from datetime import datetime, timedelta

import pytest

from benchmarks.context import SMOKE, Context
from examples.shop.source import FILE, HEADER


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder of data sets with 400 lines: repeated lines, lines without a customer or a description, returns."""
    draw = random.Random(11)
    folder = tmp_path_factory.mktemp("data")
    file = folder / "online-retail" / FILE
    file.parent.mkdir()
    with gzip.open(file, "wt", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(HEADER)
        for number in range(400):
            at = datetime(2010, 12, 1, 8, 0) + timedelta(minutes=number)
            code = draw.choice(["85123A", "71053", "POST", "22423", "47566"])
            buyer = draw.choice(["", "17850", "12347", "13047"])
            price = draw.choice(["2.55", "0.00", "-11062.06", "4.951"])
            called = draw.choice(["", f" ITEM {code} "])
            country = draw.choice(["France", "Norway"])
            writer.writerow([536365 + number // 7, code, called, draw.choice([6, -2, 1]), at, price, buyer, country])
    return folder


@pytest.fixture(scope="session")
def context(data):
    with Context(SMOKE, data) as opened:
        yield opened
