"""Copies in cells on a store that changes one row at a time: makers, and things that show them; and the rules broken.

From some copies of a maker nothing follows, so that its things get them in cells; others are in an index, or copied
again. At the end the readers - `get`, pages and their JSON - must show what the makers say.
"""

from random import Random

from msgspec.structs import replace

from oneread import Copy, Index, Key, Model, Ref, by, to_json, within
from oneread.database.lists import listed
from oneread.database.pages import Query, page
from oneread.derivations import copy_cells
from oneread.derivations.copy_cells import LaidCopies
from oneread.plans.trace import Trace
from oneread.testing.schedules import ByChance
from oneread.testing.simulator import Simulation
from oneread.testing.steps import CIPHER, DeleteStep, DrainStep, PatchStep, SaveAllStep, SaveStep
from oneread.transactions.back_references import TakenValues
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.intents import USED_BY_CELLS
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.root import BODY, parse_root
from oneread.transactions.versioned_tasks import RowTaskRunner
from tests.simulation.breaking import edit
from tests.simulation.row_world import CALM, RecoverStep, is_calm, pair, turns, work_of
from tests.simulation.schema import Compiled

WRITERS, ACTS, STEPS = 3, 7, 8
BATCH = 2
THINGS = 3


class Maker(Model[int]):
    number: Key[int]
    name: str
    land: str = "x"
    size: int = 0


class MadeBy(Copy[Maker]):
    missing_ok = True

    name: str


class KnownAs(Copy[Maker]):
    on_delete = "clear"
    missing_ok = True

    name: str
    land: str


class SoldBy(Copy[Maker]):
    missing_ok = True

    land: str


class Thing(Model[int]):
    """`maker` and `rival` take the same of two makers, and of one; `seller` is in an index, `owner` is copied again."""

    number: Key[int]
    maker: MadeBy | None = None
    rival: MadeBy | None = None
    known: KnownAs | None = None
    seller: SoldBy | None = None
    owner: MadeBy | None = None
    size: int = 0


class Part(Model[int, int]):
    """A child: its copy is in a cell of its own row; others copy its number of pieces."""

    child_of = Thing
    number: Key[int]
    part: Key[int]
    pieces: int = 1
    maker: MadeBy | None = None


class Of(Copy[Part]):
    missing_ok = True

    pieces: int


class Shown(Copy[Thing]):
    missing_ok = True

    size: int
    owner: str | None = within(Thing.owner, MadeBy.name)


class Offer(Model[int]):
    number: Key[int]
    part: Of | None = None
    thing: Shown | None = None
    also: Ref[Maker] | None = None


class ThingsOfLand(Index[Thing]):
    land: str | None = by(within(Thing.seller, SoldBy.land), none="last")


class ThingsOfMaker(Index[Thing]):
    maker: MadeBy | None = by(Thing.maker, none="last")


CELLS = Compiled(Maker, Thing, Part, Offer, ThingsOfLand, ThingsOfMaker, inline=1)


def beginning():
    return [
        SaveAllStep([Maker(number=1, name="ada"), Maker(number=2, name="bea", land="y")]),
        *[SaveAllStep([thing(number)]) for number in range(1, THINGS)],
        *[SaveAllStep([Part(number=number, part=1, maker=MadeBy.of(1))]) for number in (1, 2)],
        SaveAllStep([Offer(number=1, part=Of.of(1, 1), thing=Shown.of(1))]),
        SaveAllStep([Offer(number=2, part=Of.of(1, 1), thing=Shown.of(2))]),
    ]


def thing(number, maker=1):
    """The first thing takes all, from both makers; from the copies of the others nothing follows."""
    if number > 1:
        return Thing(number=number, maker=MadeBy.of(maker), known=KnownAs.of(maker))
    copies = {"known": KnownAs.of(maker), "seller": SoldBy.of(maker), "owner": MadeBy.of(maker)}
    return Thing(number=1, maker=MadeBy.of(maker), rival=MadeBy.of(3 - maker), **copies)


def _maker(chance):
    return chance.choice((1, 1, 2))


def _thing(chance):
    return chance.randrange(1, THINGS + 1)


def _rename(chance):
    return PatchStep(Maker, (_maker(chance),), {"name": chance.choice(("ada", "bea", "cyd"))})


def _move(chance):
    return PatchStep(Maker, (_maker(chance),), {"land": chance.choice("xyz")})


