"""A part of a key that becomes a reference under stored data, and what is refused because keys would change."""

import types
from typing import Annotated

import pytest
from msgspec import Meta

from oneread import Index, Key, Model, Ref, Schema, by, connect, migration, reference, renamed, retyped, within
from oneread.errors import MissingReference, NotReady, SchemaMismatch, StillReferenced
from oneread.models.model import key_of
from oneread.store.requests import Scan
from oneread.store.rows import RowRange


def made(name, base, fields, /, **values):
    space = {"__annotations__": dict(fields), "__module__": __name__} | values
    return types.new_class(name, (base,), {}, lambda into: into.update(space))


class Site:
    """Groups, and memberships whose key begins with a value of this type; `Ref` is a reference to a group."""

    def __init__(self, kind, *, key=str, member=int, name="group", **options):
        self.group = made("Group", Model, {"name": Key[key], "title": str})
        given = {name: Key[Ref[self.group] if kind is Ref else kind], "member": Key[member], "role": str}
        self.membership = made("Membership", Model, given, role="guest", **options)
        self.field = getattr(self.membership, name)

    def schema(self, *more):
        return Schema(self.group, self.membership, *more)

    def by_title(self):
        found = by(within(self.field, self.group.title))
        return made("ByTitle", Index[self.membership], {"title": str}, title=found)


@pytest.fixture
def filled(url):
    """A store of memberships in groups that nothing ties to them; one is in no group."""
    site = Site(str)
    with connect(url, site.schema(), workers=0) as db:
        db.save(site.group(name="go", title="Go"))
        for group, member in (("go", 1), ("go", 2), ("none", 3)):
            db.save(site.membership(group=group, member=member))
    return url


def roots(db):
    return [key for key, _row in db.run(every_root())]


def every_root():
    return (yield from Scan("roots", RowRange(b"", b""), 100))


@pytest.mark.parametrize("name", ["group", "circle"])
def test_a_part_becomes_a_reference_and_a_backfill_ties_it_to_its_source(filled, name):
    site = Site(Ref, name=name, evolution=(renamed("group", to="circle"),) if name == "circle" else ())
    by_title, membership, group = site.by_title(), site.membership, site.group
    with connect(filled, site.schema(by_title), workers=0) as db:
        assert getattr(db.get(membership, "go", 1), name) == group.at("go")
        assert db.get(membership, group.at("go"), 2).role == "guest"
        assert [key_of(each) for each in db.page(membership).rows] == [("go", 1), ("go", 2), ("none", 3)]
        with pytest.raises(NotReady):
            db.page(by_title, "Go")
        db.delete(membership, "none", 3)
        assert db.backfill().done
        db.patch(group, "go", title="Baduk")
        db.drain()
        assert [row.source.key for row in db.page(by_title, "Baduk").rows] == [("go", 1), ("go", 2)]
        assert db.verify().clean


def test_keys_of_rows_stay_as_they_are(filled):
    with connect(filled, Site(str).schema(), workers=0) as db:
        before = roots(db)
    with connect(filled, Site(Ref).schema(), workers=0) as db:
        db.backfill()
        assert roots(db) == before


@pytest.mark.parametrize("steps", [(), (retyped("group", was=Key[str], by=lambda name: Ref((name,))),)])
def test_a_backfill_names_what_refers_to_nothing(filled, steps):
    site = Site(Ref, evolution=steps)
    by_title, membership, group = site.by_title(), site.membership, site.group
    with connect(filled, site.schema(by_title), workers=0) as db:
        with pytest.raises(MissingReference, match="does not exist"):
            db.patch(membership, "none", 3, role="ghost")
        found = db.backfill()
        assert (found.done, found.refused) == (False, 1)
        assert "MissingReference: this refers to an entity that does not exist" in found.refusals[0].reason
        db.save(group(name="none", title="None"))
        assert db.backfill().done
        assert [row.source.key for row in db.page(by_title, "None").rows] == [("none", 3)]
        assert db.verify().clean


def test_what_may_refer_to_nothing_is_tied_to_what_comes_later(filled):
    site = Site(Ref, group=reference(missing_ok=True))
    title = within(site.field, site.group.title)
    by_title = made("ByTitle", Index[site.membership], {"title": str | None}, title=by(title, none="first"))
    with connect(filled, site.schema(by_title), workers=0) as db:
        assert db.backfill().done
        assert [row.source.key for row in db.page(by_title, None).rows] == [("none", 3)]
        db.save(site.group(name="none", title="None"))
        db.drain()
        assert [row.source.key for row in db.page(by_title, "None").rows] == [("none", 3)]
        assert db.verify().clean


def test_what_a_new_policy_guards_is_guarded_after_the_backfill(filled):
    site = Site(Ref, group=reference(on_delete="refuse"))
    with connect(filled, site.schema(), workers=0) as db:
        db.delete(site.membership, "none", 3)
        assert db.backfill().done
        with pytest.raises(StillReferenced):
            db.delete(site.group, "go")
        assert db.verify().clean


def test_an_older_program_may_not_write_and_going_back_is_a_rollback(filled):
    site = Site(Ref)
    with connect(filled, site.schema(), workers=0) as db:
        db.patch(site.membership, "go", 1, role="chair")  # this row is written as the newer program has it
    with pytest.raises(SchemaMismatch, match="rollback"):
        connect(filled, Site(str).schema())
    with migration(filled, Site(str).schema()) as asked:
        asked.rollback()
    former = Site(str)
    with connect(filled, former.schema(), workers=0) as db:
        found = db.page(former.membership).rows
        assert [(each.group, each.role) for each in found] == [("go", "chair"), ("go", "guest"), ("none", "guest")]
        assert db.backfill().done
        assert db.verify().clean


@pytest.mark.parametrize(
    ("site", "field"),
    [
        (Site(Ref, key=int), "group"),
        (Site(Ref, key=Annotated[str, Meta(max_length=9)]), "group"),
        (Site(int), "group"),
        (Site(str, member=str), "member"),
        (Site(str, member=str, evolution=(retyped("member", was=Key[int], by=str),)), "member"),
    ],
    ids=["another type", "a limit", "no reference", "another part", "retyped"],
)
def test_what_would_change_keys_is_refused(filled, site, field):
    with pytest.raises(SchemaMismatch, match="may become a reference by a key of its type") as refusal:
        connect(filled, site.schema())
    assert field in str(refusal.value)


def test_a_reference_by_several_parts_cannot_take_the_place_of_one(url):
    region = made("Region", Model, {"country": Key[str], "number": Key[int]})
    before = made("Stay", Model, {"region": Key[str], "number": Key[int], "nights": int})
    after = made("Stay", Model, {"region": Key[Ref[region]], "nights": int})
    with connect(url, Schema(region, before), workers=0) as db:
        db.save(before(region="is", number=1, nights=2))
    with pytest.raises(SchemaMismatch, match="can be renamed and nothing else"):
        connect(url, Schema(region, after))


def test_what_a_key_refers_to_keeps_its_parts_while_there_are_such_keys(url):
    def declared(kind):
        group = made("Group", Model, {"name": Key[kind]})
        fields = {"group": Key[Ref[group]], "role": str}
        return group, made("Membership", Model, fields, group=reference(missing_ok=True))

    group, membership = declared(str)
    with connect(url, Schema(group, membership), workers=0) as db:
        db.save(membership(group=group.at("go"), role="guest"))  # there is no group, whose key could change
    with pytest.raises(SchemaMismatch, match="the key that this key refers by has other parts"):
        connect(url, Schema(*declared(int)))
