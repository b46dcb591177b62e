"""What writes documents as JSON without making entities: compiled code, where the process's binding to LMDB has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol


class JsonWriter(Protocol):
    """Writes documents that have been decoded before."""

    def write_all(self, documents: list[bytes]) -> bytes | None:
        """The JSON of a list of what these documents hold; None for values that are left to Python."""
        ...


JSON_WRITERS: Final[list[Callable[[bytes], JsonWriter]]] = []
"""What makes a writer of a table of `oneread.models.json_table`: one function, or none."""
