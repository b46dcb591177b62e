"""Random schemas with copies of two kinds of source among the same holders, and several programs on one store of them.

From some copies nothing follows, so that a store that changes one row at a time has their values in cells; others are
in views, or are copied again, so that their holders are committed.
"""

import io
import types
from itertools import count as numbers
from random import Random

from hypothesis import strategies as st

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, connect, count, shown, to_json, within
from oneread.engines.one_row_memory import forget
from oneread.models.model import key_of
from oneread.store.requests import Scan
from oneread.testing.comparison import check_same
from oneread.testing.naive import look
from oneread.testing.proof import Proof
from oneread.testing.steps import DeleteStep, DrainStep, LookStep, PatchStep, SaveStep, TickStep
from oneread.transactions.intents import JOURNAL
from oneread.transactions.leases import LeaseHolder
from oneread.transfer.load import DumpReader, parse_head

KEYS, CODES = (1, 2, 3), ("c", "d")
PROGRAMS = 3
"""One returns when what follows is written, two at their commit points."""

OVER = -1e6
"""Seconds of a lease that is over when it is taken: no program waits for one that was killed."""

_stores = numbers()


def declared(name, base, fields, /, **values):
    space = {"__annotations__": dict(fields), "__module__": __name__} | values
    return types.new_class(name, (base,), {}, lambda into: into.update(space))


class Maker(Model[int]):
    number: Key[int]
    name: str
    land: str = "x"
    size: int = 0


class Shop(Model[str]):
    code: Key[str]
    title: str
    place: str | None = None


SOURCES = {Maker: ("name", "land", "size"), Shop: ("title", "place")}
TYPES = {"name": str, "land": str, "size": int, "title": str, "place": str | None}


