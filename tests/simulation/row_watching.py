"""Pages that are followed on a store that changes one row at a time: the world, and rules broken on purpose."""

from datetime import datetime, timedelta
from random import Random

from oneread import Copy, Feed, Index, Key, Model, Schema, by, descending, each, newest, on, shown
from oneread.database.lists import listed
from oneread.database.pages import Query, page
from oneread.feeds.cell_following import RowFeeds
from oneread.plans.trace import Trace
from oneread.store.requests import Mutate
from oneread.store.rows import Cell, RowMutation
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import CIPHER, DeleteStep, PatchStep, SaveStep
from oneread.transactions import feed_tasks, log_entries, pipeline
from oneread.transactions.change_log import COLUMN
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.intents import Intents
from oneread.transactions.journal import Journal
from tests.simulation import row_feeds
from tests.simulation.breaking import edit
from tests.simulation.feed_models import Membership, Post
from tests.simulation.row_world import CALM, Harmless, RecoverStep, Switching, work_of
from tests.simulation.schema import compiled
from tests.simulation.test_watching import Client, FollowStep, SweepLogs

KEPT = timedelta(seconds=1)


class User(Model[int]):
    number: Key[int]
    name: str = ""
    mood: str = ""


class Who(Copy[User]):
    name: str


class Feeling(Copy[User]):
    """No list shows it, so that it follows by a cell."""

    mood: str


class Message(Model[int]):
    logged = KEPT
    number: Key[int]
    room: str
    rank: int
    who: Who
    feeling: Feeling


class MessagesIn(Index[Message]):
    watched = KEPT
    room: str = by(Message.room)
    rank: int = descending(Message.rank)
    who: Who = shown(Message.who)


class Home(Feed[Post]):
    watched = KEPT
    expires_after = None
    member: int = by(Membership.member)
    at: datetime = newest(Post.at)
    text: str = shown(Post.text)
    joined = on(each(Post.groups), Membership.group)


class Reader(Client):
    """What a browser has of a page; it reads again when its cursor is too old, or a request fails."""

    def key_of(self, row):
        if self.view is Message:
            return row.ref(), (row.number,)
        return (row.source, (row.room, row.rank) if self.view is MessagesIn else (row.member, row.at))


def act(chance):
    number, user = chance.randrange(3), chance.randrange(2)
    new = Message(
        number=number,
        room=chance.choice("ab"),
        rank=chance.randrange(3),
        who=Who.of(user),
        feeling=Feeling.of(chance.randrange(2)),
    )
    return chance.choice(
        [
            lambda: SaveStep(new),
            lambda: PatchStep(Message, (number,), {"rank": chance.randrange(3)}),
            lambda: PatchStep(User, (user,), {chance.choice(("name", "mood")): chance.choice("pqr")}),
            lambda: DeleteStep(Message, (number,)),
            lambda: row_feeds.act(chance),
            lambda: row_feeds.act(chance),
        ]
    )()


def world(seed):
    """A history, and the readers in it; half of the seeds are calm."""
    chance = Random(f"row watching {seed}")
    options = {"fates": ByChance(Random(f"fates {seed}"), CALM)} if seed % 4 > 1 else {}
    schema = compiled(User, Message, MessagesIn, Membership, Post, Home, inline=seed % 3)
    simulation = Simulation(seed, schema, span="row", **options)
    simulation.prepare(
        *[SaveStep(User(number=number)) for number in range(2)],
        *[SaveStep(Membership(number=number, member=number % 2, group="a")) for number in range(3)],
    )
    for number in range(2):
        simulation.process(f"writer {number}", [act(chance) for _ in range(9)])
    simulation.process("worker", [work_of(simulation, "worker")] * 12)
    simulation.process("recoverer", [RecoverStep()] * 4)
    simulation.process("sweeper", [SweepLogs()] * 8)
    pages = ((MessagesIn, ("a",)), (MessagesIn, ()), (Home, (1,)), (Message, ()))
    readers = [Reader(view, equal, chance.choice((1, 2, 100))) for view, equal in pages]
    for number, reader in enumerate(readers):
        follows = [FollowStep(reader, chance.random() < 0.2) for _ in range(8)]
        simulation.process(f"reader {number}", follows)
    return simulation, readers


def run(seed):
    """Runs a history; returns the readers that have caught up, each with what its page is."""
    simulation, readers = world(seed)
    simulation.run()
    catch_up(simulation, readers)
    return readers


def catch_up(simulation, readers):
    """Each reader takes what is left, and has the page."""

    def at_once(plan):
        return simulation._driver.run(plan, Trace())

    for reader in readers:
        while at_once(reader.follow(simulation.operations)):
            pass
        of = listed(simulation.operations, reader.view)
        found = at_once(page(of, Query(reader.equal, limit=1000), CIPHER, Trace()))
        assert reader.rows == {reader.key_of(row): row for row in found}


def switched(requests):
    """A writer that stops after so many requests while a reader follows."""
    schema = Schema(User, Message, MessagesIn)
    simulation = Simulation(1, schema, span="row", fates=Harmless(), policy=Switching("a", (requests,)), deletes="hide")
    simulation.prepare(SaveStep(User(number=1)))
    reader = Reader(MessagesIn, (), 100)
    simulation._driver.run(reader.read(simulation.operations), Trace())
    simulation.process("a", [SaveStep(Message(number=1, room="a", rank=1, who=Who.of(1), feeling=Feeling.of(1)))])
    simulation.process("b", [FollowStep(reader, forget=False)])
    simulation.run()
    catch_up(simulation, [reader])


# Rules broken on purpose.


ADDED = "    yield from self.logs.add(logged)\n"


def an_entry_comes_before_its_rows(patch):
    edit(
        patch,
        Journal,
        "apply",
        (ADDED, ""),
        ("    if together:", f"{ADDED}    if together:"),
    )


def an_entry_comes_after_the_intents_are_cleared(patch):
    edit(
        patch,
        Journal,
        "apply",
        (ADDED, ""),
        ("    markers = ", f"{ADDED}    markers = "),
    )


def removed_rows_are_not_logged(patch):
    whole = Intents.logged
    patch.setattr(Intents, "logged", lambda made, root: whole(Intents(made.version, made.puts, logs=made.logs), root))


def an_entry_replaces_one_of_its_number(patch):
    def put(key, entry):
        yield from Mutate("system", [RowMutation(key, {COLUMN: entry})])
        return True

    patch.setattr(log_entries, "_put_absent", put)


def the_number_of_a_log_has_the_stamp_of_a_clock(patch):
    whole = log_entries.number_cell
    patch.setattr(log_entries, "number_cell", lambda number: Cell(whole(number).value, 1_700_000_000_000 - number))


def commits_of_entities_are_not_logged(patch):
    whole = feed_tasks.noted
    patch.setattr(pipeline, "noted", lambda intents, feeds, _entity=b"": whole(intents, feeds))


def entities_that_get_copied_values_are_not_logged(patch):
    patch.setattr(CopyFollower, "_log_entities", lambda *_given: iter(()))


def entries_of_a_feed_are_not_logged(patch):
    patch.setattr(RowFeeds, "log", lambda *_given: iter(()))
