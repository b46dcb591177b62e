"""Threads in which the synchronous driver makes independent requests at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from oneread.store.uninterrupted import Completion

T = TypeVar("T")


class ThreadPool:
    """Runs functions at the same time, as far as there are threads; started when it is first used."""

    def __init__(self, threads: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="oneread-requests")

    def run_all(self, functions: Sequence[Callable[[], T]]) -> list[T]:
        """The results of all functions, in their order; raises the first of their errors when all have ended.

        The caller runs those that no thread has begun. So a function may call this in turn, and a pool whose threads
        are busy, or were lost by a fork, is never waited for.
        """
        begun = [(function, self._executor.submit(function)) for function in functions[1:]]
        ended = [_ended(function) for function in functions[:1]]
        others = [_ended(function if future.cancel() else future.result) for function, future in reversed(begun)]
        return [each.outcome() for each in [*ended, *reversed(others)]]

    def close(self) -> None:
        """Ends the threads once they have nothing to do."""
        self._executor.shutdown(wait=False)


def _ended(function: Callable[[], T]) -> Completion:
    completion = Completion()
    completion.run(function)
    return completion
