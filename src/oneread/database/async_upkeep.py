"""The asynchronous face of long work: what an operator does to a store that is in use.

The synchronous face is generated from this module. See rule 17 of the commit protocol and "Verify and repair of
aggregates" of the decisions page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from oneread.database import survey as surveys
from oneread.database.async_bulk import AsyncBulk
from oneread.database.explaining import Explains
from oneread.database.operations import Operations
from oneread.database.survey import Survey
from oneread.database.worker import Worker
from oneread.derivations.pending_tasks import SetAsideHolder, set_aside_holders
from oneread.errors import InvalidUrl, Unsupported
from oneread.evolution import backfill as backfills
from oneread.evolution.backfill import Backfill, Backfilled
from oneread.plans.arguments import check_function
from oneread.plans.plan import Plan
from oneread.plans.progress import KEEP, MAX_AGE, QUIET_SECONDS, WAIT_SECONDS, OnFault, Progress, Reporter, no_progress
from oneread.plans.trace import Observer, Trace
from oneread.store.backup import Copyable
from oneread.store.statistics import Measured
from oneread.transfer import checkpoints
from oneread.transfer.bulk import BATCH, BATCH_BYTES, OPEN_TASKS, Batches, BatchOptions, Limits, Refusal
from oneread.transfer.csv_dump import CsvDump
from oneread.transfer.dump import Dump, End
from oneread.verify import verify as verifying
from oneread.verify.repair import Repaired, Repairer
from oneread.verify.verify import Verification, Verifier

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

R = TypeVar("R")


class AsyncUpkeep(Explains):
    """What a database can do besides reading and writing entities."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]
    _worker: Worker | None

    def _wake(self, tasks: Sequence[bytes]) -> None:
        if tasks and self._worker is not None:
            self._worker.wake()

    async def run(self, plan: Plan[R]) -> R:
        """Drives one plan; its cost is told to observers only."""
        return await self._driver.run(plan, Trace(self._observers))

    async def set_aside(self, limit: int = 1000) -> list[SetAsideHolder]:
        """The holders whose copies could not follow their source, each with its last error.

        Their copies are stale, and `verify` names them. One request, and one for the rows of up to 200 of them.

        Arguments:
            limit: the most that are listed.
        """
        return await self.run(set_aside_holders(self.operations.catalog, limit))

    async def backfill(
        self,
        *,
        pace: float | None = None,
        progress: Reporter = no_progress,
        fence: bool = False,
        wait: float = WAIT_SECONDS,
        quiet: float = QUIET_SECONDS,
    ) -> Backfilled:
        """Builds the views that were added or changed, on live data, and lets them be read when all of it is in them.

        Goes over every entity, deleted ones too, in steps of 200, each one transaction; programs with the schema before
        may write meanwhile. When they have been quiet they are fenced off (their writes raise SchemaMismatch), what
        they wrote last is found in one more pass, rows of views that are gone are removed, and the views are readable.
        Stopped or killed, it goes on where it was; nothing to do is done at once.

        Costs a scan for each step, and for those with something to do one transaction: reads of the fence, of the
        position, of the entities and what they refer to, and of the groups they count in, and a write for each table
        touched.

        Arguments:
            pace: entities looked at a second, at most.
            progress: told after each step.
            fence: programs with the schema before are cut off as soon as the first pass is done.
            wait: seconds to wait for them to be quiet, at most; then the result is not done and says who wrote last.
            quiet: seconds without a write of theirs.

        Raises:
            SchemaMismatch: the store has a newer schema than this program.
            Unsupported: the engine writes one row at a time, or the store was opened to be read only.
        """
        options = backfills.BackfillOptions(pace, fence, quiet, wait, progress)
        try:
            return await self.run(Backfill(self.operations, self.operations.fence.version, options).run())
        finally:
            await self.run(self.operations.refresh())

    async def verify(
        self,
        *wanted: type,
        pace: float | None = None,
        max_age: float = MAX_AGE,
        on_fault: OnFault | None = None,
        progress: Reporter = no_progress,
        keep: int = KEEP,
        resume: str | None = None,
    ) -> Verification:
        """Compares everything derived with what the entities say, while the store is in use.

        Costs a read of every row once, in requests of 500 rows; what differs is looked at a second time. Memory stays
        flat.

        Arguments:
            wanted: views and models; everything when none is given. A model stands for all that is made of its entities
                and for what they copy, a view for its own rows only.
            pace: rows per second at most, so that a store in use keeps its speed.
            max_age: seconds that the snapshot of one model may take, since LMDB cannot use freed pages again meanwhile.
                What is not done by then is skipped, and the result says so.
            on_fault: called with every fault, in the thread that does the work.
            progress: called after every batch, in that thread.
            keep: faults that the result holds; all are counted.
            resume: `cursor` of an earlier result, or of its last progress: the models done by then are not done again.

        Raises:
            UsageError: a class that is no view or model of the schema; an option that cannot be.
            Unsupported: the engine has no snapshots.
        """
        options = verifying.VerifyOptions(wanted, pace, max_age, on_fault, progress, keep, resume)
        return await self.run(Verifier(self.operations.catalog, options).plan())

    async def repair(
        self,
        *wanted: type,
        pace: float | None = None,
        max_age: float = MAX_AGE,
        on_fault: OnFault | None = None,
        progress: Reporter = no_progress,
        keep: int = KEEP,
    ) -> Repaired:
        """Mends everything derived that is not what the entities say, while the store is in use.

        Verifies, looks again at each fault inside a transaction and mends it there, and verifies again: at least two
        verifications when something is wrong, and a small transaction for each hundred faults. What an entity's own
        fields say is never changed; what cannot be mended without being told what is right is left, and named.

        Arguments:
            wanted: views and models; everything when none is given.
            pace: rows per second at most that are verified.
            max_age: seconds that the snapshot of one model may take.
            on_fault: called with every fault that a verification finds.
            progress: called after every batch.
            keep: faults that the result holds.

        Raises:
            UsageError: a class that is no view or model of the schema; an option that cannot be.
            Unsupported: the engine has no snapshots or its transactions do not span rows.
        """
        options = verifying.VerifyOptions(wanted, pace, max_age, on_fault, progress, keep)
        operations = self.operations
        return await self.run(Repairer(operations.catalog, operations.committer, options).plan())

    def bulk(
        self,
        *,
        batch: int = BATCH,
        batch_bytes: int = BATCH_BYTES,
        checkpoint: str | None = None,
        restart: bool = False,
        on_refused: Callable[[Refusal], object] | None = None,
        progress: Reporter = no_progress,
        total: int | None = None,
        max_tasks: int = OPEN_TASKS,
    ) -> AsyncBulk:
        """Writes many entities in bounded batches: `async with db.bulk() as bulk: await bulk.save(entity)`.

        Each batch costs one transaction, as `save_all` does: a read of its entities and of what they refer to, a read
        of the groups they count in, and a write for each table touched; with a checkpoint, a read and a write of its
        row more, and one more transaction at the end.

        Arguments:
            batch: changes of one transaction.
            batch_bytes: bytes that wait for one transaction, about.
            checkpoint: a name under which the last position is stored in the same transaction as its batch. Opened
                again under it, `bulk.position` says where to go on: each change between two positions is stored exactly
                once, whenever the process is killed.
            restart: an earlier position under this name is forgotten.
            on_refused: told of each change that is left out, with its error; without it, the first one ends the work
                with its error: what was given before it is stored.
            progress: told after each batch.
            total: changes to be expected, for progress.
            max_tasks: fan-outs that may wait in the outbox; beyond, the writer does some of them itself.

        Raises:
            UsageError: a bound is no whole number above 0.
            InvalidValue: the checkpoint's name is empty or too long.
        """
        work = Batches(
            self.operations.changing,
            self.operations.committer,
            BatchOptions(
                Limits(batch, batch_bytes, max_tasks),
                None if checkpoint is None else checkpoints.key_of(checkpoint),
                restart,
                on_refused,
                progress,
                total,
            ),
        )
        return AsyncBulk(self._driver, self.operations, work, Trace(self._observers), self._wake)

    async def survey(self, *, exact: bool = False, progress: Reporter = no_progress) -> Survey:
        """What the store holds: rows and bytes, views and their states, tasks, and what the engine says of itself.

        A few requests. With `exact`, rows and bytes of each model and view as well: every row is read, 2,000 a request.
        """
        check_function("progress", progress)
        engine = self._driver.engine
        counted = engine.statistics() if isinstance(engine, Measured) else None
        return await self.run(surveys.survey(counted, progress, exact=exact))

    async def dump(self, write: Callable[[bytes], object], *models: type, progress: Reporter = no_progress) -> End:
        """Writes every entity, or those of some models, as JSON lines, from one moment of the store.

        Costs a read of the entities' rows once, in requests of 500, and of the rows they refer to. Memory stays flat.
        Engines without snapshots give each entity as it is when it is reached. Derived rows are not written: loading
        makes them.

        Arguments:
            write: given each line, in the thread that does the work.
            models: whose entities; everything when none is given.
            progress: called after every batch, in that thread.

        Raises:
            UsageError: a class that is no model of the schema.
        """
        check_function("write", write)
        check_function("progress", progress)
        for model in models:
            self.operations.kind(model)
        work = Dump(self.operations.catalog, models, write, progress)
        return await self.run(work.whole() if self._driver.engine.capabilities.snapshot else work.lines())

    async def dump_csv(self, write: Callable[[bytes], object], model: type, *, progress: Reporter = no_progress) -> int:
        """Writes the living entities of one model as CSV; returns how many. Costs what `dump` costs.

        Arguments:
            write: given each line, the header first, in the thread that does the work.
            model: whose entities; those of its variants are left out.
            progress: called after every batch, in that thread.

        Raises:
            UsageError: the class is no model of the schema.
            InvalidValue: a value has no exact form in CSV.
        """
        check_function("write", write)
        check_function("progress", progress)
        self.operations.kind(model)
        work = CsvDump(self.operations.catalog, model, write, progress)
        return await self.run(work.whole() if self._driver.engine.capabilities.snapshot else work.rows())

    async def backup(self, target: str, *, progress: Reporter = no_progress) -> int:
        """Copies the whole store to a new folder while it is in use; returns the copy's bytes.

        The copy is one moment of the store, compact, every tenant of it included, and opens like any store:
        `connect("lmdb://" + target, schema)`. It is there when it is whole and on disk, or not at all. Costs a read of
        every page and a write of those in use; LMDB cannot use freed pages again meanwhile, so the store may grow.

        Arguments:
            target: a folder that is not there yet, in one that is.
            progress: called a few times a second, by another thread, with the bytes written.

        Raises:
            Unsupported: the engine cannot copy its store.
            InvalidUrl: the target is there already, or cannot be made.
            LimitExceeded: the disk is full; nothing is left of the copy.
        """
        engine = self._driver.engine
        if not isinstance(engine, Copyable):
            raise Unsupported("this engine cannot copy its store; dump the entities instead")
        if type(target) is not str or not target.isprintable():
            raise InvalidUrl("a copy goes to a folder, given as text", target=target)
        check_function("progress", progress)

        def told(size: int) -> None:
            progress(Progress("copying, bytes", size))

        return await self._driver.in_thread(lambda: engine.copy_to(target, told))  # async only
        # sync only: return engine.copy_to(target, told)
