"""Rules broken on purpose, each by substituting one function: what the simulator must find."""

from functools import partial

from msgspec.structs import replace

from oneread.database.operations import Operations
from oneread.derivations import changes, emitted_record
from oneread.derivations.changes import Delete, Patch
from oneread.derivations.copies import CopiedValues, Reference, keys_of
from oneread.derivations.copy_filler import CopyFiller
from oneread.derivations.entity_type import EntityType
from oneread.derivations.following_changes import FollowSource
from oneread.derivations.plain_commits import PlainHolders
from oneread.plans.effects import Atomically, Now, Separately
from oneread.store.keys import holder_part
from oneread.store.requests import Read, Scan
from oneread.store.rows import VALUE, Cell, RowRange
from oneread.transactions import loading, native, outbox
from oneread.transactions.claims import Claims
from oneread.transactions.commit import NO_CHANGE
from oneread.transactions.deltas import Delta
from oneread.transactions.derived_writes import NO_DERIVED_WRITES
from oneread.transactions.native import NativeCommitter
from oneread.transactions.task_batches import TaskRunner
from oneread.transactions.unit_of_work import UnitOfWork


def a_task_carries_its_sources_state(patch):
    """Late publish: the task gives holders the values that the source had when the task was made."""
    payloads = {}
    put = outbox.add_task

    def remembering(unit, source, version, unchanged=()):
        key = put(unit, source, version, unchanged)
        payloads[key] = unit.roots.row(source)
        return key

    def batch(self, work, key, size, _seen):
        unit = work.unit
        unit.load("system", [key])
        if unit.get("system", key) is not None:
            task = outbox.read_task(unit.get("system", key))
            unit.roots[task.source] = payloads[key]
            work.now = rest_of_batch(self._committer, unit, key, task, size)

    patch.setattr(outbox, "add_task", remembering)
    patch.setattr(TaskRunner, "_batch", batch)


def rest_of_batch(self, unit, key, task, size):
    now = unit.store.now()
    within = outbox.holders_of(task.source)
    start = task.cursor + b"\x00" if task.cursor else within.start
    targets = unit.scan("views", RowRange(start, within.stop), size)
    follows = [
        self._followers.of_source(task.source, holder_part(target[len(within.start) :])) for target, _row in targets
    ]
    self.decide(unit, follows, now)
    if len(targets) < size:
        unit.remove("system", key)
    else:
        outbox.save_task(unit, key, outbox.Task(task.source, targets[-1][0]), now)
    return now


def a_task_reads_its_source_before_its_transaction(patch):
    def step(self, size):
        tasks = yield from Scan("system", outbox.TASKS, 1)
        if tasks:
            key = tasks[0][0]
            source = outbox.read_task(tasks[0][1]).source
            (row,) = yield from Read("roots", [source], "dm")

            def batch(store):
                unit = UnitOfWork(store, self.catalog.name_of)
                unit.load("system", [key])
                unit.roots[source] = row
                if unit.get("system", key) is not None:
                    task = outbox.read_task(unit.get("system", key))
                    unit.flush(rest_of_batch(self.committer, unit, key, task, size))

            yield from Atomically(batch)
        return bool(tasks)

    patch.setattr(Operations, "drain_step", step)


def in_two_transactions(task_first):
    """A batch whose task is changed in a transaction of its own; `task_first` of whether it is the last batch."""

    def step(self, size):
        tasks = yield from Scan("system", outbox.TASKS, 1)
        if not tasks:
            return False
        key, task = tasks[0][0], outbox.read_task(tasks[0][1])
        within = outbox.holders_of(task.source)
        start = task.cursor + b"\x00" if task.cursor else within.start
        targets = yield from Scan("views", RowRange(start, within.stop), size)
        last = len(targets) < size

        def entity_types(store):
            unit = UnitOfWork(store, self.catalog.name_of)
            now = store.now()
            committer = self.committer
            follows = [
                committer._followers.of_source(task.source, holder_part(target[len(within.start) :]))
                for target, _row in targets
            ]
            committer.decide(unit, follows, now)
            unit.flush(now)

        def moved(store):
            row = None
            if not last:
                row = {VALUE: Cell(outbox._encode(outbox.Task(task.source, targets[-1][0])), 1)}
            store.replace("system", {key: row})

        for each in (moved, entity_types) if task_first(last) else (entity_types, moved):
            yield from Atomically(each)
        return True

    return step


def the_cursor_is_saved_before_the_batch(patch):
    patch.setattr(Operations, "drain_step", in_two_transactions(lambda last: not last))


def the_task_is_deleted_before_its_last_batch(patch):
    patch.setattr(Operations, "drain_step", in_two_transactions(lambda last: last))


def a_transaction_does_not_check_versions(patch):
    patch.setattr(loading, "_version", lambda _row: 0)


