"""Copied values in cells beside a holder's document, on stores that change one row at a time.

What a source has for a holder from whose copy nothing follows is put blindly into the holder's row, stamped with the
source's version; readers lay it over the document. See rule 13 of the commit protocol, docs/formats/rows.md and
docs/decisions/0085-leaf-copies-in-cells.md.
"""

from __future__ import annotations

from typing import Final, Protocol

from oneread.store.rows import Row
from oneread.transactions.root import Root

COPY_CELL: Final = b"d:c:"
"""What the column of copied values begins with; the source's key and the selection follow."""


class CopyCells(Protocol):
    """What a schema says of such cells."""

    def lay(self, key: bytes, row: Row) -> Row:
        """A root row with the newer values of its cells in its document, and their versions among those used."""
        ...

    def declares(self, taken: bytes, holder: bytes) -> bool:
        """Whether this program declares what a holder takes of a source, by the source and selection."""
        ...

    def has_leaf(self, source: bytes, selection: bytes, holder: bytes) -> bool:
        """Whether nothing follows from what a holder takes of a source by this selection, as this schema has it."""
        ...

    def is_erased(self, source: bytes, root: Root) -> bool:
        """Whether a source was erased, so that no document may keep what it had of it."""
        ...

    def value(self, source: bytes, root: Root, selection: bytes, holder: bytes) -> bytes | None:
        """What a cell of a holder has of a source; None where the holder must be committed.

        The same for the same version of the source: so of two cells with one stamp, either may win.
        """
        ...


class NoCells:
    """A schema, or a store, without such cells."""

    def lay(self, key: bytes, row: Row) -> Row:  # noqa: ARG002 - of the contract
        return row

    def declares(self, taken: bytes, holder: bytes) -> bool:  # noqa: ARG002 - of the contract
        return True

    def has_leaf(self, source: bytes, selection: bytes, holder: bytes) -> bool:  # noqa: ARG002 - of the contract
        return False

    def is_erased(self, source: bytes, root: Root) -> bool:  # noqa: ARG002 - of the contract
        return False

    def value(self, source: bytes, root: Root, selection: bytes, holder: bytes) -> bytes | None:  # noqa: ARG002 - of the contract
        return None


NO_CELLS: Final = NoCells()
