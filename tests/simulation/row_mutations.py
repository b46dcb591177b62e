"""Rules of commits of one row broken on purpose: what the simulator must find, and by which schedule it does."""

from oneread.plans.effects import Now
from oneread.store.keys import pointer_part
from oneread.store.rows import VALUE, Cell, RowMutation
from oneread.transactions import drafts, journal, outbox, page_drafts, pipeline
from oneread.transactions.back_references import TakenValues
from oneread.transactions.copy_follower import CopyFollower
from oneread.transactions.holds import Holds
from oneread.transactions.intents import Intents
from oneread.transactions.journal import Journal
from oneread.transactions.journal_recovery import Recovery
from oneread.transactions.pipeline import Pipeline
from oneread.transactions.versioned_tasks import RowTaskRunner
from tests.simulation.breaking import edit


def tombstones_are_left_out(patch):
    whole = pipeline._intents

    def without(*given):
        made = whole(*given)
        return Intents(made.version, made.puts, [], made.deltas, made.task)

    patch.setattr(pipeline, "_intents", without)


def a_tombstone_is_stamped_by_the_clock(patch):
    edit(
        patch,
        Journal,
        "apply",
        ("version = intents.version\n", "version = intents.version\n        clock = yield from Now()\n"),
        ("{VALUE: Cell(REMOVED, version)}) for each", "{VALUE: Cell(REMOVED, clock)}) for each"),
    )


def a_back_reference_is_removed_by_the_clock(patch):
    edit(
        patch,
        Holds,
        "has_pointer",
        ("Cell(REMOVED, seen.version)", "Cell(REMOVED, (yield from Now()))"),
        Now=Now,
    )


def a_delta_leaves_no_token(patch):
    edit(patch, journal, "_sum_with", ("*(each.token for each in several)", ""))


def a_delta_does_not_look_at_the_root(patch):
    patch.setattr(journal._AddedDelta, "is_intended", lambda _delta, _seen: True)


def a_delta_looks_at_the_root_before_the_group(patch):
    look = "rest = yield from self._still_intended(rest)\n"
    read = '(row,) = yield from Read("counts", [shard], "dm")\n'
    edit(patch, Journal, "_add", (look, "\n"), (read, look + " " * 12 + read))


COMMITTED = "    return Committed("


def groups_are_read_after_the_commit(patch):
    edit(
        patch,
        Pipeline,
        "write",
        ('before.append(Read("counts", lacking, "dm"))', "pass"),
        ("{**sums, **dict(zip(lacking, found[0], strict=True))}", "dict.fromkeys(intents.deltas)"),
        (
            COMMITTED,
            "    sums = dict(zip(intents.deltas, (yield from Read('counts', [*intents.deltas], 'dm'))))\n" + COMMITTED,
        ),
    )


def a_token_is_removed_before_its_intents(patch):
    edit(
        patch,
        Journal,
        "apply",
        ("self._note_spent(tokens)", "pass"),
        ("yield from until_answered(", "self._note_spent(tokens)\n        yield from until_answered("),
    )


def recovery_does_not_fence(patch):
    edit(
        patch,
        Recovery,
        "_recover",
        ("while seen.version < version:", "while False:"),
        ("{MARKER: seen.version}", "{MARKER: max(seen.version, version)}"),
    )


def unfenced(part):
    return "if seen.version >= stamp:", f"if seen.version >= stamp or pointer_part(place) == outbox.{part}:"


def a_back_reference_is_removed_without_a_fence(patch):
    stamped = "REMOVED, seen.version", "REMOVED, stamp"
    names = {"pointer_part": pointer_part, "outbox": outbox}
    edit(patch, Holds, "has_pointer", unfenced("BACK_REFERENCES"), stamped, **names)


def a_hold_is_looked_at_without_a_fence(patch):
    edit(patch, Holds, "has_pointer", unfenced("HOLDS"), pointer_part=pointer_part, outbox=outbox)


def a_delete_that_may_be_refused_leaves_no_mark(patch):
    edit(
        patch,
        Pipeline,
        "_mark_going",
        ("if not (yield from self.journal.swap_root(seen, cells, commit)):", "if False:"),
        ("if marked.version != version:", "if marked.version != seen.version:"),
    )