def _grow(chance):
    """Nothing follows from it, but the version of the maker grows."""
    return PatchStep(Maker, (_maker(chance),), {"size": chance.randrange(9)})


def _gone(chance):
    return DeleteStep(Maker, (_maker(chance),))


def _again(chance):
    return SaveStep(Maker(number=_maker(chance), name=chance.choice(("new", "old")), land=chance.choice("xy")))


def _re_point(chance):
    field = chance.choice(("maker", "maker", "rival", "known", "owner"))
    copy = KnownAs if field == "known" else MadeBy
    value = chance.choice((copy.of(1), copy.of(2), copy.of(1), None))
    return PatchStep(Thing, (_thing(chance),), {field: value})


def _change(chance):
    return PatchStep(Thing, (_thing(chance),), {"size": chance.randrange(9)})


def _replace(chance):
    return SaveStep(thing(_thing(chance), _maker(chance)))


def _remove(chance):
    return DeleteStep(Offer, (chance.randrange(1, 3),))


def _part(chance):
    return PatchStep(Part, (chance.randrange(1, 3), 1), {"pieces": chance.randrange(9)})


def _re_point_part(chance):
    return PatchStep(Part, (chance.randrange(1, 3), 1), {"maker": MadeBy.of(_maker(chance))})


def _new_part(chance):
    return SaveStep(Part(number=chance.randrange(1, 3), part=chance.randrange(1, 3), maker=MadeBy.of(_maker(chance))))


def _offer(chance):
    return SaveStep(Offer(number=chance.randrange(1, 4), part=Of.of(1, 1), thing=Shown.of(_thing(chance))))


MAKES = {_rename: 6, _move: 3, _grow: 2, _gone: 2, _again: 2}
HOLDS = {
    _re_point: 6, _change: 2, _replace: 2, _part: 2, _re_point_part: 2, _new_part: 1, _offer: 2, _remove: 1, _rename: 2,
}  # fmt: skip


class CellSimulation(Simulation):
    """Compares what readers show with what the audit has found right, whenever nothing is left to do."""

    def _rest(self):
        super()._rest()
        catalog, entities = self.operations.catalog, self.audit.entities()
        for key, entity in entities.items():
            kind = catalog.kind_of(key)
            found, _version = self._driver.run(self.operations.find(kind.cls, kind.parts_of(key)), Trace())
            self._check_same(found, entity)
            self._check_last_values(key, entity)
        for model in (Thing, Part, Offer):
            stored = [each for each in entities.values() if type(each) is model]
            plan = page(listed(self.operations, model), Query(limit=100), CIPHER, Trace())
            rows = self._driver.run(plan, Trace()).rows
            self._check_same(rows, sorted(stored, key=catalog.kinds[model].parts))
            if to_json(rows) != to_json(stored and sorted(stored, key=catalog.kinds[model].parts)):
                self._raise_violation("a page has other JSON than its entities")

    def _check_same(self, found, expected):
        if found != expected:
            self._raise_violation(f"a reader shows {found} instead of {expected}")

    def _check_last_values(self, key, entity):
        """A copy of a maker that was deleted has the last values, or none where it was made after that."""
        for name in ("maker", "rival", "owner"):
            copy = getattr(entity, name, None)
            if copy is not None and copy.deleted:
                (place,) = self.operations.catalog.type_of(entity).refs(entity)[name]
                source = self.operations.catalog.source(place, parse_root(self.audit.stored["roots"][place]))
                if copy.name not in (None, source.last.get("name")):
                    self._raise_violation(f"{self.operations.catalog.name_of(key)}.{name} has older values: {copy}")


def cells(seed, **options):
    """The simulation of one seed: two who change makers, one who changes things, two workers, a recoverer."""
    if is_calm(seed):
        options.setdefault("fates", ByChance(Random(f"fates {seed}"), CALM))
    simulation = CellSimulation(seed, CELLS, span="row", **options)
    simulation.prepare(*beginning())
    chance = Random(f"cells {seed}")
    for number in range(WRITERS):
        acts = HOLDS if number else MAKES
        steps = [make(chance) for make in chance.choices(list(acts), list(acts.values()), k=ACTS)]
        simulation.process(f"writer {number}", steps)
    for name in ("worker 0", "worker 1"):
        simulation.process(name, [work_of(simulation, name, batch=BATCH)] * STEPS)
    simulation.process("recoverer", [RecoverStep()] * 2)
    return simulation


