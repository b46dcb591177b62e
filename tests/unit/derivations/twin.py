"""Every save decided twice in one transaction: by Python, which writes, and by compiled code, which is compared."""

import copy
from collections import Counter

from oneread.derivations.changes import Delete, Patch
from oneread.engines.lmdb.row_format import ENTRY
from oneread.engines.lmdb.transaction import Attempt
from oneread.errors import OnereadError
from oneread.transactions.commit import Commit
from oneread.transactions.native import NativeCommitter


def decide_in_python(patch):
    """Has Python decide what compiled code would."""
    patch.setattr(NativeCommitter, "_decide_saves", lambda *_asked: None)
    patch.setattr(NativeCommitter, "commit_now", lambda *_given: None)


class Twin:
    """Compares while tests run; `decided` counts the saves of each class, `left` those that are Python's.

    `followed` counts the commits in which holders were looked for, `holders` those that followed, and `together` the
    saves of commits of several, `patched` and `deleted` what no save did, `in_turn` the transactions, `sources` the
    holders that theirs followed in turn, `entries` the rows of views that followed from rows of feeds, `logged` the
    commits that wrote system rows, `tasks` the tasks that were left.
    """

    def __init__(self, patch):
        self.decided, self.left = Counter(), Counter()
        self.followed = self.holders = self.together = self.patched = self.deleted = self.in_turn = self.sources = 0
        self.entries = self.logged = self.tasks = self.by_python = 0
        self._decide_saves, self._attempt_first = NativeCommitter._decide_saves, NativeCommitter._attempt_first

        def attempt(committer, store, commit):
            if not isinstance(store._rows, Attempt):
                return self._attempt_first(committer, store, commit)
            clock, now = store.now, store.now()
            store.now = lambda: now
            aside = store.over(emptied(store._rows))
            aside._trace.allowance = None
            with patch.context() as core:
                found = self._by_core(core, (committer, store, aside), commit)
            before = counted(store)
            try:
                with patch.context() as python:
                    decide_in_python(python)
                    tasks = self._attempt_first(committer, store, commit)
            except OnereadError as error:
                self.refuse_decided(error, found)
                raise
            finally:
                store.now = clock
            if found is not None:
                self._compare(store, aside, before, commit, (*found, tasks))
            return tasks

        patch.setattr(NativeCommitter, "commit_now", lambda *_given: None)  # each is decided in a transaction
        patch.setattr(NativeCommitter, "_attempt_first", attempt)

    def refuse_decided(self, error, found):
        """Compiled code knows no errors: what Python refuses, it has left to Python."""
        assert found is None, (error, found)

    def _by_core(self, patch, where, commit):
        """What compiled code makes of a commit, beside nothing: its tasks, and what it shows; None if Python's."""
        committer, store, aside = where
        alone = Commit(commit.changes, commit.swaps, commit.basis, unfollowed=commit.unfollowed)
        kept = []

        def decide(*asked):
            decided = self._decide_saves(*asked)
            if decided is None:
                raise LeftToPython
            kept.append(decided)
            return decided

        patch.setattr(NativeCommitter, "_decide_saves", decide)
        try:
            tasks = self._attempt_first(committer, aside, alone)
        except LeftToPython:
            tasks = None
        except OnereadError:
            assert not kept
            return None  # before anything is decided; Python raises it as well
        names = [type(each._asked).__name__ for each in commit.changes if getattr(each, "_asked", None) is not None]
        (self.left if tasks is None else self.decided).update(names)
        if tasks is None:
            store._rows.way = getattr(aside._rows, "way", None)
            return None
        (decided,) = kept
        self.in_turn += commit.basis is not None
        self.patched += isinstance(commit.changes[0], Patch)
        self.deleted += isinstance(commit.changes[0], Delete)
        self.followed += any(is_source for *_of, is_source in decided.saved)
        self.sources += len(decided.checked)
        self.by_python += not decided.is_complete
        self.holders += len(decided.rows.writes()[0]) - len(names)
        self.together += len(names) if len(names) > 1 else 0
        self.entries += sum(is_entry(row) for row in aside._rows._written.get("views", {}).values())
        self.logged += bool(aside._rows._written.get("system"))
        self.tasks += len(tasks)
        return tasks, [shown_of(each) for each in commit.changes]

    def _compare(self, store, aside, before, commit, outcome):
        tasks, shown, tasks_of_python = outcome
        is_alone = not commit.jobs and not commit.beside
        found, written = rows_of(aside, is_alone), rows_of(store, is_alone)
        assert found == written
        assert tasks == tasks_of_python
        assert getattr(aside._rows, "_scanned", False) >= getattr(store._rows, "_scanned", False)
        assert shown == [shown_of(each) for each in commit.changes]
        if is_alone:
            assert counted(aside) == tuple(now - then for now, then in zip(counted(store), before, strict=True))


class LeftToPython(Exception):
    """Ends an attempt of compiled code."""


def emptied(attempt):
    """The same attempt, before it has read or written anything."""
    copied = copy.copy(attempt)
    copied._buffer, copied._read = {}, []
    return copied


def rows_of(store, is_alone):
    """What was written, without what a commit does beside its changes."""
    written = store._rows._written
    return {table: rows for table, rows in written.items() if rows and (is_alone or table != "system")}


def is_entry(row):
    return row is not None and row[0] >> 5 == ENTRY


def shown_of(change):
    return change.written.entity, change.written.version, change.written.created


def counted(store):
    trace = store._trace
    return trace.requests, trace.rows, trace.bytes
