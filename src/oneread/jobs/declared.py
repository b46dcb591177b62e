"""Jobs: what a program is to do once a commit was made, declared as a class and stored in the commit.

A job is checked when it is enqueued: what is stored must be read back as it was given. See
docs/how-to/do-work-after-a-commit.md.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Generic, TypeGuard, TypeVar

import msgspec
from typing_extensions import dataclass_transform

from oneread.errors import Corrupt, InvalidDeclaration, InvalidValue, LimitExceeded
from oneread.models.declared import Declared
from oneread.models.model import stored_name
from oneread.store.limits import JOB_BYTES


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Job(msgspec.Struct, frozen=True, metaclass=Declared):
    """Work that follows from a commit: sending a mail, calling another service. Declare a subclass with its fields.

    Fields have the types that msgspec encodes: text, numbers, bytes, instants, lists and the like; name an entity by
    its key. `stored_as` is the name in the store, which survives a rename of the class. A field that is added later
    needs a default, with which the jobs that wait are read.

    Examples:
        ```python
        class SendMail(Job):
            to: str
            number: int
        ```
    """

    reserved_names: ClassVar[frozenset[str]] = frozenset({"stored_as", "reserved_names"})
    stored_as: ClassVar[str | None] = None


J = TypeVar("J", bound=Job)


class JobForm(Generic[J]):
    """How the jobs of one class are stored; `name` is that of the class in the store."""

    def __init__(self, cls: type[J]) -> None:
        self.cls = cls
        self.name = stored_name(cls)
        try:
            self._decode = msgspec.msgpack.Decoder(cls).decode
        except (TypeError, ValueError, NameError) as error:
            raise InvalidDeclaration("a job cannot have such fields", job=cls, reason=str(error)) from error

    def encode(self, job: Any) -> bytes:
        """The bytes of a job's fields.

        Raises:
            InvalidValue: it would not be read back as it is.
            LimitExceeded: it is too large.
        """
        try:
            stored = _encode(job)
            is_kept = bool(self._decode(stored) == job)
        except Exception as error:
            raise InvalidValue("this job cannot be stored", job=self.name, reason=str(error)[:_REASON]) from error
        if not is_kept:
            raise InvalidValue("this job would be read back with other values", job=self.name)
        if len(stored) > JOB_BYTES:
            raise LimitExceeded(
                "this job is too large: store what it needs in an entity, and give it the key",
                job=self.name, bytes=len(stored), limit=JOB_BYTES,
            )  # fmt: skip
        return stored

    def decode(self, stored: bytes) -> J:
        """A job from its bytes. Raises Corrupt where the class has other fields now."""
        try:
            return self._decode(stored)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Corrupt("this job does not have the fields of its class", job=self.name, reason=str(error)) from error


def is_job(given: object) -> TypeGuard[type[Job]]:
    """Whether this is a class of jobs."""
    return isinstance(given, type) and issubclass(given, Job) and given is not Job


_encode: Final = msgspec.msgpack.Encoder().encode
_REASON: Final = 500
