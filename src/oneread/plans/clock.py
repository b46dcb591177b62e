"""The clock of a database that is not given one."""

import time


def wall_clock() -> int:
    """Whole milliseconds since 1970."""
    return time.time_ns() // 1_000_000
