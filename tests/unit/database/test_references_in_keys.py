"""Keys that refer: the field is a part of the key and a reference, in every place that knows either."""

from datetime import UTC, datetime
from enum import Enum

import msgspec
import pytest

from oneread import (
    Aggregate,
    Copy,
    Feed,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    any_of,
    by,
    connect,
    count,
    counter,
    field,
    newest,
    on,
    reference,
    rollup,
    shown,
    within,
)
from oneread.errors import InvalidKey, InvalidValue, MissingReference, StillReferenced
from oneread.models.json_form import form, to_plain
from oneread.models.model import key_of
from oneread.transfer.load import RecordReader
from tests.unit.database.faces import Awaited, Plain


class Tone(Enum):
    LOUD = "loud"
    LOW = "low"


class Region(Model[str, Tone]):
    country: Key[str]
    tone: Key[Tone]
    name: str


class Group(Model[str]):
    code: Key[str]
    title: str
    members: int = rollup(lambda: MembersOf.members)


class Member(Model[int]):
    number: Key[int]
    email: str


class Admin(Member):
    level: int = 1


class GroupCard(Copy[Group]):
    title: str


class Membership(Model[Ref[Group], Ref[Member]]):
    child_of = Group
    group: Key[Ref[Group]]
    member: Key[Ref[Member]] = reference(on_delete="delete")
    role: str = "guest"
    views: int = rollup(counter("views:{member}:{group}"), every=1)
    notices: int = rollup(lambda: NoticesOf.notices)
    spoken: int = rollup(lambda: SpokenOf.spoken)


class Notice(Model[Ref[Membership], int]):
    membership: Key[Ref[Membership]]
    number: Key[int]
    text: str
    read: int = rollup(counter("read:{membership.member}:{number}:{membership.group}"), every=1)


class Stay(Model[Ref[Region], Ref[Member]]):
    region: Key[Ref[Region]] = reference(missing_ok=True)
    member: Key[Ref[Member]] = reference(on_delete="refuse")
    nights: int = 1


class Profile(Model[Ref[Member]]):
    member: Key[Ref[Member]]
    text: str = ""


class Post(Model[int]):
    number: Key[int]
    group: Ref[Group]
    at: datetime


class Speech(Model[int]):
    number: Key[int]
    group: Ref[Group]
    member: Ref[Member]
    by_whom: Ref[Membership]


class MembersOf(Aggregate[Membership]):
    group: Ref[Group] = by(Membership.group)
    members: int = count()


class NoticesOf(Aggregate[Notice]):
    membership: Ref[Membership] = by(Notice.membership)
    notices: int = count()


class SpokenOf(Aggregate[Speech]):
    group: Ref[Group] = by(Speech.group)
    member: Ref[Member] = by(Speech.member)
    spoken: int = count()


class Roster(Index[Membership]):
    title: str = by(within(Membership.group, Group.title))
    email: str = shown(within(Membership.member, Member.email))


class Board(Index[Notice]):
    group: Ref[Group] = by(within(Notice.membership, Membership.group))
    role: str = shown(within(Notice.membership, Membership.role))


class OfMember(Index[Membership]):
    where = field(Membership.group) != Group.at("hidden")
    member: Ref[Member] = by(Membership.member)


class Guests(Index[Stay]):
    region: Ref[Region] = by(Stay.region)


class Home(Feed[Post]):
    marks = True
    expires_after = None
    joined = on(Post.group, Membership.group)
    member: Ref[Member] = by(Membership.member)
    at: datetime = newest(Post.at)


SCHEMA = Schema(
    Region, Group, Member, Admin, Membership, Notice, Stay, Profile, Post, Speech, MembersOf, NoticesOf, SpokenOf,
    Roster, Board, OfMember, Guests, Home,
)  # fmt: skip
LOUD = Region.at("is", Tone.LOUD)


@pytest.fixture(params=[Plain, Awaited])
def db(request, url):
    opened = request.param(url, SCHEMA, workers=0)
    fill(opened)
    yield opened
    opened.drain()
    assert opened.verify().clean
    opened.close()


