"""Every comparison of a kind in a snapshot made twice: by compiled code first, and by Python alone."""

from collections import Counter

from oneread.verify.core_pass import CorePass
from oneread.verify.in_snapshots import SnapshotComparison
from oneread.verify.report import FaultReporter


class Twin:
    """Compares while tests run; `content` counts the kinds of which compiled code says that all is as it should be.

    `left` counts the others, `rows` the root rows that compiled code left to Python in kinds of both.
    """

    def __init__(self, patch):
        self.content, self.left, self.rows = Counter(), Counter(), Counter()
        compare, run, look = SnapshotComparison._compare_rows_of, CorePass.run, CorePass._look_at

        def noted_run(core):
            found = yield from run(core)
            (self.content if found else self.left)[core._kind.cls.__name__] += 1
            return found

        def noted_look(core, comparison, left):
            self.rows[core._kind.cls.__name__] += len(left)
            return look(core, comparison, left)

        def twice(comparison, kind, keyspaces, reporter):
            found, rows = [], comparison.scanner.rows
            both = FaultReporter(keyspaces, found.append)
            patch.setattr(CorePass, "run", noted_run)
            made = yield from compare(comparison, kind, keyspaces, both)
            counted, comparison.scanner.rows = comparison.scanner.rows, rows
            first, found[:] = [*found], []
            patch.setattr(CorePass, "run", not_known)
            again = yield from compare(comparison, kind, keyspaces, both)
            assert first == found
            assert (made.entities, ahead(made)) == (again.entities, ahead(again))
            assert counted == comparison.scanner.rows
            for each in found:
                reporter._report(each)
            return again

        patch.setattr(CorePass, "_look_at", noted_look)
        patch.setattr(SnapshotComparison, "_compare_rows_of", twice)


def not_known(_core):
    yield from ()
    return False


def ahead(compared):
    return None if compared.ahead is None or not compared.ahead.count else (compared.ahead.count, compared.ahead.first)
