"""Every save decided twice in one transaction: by Python, which writes, and by compiled code, which is compared."""

from collections import Counter

from oneread.derivations.changes import Delete, Patch
from oneread.engines.lmdb.transaction import Attempt
from oneread.errors import OnereadError
from oneread.store.engine import CORE_TABLES
from oneread.transactions.native import NativeCommitter


class Twin:
    """Compares while tests run; `decided` counts the saves of each class, `left` those that are Python's.

    `followed` counts the commits in which holders were looked for, `holders` those that followed, and `together` the
    saves of commits of several, `patched` and `deleted` what no save did,
    `in_turn` the transactions.
    """

    def __init__(self, patch):
        self.decided, self.left = Counter(), Counter()
        self.followed = self.holders = self.together = self.patched = self.deleted = self.in_turn = 0
        self._latest = None
        decide_saves, attempt_first = NativeCommitter._decide_saves, NativeCommitter._attempt_first

        def decide(committer, store, commit, now):
            kept = Kept(store)
            decided = decide_saves(committer, kept, commit, now) if isinstance(store._rows, Attempt) else False
            names = [type(each._asked).__name__ for each in commit.changes if each._asked is not None]
            (self.decided if decided else self.left).update(names)
            self.in_turn += decided and commit.basis is not None
            self.patched += decided and isinstance(commit.changes[0], Patch)
            self.deleted += decided and isinstance(commit.changes[0], Delete)
            if decided:
                self.followed += kept.decided.has_scanned
                self.holders += len(kept.decided.rows.writes()[0]) - len(names)
                self.together += len(names) if len(names) > 1 else 0
                shown = [shown_of(each) for each in commit.changes]
                self._latest = kept.decided, shown, counted(store)
            return False

        def attempt(committer, store, commit):
            self._latest = None
            tasks = attempt_first(committer, store, commit)
            if self._latest is not None:
                self._compare(store, commit, tasks)
            return tasks

        def refused_alike(committer, store, commit):
            try:
                return attempt(committer, store, commit)
            except OnereadError as error:
                self.refuse_decided(error)
                raise

        patch.setattr(NativeCommitter, "commit_now", lambda *_given: None)  # it is not decided a second time
        patch.setattr(NativeCommitter, "_decide_saves", decide)
        patch.setattr(NativeCommitter, "_attempt_first", refused_alike)

    def refuse_decided(self, error):
        """Compiled code knows no errors: what Python refuses, it has left to Python."""
        assert self._latest is None, (error, self._latest)

    def _compare(self, store, commit, tasks):
        decided, shown, before = self._latest
        written = {table: rows for table, rows in store._rows._written.items() if rows and table != "system"}
        found = {table: dict(rows) for table, rows in zip(CORE_TABLES, decided.rows.writes(), strict=True) if rows}
        assert found == written
        assert not tasks
        assert shown == [shown_of(each) for each in commit.changes]
        if not commit.jobs and not commit.beside:
            rows, size = map(sum, zip(*decided.requests, strict=True))
            made = tuple(now - then for now, then in zip(counted(store), before, strict=True))
            assert made == (len(decided.requests), rows, size)


class Kept:
    """A store that is asked, and keeps what was decided instead of writing it; observers see nothing of it."""

    def __init__(self, store):
        self._store, self.decided = store, None

    @property
    def has_core(self):
        return isinstance(self._store._rows, Attempt)

    def read_root(self, key):
        return self._store.read_root(key)

    def decide_saves(self, asked):
        return self._store._rows.decide_saves(asked)

    def write_decided(self, decided):
        self.decided = decided


def shown_of(change):
    return change.written.entity, change.written.version, change.written.created


def counted(store):
    trace = store._trace
    return trace.requests, trace.rows, trace.bytes
