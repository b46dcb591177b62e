"""Programs that leave views out, beside older ones that read them, until the views are dropped by name.

Up to the drop no program is refused, and no row may lack what the older release declares; from then on older programs
are refused, and others are not until the backfill ends them. See docs/decisions/0158-changes-that-cut-off.md.
"""

from oneread.derivations.schema_rows import stored_schema
from oneread.errors import SchemaMismatch
from oneread.evolution.migrate import apply_migration
from oneread.models.model import stored_name
from oneread.transactions.journal import Journal
from oneread.transactions.system_commits import RowSystem
from tests.simulation.row_fence import ACTS, RowFence
from tests.simulation.shops import shop


class RowUndeclared(RowFence):
    """One history, in which the closer leaves views out, drops them, and builds."""

    name, old_shop, newer = "undeclared", shop(sees=True), {"left out": shop()}

    def was_opened(self, program, operations):
        program.operations = operations
        if self.is_opened:
            self.kinds = frozenset()
            self.backfill()
            return
        self.is_opened = True
        self.kinds = frozenset(kind.prefix for kind in operations.catalog.kinds.values())
        self.look_at_rows()
        writer = self.new[0]
        self.open_now(writer, self.new_shop)
        writer.steps = self.acts(self.new_shop, ACTS)
        self.at(1, self.next_step, writer)
        self.at(self.chance.choice((0, 2_000, 9_000, 60_000)), self.drop)

    def drop(self):
        views = [stored_name(each) for each in self.old_shop.added]
        committer = RowSystem(Journal(clock=self.closer.clock))
        self.start(self.closer, "drop", apply_migration(self.new_shop.schema.declared(), views, committer))

    def done(self, program, value):
        if program.doing != "drop":
            super().done(program, value)
            return
        self.note(program, "dropped")
        self.start(self.closer, "open", self.opening(self.closer))

    def failed(self, program, failure):
        if program is self.new[0] and isinstance(failure, SchemaMismatch) and self.writers() > 2:
            self.open_now(program, self.new_shop)  # by the backfill, as every program of the version before
            self.at(5, self.next_step, program)
        elif program is self.closer and program.doing == "drop" and not isinstance(failure, SchemaMismatch):
            self.note(program, f"{type(failure).__name__}: {failure}")
            self.at(5, self.drop)
        else:
            super().failed(program, failure)

    def writers(self):
        """The oldest version that may write, whatever is waited for."""
        return self.drive(self.closer, stored_schema()).writers