def fill(db):
    db.save(Region(country="is", tone=Tone.LOUD, name="west"))
    for code in ("go", "chess"):
        db.save(Group(code=code, title=code.title()))
    for number in (1, 2):
        db.save(Member(number=number, email=f"{number}@x"))
        db.save(Membership(group=Group.at("go"), member=Member.at(number)))
    db.save(Membership(group=Group.at("chess"), member=Member.at(1), role="chair"))
    db.save(Stay(region=LOUD, member=Member.at(1)))


CHAIR = Membership.at("chess", 1)


@pytest.mark.parametrize(
    "key",
    [
        ("chess", 1),
        (Group.at("chess"), Member.at(1)),
        ("chess", Member.at(1)),
        (Group.at("chess"), 1),
        (GroupCard.of("chess"), Admin.at(1)),
        (CHAIR,),
        (Ref(("chess", 1)),),
        (Ref(("chess",)), Ref((1,))),
    ],
    ids=str,
)
def test_a_key_is_given_by_references_or_by_the_parts_behind_them(db, key):
    found = db.get(Membership, *key)
    assert (found.group, found.member, found.role) == (Group.at("chess"), Member.at(1), "chair")
    assert found == db.find(Membership, *key) == db.get_many(Membership, [key])[0]
    assert db.exists(Membership, *key)
    assert db.patch(Membership, *key, role="clerk").role == "clerk"
    if len(key) > 1:
        assert Membership.at(*key) == found.ref() == CHAIR
    assert db.transact([("get", (Membership, *key), {})])[0].role == "clerk"
    db.delete(Membership, *key)
    assert db.find(Membership, *key) is None


def test_a_reference_to_what_refers_by_its_key_has_the_parts(db):
    assert Membership.at(Group.at("chess"), Member.at(1)).key == ("chess", 1)
    assert repr(Membership.at(Group.at("chess"), Member.at(1))) == "Membership.at('chess', 1)"
    assert Notice.at(Membership.at(Group.at("chess"), 1), 3).key == ("chess", 1, 3)
    assert Stay.at(LOUD, Member.at(1)).key == ("is", Tone.LOUD, 1)
    assert key_of(db.get(Stay, LOUD, Member.at(1))) == ("is", Tone.LOUD, 1)


def test_what_a_key_refers_to_is_known_by_its_class(db):
    found = db.get(Stay, "is", Tone.LOUD, 1)
    assert (repr(found.region), repr(found.member)) == ("Region.at('is', <Tone.LOUD: 'loud'>)", "Member.at(1)")
    assert db.get(Member, found.member).email == "1@x"


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (("chess",), "other parts than the model"),
        ((Group.at("chess"),), "other parts than the model"),
        (("chess", 1, 2), "other parts than the model"),
        ((Group.at("chess"), Member.at(1), 2), "other parts than the model"),
        ((Member.at(1), Group.at("chess")), "refers to another class"),
        ((Group.at("chess"), LOUD), "refers to another class"),
        ((Group.at("chess"), Ref((1, 2))), "a key of other parts"),
        ((Group.at(1), 1), "not of the field's declared type"),
        ((None, 1), "None"),
    ],
    ids=str,
)
def test_a_key_that_refers_elsewhere_is_refused(db, key, reason):
    for verb in (db.get, db.find, db.exists, db.delete):
        with pytest.raises(InvalidKey, match=reason):
            verb(Membership, *key)


def test_one_reference_is_the_whole_key_or_the_field_that_refers(db):
    db.save(Profile(member=Member.at(1), text="it"))
    for given in (1, Member.at(1), Profile.at(1), Profile.at(Member.at(1)), Ref((1,))):
        assert db.get(Profile, given).text == "it"
    with pytest.raises(InvalidKey, match="refers to another class"):
        db.get(Profile, Group.at("go"))
    with pytest.raises(InvalidKey, match="refers to another class"):
        db.get(Member, Profile.at(1))


def test_at_refuses_a_reference_to_another_class():
    with pytest.raises(InvalidKey, match="refers to another class"):
        Membership.at(Member.at(1), Group.at("chess"))
    assert Stay.at("is", Tone.LOUD, Member.at(1)).key == ("is", Tone.LOUD, 1)


