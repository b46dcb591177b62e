"""`db.group`: a transaction of one entity group whose body is a block, run again after a conflict."""

import asyncio

import pytest

from oneread import GENERATED, Key, Model, Ref, Schema, add, connect, connect_async, reference
from oneread.errors import Conflict, InvalidKey, InvalidValue, LimitExceeded, StillReferenced, UsageError


class User(Model[str]):
    name: Key[str]
    comments: int = 0


class Comment(Model[str, int]):
    child_of = User
    name: Key[str]
    number: Key[int] = GENERATED
    text: str = ""


SCHEMA = Schema(User, Comment)


@pytest.fixture
def db(url):
    with connect(url, SCHEMA) as opened:
        opened.save_all([User(name="ada"), User(name="bob")])
        yield opened


def run(db, body, **options):
    """The loop, for bodies that fail."""
    for attempt in db.group(User, "ada", **options):
        with attempt as group:
            body(group)


def numbers(db, name="ada"):
    return [each.number for each in db.page(Comment, name).rows]


def test_leaving_the_block_commits_once(db):
    blocks = 0
    for attempt in db.group(User, "ada"):
        with attempt as group:
            blocks += 1
            made = group.create(Comment(name="ada"))
            group.patch(User, "ada", comments=add(1))
            assert db.find(Comment, "ada", 1) is None, "nothing is stored before the block ends"
            assert group.get(Comment, "ada", made.number) == made
    assert (blocks, numbers(db), db.get(User, "ada").comments) == (1, [1], 1)
    assert db.version(made) == db.version(db.get(Comment, "ada", 1))


def test_both_faces_do_the_same(url):
    async def commented():
        async with await connect_async(url, SCHEMA) as db:
            blocks = 0
            async for attempt in db.group(User, "ada"):
                async with attempt as group:
                    blocks += 1
                    await group.save(User(name="ada"))
                    made = await group.create(Comment(name="ada"))
                    if blocks == 1:
                        await db.save(User(name="ada"))
            return blocks, made.number

    assert asyncio.run(commented()) == (2, 1)


def test_a_conflict_runs_the_block_again(db):
    blocks = 0
    for attempt in db.group(User, User.at("ada")):
        with attempt as group:
            blocks += 1
            user = group.get(User, "ada")
            if blocks < 3:
                db.patch(User, "ada", comments=add(1))
            group.patch(User, "ada", comments=user.comments + 10)
    assert (blocks, db.get(User, "ada").comments) == (3, 12)


def test_attempts_are_bounded(db):
    def body(group):
        group.create(Comment(name="ada"))
        db.patch(User, "ada", comments=add(1))

    with pytest.raises(Conflict):
        run(db, body, attempts=2)
    assert (db.get(User, "ada").comments, numbers(db)) == (2, [])


def test_a_conflict_of_the_body_is_its_own(db):
    blocks = []

    def body(group):
        blocks.append(1)
        group.save(User(name="ada"), if_version=1)

    with pytest.raises(Conflict):
        run(db, body)
    assert len(blocks) == 1


def test_an_error_leaves_the_loop_and_writes_nothing(db):
    with pytest.raises(ZeroDivisionError):
        run(db, lambda group: (group.create(Comment(name="ada")), 1 / 0))
    assert numbers(db) == []
    blocks = 0
    for attempt in db.group(User, "ada"):  # caught inside the loop, too
        try:
            with attempt as group:
                blocks += 1
                group.create(Comment(name="ada", text=7))
        except InvalidValue:
            continue
    assert (blocks, numbers(db)) == (1, [])


def test_return_and_break_commit(db):
    def made():
        for attempt in db.group(User, "ada"):
            with attempt as group:
                return group.create(Comment(name="ada"))
        raise AssertionError

    assert made().number == 1
    for attempt in db.group(User, "ada"):
        with attempt as group:
            group.create(Comment(name="ada"))
            break
    assert numbers(db) == [1, 2]


def test_the_root_may_be_made_in_the_block(db):
    for attempt in db.group(User, "eve"):
        with attempt as group:
            group.create(User(name="eve"))
            group.create(Comment(name="eve"))
    assert numbers(db, "eve") == [1]


@pytest.mark.parametrize(
    "write",
    [
        lambda group: group.create(Comment(name="bob")),
        lambda group: group.save(Comment(name="bob", number=1)),
        lambda group: group.save(User(name="bob")),
        lambda group: group.patch(User, "bob", comments=1),
        lambda group: group.delete(User, "bob"),
        lambda group: group.delete(Comment, "bob", 1),
    ],
    ids=["create", "save", "save the root", "patch", "delete the root", "delete"],
)
def test_a_write_outside_of_the_group_is_refused(db, write):
    with pytest.raises(UsageError, match="outside") as refused:
        run(db, lambda group: (group.create(Comment(name="ada")), write(group)))
    assert refused.value.facts["group"] == "User('ada')"
    assert "'bob'" in refused.value.facts["given"]
    assert numbers(db) == []


