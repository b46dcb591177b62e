"""The verbs that write files: dumps of entities, and copies of the whole store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from oneread.database.cell_scrub import CellScrub
from oneread.database.operations import Operations
from oneread.database.proof import LeftBytes, check_needles, left_in_file, left_in_rows
from oneread.errors import InvalidUrl, Unsupported, UsageError
from oneread.plans.arguments import check_function
from oneread.plans.in_time import in_whole_time
from oneread.plans.plan import Plan
from oneread.plans.progress import Progress, Reporter, no_progress
from oneread.plans.trace import Observer, Trace
from oneread.store.engine import Copyable, Scrubbable, Scrubbed
from oneread.transfer.csv_dump import CsvDump
from oneread.transfer.dump import Dump, End, in_snapshot
from oneread.transfer.without_personal import CsvDumpWithoutPersonal, DumpWithoutPersonal

if TYPE_CHECKING:
    from oneread.plans.async_driver import AsyncDriver

R = TypeVar("R")

SCRUB_WAIT = 60.0
"""Seconds for which a scrub waits for readers of before."""
_LONGEST_WAIT: Final = 86_400


def is_wanted(without_personal: bool) -> bool:  # noqa: FBT001 - checked here
    """The option. Raises UsageError for another value."""
    if type(without_personal) is not bool:
        raise UsageError("without_personal is True or False", given=without_personal)
    return without_personal


class AsyncFileVerbs:
    """The verbs of an open store that write files."""

    operations: Operations
    _driver: AsyncDriver
    _observers: tuple[Observer, ...]

    async def _run(self, plan: Plan[R]) -> R:
        return await self._driver.run(plan, Trace(self._observers))

    async def dump(
        self,
        write: Callable[[bytes], object],
        *models: type,
        without_personal: bool = False,
        progress: Reporter = no_progress,
        timeout: float | None = None,  # noqa: ASYNC109, RUF100 - of the whole call
    ) -> End:
        """Writes every entity and counter, or the entities of some models, as JSON lines, from one moment of the store.

        Costs a read of the entities' rows once, in requests of 500, and of the rows they refer to; and a request or two
        for each counter. Memory stays flat.
        Engines without snapshots give each entity as it is when it is reached. Derived rows are not written: loading
        makes them.

        Arguments:
            write: called with each line, in the thread that does the work.
            models: the models to dump; all, and the counters, when none is given.
            without_personal: placeholders stand in place of the values of fields that are `Personal()`, for test data;
                without counters, whose names may be about a person, and without the last values of deleted entities.
            progress: called after every batch, in that thread.
            timeout: seconds that the whole call may take. None: as long as it takes.

        Raises:
            UsageError: a class is not a model of the schema.
            InvalidValue: a field takes no placeholder that its type makes.
            SchemaMismatch: a newer program has added fields, which the dump would lack.
            Unavailable: not within `timeout`; what was written lacks the last line, so no load takes it for whole.
        """
        for model in models:
            self.operations.kind(model)
        kind = DumpWithoutPersonal if is_wanted(without_personal) else Dump
        work = kind(self.operations.catalog, self.operations.parts, models, write, progress)
        return await self._run(in_whole_time(in_snapshot(self._driver.engine, work.write_lines), timeout))

    async def dump_csv(
        self,
        write: Callable[[bytes], object],
        model: type,
        *,
        without_personal: bool = False,
        progress: Reporter = no_progress,
        timeout: float | None = None,  # noqa: ASYNC109, RUF100 - of the whole call
    ) -> int:
        """Writes the living entities of one model as CSV; returns how many. Costs what `dump` costs.

        Arguments:
            write: called with each line, the header first, in the thread that does the work.
            model: the model to dump; one whose entities may be of variants is dumped as each of these.
            without_personal: placeholders stand in place of the values of fields that are `Personal()`.
            progress: called after every batch, in that thread.
            timeout: seconds that the whole call may take. None: as long as it takes.

        Raises:
            Unavailable: not within `timeout`; what was written is not whole.
            UsageError: the class is not a model of the schema, or entities of its variants would be missing.
            InvalidValue: a value has no exact form in CSV.
            SchemaMismatch: a newer program has added fields, which the dump would lack.
        """
        self.operations.kind(model)
        kind = CsvDumpWithoutPersonal if is_wanted(without_personal) else CsvDump
        work = kind(self.operations.catalog, model, write, progress, self.operations.parts.cells)
        return await self._run(in_whole_time(in_snapshot(self._driver.engine, work.write_lines), timeout))

    async def backup(self, target: str, *, compact: bool = False, progress: Reporter = no_progress) -> int:
        """Copies the whole store to a new folder while it is in use; returns the copy's bytes.

        The copy is one moment of the store, every tenant of it included, without free pages, and opens like any store:
        `connect("lmdb://" + target, schema)`. It appears once it is complete and on disk, or not at all. Costs a read
        of every page and a write of those in use; LMDB cannot reuse freed pages meanwhile, so the store may grow.

        Arguments:
            target: a new folder; its parent exists.
            compact: writes the rows in the order of their keys into full pages, where they are as they were stored
                otherwise, half empty from many small writes; takes about a microsecond for each row. Later writes
                between the rows split full pages again.
            progress: called a few times a second, by another thread, with the bytes written.

        Raises:
            Unsupported: the engine cannot copy its store.
            InvalidUrl: the target exists, or cannot be made.
            LimitExceeded: the disk is full; the partial copy was removed.
        """
        engine = self._driver.engine
        if type(compact) is not bool:
            raise UsageError("compact is True or False", given=compact)
        if not isinstance(engine, Copyable):
            raise Unsupported("this engine cannot copy its store; dump the entities instead")
        if type(target) is not str or not target.isprintable():
            raise InvalidUrl("the target of a backup is the path of a new folder, as text", target=target)
        check_function("progress", progress)

        def report(size: int) -> None:
            progress(Progress("copying, bytes", size))

        return await self._driver.in_thread(lambda: engine.copy_to(target, report, compact=compact))  # async only
        # sync only: return engine.copy_to(target, report, compact=compact)

    async def scrub(self, *, wait: float = SCRUB_WAIT, progress: Reporter = no_progress) -> Scrubbed:
        """Overwrites what was removed or replaced and is still stored, while programs read and write.

        LMDB keeps the bytes of what was removed in freed pages, and between the entries of others, until they are used
        again. Writes all entries of the file again, every tenant's, some thousand in a transaction, and overwrites all
        free pages; the file may grow, and does not shrink.

        A store that changes one row at a time keeps copied values in cells: beside holders that refer to another entity
        by now, and over documents with older ones. Reads all root rows, 200 a request; puts what the sources have, and
        commits each document under a cell again.

        Interrupted, it is done again from the beginning.

        Arguments:
            wait: seconds until readers of before have ended, which hold pages of the file; a day at most.
            progress: called after each transaction or request with what was written.

        Raises:
            Unsupported: the store is in memory.
            Unavailable: readers of before have not ended; the error names their processes. Or the store did not answer.
            LimitExceeded: the disk or the map is full.
        """
        engine = self._driver.engine
        if not isinstance(engine, Scrubbable) and self.operations.spans_rows:
            raise Unsupported("this store is in memory: what is removed from it is not kept")
        if type(wait) not in (int, float) or not 0 <= wait <= _LONGEST_WAIT:
            raise UsageError("wait: expected seconds, 0 to a day", given=wait)
        check_function("progress", progress)

        def report(entries: int) -> None:
            progress(Progress("scrubbing, entries", entries))

        if not isinstance(engine, Scrubbable):
            return await self._run(CellScrub(self.operations, report).run())
        return await self._driver.in_thread(lambda: engine.scrub(report, wait))  # async only
        # sync only: return engine.scrub(report, wait)

    async def left_bytes(self, *wanted: bytes, files: Sequence[str] = ()) -> list[LeftBytes]:
        """Where these bytes are left: in rows, also removed ones that are not purged, in the store's file, in dumps.

        Costs a read of all rows and of the files. In LMDB's file it finds freed pages, too, until a `scrub`.

        Arguments:
            *wanted: bytes of values that were erased, at least 3 each.
            files: further files, such as dumps; unpacked where they are compressed.

        Raises:
            InvalidQuery: there is nothing to look for, or it is too short.
            UsageError: a file cannot be read.
        """
        needles = check_needles(wanted)
        engine = self._driver.engine
        found = await self._run(left_in_rows(self.operations.catalog, needles))
        own = [engine.data_file()] if isinstance(engine, Scrubbable) else []
        for path in [*own, *files]:
            try:
                found += left_in_file(path, needles)
            except OSError as error:
                raise UsageError("this file cannot be read", path=path, reason=str(error)) from error
        return found