class Declared:
    """The classes of one schema: things with copies of makers and shops, their parts, and offers two hops away."""

    def __init__(self, seed):
        self._chance = Random(f"leaf copies {seed}")
        self._named = 0
        self.thing = self._holder("Thing", {"number": Key[int], "weight": int}, most=4, weight=0)
        part = {"number": Key[int], "part": Key[int], "weight": int}
        self.part = self._holder("Part", part, most=2, weight=0, child_of=self.thing)
        self.offer_copies = {"thing": self._copy_of_thing(), "also": self._copy_of_thing()}
        fields = {"number": Key[int], "weight": int} | {at: copy | None for at, copy in self.offer_copies.items()}
        self.offer = self._holder("Offer", fields, most=2, weight=0, thing=None, also=None)
        self.views = [view for model in (self.thing, self.part, self.offer) for view in self._views(model)]
        inline = self._chance.choice((0, 1, 2, 50))
        self.schema = Schema(Maker, Shop, self.thing, self.part, self.offer, *self.views, inline=inline)

    def _name(self, prefix):
        self._named += 1
        return f"{prefix}{self._named}"

    def _copy(self, source):
        names = self._chance.sample(SOURCES[source], self._chance.randint(1, len(SOURCES[source])))
        on_delete, missing_ok = self._chance.choice(("keep", "keep", "clear")), self._chance.random() < 0.7
        options = {"on_delete": on_delete, "missing_ok": missing_ok}
        wanted = {name: TYPES[name] for name in names}
        return declared(self._name(f"Of{source.__name__}"), Copy[source], wanted, **options)

    def _holder(self, name, fields, /, *, most, **values):
        """A model with some copies of makers and shops; two fields may have the same copy."""
        pool = [self._copy(self._chance.choice((Maker, Maker, Shop))) for _ in range(2)]
        copies = {f"copy{at}": self._chance.choice(pool) for at in range(self._chance.randint(1, most))}
        taken = {at: copy | None for at, copy in copies.items()}
        keys = (int, int) if "part" in fields else (int,)
        made = declared(name, Model[keys], fields | taken, **values | dict.fromkeys(copies))
        made.copies = copies
        return made

    def _copy_of_thing(self):
        """A copy of a thing's own number, or of what it has of a source itself."""
        fields, values = {"weight": int}, {"missing_ok": True}
        if self._chance.random() < 0.6:
            at, copy = self._chance.choice(list(self.thing.copies.items()))
            name = self._chance.choice(copy.__struct_fields__[2:])
            fields["far"] = TYPES[name] | None
            values["far"] = within(getattr(self.thing, at), getattr(copy, name))
        return declared(self._name("OfThing"), Copy[self.thing], fields, **values)

    def _views(self, model):
        """Views of some copies; most are in none, so that they are leaves."""
        made = []
        for at, copy in model.copies.items():
            name = self._chance.choice(copy.__struct_fields__[2:])
            path, kind = within(getattr(model, at), getattr(copy, name)), self._chance.randrange(8)
            if kind == 0:
                made.append(self._view(Index[model], {"key": TYPES[name] | None}, key=by(path, none="last")))
            elif kind == 1:
                fields = {"weight": int, "value": TYPES[name] | None}
                made.append(self._view(Index[model], fields, weight=by(model.weight), value=shown(path)))
            elif kind == 2:
                fields = {"key": TYPES[name] | None, "entities": int}
                made.append(self._view(Aggregate[model], fields, key=by(path, none="last"), entities=count()))
        return made

    def _view(self, base, fields, **values):
        return declared(self._name("View"), base, fields, **values)

    def beginning(self):
        """Two sources of each kind, and holders of them all."""
        made = [Maker(number=number, name="a") for number in KEYS] + [Shop(code=code, title="s") for code in CODES]
        for number in KEYS:
            things = {"thing": self.offer_copies["thing"].of(number), "also": self.offer_copies["also"].of(1)}
            made += [
                self.thing(number=number, **self._first(self.thing)),
                self.part(number=number, part=1, **self._first(self.part)),
                self.offer(number=number, **things, **self._first(self.offer)),
            ]
        return [SaveStep(each) for each in made]

    def _first(self, model):
        return {at: copy.of(1 if source_of(copy) is Maker else "c") for at, copy in model.copies.items()}

    def going_again(self):
        """Sources go, come back with other values and go again; parts were changed while they were gone.

        So a part's document says that its source is gone, with earlier values than its cell has.
        """
        gone = [DeleteStep(Maker, (1,)), DeleteStep(Shop, ("c",)), DrainStep(50)]
        changed = [PatchStep(self.part, (number, 1), {"weight": 1}) for number in KEYS]
        maker, shop = Maker(number=1, name="b", land="y", size=1), Shop(code="c", title="b", place="b")
        return [*gone, *changed, SaveStep(maker), SaveStep(shop), DrainStep(50), *gone]

    def steps(self):
        """One step: most change a source or where a holder points."""
        source, holder = self._source_changes(), self._holder_changes()
        drains = st.sampled_from([DrainStep(1), DrainStep(50), LookStep(), TickStep(0.001), TickStep(-5)])
        return st.one_of(source, source, source, holder, holder, holder, drains)

    def _source_changes(self):
        makers, shops = st.sampled_from(KEYS), st.sampled_from(CODES)
        name, size = st.sampled_from("ab"), st.integers(0, 1) | st.just(2**70)
        maker = st.fixed_dictionaries({}, optional={"name": name, "land": st.sampled_from("xy"), "size": size})
        shop = st.fixed_dictionaries({}, optional={"title": name, "place": st.none() | name})
        return st.one_of(
            st.builds(PatchStep, st.just(Maker), st.tuples(makers), maker),
            st.builds(PatchStep, st.just(Shop), st.tuples(shops), shop),
            st.builds(DeleteStep, st.just(Maker), st.tuples(makers)),
            st.builds(DeleteStep, st.just(Shop), st.tuples(shops)),
            st.builds(Maker, number=makers, name=name).map(SaveStep),
            st.builds(Shop, code=shops, title=name, place=st.none() | name).map(SaveStep),
        )

    def _holder_changes(self):
        number, weight = st.sampled_from(KEYS), st.integers(0, 2)
        changed = []
        for model in (self.thing, self.part, self.offer):
            names = ("number", "part") if model is self.part else ("number",)
            key = dict.fromkeys(names, number)
            copies = {at: st.none() | _copies(copy) for at, copy in (model.copies | self._own(model)).items()}
            some = st.fixed_dictionaries({}, optional={"weight": weight, **copies})
            changed.append(st.builds(PatchStep, st.just(model), st.tuples(*key.values()), some))
            changed.append(st.builds(model, weight=weight, **key, **copies).map(SaveStep))
            changed.append(st.builds(DeleteStep, st.just(model), st.tuples(*key.values())))
        return st.one_of(*changed[:2], *changed)

    def _own(self, model):
        return self.offer_copies if model is self.offer else {}