@pytest.mark.parametrize("url", ["memory", "lmdb"], indirect=True)
def test_reads_outside_are_compared_at_the_commit(db):
    seen = []
    for attempt in db.group(User, "ada"):
        with attempt as group:
            seen.append(group.get(User, "bob").comments)
            if len(seen) == 1:
                db.patch(User, "bob", comments=7)
            group.patch(User, "ada", comments=seen[-1])
    assert seen == [0, 7]


def test_an_unchecked_read_is_not(db):
    seen = []
    for attempt in db.group(User, "ada"):
        with attempt as group:
            seen.append(group.get(User, "bob", unchecked=True).comments)
            db.patch(User, "bob", comments=7)
            group.patch(User, "ada", comments=seen[-1])
            assert group.find(User, "ada", unchecked=True).comments == 0, "own writes are seen"
    assert seen == [0]


def test_misuse_is_refused(db):
    with pytest.raises(UsageError, match="not entered"):
        list(db.group(User, "ada"))
    with pytest.raises(UsageError, match="named by its root") as refused:
        db.group(Comment, "ada", 1)
    assert refused.value.facts["root"] == "User('ada')"
    for attempts in (0, -1, True, 1.5, None):
        with pytest.raises(UsageError, match="at least one attempt"):
            db.group(User, "ada", attempts=attempts)
    with pytest.raises(UsageError):
        db.group(int, 1)
    with pytest.raises(InvalidKey):
        db.group(User)
    attempt = next(iter(db.group(User, "ada")))
    with attempt as group:
        pass
    with pytest.raises(UsageError, match="entered once"), attempt:
        raise AssertionError
    with pytest.raises(UsageError, match="has ended"):
        group.create(Comment(name="ada"))


def test_a_root_is_deleted_with_its_children(url, db):
    for name in ("ada", "bob"):
        db.save_all([Comment(name=name) for _ in range(5)])
    for given in ({}, {"children": "refuse"}):
        with pytest.raises(UsageError):
            db.delete(User, "ada", **given)
    db.delete(User, "ada", children="delete")
    assert (db.exists(User, "ada"), numbers(db), numbers(db, "bob")) == (False, [], [1, 2, 3, 4, 5])
    db.save(User(name="ada"))
    assert db.create(Comment(name="ada")).number == 6
    db.delete(User, "nobody", children="delete")
    with pytest.raises(Conflict):
        db.delete(User, "bob", if_version=1, children="delete")
    assert numbers(db, "bob") == [1, 2, 3, 4, 5]
    with pytest.raises(UsageError, match="named by its root"):
        db.delete(Comment, "bob", 1, children="delete")
    with pytest.raises(UsageError, match="expected refuse or delete"):
        db.delete(User, "bob", children="keep")
    assert "span=row" in url or db.verify().clean


def test_too_many_children_are_not_deleted_at_once(url):
    with connect(url, Schema(User, Comment, inline=3)) as db:
        db.save(User(name="ada"))
        db.save_all([Comment(name="ada") for _ in range(4)])
        with pytest.raises(LimitExceeded, match="children first"):
            db.delete(User, "ada", children="delete")
        db.delete(Comment, "ada", 1)
        db.delete(User, "ada", children="delete")
        assert not db.exists(User, "ada")


def test_others_still_forbid_the_delete_of_a_group(url):
    class Note(Model[int]):
        number: Key[int]
        about: Ref[Comment] = reference(on_delete="refuse")

    with connect(url, Schema(User, Comment, Note)) as db:
        db.save(User(name="ada"))
        db.save(Note(number=1, about=db.create(Comment(name="ada")).ref()))
        with pytest.raises(StillReferenced):
            db.delete(User, "ada", children="delete")
        assert numbers(db) == [1]
        assert db.verify().clean


def test_a_transaction_left_by_an_error_has_ended(db):
    kept = []
    with pytest.raises(ZeroDivisionError):
        db.transact(lambda tx: (kept.append(tx), 1 / 0))
    with pytest.raises(UsageError, match="has ended"):
        kept[0].find(User, "ada")


def test_a_block_that_meets_a_newer_child_runs_again_on_a_store_that_changes_one_row_at_a_time():
    runs = []

    def reading_late(db, group):
        group.get(User, "ada")
        db.create(Comment(name="ada"))
        group.find(Comment, "ada", 2)

    def body(db, group):
        runs.append(group.get(User, "ada").comments)
        if len(runs) == 1:
            db.create(Comment(name="ada"))
        return group.find(Comment, "ada", 1)

    with connect("memory://?span=row", Schema(User, Comment), workers=0) as db:
        db.save(User(name="ada"))
        for attempt in db.group(User, "ada"):
            with attempt as group:
                found = body(db, group)
                group.patch(User, "ada", comments=len(runs))
        assert found is not None
        assert db.get(User, "ada").comments == len(runs) == 2
        runs.clear()
        with pytest.raises(Conflict):
            run(db, lambda group: reading_late(db, group), attempts=1)
        assert db.transact(lambda tx: tx.get(Comment, "ada", 2)).number == 2