@pytest.mark.parametrize(
    ("values", "error", "reason"),
    [
        ({"group": "go"}, InvalidValue, "write a reference, not a key .*Group.at"),
        ({"group": None}, InvalidValue, "refers to an entity"),
        ({"group": GroupCard.of("go")}, InvalidValue, "not a copy"),
        ({"group": Group(code="go", title="")}, InvalidValue, "not the entity"),
        ({"group": Member.at(2)}, InvalidKey, "refers to another class"),
        ({"group": Ref((2,))}, InvalidKey, "declared type"),
        ({"group": Ref(("go", 2))}, InvalidKey, "other parts"),
        ({"group": Group.at("none")}, MissingReference, "does not exist"),
        ({"member": Member.at(9)}, MissingReference, "does not exist"),
    ],
    ids=str,
)
def test_a_save_refuses_what_does_not_refer(db, values, error, reason):
    entity = Membership(**{"group": Group.at("go"), "member": Member.at(2), **values})
    for verb in (db.save, db.create):
        with pytest.raises(error, match=reason):
            verb(entity)


def test_a_patch_cannot_change_what_a_key_refers_to(db):
    with pytest.raises(InvalidValue, match="cannot change a part of the key"):
        db.patch(Membership, "go", 1, group=Group.at("chess"))


def test_policies_are_those_of_references(db):
    with pytest.raises(StillReferenced, match="on_delete"):
        db.delete(Member, 1)
    db.delete(Stay, LOUD, Member.at(1))
    db.delete(Member, 1)  # its memberships go with it
    db.drain()
    assert [key_of(each) for each in db.page(Membership).rows] == [("go", 2)]
    assert [db.get(Group, code).members for code in ("chess", "go")] == [0, 1]
    db.save(Stay(region=Region.at("no", Tone.LOW), member=Member.at(2)))  # a region may be missing
    assert db.page(Guests, "no", Tone.LOW).rows[0].region == Region.at("no", Tone.LOW)


def test_the_root_of_a_child_is_what_its_key_refers_to(db):
    with pytest.raises(StillReferenced):
        db.delete(Group, "go")
    db.delete(Group, "go", children="delete")
    assert [key_of(each) for each in db.page(Membership).rows] == [("chess", 1)]
    made = db.transact(
        [
            ("save", (Group(code="new", title="New"),), {}),
            ("save", (Membership(group=Group.at("new"), member=Member.at(1)),), {}),
        ]
    )
    assert made[1].group == Group.at("new")


def test_what_a_key_refers_to_is_followed(db):
    assert [row.source for row in db.page(Roster, "Go").rows] == [Membership.at("go", 1), Membership.at("go", 2)]
    db.patch(Group, "go", title="Baduk")
    db.patch(Member, 2, email="two@x")
    db.drain()
    assert not db.page(Roster, "Go").rows
    assert [row.email for row in db.page(Roster, "Baduk").rows] == ["1@x", "two@x"]
    db.save(Notice(membership=CHAIR, number=1, text="hello"))
    db.patch(Membership, CHAIR, role="clerk")
    db.drain()
    assert [(row.source, row.role) for row in db.page(Board, Group.at("chess")).rows] == [
        (Notice.at(CHAIR, 1), "clerk")
    ]
    assert [row.source.key for row in db.page(OfMember, Member.at(1)).rows] == [("chess", 1), ("go", 1)]


def test_entities_are_listed_by_what_their_keys_refer_to(db):
    def listed(*equal, **options):
        return [each.member.key[0] for each in db.page(Membership, *equal, **options).rows]

    assert listed(Group.at("go")) == listed("go") == [1, 2]
    assert listed(Group.at("go"), Member.at(2)) == [2]
    assert listed(Group.at("go"), since=Member.at(2)) == listed("go", since=2) == [2]
    assert listed(any_of(Group.at("go"), Group.at("chess"))) == [1, 1, 2]
    first = db.page(Membership, Group.at("go"), limit=1)
    assert [each.member for each in db.page(Membership, "go", limit=1, cursor=first.next).rows] == [Member.at(2)]
    with pytest.raises(InvalidKey, match="refers to another class"):
        listed(Member.at(1))