PAIRS = {
    "there and back": (
        [PatchStep(Thing, (2,), {"maker": MadeBy.of(2)}), PatchStep(Thing, (2,), {"maker": MadeBy.of(1)})],
        [PatchStep(Maker, (1,), {"name": "newest"}), DrainStep(200)],
    ),
    "refer and rename": ([SaveStep(thing(9))], [PatchStep(Maker, (1,), {"name": "newest"})]),
    "change and rename": (
        [PatchStep(Thing, (2,), {"size": 3}), PatchStep(Thing, (2,), {"size": 4})],
        [PatchStep(Maker, (1,), {"name": "newest"})],
    ),
    "refer and delete": ([SaveStep(thing(9))], [DeleteStep(Maker, (1,))]),
    "a child and a rename": (
        [PatchStep(Part, (1, 1), {"pieces": 3}), PatchStep(Part, (1, 1), {"maker": MadeBy.of(2)})],
        [PatchStep(Maker, (1,), {"name": "newest"})],
    ),
}
"""What two writers do at the same time, by name; things have a cell of the first maker before."""


def switched(name, first, lengths):
    """Two processes, of which one runs at a time; the bound of the schema lets them put cells themselves."""
    before = [*beginning(), PatchStep(Maker, (1,), {"name": "new"}), DrainStep(200)]
    return pair(CellSimulation(1, CELLS, **turns(first, lengths)), before, PAIRS[name])


# The rules of cells, broken.


NEWER = "row[column].stamp > known"


def a_cell_is_compared_with_its_holders_version(patch):
    edit(patch, LaidCopies, "lay", (NEWER, "row[column].stamp > row[b'd:v'].stamp"))


def the_newest_cell_wins_over_every_document(patch):
    edit(patch, LaidCopies, "lay", (NEWER, "row[column].stamp > 0"))


def a_cell_of_the_version_that_was_used_is_laid_over(patch):
    """Equal: a cell of the version that was used says what the document says."""
    edit(patch, LaidCopies, "lay", (NEWER, "row[column].stamp >= known"))


def a_cell_is_laid_over_the_copy_of_another_source(patch):
    edit(patch, LaidCopies, "_is_of", ("if source_part(taken) != source:", "if False:"))


def a_cell_is_laid_over_every_selection(patch):
    """Equal: what one selection names, another one has too, and its own cell comes as surely."""
    edit(patch, LaidCopies, "_is_of", ("taken[-SELECTION_BYTES:] == reference.selection or", "True or"))


def an_older_cell_is_laid_over_a_newer_one(patch):
    """Equal under one program, which has one cell for each copy; for two see `test_copy_cells`."""
    edit(patch, LaidCopies, "lay", ("key=lambda each: each.cell.stamp", "key=lambda each: -each.cell.stamp"))


def a_cell_of_a_deleted_source_does_not_say_so(patch):
    edit(patch, LaidCopies, "value", ("CopiedCell(state.entity is None,", "CopiedCell(False,"))


def a_deleted_source_clears_nothing(patch):
    patch.setattr(copy_cells, "_element", with_held(copy_cells._element))


def with_held(element):
    def made(reference, place, before, cell):
        return element(replace(reference, on_delete="keep"), place, before, cell)

    return made


def a_commit_takes_the_versions_of_cells_without_their_values(patch):
    whole = Pipeline.laid

    def without(committer, key, row):
        made = whole(committer, key, row)
        return made if made is row else made | {BODY: row[BODY]}

    patch.setattr(Pipeline, "laid", without)


def a_commit_takes_the_values_of_cells_without_their_versions(patch):
    """Equal: the cells are laid over the same values again."""
    whole = Pipeline.laid

    def without(committer, key, row):
        made = whole(committer, key, row)
        return made if made is row else made | {USED_BY_CELLS: row[USED_BY_CELLS]}

    patch.setattr(Pipeline, "laid", without)


def a_new_reference_has_the_version_of_no_source(patch):
    edit(patch, TakenValues, "used", ("is_new = each not in before and source not in left", "is_new = False"))


def copies_count_as_of_what_was_read(patch):
    edit(patch, TakenValues, "used", ("(is_new or takes(source, row))", "True"))


def an_absent_source_has_no_version(patch):
    used = "used[each] = seen.used.get(each, left.get(source, 0))"
    edit(patch, TakenValues, "used", ("else:\n", "elif source in left or each in seen.used:\n"), (used, used))


