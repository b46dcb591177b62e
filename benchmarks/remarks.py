"""What is known about a goal that is not reached, by benchmark; the report says it where the row is short."""

from collections.abc import Mapping
from typing import Final

REMARKS: Final[Mapping[str, str]] = {}
