"""Everything derived, counted again in plain Python from the entities that are read back, once all tasks are done."""

import time
from collections import Counter, defaultdict
from typing import NamedTuple

from oneread.errors import StoreError
from oneread.store.requests import Scan
from oneread.testing.audit import Audit, Offence
from oneread.transactions import outbox
from oneread.transactions.intents import JOURNAL
from tests.soak.acts import MODELS, perform, values_of
from tests.soak.models import (
    AUTHORS,
    MEMBERS,
    POLLS,
    THREADS,
    TITLES,
    BookOfTitle,
    BooksOfWriter,
    Home,
    Membership,
    Message,
    Poll,
    Post,
    Shelf,
    Thread,
    TopThreads,
)

BATCH = 50
PAUSE_SECONDS = 0.2
MANY = 1000
UNFINISHED = (JOURNAL, outbox.TASKS, outbox.GROUP_TASKS)


class Found(NamedTuple):
    """What is stored: values of entities by kind and key, messages by thread, votes by poll."""

    entities: dict
    messages: dict
    votes: dict


class Late(Exception):
    """Recovery or drain did not end in time."""


def settle(db, ledger, seconds):
    """Finish what the dead left: tokens without an answer, unfinished commits, tasks once their leases have ended.

    Returns how often the store failed meanwhile. Raises Late.
    """
    began, failures = time.monotonic(), Counter()
    while True:
        try:
            for act in ledger.pending_tokens():
                perform(db, act)
                ledger.tokens[act["key"]][act["to"]] = True
            while db.run(db.operations.drain_step(BATCH)):
                check_time(began, seconds)
            left = [within for within in UNFINISHED if db.run(Scan("system", within, 1).__iter__())]
            if not left:
                return failures
        except StoreError as error:
            failures[type(error).__name__] += 1
            left = [error]
        check_time(began, seconds, left)
        time.sleep(PAUSE_SECONDS)


def check_time(began, seconds, left=""):
    if time.monotonic() - began > seconds:
        raise Late(f"recovery and drain did not end within {seconds} s; left: {left}")


def read_back(db):
    """The entities, by scans of their models; values of others that they copy are not part of them."""
    entities = {
        (kind, entity.number): values_of(kind, entity)
        for kind, model in MODELS.items()
        for page in db.scan(model)
        for entity in page
    }
    messages = {
        thread: [(each.number, each.text) for page in db.scan(Message, thread) for each in page]
        for thread in range(THREADS)
    }
    return Found(entities, messages, {poll: db.counter(f"votes:{poll}").read() for poll in range(POLLS)})


def faults(db, found):
    """Sentences about everything derived that is not what the entities say."""
    names = {key: name for (kind, key), (name, *_rest) in found.entities.items() if kind == "author"}
    books = {key: values for (kind, key), values in found.entities.items() if kind == "book"}
    compared = {**of_books(db, names, books), **of_groups(db, found), **of_feeds(db)}
    return [f"{what}: {shown} instead of {right}" for what, (shown, right) in compared.items() if shown != right]


def of_books(db, names, books):
    """What is shown and what is right: copies, lists, unique values and totals."""
    compared = {}
    for page in db.scan(MODELS["book"]):
        for book in page:
            right = names.get(book.author.ref.key[0])
            compared[f"name of the author of book {book.number}"] = (book.author.name, right)
    owned = defaultdict(list)
    for key, (author, title, pages, likes) in books.items():
        owned[author].append((-pages, key, title, likes))
    for author in range(AUTHORS):
        rows = db.page(BooksOfWriter, author, limit=MANY)
        shown = [(-row.pages, row.source.key[0], row.title, row.likes) for row in rows]
        compared[f"books of {author}"] = (sorted(shown), sorted(owned[author]))
        compared[f"order of books of {author}"] = ([row[0] for row in shown], sorted(row[0] for row in shown))
        compared[f"names in the list of {author}"] = ({row.writer.name for row in rows} - {names.get(author)}, set())
        shelf = db.find(Shelf, author)
        totals = (shelf.books, shelf.likes, shelf.longest) if shelf else (0, 0, None)
        right = owned[author]
        longest = max((-pages for pages, *_rest in right), default=None)
        compared[f"shelf of {author}"] = (totals, (len(right), sum(likes for *_rest, likes in right), longest))
    owners = defaultdict(list)
    for key, (_author, title, *_rest) in books.items():
        owners[title].append(key)
    for title in (f"title {number}" for number in range(TITLES)):
        row = db.find(BookOfTitle, title)
        compared[f"owner of {title!r}"] = ([] if row is None else [row.source.key[0]], owners[title])
    return compared


def of_groups(db, found):
    """Numbers of messages and of votes that entities show, and the list that they sort."""
    compared = {}
    for thread, messages in found.messages.items():
        compared[f"messages of thread {thread}"] = (getattr(db.find(Thread, thread), "messages", None), len(messages))
    top = [(row.messages, row.source.key[0]) for row in db.page(TopThreads, limit=MANY)]
    compared["top threads"] = (
        sorted(top),
        sorted((len(messages), thread) for thread, messages in found.messages.items()),
    )
    for poll, votes in found.votes.items():
        compared[f"votes that poll {poll} shows"] = (getattr(db.find(Poll, poll), "votes", None), votes)
    return compared


def of_feeds(db):
    """The home of each member, as a join of posts and memberships."""
    posts = [post for page in db.scan(Post) for post in page]
    groups = defaultdict(set)
    for page in db.scan(Membership):
        for each in page:
            groups[each.member].add(each.group)
    compared = {}
    for member in range(MEMBERS):
        right = sorted((post.number, post.at, post.text) for post in posts if post.group in groups[member])
        rows = db.page(Home, member, limit=MANY)
        compared[f"home of {member}"] = (sorted((row.source.key[0], row.at, row.text) for row in rows), right)
        compared[f"order of home of {member}"] = ([row.at for row in rows], sorted((at for _, at, _ in right))[::-1])
    return compared


class Rows:
    """The rows themselves, compared with those that follow from the root rows: nothing missing, nothing left over."""

    def __init__(self, db):
        self._audit = Audit(db._driver.engine, db.operations)

    def faults(self):
        try:
            self._audit.check()
            self._audit.check_totals()
        except Offence as offence:
            return [f"rows: {offence}"]
        return ["rows: tasks are left"] if self._audit.pending else []
