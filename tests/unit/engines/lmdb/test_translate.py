import errno
import pickle

import pytest

from oneread.engines.lmdb import binding
from oneread.engines.lmdb import translate as translating
from oneread.engines.lmdb.translate import translate, translate_commit
from oneread.errors import Corrupt, InvalidUrl, LimitExceeded, OutcomeUnknown, StoreError, Unavailable, UsageError


def numbered(code):
    """A failure as py-lmdb raises it for a number of LMDB or of the system."""
    failure = binding.Error("asked")
    failure.code = code
    return failure


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (binding.Error("closed"), Unavailable),
        (binding.MapFullError("put"), LimitExceeded),
        (binding.DiskError("put"), LimitExceeded),
        (binding.CorruptedError("get"), Corrupt),
        (binding.InvalidError("open"), Corrupt),
        (numbered(errno.ENOENT), InvalidUrl),
        (numbered(errno.EMFILE), Unavailable),
        (numbered(errno.EIO), Unavailable),
        (OSError(errno.EACCES, "no"), InvalidUrl),
        (numbered(errno.ENOMEM), LimitExceeded),
        (binding.MemoryError("open"), LimitExceeded),
        (OSError(errno.ENOSPC, "full"), LimitExceeded),
        (OSError(errno.EDQUOT, "quota"), LimitExceeded),
        (OSError(errno.EFBIG, "large"), LimitExceeded),
        (OSError(errno.ENOMEM, "memory"), LimitExceeded),
        (OSError(errno.EBADF, "odd"), Unavailable),
        (OSError("without a number"), Unavailable),
    ],
)
def test_each_failure_has_its_meaning(failure, kind):
    error = translate(failure, "store")
    assert type(error) is kind
    assert error.facts["path"] == "store"


def test_every_error_of_lmdb_becomes_one_of_ours():
    found = vars(binding.maker).values()
    kinds = [kind for kind in found if isinstance(kind, type) and issubclass(kind, binding.Error)]
    assert len(kinds) > 20
    for kind in kinds:
        assert isinstance(translate(kind("asked"), "store"), (StoreError, UsageError))


@pytest.mark.parametrize("kind", [binding.MapFullError, binding.DiskError, binding.TxnFullError])
def test_a_commit_that_found_no_room_left_nothing(kind, tmp_path):
    assert type(translate_commit(kind("commit"), str(tmp_path))) is LimitExceeded


@pytest.mark.parametrize(
    ("refused", "kind", "said"),
    [
        (errno.ENOSPC, LimitExceeded, "disk is full"),
        (errno.EDQUOT, LimitExceeded, "quota"),
        (errno.EFBIG, LimitExceeded, "ulimit -f"),
        (errno.EIO, OutcomeUnknown, "read before"),
        (0, OutcomeUnknown, "read before"),
    ],
)
def test_a_commit_cut_short_is_named_by_what_the_next_write_lacks(monkeypatch, tmp_path, refused, kind, said):
    def allocate(_file, _start, _size):
        if refused:
            raise OSError(refused, "no")

    monkeypatch.setattr(translating.os, "posix_fallocate", allocate)
    error = translate_commit(numbered(errno.EIO), str(tmp_path))
    assert type(error) is kind
    assert said in error.message
    assert not error.retryable
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_commit_without_room_left_nothing_whatever_it_lacked(code, tmp_path):
    error = translate_commit(numbered(code), str(tmp_path))
    assert type(error) is LimitExceeded
    assert "nothing was written" in error.message


def test_any_other_failure_of_a_commit_is_an_unknown_outcome(tmp_path):
    error = translate_commit(numbered(errno.EBADF), str(tmp_path))
    assert type(error) is OutcomeUnknown
    assert not error.retryable


def test_an_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(translate(binding.MapFullError("put"), "store")))
    assert (type(error), error.facts["path"]) == (LimitExceeded, "store")
