"""P9: what a product page from the store adds to a request, against the same server answering the same bytes, and
against the same page from SQLite.

The page is a get, a group of an aggregate with an extremum, and the ten newest purchases of it, as JSON. One server
process and one client process, real sockets on the loopback address, kept alive.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from decimal import Decimal
from statistics import median
from urllib.parse import quote

from benchmarks.benchmark import Benchmark
from benchmarks.cases.reads import sampled
from benchmarks.context import Context
from benchmarks.measure import Series, interleaved, number
from benchmarks.rows import SHOWN, Goal, Row, Subject, with_core
from benchmarks.workloads.web_client import Latencies, load
from benchmarks.workloads.web_server import WAYS, Server

ADDS = with_core(Goal(20, "<=", "figure", " us"), without=Goal(45, "<=", "figure", " us"))
MANY = 8
"""Connections that keep the server busy; one shows what a lone client waits."""


def product_page(context: Context) -> Sequence[Row]:
    stores, sizes = context.stores, context.sizes
    codes = [line.code for line in sampled(stores.shop.lines[: stores.size], sizes.reads)]
    subject = Subject("P9", stores.shop.data, stores.size)
    with Server(stores.path, context.peers.sqlite.path, sorted(set(codes))) as server:
        _compare(server.port, codes[:20])
        rows: list[Row] = []
        for connections in (MANY, 1):
            kept = {way: Latencies() for way in WAYS}
            contenders = {
                way: load(server.port, [f"/{way}/{quote(code)}" for code in codes], connections, kept[way])
                for way in WAYS
            }
            rows += _rows(subject, interleaved(contenders, rounds=sizes.rounds), kept, connections)
        return rows


def _compare(port: int, codes: Sequence[str]) -> None:
    """Raises ValueError unless our ways answer the same bytes, and SQLite the same page."""
    for code in codes:
        answers: dict[str, bytes] = {}
        for way in WAYS:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{way}/{quote(code)}") as answer:
                answers[way] = answer.read()
        if len({answers[way] for way in WAYS if way != "sqlite"}) != 1 or _said(answers["sqlite"]) != _said(
            answers["page"]
        ):
            raise ValueError(code)


def _said(answer: bytes) -> object:
    """What a page says: its prices as numbers, of its cursors only whether there is one."""
    page = json.loads(answer)
    sales, recent = page["sales"], page["recent"]
    for row, names in ((sales, ("mean_price", "dearest")), *((row, ("unit_price",)) for row in recent["rows"])):
        row.update({name: Decimal(row[name]) for name in names})
    recent["next"] = recent["next"] is not None
    return page


def _rows(subject: Subject, series: dict[str, Series], kept: dict[str, Latencies], connections: int) -> list[Row]:
    page, memory = series["page"], series["bytes"]
    where = f"{connections} connections" if connections > 1 else "1 connection"
    return [
        _adds(subject, f"page adds, {where}", page, memory, goal=ADDS if connections > 1 else SHOWN),
        _adds(subject, f"the same page from SQLite adds, {where}", series["sqlite"], memory, goal=SHOWN),
        subject.faster(f"product page, {where}", page, series["sqlite"], peer="the same page from SQLite", goal=SHOWN),
        _adds(subject, f"a budget adds, {where}", series["bounded"], page, goal=SHOWN),
        subject.slower(f"product page, {where}", page, memory, peer="bytes from memory", goal=SHOWN),
        subject.rate(f"product pages, {where}", page, memory, peer="bytes from memory", goal=SHOWN, unit="requests/s"),
        *(
            subject.alone(f"{name} of {way}, {where}", kept[way].share(part) * 1e6, unit="us", goal=SHOWN)
            for way in ("page", "sqlite", "bytes")
            for name, part in (("p50", 0.5), ("p99", 0.99))
        ),
    ]


def _adds(subject: Subject, name: str, mine: Series, theirs: Series, *, goal: Goal) -> Row:
    """What a request takes longer, round by round."""
    more = [(ours - other) * 1e6 for ours, other in zip(mine.seconds, theirs.seconds, strict=True)]
    spread = f"{number(min(more))}-{number(max(more))}"
    return subject.alone(name, median(more), unit="us", goal=goal, rounds=len(more), spread=spread)


BENCHMARKS = (
    Benchmark(
        "P9",
        "a product page through Starlette and uvicorn, against the same bytes from memory and the page from SQLite",
        f"{ADDS}",
        product_page,
        has_core=True,
    ),
)
