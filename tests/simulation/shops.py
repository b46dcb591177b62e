"""The declarations of a small shop, by release: for histories in which its schema, or the share of a view, changes."""

from types import SimpleNamespace

from oneread import Aggregate, Copy, Index, Key, Model, Schema, by, count, descending, field, total, within
from tests.simulation.schema import Compiled


def shop(*, is_sorted=False, has_colour=False, sees=False, launches=False):
    """The declarations of one release, by name; every release has classes of its own."""

    class Maker(Model[int]):
        number: Key[int]
        name: str
        land: str | None = None

    class MadeBy(Copy[Maker]):
        missing_ok = True

        name: str

    class Item(Model[int]):
        number: Key[int]
        maker: MadeBy | None = None
        size: int = 0
        if has_colour:
            colour: str = "grey"

    class Note(Model[int]):
        """Nothing is derived from it under the old schema."""

        number: Key[int]
        size: int = 0

    class ItemsOfMaker(Index[Item]):
        maker: MadeBy | None = by(Item.maker, none="first")
        if is_sorted:
            size: int = descending(Item.size)

    class ItemsInLand(Index[Item]):
        land: str | None = by(within(Item.maker, Maker.land), none="first")

    class SizesOfMaker(Aggregate[Item]):
        maker: MadeBy | None = by(Item.maker, none="first")
        items: int = count()
        sizes: int = total(Item.size)

    class LargeNotes(Index[Note]):
        size: int = by(Note.size)
        where = field(Note.size) >= 5

    class ItemsBySize(Index[Item]):
        replaces = ItemsOfMaker
        maker: MadeBy | None = by(Item.maker, none="first")
        size: int = descending(Item.size)

    class OtherSizes(Aggregate[Item]):
        replaces = SizesOfMaker
        maker: MadeBy | None = by(Item.maker, none="first")
        items: int = count()
        sizes: int = total(Item.size)

    class OtherNotes(Index[Note]):
        replaces = LargeNotes
        size: int = descending(Note.size)

    added = (ItemsInLand, SizesOfMaker, LargeNotes) if sees else ()
    launched = (ItemsBySize, OtherSizes, OtherNotes) if launches else ()
    views = (ItemsOfMaker, *added, *launched)
    names = SimpleNamespace(Maker=Maker, MadeBy=MadeBy, Item=Item, Note=Note, added=added, views=views)
    names.launched = {each.__name__: each for each in launched}
    made = Schema if launches else Compiled  # each program learns shares by itself
    names.schema = made(Maker, Item, Note, *views, inline=2)
    return names
