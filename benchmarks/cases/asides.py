"""P16: what a launch, heat and a log of entities add to a get, a page and a save of LMDB, in time of the processor.

Each is beside the same database without it, in turns. The launch is off: its old side answers. Heat records within
windows that are a hundredth of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import count

from benchmarks.benchmark import Benchmark
from benchmarks.context import Context
from benchmarks.measure import Meter, interleaved
from benchmarks.rows import Goal, Row, Subject
from benchmarks.workloads.asides import GENRES, LOGGED_SONGS, SONGS, LoggedSong, Song, TopOfGenre
from oneread import Database, Schema, connect

RECORDED = Goal(1.02)
LAUNCHED = Goal(1.03)
LOGGED = Goal(1.15)
LINES = 5_000
HEAT = 0.01
SHARE = 5
"""A round does a fifth of those of other benchmarks, and there are five times as many: what is compared is small."""

Work = Callable[[int], object]


def asides(context: Context) -> Sequence[Row]:
    lines = min(LINES, context.sizes.lines)
    subject = Subject("P16", "made up", lines)
    with ExitStack() as stack:

        def opened(schema: Schema, model: type[Song | LoggedSong], heat: float | None = None) -> Database:
            url = f"lmdb://{context.folder('asides')}?durability=none"
            db = stack.enter_context(connect(url, schema, workers=0, heat=heat))
            db.save_all([_song(model, number) for number in range(lines)])
            return db

        plain, heated, logged = opened(SONGS, Song), opened(SONGS, Song, HEAT), opened(LOGGED_SONGS, LoggedSong)
        works = {"get": _get(plain, lines), "page of 10": _page(plain), "save": _save(plain, Song)}
        others = {"get": _get(heated, lines), "page of 10": _page(heated), "save": _save(heated, Song)}
        rows: list[Row] = []
        for name, work in works.items():
            measured: dict[str, tuple[Work, Goal]] = {
                f"{name}, a hundredth recorded for heat": (others[name], RECORDED)
            }
            if name == "page of 10":
                launch = plain.launch("page", old=work, new=work, key=_itself)
                measured[f"{name} through a launch that is off"] = (launch, LAUNCHED)
            elif name == "save":
                measured["logged save"] = (_save(logged, LoggedSong), LOGGED)
            rows += _rows(context, subject, work, measured)
    return rows


def _rows(context: Context, subject: Subject, work: Work, others: dict[str, tuple[Work, Goal]]) -> Iterator[Row]:
    meter, rounds = Meter(), context.sizes.rounds * SHARE
    calls = max(1, context.sizes.saves // SHARE)
    turns = {"plain": work, **{name: other for name, (other, _goal) in others.items()}}
    interleaved(
        {name: meter.round(name, _repeated(each), lambda: calls, float) for name, each in turns.items()},
        rounds=rounds,
    )
    plain = meter.processor("plain", rounds)
    for name, (_other, goal) in others.items():
        yield subject.slower(name, meter.processor(name, rounds), plain, peer="without it", goal=goal)


def _repeated(work: Work) -> Callable[[int], object]:
    numbers = count()

    def run(calls: int) -> None:
        for _ in range(calls):
            work(next(numbers))

    return run


def _itself(number: int) -> int:
    return number


def _get(db: Database, lines: int) -> Work:
    return lambda number: db.get(Song, number % lines)


def _page(db: Database) -> Work:
    return lambda number: db.page(TopOfGenre, f"genre {number % GENRES}", limit=10)


def _save(db: Database, model: type[Song | LoggedSong]) -> Work:
    return lambda number: db.save(_song(model, number % LINES, votes=number))


def _song(model: type[Song | LoggedSong], number: int, votes: int = 0) -> Song | LoggedSong:
    return model(number=number, genre=f"genre {number % GENRES}", votes=votes, title=f"The song of number {number}")


BENCHMARKS = (
    Benchmark(
        "P16",
        "what a launch, heat and a log of entities add to a get, a page and a save, against the same without",
        f"{RECORDED} recorded, a page {LAUNCHED} through a launch, a logged save {LOGGED}",
        asides,
    ),
)
