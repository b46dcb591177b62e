"""What commits of feeds with large groups cost, by the declarations, beside what they do cost."""

from random import Random

import pytest

from oneread.costs import declared
from oneread.costs.budgets import budget
from tests.properties.large_groups import Group, Member, Membership, Post, World

HISTORIES, STEPS = 24, 80


class Priced(World):
    """Holds each commit against its bound."""

    def open(self, above, merged):
        super().open(above, merged)
        self.costs = declared.of(self.schema)
        for number in range(1, 5):
            self._add(Member, number)
        for name in "abcd":
            self._add(Group, name)

    def hold(self, act, bound):
        with budget() as spent:
            act()
        cost = spent.cost
        assert cost.requests <= bound.requests, (cost, str(bound))
        assert cost.rows <= bound.rows, (cost, str(bound))
        assert cost.bytes <= bound.bytes, (cost, str(bound))

    def join(self, number, member, group):
        self.hold(lambda: super(Priced, self).join(number, member, group), self.costs.save(Membership))

    def leave(self, number):
        self.hold(lambda: super(Priced, self).leave(number), self.costs.delete(Membership))

    def publish(self, number, group, minute=0, title=""):
        self.hold(lambda: super(Priced, self).publish(number, group, minute, title), self.costs.save(Post))

    def remove(self, number):
        self.hold(lambda: super(Priced, self).remove(number), self.costs.delete(Post))

    def join_all(self, memberships):
        bound = self.costs.save(Membership, entities=len(memberships))
        self.hold(lambda: self.db.save_all(memberships), bound)
        self.memberships |= {each.number: each for each in memberships}


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_no_commit_exceeds_its_bound_while_groups_cross(seed):
    """Joins and leaves, alone and in batches, publishes and removals, with tasks at any stage."""
    chance = Random(f"costs of large groups {seed}")
    options = {} if seed % 2 else {"at_most": chance.choice((1, 3))}
    world = Priced(chance.choice((1, 3, 4)), chance.choice((1, 2)), chance.choice((0, 1, 2, 5)), **options)
    try:
        for _ in range(STEPS):
            number, group = chance.randrange(20), chance.choice("aaabcd")
            act = chance.randrange(12)
            if act < 3:
                world.join(number, chance.randrange(1, 5), group)
            elif act < 5:
                world.leave(number)
            elif act < 8:
                world.publish(number, group, chance.randrange(6), "title")
            elif act < 9:
                world.remove(number)
            elif act < 10:
                world.join_all(
                    [
                        Membership(number=each, member=Member.at(chance.randrange(1, 5)), group=Group.at(group))
                        for each in chance.sample(range(20), chance.randrange(1, 6))
                    ]
                )
            else:
                for _ in range(chance.randrange(8)):
                    world.step()
    finally:
        world.close()


def terms(bound, because="Home"):
    return {(each.act, each.what): each.rows for each in bound.terms if each.because == because}


def test_a_join_names_the_rows_of_large_groups():
    world = World(above=3, merged=2, inline=10)
    found = terms(declared.of(world.schema).save(Membership))
    # A membership that moves leaves one group and joins another.
    assert found["write", "large groups"] == 2
    assert found["write", "memberships read or written"] == 8
    assert found["write", "tasks of large groups"] == 2
    assert found["write", "entries of the smallest group"] == 10
    assert found["scan", "groups that a page merges"] == 2 * (2 + 2 * 2)
    world.close()


def test_a_feed_without_large_groups_pays_nothing_for_them():
    world = World(above=None, merged=2, inline=10)
    assert not [what for _act, what in terms(declared.of(world.schema).save(Membership)) if "group" in what]
    world.close()


def spent(act):
    with budget() as found:
        act()
    return found.cost.requests, found.cost.rows


def test_what_is_predicted_and_what_is_done():
    """Requests and rows, of commits that begin a crossing, or take the place of a smaller group, and at rest."""
    world = Priced(above=3, merged=1, inline=10)
    for number in range(3):
        world.join(number, number + 1, "a")
    found = {"cross": spent(lambda: world.join(3, 4, "a"))}
    world.settle()
    found["publish"] = spent(lambda: world.publish(1, "a"))
    for number in range(4, 9):
        world.join(number, (number - 4) % 3 + 1, "b")
    world.settle()
    found["take a place"] = spent(lambda: world.join(20, 4, "b"))
    found["leave"] = spent(lambda: world.leave(20))
    assert found == {"cross": (9, 14), "publish": (6, 6), "take a place": (12, 23), "leave": (8, 12)}
    bounds = world.costs.create(Membership), world.costs.delete(Membership), world.costs.create(Post)
    assert [(each.requests, each.rows) for each in bounds] == [(15, 90), (15, 88), (10, 69)]
    world.close()
