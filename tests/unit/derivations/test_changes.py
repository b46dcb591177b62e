"""What a change needs to know of others, it asks for."""

import msgspec
import pytest

from oneread import Copy, Key, Model, Ref, Schema, connect, reference
from oneread.derivations.catalog import Catalog
from oneread.derivations.changes import Patch


class City(Model[int]):
    code: Key[int]
    name: str


class Home(Copy[City]):
    name: str


class Waiting(Copy[City]):
    missing_ok = True

    name: str


class Person(Model[int]):
    number: Key[int]
    born_in: Ref[City] | None = reference(missing_ok=True)
    home: Home | None = None
    next_home: Waiting | None = None


@pytest.mark.parametrize("field", ["home", "next_home"])
def test_a_patch_fills_a_copy_of_what_another_field_refers_to_already(url, field):
    with connect(url, Schema(City, Person)) as db:
        db.save(City(code=1, name="Ulm"))
        db.save(Person(number=1, born_in=City.at(1)))
        patched = db.patch(Person, 1, **{field: {"home": Home, "next_home": Waiting}[field].of(1)})
        assert getattr(patched, field).name == "Ulm"
        assert getattr(db.get(Person, 1), field).name == "Ulm"


def test_a_patch_decodes_its_row_and_applies_its_function_once(url, monkeypatch):
    asked = []
    with connect(url, Schema(City, Person), workers=0) as db:
        db.save(City(code=1, name="Ulm"))
        db.save(Person(number=1, home=Home.of(1)))
        catalog = db.operations.catalog
        state = Catalog.state

        def asking(self, key, root):
            asked.append("state")
            return state(self, key, root)

        monkeypatch.setattr(Catalog, "state", asking)

        def moved(person):
            asked.append("change")
            return msgspec.structs.replace(person, born_in=City.at(1))

        db.run(db.operations.commit([Patch(catalog, db.operations.root(Person, (1,)), moved)]))
        assert asked in (["state", "change"], ["change"])  # compiled code decodes no record
        assert db.get(Person, 1).born_in == City.at(1)