def test_totals_and_counters_are_of_what_keys_refer_by(url):
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        db.save(Notice(membership=CHAIR, number=7, text="a"))
        for number in (1, 2):
            db.save(Speech(number=number, group=Group.at("chess"), member=Member.at(1), by_whom=CHAIR))
        db.counter("views:1:chess").add(5)
        db.counter("read:1:7:chess").add(2)
        db.drain()
        found = db.get(Membership, CHAIR)
        assert (found.notices, found.spoken, found.views) == (1, 2, 5)
        assert db.get(Notice, CHAIR, 7).read == 2
        assert db.get(NoticesOf, CHAIR).notices == db.get(NoticesOf, "chess", 1).notices == 1
        assert db.get(Group, "go").members == 2
        assert db.verify().clean


def test_a_feed_joins_by_what_keys_refer_to(db):
    db.save(Post(number=1, group=Group.at("chess"), at=datetime(2024, 1, 1, tzinfo=UTC)))
    db.drain()
    assert [row.source.key for row in db.page(Home, Member.at(1)).rows] == [(1,)]
    assert not db.page(Home, Member.at(2)).rows
    assert db.unread(Home, Member.at(1)).unseen == 1
    db.mark(Home, Member.at(1), seen=True)
    assert db.unread(Home, 1).unseen == 0
    db.delete(Membership, CHAIR)
    db.drain()
    assert not db.page(Home, Member.at(1)).rows


def test_json_has_a_key_that_refers_as_it_has_references(db):
    db.save(Notice(membership=CHAIR, number=1, text="hello"))
    notice = db.get(Notice, "chess", 1, 1)
    sent = msgspec.json.encode(to_plain(notice))
    assert sent == b'{"membership":["chess",1],"number":1,"text":"hello","read":0}'
    assert b'"region":["is","loud"],"member":1' in msgspec.json.encode(to_plain(db.get(Stay, LOUD, 1)))
    for given in ('"group":"go","member":1', '"group":["go"],"member":{"ref":1}'):
        found = form(Membership).decode(f"{{{given}}}".encode())
        assert (found.group, found.member) == (Group.at("go"), Member.at(1))
        assert db.save(found).role == "guest"
    schema = form(Stay).schema(sent=True).schema["properties"]
    assert schema["member"] == {"type": "integer"}
    assert schema["region"]["prefixItems"][0] == {"type": "string"}


def test_places_and_explanations_name_it(db):
    holders = db.places(Member, 1).holders
    assert ("Membership", ("chess", 1)) in [(each.model, each.key) for each in holders]
    text = str(db.explain.get(Membership, Group.at("chess"), Member.at(1)))
    assert "roots Membership('chess', 1)" in text
    assert "sources (Membership.member)" in str(db.explain.save(db.get(Membership, CHAIR)))


def test_upserts_know_their_entity_by_what_its_key_refers_to(db):
    saved = db.upsert(Membership(group=Group.at("chess"), member=Member.at(2)), role="guest")
    assert saved.ref() == Membership.at("chess", 2)
    assert db.get_or_create(Membership(group=Group.at("chess"), member=Member.at(2), role="x"))[0].role == "guest"


def test_a_file_of_columns_has_the_parts_and_a_dump_the_lists(url):
    lines, columns = [], []
    with connect(url, SCHEMA, workers=0) as db:
        fill(db)
        db.delete(Membership, CHAIR)
        db.drain()
        db.dump(lines.append)
        db.dump_csv(columns.append, Stay)
        head, row = [line.decode().split(",") for line in b"".join(columns).split()]
        assert (head, row) == (["region.country", "region.tone", "member", "nights"], ["is", "loud", "1", "1"])
        assert RecordReader(db.operations.catalog, Stay, {}, head).entity(row) == db.get(Stay, LOUD, 1)
    assert any(b'"entity":{"group":["go"],"member":[1],' in each for each in lines)
    assert any(b'"deleted":["chess",1]' in each for each in lines)
