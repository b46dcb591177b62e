"""Declarations of keys that refer: what they may refer to, how they are written, and what they cost."""

from types import new_class
from typing import Annotated, NewType

import msgspec
import pytest
from msgspec import Meta

from oneread import (
    GENERATED,
    Aggregate,
    Copy,
    Key,
    Model,
    Ref,
    Schema,
    by,
    connect,
    count,
    counter,
    reference,
    rollup,
)
from oneread.costs.budgets import budget
from oneread.costs.declared import of as costs_of
from oneread.errors import InvalidDeclaration
from oneread.models.fields import KEY


class Group(Model[str]):
    name: Key[str]


class GroupCopy(Copy[Group]):
    pass


class Member(Model[int]):
    number: Key[int]


AGroup = NewType("AGroup", Ref[Group])


def model(name, fields, base=Model, **values):
    space = {"__annotations__": fields, "__module__": __name__} | values
    return new_class(name, (base,), {}, lambda into: into.update(space))


def refused(match, *declarations):
    with pytest.raises(InvalidDeclaration, match=match) as refusal:
        Schema(Group, Member, *declarations)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("annotation", "reason"),
    [
        (Key[GroupCopy], r"a copy changes and a key does not.*group: Key\[Ref\[Group\]\]"),
        (Key[Ref[Group] | None], "cannot be None"),
        (Key[Annotated[list[Ref[Group]], Meta(max_length=3)]], "a key is made of"),
        (Annotated[AGroup, KEY], r"written out.*group: Key\[Ref\[Group\]\]"),
        (Key[Ref], r"write which model"),
        (Key[Ref["Nothing"]], "cannot be resolved|not a model of the schema"),
    ],
    ids=str,
)
def test_what_cannot_be_in_a_key(annotation, reason):
    refused(reason, model("Membership", {"group": annotation}))


def test_a_model_that_is_not_in_the_schema_is_named():
    with pytest.raises(InvalidDeclaration, match=r"not in the schema.*Group"):
        Schema(model("Membership", {"group": Key[Ref[Group]]}))


def test_the_types_of_a_model_are_those_of_its_fields():
    fields = {"group": Key[Ref[Group]], "number": Key[int]}
    Schema(Group, model("Membership", fields, Model[Ref[Group], int]))
    Schema(Group, model("Membership", fields, Model[Ref["Group"], int]))
    refused(r"types in Model\[...\]", model("Membership", fields, Model[str, int]))
    refused(r"types in Model\[...\]", model("Membership", fields, Model[Ref[Member], int]))


class Egg(Model[Ref["Hen"]]):
    hen: Key[Ref["Hen"]]


class Hen(Model[Ref[Egg]]):
    egg: Key[Ref[Egg]]


class Self(Model[Ref["Self"], int]):
    whole: Key[Ref["Self"]]
    number: Key[int]


def test_a_key_that_contains_itself_is_refused_by_the_names_on_the_way():
    assert "Egg -> Hen -> Egg" in refused("reference to its own model", Egg, Hen)
    assert "Self -> Self" in refused("reference to its own model", Self)


def test_the_first_field_that_refers_to_the_root_names_it(url):
    follow = model("Follow", {"who": Key[Ref[Member]], "whom": Key[Ref[Member]]}, child_of=Member)
    with connect(url, Schema(Member, follow)) as db:
        db.save(Member(number=1))
        db.save(Member(number=2))
        db.save(follow(who=Member.at(1), whom=Member.at(2)))
        key = db.operations.root(follow, (1, 2))
        assert db.operations.catalog.group_of(key) == db.operations.root(Member, (1,))


def test_numbers_of_a_sequence_stand_beside_the_reference_to_the_root(url):
    note = model("Note", {"member": Key[Ref[Member]], "number": Key[int]}, child_of=Member, number=GENERATED)
    with connect(url, Schema(Member, note)) as db:
        db.save(Member(number=7))
        assert [db.create(note(member=Member.at(7))).number for _ in range(2)] == [1, 2]


def test_a_child_that_has_no_part_of_its_root_is_refused():
    text = refused("refers to its root, or contains", model("Seat", {"number": Key[int]}, child_of=Group))
    assert "Key[Ref[Group]]" in text


