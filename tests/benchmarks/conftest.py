"""Small data sets of the columns of the real ones, so that no benchmark needs those in order to be tried."""

import csv
import gzip
import random
from datetime import datetime, timedelta

import pytest

from benchmarks.context import SMOKE, Context
from benchmarks.workloads.meetups import EVENTS, FOLDER, MEMBERSHIPS
from examples.shop.source import FILE, HEADER


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """A folder of data sets."""
    folder = tmp_path_factory.mktemp("data")
    write_purchases(folder)
    write_meetups(folder)
    return folder


def write_purchases(folder):
    """400 lines: repeated lines, lines without a customer or a description, returns."""
    draw = random.Random(11)
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


def write_meetups(folder):
    """At most 40 members in 5 groups, which publish 80 events, not in the order of time and many at one."""
    draw = random.Random(12)
    (folder / FOLDER).mkdir()
    edges = [(member, group) for group in range(1, 6) for member in draw.sample(range(2_000, 2_040), 6 * group)]
    times = [f"2017-10-{draw.randrange(1, 31):02} {hour}:30:00" for hour in (18, 23) for _ in range(40)]
    events = [
        (f"px{number}kt", draw.randrange(1, 6), draw.choice([" Bowling ", "Café ☕ and talk", "Walk"]), at)
        for number, at in enumerate(times)
    ]
    for (name, columns), rows in {MEMBERSHIPS: [*edges, edges[0]], EVENTS: events}.items():
        with gzip.open(folder / FOLDER / name, "wt", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(rows)


@pytest.fixture(scope="session")
def context(data):
    with Context(SMOKE, data) as opened:
        yield opened
