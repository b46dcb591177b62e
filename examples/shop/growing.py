"""A view added to a shop that is in use: an old program writes, a new one writes, a third one backfills.

`python -m examples.shop.growing --db URL` does it on a loaded store, kills the backfill as often as asked, and compares
the new view with what all purchases say.
"""

from __future__ import annotations

import argparse
import os
import select
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from examples.shop.schema import SHOP, Purchase
from oneread import Aggregate, Schema, bucket, by, connect, count, greatest, least, total
from oneread.errors import NotReady, SchemaMismatch


class DailySales(Aggregate[Purchase]):
    """What each country bought day by day: what the next release of the shop shows."""

    country: str = by(Purchase.country)
    day: datetime = bucket(Purchase.ordered_at, "day")
    lines: int = count()
    units: int = total(Purchase.quantity)
    revenue: Decimal = total(Purchase.amount)
    cheapest: Decimal | None = least(Purchase.unit_price)
    dearest: Decimal | None = greatest(Purchase.unit_price)


RELEASES = {"old": SHOP, "new": Schema(*SHOP.models, *SHOP.views, DailySales, portable=True)}


def write(url: str, release: str, most: int) -> None:
    """Saves, changes and deletes purchases under one release, until it is refused, has done its share, or is let go."""
    order = f"{release}-{os.getpid()}"
    with connect(url, RELEASES[release], timeout=120) as db:
        first = db.page(Purchase, limit=1).rows[0]
        fields = {name: getattr(first, name) for name in Purchase.__struct_fields__}
        print(f"the {release} program writes", flush=True)
        done = 0
        try:
            while done < most and not select.select([sys.stdin], [], [], 0)[0]:
                changed = {"order": order, "line": done % 500, "quantity": done % 7, "ordered_at": datetime.now(UTC)}
                db.save(Purchase(**fields | changed))
                if done % 5 == 1:
                    db.patch(Purchase, order, done % 500, unit_price=Decimal(done % 11), country="Nowhere")
                if done % 9 == 1:
                    db.delete(Purchase, order, done % 500)
                done += 1
        except SchemaMismatch as refusal:
            print(f"the {release} program is refused after {done:,} purchases: {refusal}")
        else:
            print(f"the {release} program wrote {done:,} purchases")


def backfill(url: str, *, fence: bool) -> None:
    """Backfills as an operator would, a line a second."""
    shown = [0]

    def show(progress: Any) -> None:
        shown[0] += 1
        if shown[0] % 50 == 1:
            of = f" of {progress.total:,}" if progress.total else ""
            print(f"  {progress.phase}: {progress.done:,}{of}", flush=True)

    with connect(url, RELEASES["new"], timeout=120) as db:
        result = db.backfill(fence=fence, wait=0, progress=show)
    if result.done:
        print(f"done: {result.recommitted:,} entities committed again in {result.passes} passes")
    else:
        print(f"not done: an old program wrote {result.old_code} at {result.old_code_at}")


def differing(url: str) -> tuple[int, int]:
    """How many groups the new view has, and how many of them are not what all purchases say."""
    groups: dict[tuple[str, datetime], list[Purchase]] = {}
    with connect(url, RELEASES["new"]) as db:
        for each in (each for page in db.scan(Purchase, batch=1000) for each in page):
            day = each.ordered_at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            groups.setdefault((each.country, day), []).append(each)
        found = {(row.country, row.day): row for page in db.scan(DailySales) for row in page}
    wrong = [key for key in groups.keys() | found.keys() if found.get(key) != _folded(key, groups.get(key, []))]
    return len(found), len(wrong)


def _folded(key: tuple[str, datetime], lines: Iterable[Purchase]) -> DailySales:
    several = list(lines)
    prices = [each.unit_price for each in several]
    return DailySales(
        country=key[0],
        day=key[1],
        lines=len(several),
        units=sum(each.quantity for each in several),
        revenue=sum((each.amount for each in several), Decimal(0)),
        cheapest=min(prices, default=None),
        dearest=max(prices, default=None),
    )


def grow(url: str, most: int, kills: int) -> int:
    """The whole story; returns how many groups are wrong."""
    old, new = (_program(url, "--write", release, "--lines", str(most)) for release in ("old", "new"))
    for program in (old, new):
        assert program.stdout is not None
        print(program.stdout.readline().strip())
    with connect(url, RELEASES["new"], timeout=120) as db:
        try:
            db.page(DailySales)
        except NotReady as refusal:
            print(f"reading it: {refusal}")
    for _ in range(kills):
        with _program(url, "--backfill") as killed:
            assert killed.stdout is not None
            print(killed.stdout.readline().rstrip())
            killed.kill()
        print("  (killed)")
    for fenced in ([], ["--fence"]):
        print(f"backfill{' --fence' if fenced else ''}", flush=True)
        subprocess.run([*_SELF, "--db", url, "--backfill", *fenced], check=True)  # noqa: S603 - this module
    for program in (old, new):
        print(program.communicate()[0].strip())  # its standard input ends, and so does it
    groups, wrong = differing(url)
    print(f"{groups:,} groups compared with all purchases: {wrong} wrong")
    return wrong


_SELF = (sys.executable, "-m", "examples.shop.growing")


def _program(url: str, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen([*_SELF, "--db", url, *arguments], stdin=pipe, stdout=pipe, text=True)  # noqa: S603 - this module


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.shop.growing", description=__doc__)
    parser.add_argument("--db", required=True, help="URL of a loaded store")
    parser.add_argument("--lines", type=int, default=20_000, help="purchases that each program writes at most (20000)")
    parser.add_argument("--kills", type=int, default=0, help="times that the backfill is killed first (0)")
    parser.add_argument("--write", choices=sorted(RELEASES), help=argparse.SUPPRESS)
    parser.add_argument("--backfill", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fence", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.write:
        write(given.db, given.write, given.lines)
    elif given.backfill:
        backfill(given.db, fence=given.fence)
    else:
        return 1 if grow(given.db, given.lines, given.kills) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
