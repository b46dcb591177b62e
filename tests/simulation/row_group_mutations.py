"""Rules of entity groups on one row broken on purpose: what the simulator must find, and by which schedule it does."""

from weakref import WeakKeyDictionary

from oneread.store.requests import CheckAndMutate, Read
from oneread.store.rows import VALUE, Cell, RowMutation, later
from oneread.transactions import intents, journal, pipeline
from oneread.transactions.holds import Holds
from oneread.transactions.intents import decode_version, encode_version
from oneread.transactions.journal import Journal
from oneread.transactions.pipeline import GroupDraft, Pipeline
from oneread.transactions.root import VERSION
from oneread.transactions.sequences import last_number
from tests.simulation.breaking import edit


def children_are_read_before_their_root(patch):
    read = "    found = yield from Together([surely(each) for each in first])\n"
    keys = "[each.key for each in changes if each.sequence is None and each.key != group]"
    early = f"    keys = {keys}\n    early = (yield from Read('roots', keys, 'dm')) if keys else []\n"
    draft = "    draft = GroupDraft(seen, row, now)\n"
    given = "    for at, one in zip(keys, early):\n        draft.add_child(at, one)\n"
    edit(patch, Pipeline, "_begin", (read, early + read), (draft, draft + given))


def a_child_of_a_later_version_is_not_noticed(patch):
    edit(patch, GroupDraft, "add_child", ("if child.version > self.seen.version:", "if False:"))


def numbers_come_from_a_row_of_their_own(patch):
    def take(draft, changes):
        for change in changes:
            sequence = change.sequence
            if sequence is not None and draft.numbered.get(change) is None:
                key = b"numbers:" + sequence.root + sequence.kind
                is_taken = False
                while not is_taken:
                    (row,) = yield from Read("system", [key], "dm")
                    held = None if row is None else row[VALUE].value
                    last = last_number(draft.rows[sequence.root], sequence) if held is None else decode_version(held)
                    cell = Cell(encode_version(last + 1), later(row, last))
                    is_taken = yield from CheckAndMutate("system", VALUE, held, RowMutation(key, {VALUE: cell}))
                draft.numbered[change] = last + 1
                change.take_number(last + 1)
                draft.add_child(change.key, None)

    numbered = WeakKeyDictionary()
    patch.setattr(GroupDraft, "numbered", property(lambda self: numbered.setdefault(self, {})), raising=False)
    patch.setattr(pipeline, "take_apart", take, raising=False)
    edit(
        patch,
        Pipeline,
        "load",
        ("draft.take_numbers(changes, self.journal.name_of)", "yield from take_apart(draft, changes)"),
    )


def a_number_is_taken_before_the_commit(patch):
    swap = "    if not (yield from self.journal.swap_root"
    taken = "    if ready.group.numbers:\n        yield from Mutate('roots', [RowMutation(key, ready.group.numbers)])\n"
    edit(patch, Pipeline, "write", (swap, f"{taken}{swap}"), RowMutation=RowMutation)


def the_number_of_a_deleted_child_is_given_again(patch):
    decide = GroupDraft.decide

    def lowering(self, change):
        decide(self, change)
        if change.key != self.seen.key and self.made[change.key].body is None:
            for column, cell in (self.rows[self.seen.key] or {}).items():
                if column.startswith(b"m:s"):
                    lower = max(0, int.from_bytes(cell.value, "big") - 1).to_bytes(8, "big")
                    self.numbers[column] = Cell(lower, self.version)

    patch.setattr(GroupDraft, "decide", lowering)


def sequences_end_with_their_group(patch):
    columns = "[each for each in draft.rows[group] if each[:3] == b'm:s']"
    ended = f"dict.fromkeys({columns}, Cell(bytes(8), root.version))"
    edit(patch, Pipeline, "ready", ("draft.numbers)", f"{ended} if root.body is None else draft.numbers)"))


def a_delete_of_a_group_does_not_look_for_children_again(patch):
    edit(patch, Pipeline, "_mark_going", ("if not ranges:", "if True:"))


def a_deleted_child_is_removed(patch):
    put = "RowMutation(each.key, child_cells(each, version))"
    removed = f"{put} if each.body is not None else RowMutation(each.key, {{}}, {{}}, version)"
    edit(patch, Journal, "apply", (f"{put} for each", f"{removed} for each"))


def a_child_is_stamped_by_the_clock(patch):
    version = "        version = intents.version\n"
    edit(
        patch,
        Journal,
        "apply",
        (version, version + "        clock = yield from Now()\n"),
        ("child_cells(each, version)", "child_cells(each, clock)"),
    )


def a_body_is_stamped_with_the_own_version(patch):
    whole = intents.child_cells

    def child_cells(child, version):
        cells = whole(child, version)
        if child.body is not None:
            cells[intents.BODY] = Cell(child.body, child.own)
        return cells

    patch.setattr(journal, "child_cells", child_cells)