def source_of(copy):
    return copy.type_arguments[0]


def _copies(copy):
    """Copies that only refer, to one of a few keys."""
    return st.sampled_from(CODES if source_of(copy) is Shop else KEYS).map(copy.of)


class Programs(Proof):
    """The oracle beside several programs that have one store open, of which one does each step."""

    def __init__(self, schema, deletes):
        self._name = f"leaf copies {next(_stores)}"
        self._url = f"memory://{self._name}?span=row&deletes={deletes}"
        super().__init__(schema, self._url, inline=schema.inline)
        self._schema = schema
        self._steps = 0
        self.programs = [self._steady(self.database), *[self._open() for _ in range(1, PROGRAMS)]]

    def _open(self):
        return self._steady(connect(self._url, self._schema, clock=self.clock, workers=0, wait="commit"))

    def _steady(self, database):
        """A program for which one step takes one second, however long it takes."""
        database.operations.committer.journal.clock = lambda: float(self._steps)
        database.operations.outbox.leases = LeaseHolder(OVER)
        return database

    def do_by(self, number, step):
        """Does a step by one of the programs; of a negative number, by one that begins as its predecessor is killed."""
        if number < 0:
            self.programs[-number] = self._open()
        self.database = self.programs[abs(number)]
        self._steps += 1
        self.do(step)
        if not isinstance(step, DeleteStep) and not self.has_tasks():
            self.check_entities(self.database)

    def _run_tasks(self):
        for each in self.programs:
            each.run(each.operations.outbox.finish_waiting())
        self.oracle.delete_with_sources()

    def has_tasks(self):
        return super().has_tasks() or bool(self.database.run(Scan("system", JOURNAL, 1).__iter__()))

    def look(self):
        for each in self.programs:
            self.database = each
            super().look()
            self.check_entities(each)
            self._check_views(each)
        self._check_dump()

    def check_entities(self, db):
        """Every verb that reads entities shows those of the oracle."""
        for model in self.oracle.models:
            wanted = self.oracle.all(model)
            keys = [key_of(each) for each in wanted]
            page = db.page(model, limit=100).rows
            check_same(f"a page of {model.__name__}", look(wanted), look(page))
            versions = [db.version(db.get(model, *key)) for key in keys]
            check_same("versions in a page", versions, [db.version(each) for each in page])
            check_same("its JSON", rows_in_json(wanted), to_json(db.page(model, limit=100)))
            check_same("get_many", look(wanted), look(db.get_many(model, keys)))
            check_same("get", look(wanted), look([db.get(model, *key) for key in keys]))
            check_same("transactions", look(wanted), look([self._by_group(db, model, key) for key in keys]))

    def _by_group(self, db, model, key):
        """The entity as a transaction of its group reads it."""
        root = self.oracle.models[2] if len(key) > 1 else model
        for attempt in db.group(root, *key[:1]):
            with attempt as tx:
                found = tx.get(model, *key)
        return found

    def _check_views(self, db):
        for view in self.oracle.views:
            if issubclass(view, Aggregate):
                groups = self.oracle.groups(view)
                found = [db.get(view, *[each.key]) for each in groups]
                check_same(f"groups of {view.__name__}", look(groups), look(found))
            else:
                wanted = self.oracle.rows(view)
                check_same(f"JSON of {view.__name__}", rows_in_json(wanted), to_json(db.page(view, limit=100)))

    def _check_dump(self):
        """What is loaded of a dump shows the same, in a store that needs no cells."""
        text = io.BytesIO()
        self.programs[0].dump(text.write)
        head, *lines, _end = text.getvalue().splitlines()
        with connect("memory://", self._schema, workers=0) as loaded:
            reader = DumpReader(loaded.operations.catalog, parse_head(head))
            with loaded.bulk(batch=7) as bulk:
                for line in lines:
                    bulk.apply(reader.change(line), len(line))
            loaded.drain()
            for model in self.oracle.models:
                wanted = self.oracle.all(model)
                check_same(f"{model.__name__} of a dump", look(wanted), look(loaded.page(model, limit=100).rows))

    def close(self):
        for each in self.programs:
            each.close()
        forget(self._name)


def rows_in_json(rows):
    """The JSON of a page that has all rows of a list."""
    return b'{"rows":%s,"next":null,"previous":null}' % to_json(rows)
