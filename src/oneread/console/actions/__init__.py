"""What can be done from the console. To add something, write its three functions, and add its line to `ACTIONS`."""

from __future__ import annotations

from typing import Any, Final

from oneread.console.acting import ConsoleAction, always
from oneread.console.actions.checking import (
    backfill,
    classes_to_check,
    describe_backfill,
    describe_repair,
    describe_stop,
    describe_verify,
    repair,
    running_job,
    stop_job,
    verify,
)
from oneread.console.actions.counters import counter_to_spread, describe_shards, set_shards
from oneread.console.actions.entities import (
    delete_entity,
    describe_delete,
    describe_patch,
    entity_to_change,
    patch_entity,
)
from oneread.console.actions.launches import (
    describe_back,
    describe_launch,
    describe_stop_launch,
    launch_to_change,
    set_launch,
    stop_launch,
    take_launch_back,
)
from oneread.console.actions.tasks import describe_drain, describe_retry, describe_sweep, drain, retry, sweep

ACTIONS: Final[dict[str, ConsoleAction[Any]]] = {
    "verify": ConsoleAction(classes_to_check, describe_verify, verify, writes=False),
    "stop": ConsoleAction(running_job, describe_stop, stop_job, writes=False),
    "repair": ConsoleAction(classes_to_check, describe_repair, repair),
    "backfill": ConsoleAction(always("everything"), describe_backfill, backfill),
    "drain": ConsoleAction(always("tasks"), describe_drain, drain),
    "retry": ConsoleAction(always("set aside"), describe_retry, retry),
    "sweep": ConsoleAction(always("what has expired"), describe_sweep, sweep),
    "launch": ConsoleAction(launch_to_change, describe_launch, set_launch),
    "back": ConsoleAction(launch_to_change, describe_back, take_launch_back),
    "stop-launch": ConsoleAction(launch_to_change, describe_stop_launch, stop_launch),
    "shards": ConsoleAction(counter_to_spread, describe_shards, set_shards),
    "patch": ConsoleAction(entity_to_change, describe_patch, patch_entity),
    "delete": ConsoleAction(entity_to_change, describe_delete, delete_entity),
}
"""By the name that the address has: `/do/verify`."""