def intents_are_cleared_before_their_children_are_put(patch):
    put = 'together.append(Mutate("roots", children).__iter__())'
    spent = "self._note_spent(tokens)\n"
    late = "yield from Mutate('roots', children)\n"
    edit(
        patch,
        Journal,
        "apply",
        (put, "pass"),
        (spent, f"{spent}    if children:\n        {late}"),
    )


FENCE = "    yield from self._journal.fence(seen, stamp)"
OF_CHILD = "Mutate('roots', [RowMutation(holder, {VERSION: Cell(encode_version(stamp), stamp)})])"


def a_child_is_fenced_in_place_of_its_root(patch):
    edit(
        patch,
        Holds,
        "has_pointer",
        ("if seen.version >= stamp:", "if root.version >= stamp:"),
        ("REMOVED, seen.version", "REMOVED, root.version"),
        (FENCE, f"    if holder == seen.key:\n        {FENCE}\n        else:\n            yield from {OF_CHILD}"),
        VERSION=VERSION,
    )


def the_version_of_a_child_is_compared(patch):
    edit(
        patch,
        Holds,
        "has_pointer",
        ("REMOVED, seen.version", "REMOVED, max(stamp, root.version)"),
        ("if seen.version >= stamp:", "if root.version >= stamp or seen.key != holder:"),
    )


def a_back_reference_of_a_child_is_stamped_by_the_clock(patch):
    edit(
        patch,
        Pipeline,
        "_point",
        ("put_pointers(lacking, draft.version)", "put_pointers(lacking, (yield from Now()))"),
    )


def back_references_of_children_are_put_after_their_sources_were_read(patch):
    point = "yield from self._point(draft, changes)\n"
    early = "    yield from self._point(draft, [each for each in changes if each.key in draft.stored])\n"
    groups = "    for each in changes:\n        groups ="
    edit(
        patch,
        Pipeline,
        "load",
        (early, "\n"),
        (point, "pass\n"),
        (groups, f"    {point}{groups}"),
    )
    edit(
        patch,
        Pipeline,
        "_begin",
        ("    if pointers:", "    if False:"),
        ("set(pointers if draft.version == now else ())", "set()"),
    )


def a_transaction_does_not_compare_what_it_was_decided_on(patch):
    edit(
        patch,
        Pipeline,
        "_begin",
        ("if basis is not None and seen.version != _version_of(basis, group):", "if False:"),
    )


def a_source_that_is_a_child_is_read_without_its_root(patch):
    edit(
        patch,
        Pipeline,
        "_read_sources",
        ("groups = {key: self.recorded.group(key) for key in wanted}", "groups = {key: key for key in wanted}"),
    )


def a_changed_child_leaves_no_task(patch):
    patch.setattr(intents.Intents, "sources", lambda self, root: {root: self.unchanged} if self.task else {})


def a_holder_that_is_a_child_is_read_before_its_root(patch):
    edit(
        patch,
        Holds,
        "settled",
        (
            "    while True:\n",
            "    early = read_root(key, (yield from Read('roots', [key], 'dm'))[0]).root\n    while True:\n",
        ),
        ('child = read_root(key, (yield from Read("roots", [key], "dm"))[0]).root', "child = early"),
    )


def a_transaction_relies_on_what_it_put_before_its_mark(patch):
    edit(patch, GroupDraft, "over", ("set(), self.sums", "self.put, self.sums"))


def a_transaction_relies_on_what_it_read_before_its_mark(patch):
    edit(patch, GroupDraft, "over", ("if all(", "if True or all("))


BY_SEED = {
    children_are_read_before_their_root: 283,
    a_child_of_a_later_version_is_not_noticed: 52,
    numbers_come_from_a_row_of_their_own: 3,
    a_number_is_taken_before_the_commit: 3,
    the_number_of_a_deleted_child_is_given_again: 2,
    sequences_end_with_their_group: 2,
    a_delete_of_a_group_does_not_look_for_children_again: 8,
    a_deleted_child_is_removed: 2,
    a_child_is_stamped_by_the_clock: 4,
    a_body_is_stamped_with_the_own_version: 16,
    intents_are_cleared_before_their_children_are_put: 148,
    a_child_is_fenced_in_place_of_its_root: 2,
    a_back_reference_of_a_child_is_stamped_by_the_clock: 331,
    a_transaction_does_not_compare_what_it_was_decided_on: 27,
    a_changed_child_leaves_no_task: 2,
    a_holder_that_is_a_child_is_read_before_its_root: 142,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    a_transaction_relies_on_what_it_put_before_its_mark: ("posting and rename", "a", (10,)),
    a_transaction_relies_on_what_it_read_before_its_mark: ("posting and rename", "a", (10,)),
    the_version_of_a_child_is_compared: ("refer and rename", "a", (3,)),
    back_references_of_children_are_put_after_their_sources_were_read: ("refer and rename", "a", (3,)),
    a_source_that_is_a_child_is_read_without_its_root: ("hold and delete a child", "b", (5,)),
}
"""What 60 seeds do not find: the two processes, who begins, and after how many requests the other one is next."""
