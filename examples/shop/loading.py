"""Loading lines into a store: who and what they are about first, then the purchases in bounded batches.

The lines are read twice, so that memory does not grow with them. Each batch is one transaction that also saves how far
the load has got: one that was killed continues exactly where its last batch ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TextIO, TypeVar

import msgspec

from examples.shop import cleaning, source
from examples.shop.mistakes import Mistake
from examples.shop.schema import Customer, Product, Progress
from examples.shop.source import Line
from oneread import Database, Model

BATCH = 1000
"""Purchases of one transaction."""

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
    before = _before(db, what)
    survey = cleaning.survey(what.lines())
    everything = survey.dirt.lines
    if before > everything:
        raise Mistake(
            f"the store holds {before:,} lines already and {everything:,} were asked for: load into a fresh --db"
        )
    surveyed = perf_counter()
    if before < everything:
        _save_missing(db, Customer, survey.customers)
        _save_missing(db, Product, survey.products)
    done = before
    for several in _batches(islice(what.lines(), before, None), batch):
        done += len(several)
        both: list[Model] = [*cleaning.purchases(several), Progress(source=what.label, lines=done)]
        db.save_all(both, batch=len(both))
        if progress is not None:
            progress(done, everything, perf_counter() - surveyed)
    return Loaded(survey, before, surveyed - started, perf_counter() - surveyed)


def _before(db: Database, what: Source) -> int:
    """Lines of this source that the store holds."""
    for found in db.page(Progress):
        if found.source != what.label:
            raise Mistake(f"the store holds lines of {found.source}, not of {what.label}: load into a fresh --db")
        return found.lines
    return 0


def _save_missing(
    db: Database, model: type[Customer | Product], wanted: dict[int, Customer] | dict[str, Product]
) -> None:
    """Saves those that are not there: what was renamed since the last load stays as it is."""
    for several in _batches(wanted.items(), BATCH):
        found = db.get_many(model, [(key,) for key, _ in several])
        db.save_all([entity for (_, entity), known in zip(several, found, strict=True) if known is None])


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
