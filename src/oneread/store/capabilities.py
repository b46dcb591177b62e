"""What an engine can do, as data: plans and tests ask for a capability, never for an engine's name.

See "The store contract" of the architecture page.
"""

from __future__ import annotations

import msgspec


class Capabilities(msgspec.Struct, frozen=True):
    """What one engine promises.

    Arguments:
        spans_rows: one transaction may change many rows (`Atomically`, `Replace`).
        reverse_scan: `Scan(reverse=True)` is answered by the server.
        snapshot: a long read may see one moment of the whole store.
        persistent: data outlives the process.
        local: a read takes microseconds and never waits for a network, so an event loop may do it inline.
        max_key: longest row key, bytes.
        max_value: largest value of one cell, bytes.
        max_row: largest row, bytes.
    """

    spans_rows: bool
    reverse_scan: bool
    snapshot: bool
    persistent: bool
    local: bool
    max_key: int
    max_value: int
    max_row: int
