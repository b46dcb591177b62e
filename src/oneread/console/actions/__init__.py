"""What can be done from the console. To add something, write its two functions, and add its line to `ACTIONS`."""

from __future__ import annotations

from typing import Final

from oneread.console.acting import ConsoleAction
from oneread.console.actions.checking import (
    backfill,
    describe_backfill,
    describe_repair,
    describe_stop,
    describe_verify,
    repair,
    stop_job,
    verify,
)
from oneread.console.actions.counters import describe_shards, set_shards
from oneread.console.actions.entities import delete_entity, describe_delete, describe_patch, patch_entity
from oneread.console.actions.launches import (
    describe_back,
    describe_launch,
    describe_stop_launch,
    set_launch,
    stop_launch,
    take_launch_back,
)
from oneread.console.actions.tasks import describe_drain, describe_retry, describe_sweep, drain, retry, sweep

ACTIONS: Final = {
    "verify": ConsoleAction(describe_verify, verify, writes=False),
    "stop": ConsoleAction(describe_stop, stop_job, writes=False),
    "repair": ConsoleAction(describe_repair, repair),
    "backfill": ConsoleAction(describe_backfill, backfill),
    "drain": ConsoleAction(describe_drain, drain),
    "retry": ConsoleAction(describe_retry, retry),
    "sweep": ConsoleAction(describe_sweep, sweep),
    "launch": ConsoleAction(describe_launch, set_launch),
    "back": ConsoleAction(describe_back, take_launch_back),
    "stop-launch": ConsoleAction(describe_stop_launch, stop_launch),
    "shards": ConsoleAction(describe_shards, set_shards),
    "patch": ConsoleAction(describe_patch, patch_entity),
    "delete": ConsoleAction(describe_delete, delete_entity),
}
"""By the name that the address has: `/do/verify`."""
