"""The threads that read the dark side: how they end."""

import threading

from oneread.launches.account import DarkAccount
from oneread.launches.dark_threads import DarkThreads


def test_a_thread_that_is_not_started_yet_is_not_waited_for():
    """Another thread starts them; it may be between noting one and starting it."""
    dark = DarkThreads(DarkAccount())
    late = threading.Thread(target=dark._run, daemon=True)
    dark._threads[late] = float("inf")
    dark.end()
    late.start()
    late.join(5)
    assert not late.is_alive()