def a_cell_is_stamped_by_the_clock(patch):
    edit(
        patch,
        CopyFollower,
        "_put_cells",
        ("    values:", "    clock = yield from Now()\n    values:"),
        ("stamp = root.version", "stamp = max(clock, root.version)"),
    )


SETTLED = "yield from self._pipeline.holds.settled(source)"


def a_cell_has_what_its_task_began_with(patch):
    once = f"self.__dict__.setdefault('early', {{}}).setdefault(source, ({SETTLED}))"
    edit(patch, CopyFollower, "_put_cells", (SETTLED, once))


class PageAfterSource(list):
    """A page of back-references with its source as it was read before it."""

    source = None


CHANGED = "        found = outbox.of_changed_selections(source, unchanged, found)\n"
KEPT = CHANGED.replace("found = ", "changed = PageAfterSource(").replace("found)\n", "found))\n") + (
    "        changed.source, found = found.source, changed\n"
)


def a_source_is_read_before_its_page(patch):
    """Equal: the task of the change that a holder lacks is put after its back-reference; see decision 0085."""
    scan = "found = yield from {}\n"
    kept = "found = PageAfterSource(found)\n{0}found.source = early\n"
    for cls, name, read, whose, indent in (
        (RowTaskRunner, "_follow", "outbox.scan_holders(source, task.unchanged, cursor, size)", "copies", " " * 8),
        (CopyFollower, "_follow_few", 'Scan("views", outbox.holders_of(source), most + 1)', "self", " " * 4),
    ):
        page, settled = scan.format(read), SETTLED.replace("self", whose)
        early = f"early = {settled}\n{indent}{page}{indent}{kept.format(indent)}"
        passed_over = [(CHANGED, KEPT)] if cls is CopyFollower else []
        edit(patch, cls, name, (page, early), *passed_over, PageAfterSource=PageAfterSource)
    leaves = "    leaves = self.leaves_of(source, found)\n"
    edit(
        patch,
        CopyFollower,
        "follow_page",
        (leaves, f"{leaves}    leaves = PageAfterSource(leaves)\n    leaves.source = found.source\n"),
    )
    edit(patch, CopyFollower, "_put_cells", (SETTLED, f"leaves.source or ({SETTLED})"))


def one_cell_stands_for_all_selections(patch):
    edit(patch, CopyFollower, "_put_cells", ("form = taken, kind_part(holder)", "form = b'', b''"))


def the_cell_of_a_child_is_put_into_its_root(patch):
    put = "puts.setdefault({}, {{}})"
    edit(
        patch,
        CopyFollower,
        "_put_cells",
        (put.format("holder"), put.format("self._pipeline.recorded.group(holder)")),
    )


def copies_in_views_are_in_cells_too(patch):
    edit(patch, LaidCopies, "__init__", ("each.is_leaf and not", "not"))


def the_cursor_moves_before_the_cells(patch):
    edit(
        patch,
        RowTaskRunner,
        "_follow",
        ("        yield from copies.follow_page(source, found)\n", "\n"),
        ("    return cursor, done", "    yield from copies.follow_page(source, found)\n    return cursor, done"),
    )


BY_SEED = {
    a_cell_is_compared_with_its_holders_version: 0,
    a_cell_is_laid_over_the_copy_of_another_source: 4,
    a_cell_of_a_deleted_source_does_not_say_so: 2,
    a_deleted_source_clears_nothing: 2,
    a_commit_takes_the_versions_of_cells_without_their_values: 2,
    copies_count_as_of_what_was_read: 2,
    an_absent_source_has_no_version: 14,
    a_cell_is_stamped_by_the_clock: 5,
    a_cell_has_what_its_task_began_with: 1,
    one_cell_stands_for_all_selections: 3,
    the_cell_of_a_child_is_put_into_its_root: 0,
    copies_in_views_are_in_cells_too: 1,
    the_cursor_moves_before_the_cells: 0,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    the_newest_cell_wins_over_every_document: ("there and back", "a", (6,)),
    a_new_reference_has_the_version_of_no_source: ("there and back", "a", (6,)),
}
"""What seeds do not find: the two processes, who begins, and after how many requests the other one is next."""

EQUAL = [
    a_cell_of_the_version_that_was_used_is_laid_over,
    a_cell_is_laid_over_every_selection,
    an_older_cell_is_laid_over_a_newer_one,
    a_commit_takes_the_values_of_cells_without_their_versions,
    a_source_is_read_before_its_page,
]
"""What may be done otherwise, each with the reason."""
