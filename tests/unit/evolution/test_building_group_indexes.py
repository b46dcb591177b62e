"""Indexes over groups that are added to stores with groups: not ready until they are built, and right from then on."""

import pytest

from oneread import (
    Aggregate,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    ascending,
    by,
    connect,
    count,
    descending,
    field,
    migration,
    shown,
    total,
)
from oneread.errors import InvalidKey, NotReady, SchemaMismatch
from oneread.evolution import backfill
from oneread.store.requests import Scan
from oneread.store.rows import RowRange
from tests.unit.evolution.stores import end_lease


def declared(*, index=True, condition=False, by_points=False, renamed=False, shows=True):
    """The same site with or without an index over groups, and with changes of the index and the aggregate."""

    class Vote(Model[int]):
        number: Key[int]
        on: str
        value: int

    if renamed:

        class VotesOf(Aggregate[Vote]):
            on: str = by(Vote.on)
            many: int = count()
            score: int = total(Vote.value)

        votes = VotesOf.many
    else:

        class VotesOf(Aggregate[Vote]):
            where = field(Vote.value) > 0 if condition else None

            on: str = by(Vote.on)
            votes: int = count()
            score: int = total(Vote.value)

        votes = VotesOf.votes

    class Top(Index[VotesOf]):
        best: int = descending(VotesOf.score) if by_points else descending(votes)
        also: int = shown(VotesOf.score) if shows else shown(votes)

    return (Schema(Vote, VotesOf, Top) if index else Schema(Vote, VotesOf)), Vote, VotesOf, Top


def listed(db, top):
    return [(row.source.key[0], row.best, row.also) for row in db.page(top)]


def stored(db, top):
    prefix = db.operations.catalog.views[top].prefix
    return db.run(Scan("views", RowRange.under(prefix), 1000, families="dm").__iter__())


@pytest.fixture
def filled(url):
    """The URL of a store of the program before."""
    schema, vote, _votes, _top = declared(index=False)
    with connect(url, schema, workers=0) as db:
        db.save_all([vote(number=number, on="abcd"[number % 4], value=number - 5) for number in range(14)])
    return url


BUILT = [("b", 4, 8), ("a", 4, 4), ("d", 3, 6), ("c", 3, 3)]


def right(db, votes):
    rows = [row for page in db.scan(votes) for row in page]
    return sorted(((row.on, row.votes, row.score) for row in rows), key=lambda row: (-row[1], row[0]))


def test_it_is_not_ready_until_it_is_built(filled):
    schema, _vote, votes, top = declared()
    with connect(filled, schema, workers=0) as db:
        with pytest.raises(NotReady):
            db.page(top)
        assert db.verify().clean
        assert db.backfill().done
        assert listed(db, top) == right(db, votes)
        assert len(listed(db, top)) == 4
        assert db.verify().clean


def test_what_is_written_meanwhile_is_right(filled):
    schema, vote, votes, top = declared()
    with connect(filled, schema, workers=0) as db:
        db.save(vote(number=100, on="a", value=3))
        db.delete(vote, 3)
        db.patch(vote, 4, on="e")
        assert db.backfill().done
        assert listed(db, top) == right(db, votes)
        assert [row[0] for row in listed(db, top)] == ["a", "b", "c", "d", "e"]
        assert db.verify().clean


def test_rows_of_numbers_that_an_older_program_changed_are_removed(filled):
    older, old_vote, *_views = declared(index=False)
    newer, vote, votes, top = declared()
    with connect(filled, older, workers=0) as before, connect(filled, newer, workers=0) as db:
        db.save(vote(number=100, on="a", value=3))
        before.save(old_vote(number=101, on="a", value=3))
        db.save(vote(number=102, on="a", value=3))
        assert len(stored(db, top)) == 2
        assert db.backfill().done
        assert len(stored(db, top)) == 4
        assert listed(db, top) == right(db, votes)
        assert db.verify().clean
        end_lease(before)
        with pytest.raises(SchemaMismatch):
            before.save(old_vote(number=103, on="a", value=3))


def test_it_continues_where_it_was_killed(filled, monkeypatch):
    schema, vote, votes, top = declared()
    with connect(filled, schema, workers=0) as db:
        db.save_all([vote(number=1000 + number, on=f"word {number}", value=number) for number in range(30)])
        monkeypatch.setattr(backfill, "BATCH", 7)
        write, written = backfill.Backfill._write_rows, []

        def dies(self, indexed, groups, last):
            if len(written) == 2:
                raise KeyboardInterrupt
            written.append(groups)
            yield from write(self, indexed, groups, last)

        with monkeypatch.context() as patched:
            patched.setattr(backfill.Backfill, "_write_rows", dies)
            with pytest.raises(KeyboardInterrupt):
                db.backfill()
        with pytest.raises(NotReady):
            db.page(top)
        db.save(vote(number=2000, on="word 3", value=1))
        db.save(vote(number=2001, on="word 29", value=1))
        rest = []

        def noted(self, indexed, groups, last):
            rest.extend(groups)
            yield from write(self, indexed, groups, last)

        monkeypatch.setattr(backfill.Backfill, "_write_rows", noted)
        assert db.backfill().done
        assert not {key for keys in written for key in keys} & set(rest)
        assert listed(db, top) == right(db, votes)
        assert db.verify().clean


