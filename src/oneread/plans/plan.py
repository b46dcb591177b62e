"""A plan: a generator that yields requests and effects, is sent their answers, and returns its result.

A plan cleans up in `finally` without yielding, and reads and decides before it writes. See "Plans" of the architecture
page.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

Plan: TypeAlias = Generator[Any, Any, T]
"""Yields `store.requests.Request` or `plans.effects.Effect`, is sent its answer, returns T."""
