"""Loading lines into a store: who and what they are about first, then the purchases in bounded batches.

The lines are read twice, so that memory does not grow with them. The bulk writer stores in each batch how far it is: a
load that was killed continues exactly behind its last batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TextIO, TypeVar

import msgspec

from examples.resuming import BATCH, save_rest, stored
from examples.shop import cleaning, source
from examples.shop.mistakes import Mistake
from examples.shop.schema import Customer, Product, Purchase
from examples.shop.source import Line
from oneread import Database

T = TypeVar("T")


class Source(msgspec.Struct, frozen=True):
    """What to load: a folder of real data or None to have them made up, how many lines, and which seed."""

    folder: Path | None = None
    limit: int | None = None
    seed: int = 7

    @property
    def label(self) -> str:
        return source.label(self.folder, self.seed)

    def lines(self) -> Iterator[Line]:
        return source.lines(self.folder, limit=self.limit, seed=self.seed)


class Loaded(msgspec.Struct, frozen=True):
    """What a load did.

    Arguments:
        before: lines that were in the store already.
        surveyed: seconds that reading the lines and looking for dirt took.
        saved: seconds that saving took.
    """

    survey: cleaning.Survey
    before: int
    surveyed: float
    saved: float

    @property
    def lines(self) -> int:
        return self.survey.dirt.lines - self.before

    @property
    def rate(self) -> float:
        """Lines saved in a second."""
        return self.lines / self.saved if self.lines else 0.0


def load(
    db: Database, what: Source, *, batch: int = BATCH, progress: Callable[[int, int, float], None] | None = None
) -> Loaded:
    """Loads what is not in the store yet.

    Arguments:
        batch: purchases of one transaction.
        progress: called after each batch: lines done, lines to do, seconds so far.

    Raises:
        Mistake: the store holds lines from somewhere else, or more of them.
    """
    started = perf_counter()
    with db.bulk(checkpoint=checkpoint_of(what), batch=batch) as bulk:
        before = stored(bulk)
        if not before and db.page(Purchase, limit=1).rows:
            raise Mistake(f"the store holds lines of something else than {what.label}: load into a fresh --db")
        survey = cleaning.survey(what.lines())
        everything = survey.dirt.lines
        if before > everything:
            raise Mistake(
                f"the store holds {before:,} lines already and {everything:,} were asked for: load into a fresh --db"
            )
        surveyed = perf_counter()

        def report(_kind: str, done: int, everything: int) -> None:
            if progress is not None and done > before:
                progress(done, everything, perf_counter() - surveyed)

        if before < everything:
            _save_missing(db, Customer, survey.customers)
            _save_missing(db, Product, survey.products)
        rest = (("lines", purchase) for purchase in cleaning.purchases(islice(what.lines(), before, None)))
        save_rest(bulk, rest, everything, batch, report)
    if (everything - before) % batch:
        report("lines", everything, everything)
    return Loaded(survey, before, surveyed - started, perf_counter() - surveyed)


def checkpoint_of(what: Source) -> str:
    """The name under which a store keeps how far a load of these lines is."""
    return f"shop: {what.label}"


def _save_missing(
    db: Database, model: type[Customer | Product], wanted: dict[int, Customer] | dict[str, Product]
) -> None:
    """Saves those that are not there: what was renamed since the last load stays as it is."""
    with db.bulk() as bulk:
        for several in _batches(wanted.items(), BATCH):
            found = db.get_many(model, [(key,) for key, _ in several])
            for (_, entity), known in zip(several, found, strict=True):
                if known is None:
                    bulk.save(entity)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while several := list(islice(rest, size)):
        yield several


def progress_line(to: TextIO) -> Callable[[int, int, float], None]:
    """Writes how far a load is: over itself on a terminal, else a line for each tenth."""
    tenths = 0

    def tell(done: int, everything: int, seconds: float) -> None:
        nonlocal tenths
        tenth = done * 10 // everything
        if not to.isatty() and tenth == tenths:
            return
        tenths = tenth
        text = f"  {done:>9,} of {everything:,} lines, {seconds:5.1f} s"
        end = "\n" if not to.isatty() or done == everything else "\r"
        print(text, end=end, file=to, flush=True)

    return tell
