"""Rows as earlier code wrote them: back-references without a selection, and one digest of all copied values."""

from contextlib import contextmanager

import pytest

from oneread.derivations import schema_rows
from oneread.derivations.copies import CopiedValues
from oneread.derivations.entity_type import EntityType


@contextmanager
def earlier_code():
    """While it lasts, commits write the earlier form."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EntityType, "_taken", _sources)
        patch.setattr(CopiedValues, "digests", CopiedValues.earlier_digest)
        patch.setattr(schema_rows, "FORMAT", 1)
        yield


def _sources(self, refs):
    return list(dict.fromkeys([source for each in self.tracked for source in refs[each.name]]))
