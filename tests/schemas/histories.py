"""Random histories over the declarations of a program: all verbs, over few keys and few values, so that steps meet."""

from tests.schemas.kinds import KINDS, VALUES_OF_KEYS, target_of
from tests.schemas.program import NAME

LONGEST = 18
TICKS = ("0.001", "1", "10", "100", "90_000")


class Historian:
    """Makes the steps of one seed, over what is left of a plan."""

    def __init__(self, declarer, program):
        self.chance = declarer.chance
        self.alive = set(NAME.findall(program.declared))
        self.models = [each for each in declarer.models if each.name in self.alive]
        self.by_name = {each.name: each for each in self.models}
        self.text = {each.name: str(each) for each in program.declarations}
        self.expires = "ttl = " in program.declared
        self.options = program.options
        self.spans = "portable=True" in program.options or self.chance.random() < 0.3
        self.concrete = [each for each in self.models if "variants_only" not in self.text[each.name]]
        self.counters = [
            (plan, name)
            for plan in self.models
            for name, text in plan.extra.items()
            if "counter(" in text and name in self.text[plan.name]
        ]

    def one(self, several):
        return self.chance.choice(list(several))

    def history(self):
        """Some entities of each model, sources first, and then anything."""
        steps = [
            f"SaveStep({self.entity(plan)})" for plan in self.concrete for _ in range(self.chance.choice([0, 1, 1, 2]))
        ]
        steps += [self.step() for _ in range(self.chance.randint(4, LONGEST))]
        return (*steps, "LookStep()")

    def step(self):
        kinds = ["save"] * 5 + ["create", "keep", "upsert"] + ["patch"] * 5 + ["delete"] * 3
        kinds += ["drain", "look", "tick", "bulk"] + (["save_all", "save_all", "together"] if self.spans else [])
        kinds += ["count"] * 3 if self.counters else []
        kinds += ["sweep", "sweep", "tick", "tick"] if self.expires else []
        return getattr(self, self.one(kinds))()

    def save(self, plans=None):
        return f"SaveStep({self.entity(self.one(self.concrete_of(plans)))})"

    def create(self, plans=None):
        return f'SaveStep({self.entity(self.one(self.concrete_of(plans)))}, "create")'

    def concrete_of(self, plans):
        return [each for each in plans or () if each in self.concrete] or self.concrete

    def keep(self):
        return f'SaveStep({self.entity(self.one(self.concrete))}, "keep")'

    def upsert(self):
        plan = self.one(self.concrete)
        if plan.numbered:  # an upsert names the entity that it may change
            return self.save()
        parts = self.parts(plan)
        return f"UpsertStep({self.entity(plan, parts)}, {self.changes(plan, key_text(parts))})"

    def patch(self, plans=None):
        plan = self.one(plans or self.models)
        key = self.key(plan)
        return f"PatchStep({plan.name}, ({key}), {self.changes(plan, key)})"

    def delete(self, plans=None):
        plan = self.one(plans or self.models)
        return f"DeleteStep({plan.name}, ({self.key(plan)}))"

    def save_all(self):
        found = {}
        for plan in [self.one(self.concrete) for _ in range(self.chance.randint(0, 4))]:
            entity = self.entity(plan)
            key = (plan.root, entity.split(" ")[0].partition("(")[2])  # each once: by the first part of its key
            found.setdefault(key, entity)
        order = [each.name for each in self.concrete]
        several = sorted(found.values(), key=lambda entity: order.index(entity.partition("(")[0]))
        return f"SaveAllStep([{', '.join(several)}])"

    def several(self, plans):
        """Writes for one transaction or bulk writer: of a portable schema all in one entity group."""
        return [
            self.one([self.save, self.save, self.create, self.patch, self.delete])(plans)
            for _ in range(self.chance.randint(1, 3))
        ]

    def together(self):
        plans = self.models
        if "portable=True" in self.options:
            plans = [self.one(self.models)]
        return f"TogetherStep([{', '.join(self.several(plans))}])"

    def bulk(self):
        return f"BulkStep([{', '.join(self.several(self.models))}], {self.one([1, 2, 100])})"

    def drain(self):
        return "DrainStep()"

    def look(self):
        return "LookStep()"

    def tick(self):
        return f"TickStep({self.one(TICKS if self.expires else (*TICKS, '-5'))})"

    def sweep(self):
        return f"SweepStep({self.one(['', '100'])})"

    def count(self):
        plan, field = self.one(self.counters)
        parts = self.plain_parts(plan)
        shown = " + '/' + ".join(f"str({part})" for part in parts)
        name = f"'{field}:' + {shown}"
        if self.chance.random() < 0.15:
            return f"DeleteCounterStep({name})"
        return f"CountStep({name}, {self.one([1, 2, -3, 9])}, {self.one([None, None, repr('a'), repr('b')])})"

    # What steps are made of.

    def key_value(self, kind):
        target = target_of(kind)
        return self.ref(target) if target else self.one(VALUES_OF_KEYS.get(kind, KINDS[kind].values[:3]))

    def plain_parts(self, plan):
        """The parts of a key, those of a field that refers one by one."""
        for _name, kind in plan.keys:
            target = target_of(kind)
            yield from self.plain_parts(self.by_name[target]) if target else [self.key_value(kind)]

    def parts(self, plan):
        """The values of the key fields."""
        return [
            self.one(["1", "2", "3"]) if name == plan.numbered else self.key_value(kind) for name, kind in plan.keys
        ]

    def key(self, plan):
        """The parts of a key, each followed by a comma."""
        return key_text(self.parts(plan))

    def ref(self, name):
        plan = self.by_name[name]
        return f"{name}.at({', '.join(self.parts(plan))})"

    def fields(self, plan):
        """The fields that a program sets, with what each is declared as."""
        own = [plan, *([self.by_name[plan.base]] if plan.base else [])]
        return {
            name: text
            for each in own
            for name, text in each.extra.items()
            if name in self.alive and not any(word in text for word in ("= CREATED", "= UPDATED", "rollup("))
        }

    def value(self, plan, name, own=""):
        """A value of a field of the entity with a key.

        A copy is never of its own holder: what `save` returns of it differs between stores.
        """
        field = next(each for each in plan.fields if each.path.endswith(f".{name}"))
        if field.optional and self.chance.random() < 0.25:
            return "None"
        if field.many:
            several = dict.fromkeys(self.ref(field.target) for _ in range(self.chance.randint(0, 3)))
            return f"[{', '.join(several)}]"
        if field.copy:
            key = self.key(self.by_name[field.target])
            return f"{field.copy}.of({key[:-1]})" if key != own else "None"
        if field.target:
            return self.ref(field.target)
        return self.one(KINDS[field.kind].values)

    def entity(self, plan, parts=None):
        parts = parts or self.parts(plan)
        key = key_text(parts)
        given = [
            f"{name}={part}"
            for (name, _kind), part in zip(plan.keys, parts, strict=True)
            if name != plan.numbered or self.chance.random() < 0.2
        ]
        for name, text in self.fields(plan).items():
            if (
                " = " in text
                and not (text.startswith("Annotated[list") or "reference(" in text)
                and self.chance.random() < 0.4
            ):
                continue
            given.append(f"{name}={self.value(plan, name, key)}")
        return f"{plan.name}({', '.join(given)})"

    def changes(self, plan, key=""):
        fields = list(self.fields(plan))
        picked = self.chance.sample(fields, min(len(fields), self.chance.randint(1, 3)))
        return "{" + ", ".join(f"{name!r}: {self.change(plan, name, key)}" for name in picked) + "}"

    def change(self, plan, name, key):
        """A new value, or a step from the stored one."""
        field = next(each for each in plan.fields if each.path.endswith(f".{name}"))
        value = self.value(plan, name, key)
        if value == "None" or field.target or self.chance.random() < 0.7:
            return value
        if field.kind in ("int", "small", "Decimal", "timedelta"):
            return f"add({value})"
        if field.kind in ("texts", "numbers"):
            return f"{self.one(['append', 'remove'])}({self.one(KINDS[KINDS[field.kind].element].values[:3])})"
        return f"set_to({value})"


def key_text(parts):
    """The inside of a tuple."""
    return ", ".join(f"*{part}.key" if ".at(" in part else part for part in parts) + ","
