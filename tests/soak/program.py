"""The programs that are killed: a writer, a worker, a reader. Each says on its standard output what it does, as JSON.

`python -m tests.soak.program ROLE OPTIONS`, with OPTIONS as JSON. A line is written at once and is shorter than a pipe
takes in one piece, so what a killed program said is whole.
"""

import faulthandler
import json
import os
import signal
import sys
import time
from itertools import count, pairwise
from random import Random

from oneread import connect
from oneread.errors import StoreError
from oneread.plans.clock import wall_clock
from tests.soak.acts import MODELS, OUTCOMES, draw, perform, values_of
from tests.soak.models import AUTHORS, BOOKS, MEMBERS, SCHEMA, SLOT, THREADS, Book, BooksOfWriter, Home, Shelf, Thread

LINE = 4000
REASONS = ("error", "field", "code", "status", "table")
PAUSE_SECONDS = 0.05
SHARE_READ_BACK = 0.2


def say(**words):
    os.write(1, json.dumps(words, default=str)[:LINE].encode() + b"\n")


def opened(options, workers):
    """The store, once it answers: a program that starts while servers are down tries again."""
    while True:
        began = time.monotonic()
        try:
            return connect(
                options["url"],
                SCHEMA,
                workers=workers,
                timeout=options["timeout"],
                clock=lambda: wall_clock() + options["skew"],
            )
        except StoreError as error:
            say(saw=type(error).__name__, why=reason(error), seconds=time.monotonic() - began, during="connect")


def reason(error):
    """What an error says, with its facts but those that differ each time."""
    facts = {name: value for name, value in error.facts.items() if name in REASONS}
    return f"{error.args[0] if error.args else ''} {facts}"[:500]


def write(options):
    """Acts until it is killed; first those with tokens whose outcome its predecessor did not say."""
    chance, slot = Random(options["seed"]), options["slot"]
    with opened(options, workers=0) as db:
        for number in count():
            tag = f"{options['seed']}-{number}"
            again = options["tokens"].pop() if options["tokens"] else None
            act = again or draw(chance, slot, options["turn"] + number, tag)
            if not do(db, act, tag):
                continue
            if act["kind"] in MODELS and chance.random() < SHARE_READ_BACK:
                read_back(db, act)


def do(db, act, tag):
    """One act; whether it is acknowledged."""
    say(tries=tag, act=act)
    began, number, error = time.monotonic(), None, None
    try:
        number = perform(db, act)
    except tuple(OUTCOMES) as failure:
        error = failure
    said = {} if error is None else {"saw": type(error).__name__, "why": reason(error)}
    ended = "done" if error is None else next(OUTCOMES[kind] for kind in type(error).__mro__ if kind in OUTCOMES)
    say(ended=ended, tag=tag, number=number, seconds=time.monotonic() - began, **said)
    return error is None


def read_back(db, act):
    """Tell what is read of an entity that this program has just written, and no other program writes."""
    try:
        found = values_of(act["kind"], db.find(MODELS[act["kind"]], act["key"]))
    except StoreError as error:
        say(saw=type(error).__name__, why=reason(error), during="find")
    else:
        say(reads=found, kind=act["kind"], key=act["key"])


def work(options):
    """Does the tasks of the others until it is killed."""
    with opened(options, workers=1):
        while True:
            time.sleep(1.0)
            say(works=True)


def read(options):
    """Reads pages until it is killed; what follows may lag, so a page is compared with itself alone."""
    chance = Random(options["seed"])
    with opened(options, workers=0) as db:
        while True:
            began = time.monotonic()
            what = chance.choice(list(LOOKS))
            try:
                wrong = LOOKS[what](db, chance)
            except StoreError as error:
                said = {"saw": type(error).__name__, "why": reason(error), "during": what}
            else:
                said = {"wrong": f"{what}: {wrong}"} if wrong else {"looked": 1}
            say(seconds=time.monotonic() - began, **said)
            time.sleep(PAUSE_SECONDS)


def look_at_books(db, chance):
    page = db.page(BooksOfWriter, chance.randrange(AUTHORS), limit=20)
    pages = [row.pages for row in page]
    if any(one < other for one, other in pairwise(pages)):
        return f"not in order: {pages}"
    return "" if page.cost.requests <= 1 + page.cost.skipped else f"{page.cost.requests} requests"


def look_at_home(db, chance):
    page = db.page(Home, chance.randrange(MEMBERS), limit=20)
    times = [row.at for row in page]
    if any(one < other for one, other in pairwise(times)):
        return f"not in order: {times}"
    places = [(row.source.key, row.at) for row in page]  # a post that moves may be seen at its old and new place
    return "" if len(set(places)) == len(places) else f"twice: {places}"


def look_at_shelf(db, chance):
    shelf = db.find(Shelf, chance.randrange(AUTHORS))
    return f"{shelf.books} books" if shelf is not None and shelf.books < 0 else ""


def look_at_book(db, chance):
    slot = chance.randrange(3)
    book = db.find(Book, slot * SLOT + chance.randrange(BOOKS))
    return f"{book.likes} likes" if book is not None and book.likes < 0 else ""


def look_at_thread(db, chance):
    thread = chance.randrange(THREADS)
    return "" if db.get(Thread, thread).messages >= 0 else "fewer than none"


LOOKS = {
    "books": look_at_books,
    "home": look_at_home,
    "shelf": look_at_shelf,
    "book": look_at_book,
    "thread": look_at_thread,
}
ROLES = {"writer": write, "worker": work, "reader": read}


if __name__ == "__main__":
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    ROLES[sys.argv[1]](json.loads(sys.argv[2]))
