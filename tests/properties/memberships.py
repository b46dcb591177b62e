"""A site of keys that refer: memberships of groups, notices on them, and what shows both."""

from oneread import (
    Aggregate,
    Copy,
    Index,
    Key,
    Model,
    Ref,
    Schema,
    by,
    count,
    counter,
    reference,
    rollup,
    shown,
    within,
)


class Group(Model[str]):
    code: Key[str]
    title: str = ""
    members: int = rollup(lambda: MembersOf.members)


class Member(Model[int]):
    number: Key[int]
    name: str = ""


class Membership(Model[Ref[Group], Ref[Member]]):
    child_of = Group
    group: Key[Ref[Group]]
    member: Key[Ref[Member]] = reference(on_delete="delete")
    role: str = "guest"
    views: int = rollup(counter("views:{member}:{group}"), every=1)
    notices: int = rollup(lambda: NoticesOf.notices)


class MembershipCard(Copy[Membership]):
    role: str
    title: str = within(Membership.group, Group.title)


class Notice(Model[int, Ref[Membership]]):
    number: Key[int]
    membership: Key[Ref[Membership]] = reference(missing_ok=True)
    other: MembershipCard | None = None
    stars: int = 0


class MembersOf(Aggregate[Membership]):
    group: Ref[Group] = by(Membership.group)
    members: int = count()


class NoticesOf(Aggregate[Notice]):
    membership: Ref[Membership] = by(Notice.membership)
    notices: int = count()


class Roster(Index[Membership]):
    title: str = by(within(Membership.group, Group.title))
    name: str = shown(within(Membership.member, Member.name))
    role: str = shown(Membership.role)


class Board(Index[Notice]):
    group: Ref[Group] | None = by(within(Notice.membership, Membership.group), none="last")
    name: str | None = shown(within(Notice.membership, within(Membership.member, Member.name)))
    other: MembershipCard | None = shown(Notice.other)


MEMBERSHIPS = Schema(Group, Member, Membership, Notice, MembersOf, NoticesOf, Roster, Board)