def test_another_index_is_built_beside_the_former_one(filled):
    first, *_rest, first_top = declared()
    second, _vote, votes, top = declared(by_points=True)
    with connect(filled, first, workers=0) as db:
        db.backfill()
        before = listed(db, first_top)
        assert len(before) == 4
    with connect(filled, second, workers=0) as db:
        assert listed(db, top) == before  # by the former generation
        assert db.backfill(fence=True).done
        assert [row[1] for row in listed(db, top)] == sorted(
            (row.score for page in db.scan(votes) for row in page), reverse=True
        )
        assert len(stored(db, top)) == 4
        assert db.verify().clean


def test_an_aggregate_that_is_rebuilt_renews_its_index(filled):
    first, *_rest, first_top = declared()
    second, _vote, votes, top = declared(condition=True)
    with connect(filled, first, workers=0) as db:
        db.backfill()
        before = listed(db, first_top)
    with connect(filled, second, workers=0) as db:
        assert listed(db, top) == before == right(db, votes)  # by the former generations
        assert db.backfill(fence=True).done
        assert listed(db, top) == right(db, votes)
        assert sum(row[1] for row in listed(db, top)) == 8
        assert db.verify().clean


def test_a_renamed_number_keeps_the_rows(filled):
    first, *_rest = declared()
    second, vote, _votes, top = declared(renamed=True)
    with connect(filled, first, workers=0) as db:
        db.backfill()
    with connect(filled, second, workers=0) as db:
        assert [row[1] for row in listed(db, top)] == [4, 4, 3, 3]
        db.delete(vote, 0)
        assert [row[1] for row in listed(db, top)] == [4, 3, 3, 3]
        assert db.verify().clean


def test_an_empty_store_needs_no_backfill(url):
    schema, vote, _votes, top = declared()
    with connect(url, schema, workers=0) as db:
        db.save(vote(number=1, on="a", value=3))
        assert listed(db, top) == [("a", 1, 3)]


def test_a_program_that_does_not_know_it_is_cut_off_where_it_is_readable_at_once(url):
    older, old_vote, *_rest = declared(index=False)
    newer, *_rest, top = declared()
    with connect(url, older, workers=0) as before, connect(url, newer, workers=0) as db:
        end_lease(before)
        with pytest.raises(SchemaMismatch):
            before.save(old_vote(number=1, on="a", value=1))
        assert listed(db, top) == []


def long_words(*, index):
    class Word(Model[int]):
        number: Key[int]
        one: str
        two: str

    class Words(Aggregate[Word]):
        one: str = by(Word.one)
        two: str = by(Word.two)
        words: int = count()

    class WordsByTwo(Index[Words]):
        two: str = ascending(Words.two)
        one: str = ascending(Words.one)

    return (Schema(Word, Words, WordsByTwo) if index else Schema(Word, Words)), Word, WordsByTwo


def test_a_group_that_cannot_be_listed_is_refused_by_name(url):
    older, old_word, _view = long_words(index=False)
    newer, word, view = long_words(index=True)
    with connect(url, older, workers=0) as db:
        db.save_all([old_word(number=number, one=str(number) * 140, two="b" * 140) for number in range(2)])
        db.save(old_word(number=7, one="short", two="word"))
    with connect(url, newer, workers=0) as db:
        done = db.backfill()
        assert (done.done, done.refused) == (False, 2)
        assert [each.entity[:9] for each in done.refusals] == ["Words('00", "Words('11"]
        assert "the values of an index row and the key of its group are too long together" in done.refusals[0].reason
        with pytest.raises(NotReady):
            db.page(view)
        with pytest.raises(InvalidKey, match="too long together") as refused:
            db.save(word(number=8, one="0" * 140, two="b" * 140))
        assert refused.value.facts["view"] is view
        db.delete(word, 0)
        db.patch(word, 1, one="x")
        assert db.backfill().done
        assert [(row.one, len(row.two)) for row in db.page(view)] == [("x", 140), ("short", 4)]
        assert db.verify().clean


def test_one_that_is_dropped_leaves_nothing(url):
    first, vote, _votes, top = declared()
    with connect(url, first, workers=0) as db:
        db.save(vote(number=1, on="a", value=3))
        prefix = db.operations.catalog.views[top].prefix
    second, *_rest = declared(index=False)
    migration(url, second).apply(drop=["Top"])
    with connect(url, second, workers=0) as db:
        assert db.backfill().done
        assert db.run(Scan("views", RowRange.under(prefix), 10).__iter__()) == []
        assert db.verify().clean


def test_references_in_groups_keep_it_when_their_class_is_renamed(url):
    def site(name):
        space = {"__annotations__": {"word": Key[str]}, "__module__": __name__, "stored_as": "Tag"}
        made = type(Model)(name, (Model,), space)

        class Use(Model[int]):
            number: Key[int]
            tag: Ref[made]

        class UsesOf(Aggregate[Use]):
            tag: Ref[made] = by(Use.tag)
            uses: int = count()

        class TagsByUse(Index[UsesOf]):
            uses: int = descending(UsesOf.uses)
            tag: Ref[made] = shown(UsesOf.tag)

        return Schema(made, Use, UsesOf, TagsByUse), made, Use, TagsByUse

    schema, tag, use, view = site("Tag")
    with connect(url, schema, workers=0) as db:
        db.save(tag(word="a"))
        db.save(use(number=1, tag=tag.at("a")))
    schema, _label, _use, view = site("Label")
    with connect(url, schema, workers=0) as db:
        assert [(repr(row.tag), row.uses) for row in db.page(view)] == [("Label.at('a')", 1)]