def test_groups_are_shown_where_the_fields_refer_to_the_same():
    class Post(Model[int]):
        number: Key[int]
        group: Ref[Group]
        name: str
        other: Ref[Member]

    def declared(**rules):
        of = model("Of", {**{name: kind for name, (kind, _rule) in rules.items()}, "posts": int}, Aggregate[Post],
                   posts=count(), **{name: rule for name, (_kind, rule) in rules.items()})  # fmt: skip
        shows = model("Shows", {"group": Key[Ref[Group]], "posts": int}, posts=rollup(of.posts))
        return Post, of, shows

    Schema(Group, Member, *declared(group=(Ref[Group], by(Post.group))))
    refused("do not have the keys", *declared(group=(str, by(Post.name))))
    refused("do not have the keys", *declared(group=(Ref[Member], by(Post.other))))
    refused("do not have the keys", *declared(circle=(Ref[Group], by(Post.group))))


def test_groups_by_a_reference_besides_the_key_are_not_those_of_its_entities():
    class Post(Model[int]):
        number: Key[int]
        name: str
        member: Ref[Member]

    class Of(Aggregate[Post]):
        name: str = by(Post.name)
        member: Ref[Member] = by(Post.member)
        posts: int = count()

    refused("do not have the keys", Post, Of, model("Shows", {"name": Key[str], "posts": int}, posts=rollup(Of.posts)))


def test_a_counter_names_each_part():
    class Pair(Model[int, int]):
        one: Key[int]
        two: Key[int]

    def shows(text):
        return Pair, model("Shows", {"pair": Key[Ref[Pair]], "seen": int}, seen=rollup(counter(text), every=1))

    Schema(*shows("seen:{pair.one}:{pair.two}"))
    refused("each part of the key once", *shows("seen:{pair}"))


def test_options_of_a_reference_are_those_of_other_fields():
    fields = {"group": Key[Ref[Group]]}
    Schema(Group, model("Kept", fields, group=reference(missing_ok=True)))
    refused("on_delete of a reference", model("Cleared", fields, group=reference(on_delete="clear")))
    refused("exclude each other", model("Gone", fields, group=reference(on_delete="delete", missing_ok=True)))


def test_a_key_that_refers_costs_what_the_field_beside_it_cost():
    tied = model("Tied", {"group": Key[Ref[Group]], "number": Key[int], "text": str})
    beside = model("Beside", {"name": Key[str], "number": Key[int], "group": Ref[Group], "text": str})
    schema = Schema(Group, tied, beside)
    one, other = (costs_of(schema).save(each) for each in (tied, beside))
    assert (one.requests, one.rounds, one.rows) == (other.requests, other.rounds, other.rows)
    one, other = (costs_of(schema).get(each) for each in (tied, beside))
    assert (one.requests, one.rows) == (other.requests, other.rows) == (1, 1)
    assert one.bytes <= other.bytes


def test_verbs_ask_what_they_ask_with_the_field_beside_the_key(url):
    tied = model("Tied", {"group": Key[Ref[Group]], "number": Key[int], "text": str})
    beside = model("Beside", {"name": Key[str], "number": Key[int], "group": Ref[Group], "text": str})

    def spent(call, *given, **named):
        with budget() as cost:
            call(*given, **named)
        return cost.requests, cost.rounds, cost.rows

    with connect(url, Schema(Group, tied, beside), workers=0) as db:
        db.save(Group(name="go"))
        one = tied(group=Group.at("go"), number=1, text="a")
        other = beside(name="go", group=Group.at("go"), number=1, text="a")
        assert spent(db.save, one) == spent(db.save, other)
        assert spent(db.save, msgspec.structs.replace(one, text="b")) == spent(
            db.save, msgspec.structs.replace(other, text="b")
        )
        for verb, more in (("patch", {"text": "c"}), ("get", {}), ("find", {}), ("delete", {})):
            assert spent(getattr(db, verb), tied, Group.at("go"), 1, **more) == spent(
                getattr(db, verb), beside, "go", 1, **more
            )
        assert spent(db.find, tied, "go", 1)[:2] == (1, 1)