def who_refers_does_not_look_at_the_mark(patch):
    edit(patch, Pipeline, "_read_sources", ("if source.is_going:", "if False:"))


def an_unknown_answer_is_a_failure(patch):
    edit(patch, Journal, "swap_root", ("        pass\n", "        return False\n"))


def whatever_replaced_the_row_was_this_commit(patch):
    edit(patch, Journal, "swap_root", ("return entry.commit == commit", "return True"))


def the_next_commit_overwrites_intents(patch):
    edit(patch, Pipeline, "_without_intents", ("if seen.intents is not None:", "if False:"))


def intents_are_cleared_at_any_version(patch):
    edit(
        patch,
        Journal,
        "apply",
        ("if cleared:", "clock = yield from Now()\n    if cleared:"),
        (
            'Mutate("roots", cleared)',
            'Mutate("roots", [_cleared(each.key, max(clock, each.puts[INTENTS].stamp)) for each in cleared])',
        ),
    )


def a_marker_is_put_after_the_commit(patch):
    edit(
        patch,
        Pipeline,
        "write",
        ("before.append(put_marker(key, root.version))", "pass"),
        (COMMITTED, "    yield from put_marker(key, root.version)\n" + COMMITTED),
    )


def a_marker_is_removed_with_all_its_stamps(patch):
    edit(patch, journal, "without_markers", ("deletes={MARKER: intents.version}", "deletes={MARKER: 1 << 62}"))


def a_loser_removes_its_own_marker(patch):
    lost = "    raise LostRace\n"
    gone = "RowMutation(put_marker(key, root.version).rows[0].key, deletes={b'd:m': root.version})"
    removed = f"    yield from Mutate('system', [{gone}])\n        {lost.lstrip()}"
    edit(patch, Pipeline, "write", (lost, removed), RowMutation=RowMutation)


def rows_are_written_before_the_commit(patch):
    rows = "[RowMutation(each, {VALUE: Cell(put, root.version)}) for each, put in intents.puts.items()]"
    early = f"yield from Mutate('views', {rows})"
    edit(
        patch,
        Pipeline,
        "write",
        (
            "    if not (yield from self.journal.swap_root",
            f"    {early}\n    if not (yield from self.journal.swap_root",
        ),
        VALUE=VALUE,
        Cell=Cell,
        RowMutation=RowMutation,
    )


def sources_are_read_before_their_back_references(patch):
    edit(patch, Pipeline, "_point", ("if lacking:", "if False:"))
    edit(patch, Pipeline, "_begin", ("    if pointers:", "    if False:"))
    loaded = "    yield from self.load(draft, _first_of_each(changes))\n"
    put = "    yield from put_pointers([*changes[0].pointers(draft.seen.root)], draft.version)\n"
    edit(patch, Pipeline, "attempt", (loaded, loaded + put))


def a_claim_is_taken_over_without_a_fence(patch):
    edit(
        patch,
        Holds,
        "_refuse_held",
        ("if seen.version >= since or (yield from self._journal.fence(seen, since)):", "if True:"),
    )


def a_claim_is_taken_from_its_owner(patch):
    edit(patch, Holds, "claim", ("if owner != key:", "if False:"))


def an_own_claim_is_stamped_downward(patch):
    edit(
        patch,
        Holds,
        "claim",
        ("if owner == key and since >= version:", "if owner == key and since == version:"),
    )


def copies_count_as_of_the_newest_version(patch):
    edit(patch, TakenValues, "used", ("(is_new or takes(source, row))", "True"))


def a_holder_with_equal_values_is_skipped(patch):
    edit(patch, Pipeline, "attempt", ("if follows is None or draft.root_of(changes[0]).body is None:", "if True:"))
    skipped = "    if decision.root is None:"
    edit(patch, page_drafts, "decide", (skipped, f"{skipped}\n        return None\n{skipped}"))


def a_holder_that_followed_any_version_is_skipped(patch):
    newest = "seen.used.get(each, -1) >= decode_version(row[VERSION].value)"
    edit(patch, TakenValues, "_are_newest", (newest, "each in seen.used"))


def no_task_is_left(patch):
    edit(patch, Journal, "apply", ('yield from Mutate("system", tasks)', "pass"))