def a_commit_decides_outside_of_its_transaction(patch):
    whole = NativeCommitter.commit

    def commit(self, commit):
        if commit.basis is not None:
            return (yield from whole(self, commit))
        unit = UnitOfWork(name_of=self.name_of)
        now = yield from Now()
        yield from Separately(partial(decided, self, unit, commit.changes, now))
        return (yield from Atomically(partial(flushed, unit, now)))

    def decided(self, unit, given, now, store):
        unit.store = store
        self.decide(unit, given, now)

    def flushed(unit, now, store):
        unit.store = store
        unit.flush(now)
        return unit.tasks

    patch.setattr(NativeCommitter, "commit", commit)


def a_source_made_again_has_no_fan_out(patch):
    """Fan-out decided from bodies: there was none, so it is taken for a first creation."""
    fans_out = EntityType.fans_out

    def from_bodies(self, before, after):
        gone = before is not None and before.record.get(emitted_record.COPIED) == emitted_record.SOURCE_DELETED
        return fans_out(self, None if gone else before, after)

    patch.setattr(EntityType, "fans_out", from_bodies)


def a_deleted_source_has_no_fan_out(patch):
    fans_out = EntityType.fans_out
    patch.setattr(
        EntityType,
        "fans_out",
        lambda self, before, after: (
            after.get(emitted_record.COPIED) != emitted_record.SOURCE_DELETED and fans_out(self, before, after)
        ),
    )


def a_first_creation_has_no_fan_out(patch):
    """A holder may have been waiting: `missing_ok`."""
    patch.setattr(CopiedValues, "may_be_awaited", lambda _self, _after: False)


def a_delete_forgets_its_contributions(patch):
    decide = Delete.decide
    patch.setattr(
        Delete,
        "decide",
        lambda self, seen, version, sources: replace(
            decide(self, seen, version, sources), operations=NO_DERIVED_WRITES
        ),
    )


def a_version_does_not_grow(patch):
    patch.setattr(native, "next_version", lambda now, seen, _key: max(now, seen))


def a_version_is_the_clock(patch):
    patch.setattr(native, "next_version", lambda now, _seen, _key: now)


def back_references_stay_when_a_reference_changes(patch):
    references = emitted_record._DIFFS[emitted_record.REFERENCES]

    def only_first(diff, prefix, old, new):
        if not old or not new:
            references(diff, prefix, old, new)

    patch.setitem(emitted_record._DIFFS, emitted_record.REFERENCES, only_first)


def index_rows_are_put_and_never_taken_back(patch):
    rows = emitted_record._DIFFS[emitted_record.ROWS]

    def only_puts(diff, prefix, _old, new):
        rows(diff, prefix, (), new)

    patch.setitem(emitted_record._DIFFS, emitted_record.ROWS, only_puts)


def a_sum_is_stated_instead_of_added(patch):
    """The delta is put as if the group's row had not been there."""
    onto = Delta.onto
    patch.setattr(Delta, "onto", lambda self, _data: onto(self, None))


def claims_are_released_too_early(patch):
    """A value is free as soon as its holder gives it up, although another may have taken it in the same transaction."""
    settle = Claims.settle

    def releasing(self, rows, now, refused):
        settle(self, rows, now, refused)
        for key in self._released:
            rows.remove("counts", key)

    patch.setattr(Claims, "settle", releasing)


def claims_are_not_looked_at(patch):
    def taking(self, rows, now, _refused):
        for key, (*_others, owner) in [each for each in self._claimed.items() if each[1]]:
            rows.put("counts", key, {VALUE: Cell(owner, now)})
        for key in self._released.keys() - self._claimed.keys():
            rows.remove("counts", key)

    patch.setattr(Claims, "settle", taking)


def a_copy_is_kept_although_its_reference_changed(patch):
    filled = CopyFiller._fill_copy

    def keeping(self, reference, entity, key, inputs):
        old = getattr(inputs.before.entity, reference.name, None)
        if type(old) is reference.copy and not inputs.changed:
            return replace(old, ref=getattr(entity, reference.name).ref)
        return filled(self, reference, entity, key, inputs)

    patch.setattr(CopyFiller, "_fill_copy", keeping)


def a_holder_that_followed_has_no_fan_out(patch):
    """The second hop is forgotten."""
    decide = FollowSource.decide
    patch.setattr(
        FollowSource,
        "decide",
        lambda self, seen, version, sources: replace(decide(self, seen, version, sources), fans_out=False),
    )


def more_than_the_bound_is_forgotten(patch):
    patch.setattr(outbox, "add_task", lambda _unit, _source, _version, _unchanged: b"")


def every_selection_counts_as_unchanged(patch):
    patch.setattr(EntityType, "unchanged_selections", lambda self, _before, _after: list(self.copied.selections))


