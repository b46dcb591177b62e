"""What a writer does: acts drawn at random, each a line for the parent, one call, and what an entity is afterwards.

An act is a dict that goes through JSON: `kind` and `key` of the entity, `do` - put, set, add, drop, create, vote - and
`to`, its value. An entity is a tuple of its own values, None when it is absent.
"""

from oneread import add
from oneread.errors import Conflict, NotFound, NotUnique, OutcomeUnknown, Unavailable
from tests.soak.models import (
    AUTHORS,
    BOOKS,
    GROUPS,
    MEMBERS,
    MEMBERSHIPS,
    POLLS,
    POSTS,
    SLOT,
    THREADS,
    TITLES,
    Author,
    Book,
    Membership,
    Message,
    Post,
    Writer,
    moment,
)

MODELS = {"author": Author, "book": Book, "membership": Membership, "post": Post}
FIELDS = {
    "author": ("name",),
    "book": ("author", "title", "pages", "likes"),
    "membership": ("member", "group"),
    "post": ("group", "at", "text"),
}
WEIGHTS = {
    "save": 6, "like": 4, "move": 2, "retitle": 2, "drop": 3, "rename": 3, "reply": 4, "vote": 4, "join": 2, "leave": 1,
    "publish": 3, "withdraw": 1,
}  # fmt: skip
OUTCOMES = {NotFound: "absent", NotUnique: "taken", Conflict: "no", Unavailable: "no", OutcomeUnknown: "unknown"}
"""What the errors that a writer may meet say about its act: not found, refused, not done, or done or not."""


def draw(chance, slot, turn, tag):
    """The next act of a writer."""
    what = chance.choices(list(WEIGHTS), WEIGHTS.values())[0]
    book = {"kind": "book", "key": slot * SLOT + chance.randrange(BOOKS)}
    author, title = chance.randrange(AUTHORS), f"title {chance.randrange(TITLES)}"
    post = {"kind": "post", "key": slot * SLOT + chance.randrange(POSTS)}
    membership = {"kind": "membership", "key": slot * SLOT + chance.randrange(MEMBERSHIPS)}
    group = chance.choice(GROUPS)
    return {
        "save": {**book, "do": "put", "to": [author, title, chance.randrange(500), 0]},
        "like": {**book, "do": "add", "to": ["likes", 1]},
        "move": {**book, "do": "set", "to": ["author", author]},
        "retitle": {**book, "do": "set", "to": ["title", title]},
        "drop": {**book, "do": "drop"},
        "rename": {"kind": "author", "key": slot % AUTHORS, "do": "set", "to": ["name", tag]},
        "reply": {"kind": "message", "key": chance.randrange(THREADS), "do": "create", "to": tag},
        "vote": {"kind": "poll", "key": chance.randrange(POLLS), "do": "vote", "to": tag},
        "join": {**membership, "do": "put", "to": [chance.randrange(MEMBERS), group]},
        "leave": {**membership, "do": "drop"},
        "publish": {**post, "do": "put", "to": [group, turn, tag]},
        "withdraw": {**post, "do": "drop"},
    }[what]


def perform(db, act):
    """Does it; returns the number of a created child."""
    key, to = act["key"], act.get("to")
    match act["do"]:
        case "put":
            db.save(entity_of(act["kind"], key, to))
        case "set":
            db.patch(MODELS[act["kind"]], key, **{to[0]: given(*to)})
        case "add":
            db.patch(MODELS[act["kind"]], key, **{to[0]: add(to[1])})
        case "drop":
            db.delete(MODELS[act["kind"]], key)
        case "create":
            return db.create(Message(thread=key, text=to)).number
        case "vote":
            db.counter(f"votes:{key}").add(1, once=to)
    return None


def given(field, value):
    """A value of JSON as a field has it."""
    return Writer.of(value) if field == "author" else moment(value) if field == "at" else value


def entity_of(kind, key, values):
    """An entity with these own values."""
    fields = {name: given(name, value) for name, value in zip(FIELDS[kind], values, strict=True)}
    return MODELS[kind](number=key, **fields)


def values_of(kind, entity):
    """The own values of an entity that was read, as an act gives them; None when there is none."""
    if entity is None:
        return None
    shown = []
    for name in FIELDS[kind]:
        value = getattr(entity, name)
        shown.append(value.ref.key[0] if name == "author" else value)
    return tuple([(each - moment(0)).seconds + (each - moment(0)).days * 86_400 if name == "at" else each
                  for name, each in zip(FIELDS[kind], shown, strict=True)])  # fmt: skip


def after(act, before):
    """What an entity is after an act that was done; None also where the act finds nothing to change."""
    to = act.get("to")
    if act["do"] == "put":
        return tuple(to)
    if act["do"] == "drop" or before is None:
        return None
    place = FIELDS[act["kind"]].index(to[0])
    value = before[place] + to[1] if act["do"] == "add" else to[1]
    return (*before[:place], value, *before[place + 1 :])