def a_task_is_removed_before_its_holders_followed(patch):
    follow = "    left = yield from"
    gone = "    yield from Mutate('system', [RowMutation(task, deletes={VALUE: version})])\n"
    edit(patch, CopyFollower, "_follow_few", (follow, gone + follow))


def the_cursor_moves_before_its_page(patch):
    moved = (
        "    found = yield from outbox.scan_holders(outbox.read_task(row).source, (), mine.cursor, batch)\n"
        "    if len(found) == batch:\n"
        "        early = _with_cursor(self.leases.renew(key, mine, now), found[-1][0], 0)\n"
        "        yield from _swap(key, Cell(encode_lease(mine), _stamp(row.get(LEASE), now)), early, now)\n"
    )
    follow = "    source = outbox.unversioned("
    edit(patch, RowTaskRunner, "_advance", (follow, moved + follow))


def an_older_task_is_done_in_place_of_the_newest(patch):
    edit(
        patch,
        RowTaskRunner,
        "_newest",
        ("*tasks[-1], tasks[:-1]", "*tasks[0], tasks[1:]"),
    )


def a_lease_is_on_a_key_that_comes_again(patch):
    patch.setattr(outbox, "version_key", lambda source, _version: outbox.task_key(source) + bytes(8))


def a_version_is_the_clock(patch):
    patch.setattr(drafts, "next_version", lambda now, _seen, _key: now)


def a_task_is_put_before_its_rows(patch):
    """Equal: what its worker reads are back-references, which are there before the commit, and root rows."""
    row = "outbox.task_row(*each, made.version)"
    put = f"    tasks = [{row} for key, made, *_rest in done for each in made.tasks(key).items()]\n"
    put += '    if tasks:\n        yield from Mutate("system", tasks)\n'
    edit(patch, Journal, "apply", ("    if together:", f"{put}    if together:"))


BY_SEED = {
    tombstones_are_left_out: 0,
    a_tombstone_is_stamped_by_the_clock: 3,
    a_back_reference_is_removed_by_the_clock: 118,
    a_delta_leaves_no_token: 1,
    a_delta_does_not_look_at_the_root: 14,
    groups_are_read_after_the_commit: 34,
    a_token_is_removed_before_its_intents: 17,
    recovery_does_not_fence: 2,
    a_back_reference_is_removed_without_a_fence: 26,
    an_unknown_answer_is_a_failure: 9,
    the_next_commit_overwrites_intents: 8,
    intents_are_cleared_at_any_version: 1,
    a_marker_is_put_after_the_commit: 0,
    a_marker_is_removed_with_all_its_stamps: 1,
    a_loser_removes_its_own_marker: 30,
    rows_are_written_before_the_commit: 3,
    sources_are_read_before_their_back_references: 107,
    a_claim_is_taken_from_its_owner: 6,
    copies_count_as_of_the_newest_version: 10,
    a_holder_that_followed_any_version_is_skipped: 0,
    no_task_is_left: 0,
    a_task_is_removed_before_its_holders_followed: 0,
    the_cursor_moves_before_its_page: 5,
    an_older_task_is_done_in_place_of_the_newest: 1,
    a_lease_is_on_a_key_that_comes_again: 0,
    a_version_is_the_clock: 1,
}
"""Each with a seed that finds it."""

BY_SWITCHES = {
    a_delta_looks_at_the_root_before_the_group: ("one group twice", "a", (7, 3)),
    a_hold_is_looked_at_without_a_fence: ("refer and delete", "a", (4, 5)),
    a_delete_that_may_be_refused_leaves_no_mark: ("refer and delete", "b", (3,)),
    who_refers_does_not_look_at_the_mark: ("refer and delete", "b", (4,)),
    a_claim_is_taken_over_without_a_fence: ("one value for two", "a", (4,)),
    a_holder_with_equal_values_is_skipped: ("rename and back", "a", (11,)),
}
"""What 70 seeds do not find: the two processes, who begins, and after how many requests the other one is next."""

BY_LOSS = {whatever_replaced_the_row_was_this_commit: ("one entity, each adds", 4)}
"""What needs a lost answer at one place as well: the two processes, and the request whose answer is lost."""

EQUAL = [a_task_is_put_before_its_rows]
"""What may be done otherwise, each with the reason."""