def change_what_holders_decide(patch, change):
    """Changes the decisions about holders, plain ones and others, by a function of the decision and the row."""
    decide, plainly = FollowSource.decide, PlainHolders.decide

    def plain(self, key, seen, version):
        decision = plainly(self, key, seen, version)
        return None if decision is None else change(decision, seen)

    patch.setattr(PlainHolders, "decide", plain)
    patch.setattr(
        FollowSource,
        "decide",
        lambda self, seen, version, sources: change(decide(self, seen, version, sources), seen),
    )


def a_leaf_copy_does_not_follow(patch):
    """A holder whose record stays the same is left as it is."""

    def skipping(decision, seen):
        same = decision.root is not None and decision.root.emitted == seen.emitted
        return NO_CHANGE if same else decision

    change_what_holders_decide(patch, skipping)


def a_change_keeps_the_own_version(patch):
    root = EntityType.root
    patch.setattr(
        EntityType,
        "root",
        lambda self, version, _own, filled, seen, before: root(self, version, version - 1, filled, seen, before),
    )


def a_followed_holder_keeps_its_rows_version(patch):
    """As a leaf copy did once: a transaction that read the old copy would commit."""

    def keeping(found, seen):
        return found if found.root is None else replace(found, root=replace(found.root, version=seen.version))

    change_what_holders_decide(patch, keeping)


def a_deleted_source_is_followed_as_if_it_lived(patch):
    patch.setattr(
        Reference,
        "updated_copy",
        lambda self, copy, source: copy if source.entity is None else self.filled_copy(copy, source),
    )


def the_old_record_is_taken_from_now(patch):
    """The record is compared with itself, so that a change never reaches its holders."""
    decision = changes.decision

    def without_fan_out(catalog, entity_type, key, filled, attempt):
        found = decision(catalog, entity_type, key, filled, attempt)
        return replace(found, fans_out=found.fans_out and attempt.before.entity is None)

    patch.setattr(changes, "decision", without_fan_out)


def an_attempt_resumes_where_the_last_one_ended(patch):
    """A function that decides once, so that one that shared a failing commit is flushed from an old overlay."""

    whole = NativeCommitter.commit

    def commit(self, commit):
        if commit.basis is not None:
            return whole(self, commit)
        kept = []

        def once(store):
            if not kept:
                unit = UnitOfWork(store, self.name_of)
                kept.append((unit, store.now()))
                self.decide(unit, commit.changes, kept[0][1])
            kept[0][0].store = store
            kept[0][0].flush(kept[0][1])
            return kept[0][0].tasks

        return Atomically(once).__iter__()

    patch.setattr(NativeCommitter, "commit", commit)


def a_patch_asks_for_what_no_field_referred_to(patch):
    """As it was before the simulator found it: a copy is left empty when another field refers to its source already."""
    links = Patch.links

    def unknown(self, seen):
        before = self._catalog.state(self.key, seen)
        if before.entity is None:
            return []
        known = keys_of(self._catalog.type_of(before.entity).refs(before.entity))
        return [key for key in links(self, seen) if key not in known]

    patch.setattr(Patch, "links", unknown)


MUTATIONS = {
    a_task_carries_its_sources_state: 1,
    a_task_reads_its_source_before_its_transaction: 0,
    the_cursor_is_saved_before_the_batch: 0,
    the_task_is_deleted_before_its_last_batch: 6,
    a_transaction_does_not_check_versions: 20,
    a_commit_decides_outside_of_its_transaction: 1,
    a_source_made_again_has_no_fan_out: 69,
    a_deleted_source_has_no_fan_out: 1,
    a_first_creation_has_no_fan_out: 10,
    a_delete_forgets_its_contributions: 1,
    a_version_does_not_grow: 0,
    a_version_is_the_clock: 1,
    back_references_stay_when_a_reference_changes: 0,
    index_rows_are_put_and_never_taken_back: 0,
    a_sum_is_stated_instead_of_added: 0,
    claims_are_released_too_early: 2,
    claims_are_not_looked_at: 1,
    a_copy_is_kept_although_its_reference_changed: 0,
    a_holder_that_followed_has_no_fan_out: 0,
    more_than_the_bound_is_forgotten: 0,
    every_selection_counts_as_unchanged: 0,
    a_leaf_copy_does_not_follow: 1,
    a_change_keeps_the_own_version: 0,
    a_followed_holder_keeps_its_rows_version: 0,
    a_deleted_source_is_followed_as_if_it_lived: 1,
    the_old_record_is_taken_from_now: 0,
    an_attempt_resumes_where_the_last_one_ended: 14,
    a_patch_asks_for_what_no_field_referred_to: 3,
}
"""Each with the first seed that finds it: tried before all others, since the search takes seconds."""
