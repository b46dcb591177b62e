"""Random models: fields, references, copies, entity groups, variants, and the models that a feed joins."""

from collections import Counter

from tests.schemas.kinds import BARE, KEYS, KINDS, REFERS, Field, ModelPlan, target_of, type_of_key
from tests.schemas.program import Declaration

FEATURES = (
    "copies", "references", "lists", "hops", "deletes", "totals", "counters", "children", "numbers", "ttl", "spread",
    "variants", "stamps", "unique", "where", "each", "hashed", "shown", "groups", "feeds", "marks", "large", "watched",
    "aggregates", "extrema", "newest", "buckets", "documents", "constraints", "shards", "structs", "self", "portable",
    "filtered", "keys",
)  # fmt: skip
"""What a program has or lacks; each is on in half of them."""


def policies_text(missing_ok, policy):
    """The arguments of `reference(...)`; what goes with its source cannot be without it."""
    missing = ["missing_ok=True"] if missing_ok and policy != "delete" else []
    return ", ".join([*missing, *([f'on_delete="{policy}"'] if policy != "keep" else [])])


class ModelDeclarer:
    """Makes the models of one seed."""

    def __init__(self, chance):
        self.chance = chance
        self.on = {each for each in FEATURES if chance.random() < 0.5}
        self.models = []
        self.copies = {}
        self.views = []
        self.texts = []
        self._numbers = Counter()

    def name(self, letter):
        self._numbers[letter] += 1
        return f"{letter}{self._numbers[letter]}"

    def has(self, feature, likely=1.0):
        return feature in self.on and self.chance.random() < likely

    def one(self, several):
        return self.chance.choice(list(several))

    def text_of(self, plan):
        key_types = ", ".join(type_of_key(kind) for _name, kind in plan.keys)
        base = plan.base or f"Model[{key_types}]"
        lines = [*plan.options]
        if plan.base is None:
            for name, kind in plan.keys:
                policy = f" = reference({plan.policies[name]})" if plan.policies.get(name) else ""
                default = " = GENERATED" if name == plan.numbered else policy
                lines.append(f"{name}: Key[{type_of_key(kind)}]{default}")
        lines += [f"{name}: {text}" for name, text in plan.extra.items()]
        return Declaration(plan.name, base, tuple(lines))

    def add_model(self):
        plan = ModelPlan(self.name("M"))
        for _ in range(1 if self.chance.random() < 0.8 else 2):
            if self.models and self.has("keys", 0.5):
                self.refer_by_key(plan, self.one(self.models))
            else:
                plan.keys.append((self.name("f"), self.one(KEYS)))
        self.fill(plan)
        return plan

    def refer_by_key(self, plan, target):
        """Gives a model a key field that refers."""
        name = self.name("f")
        missing_ok = self.chance.random() < 0.3
        policy = self.one(["keep", "refuse", "delete"]) if "deletes" in self.on else "keep"
        plan.keys.append((name, f"{REFERS}{target.name}"))
        plan.policies[name] = policies_text(missing_ok, policy)
        found = Field(f"{plan.name}.{name}", "ref", False, target.name)
        plan.fields.append(found)
        plan.missing_ok[found.path] = missing_ok
        return found

    def parts_of(self, plan):
        """The parts of a key, as the name of a counter has them, and their kinds."""
        for name, kind in plan.keys:
            behind = [*self.parts_of(self.model(target_of(kind)))] if target_of(kind) else []
            if len(behind) > 1:
                yield from ((f"{name}.{part}", each) for part, each in behind)
            else:
                yield name, behind[0][1] if behind else kind

    def fill(self, plan):
        """Gives a model its fields and options, and adds it."""
        for _ in range(self.chance.randint(1, 4)):
            self.add_field(plan)
        for _ in range(self.chance.randint(0, 2)):
            if self.models or "self" in self.on:
                self.add_reference(plan)
        if self.has("stamps", 0.5):
            for stamp in self.chance.sample(["CREATED", "UPDATED"], self.chance.randint(1, 2)):
                name = self.name("f")
                plan.extra[name] = f"datetime = {stamp}"
                plan.fields.append(Field(f"{plan.name}.{name}", "datetime", own=False))
        if self.has("counters", 0.7):
            self.add_counter(plan)
        if self.has("ttl", 0.5) and plan.base is None:
            self.add_ttl(plan)
        if self.has("spread", 0.5) and plan.base is None:
            plan.options.append("spread = 3")
        if plan.base is None and len(self.models) % 3 == 1:
            plan.options.append("logged = timedelta(days=2)")
        self.models.append(plan)
        self.texts.append(plan)

    def kinds(self):
        kinds = ["int", "int", "str", "str", "float", "Decimal", "date", "datetime", "datetime", "timedelta", "bytes",
                 "UUID", "State", "bool"]  # fmt: skip
        if "documents" in self.on:
            kinds += ["texts", "numbers", "dict"] * 2
        if "each" in self.on:
            kinds += ["texts", "numbers"] * 2
        if "structs" in self.on:
            kinds += ["Size"] * 2
        if "constraints" in self.on:
            kinds += ["small", "short"] * 2
        return kinds

    def add_field(self, plan, kind=None, *, required=False):
        kind = kind or self.one(self.kinds())
        name = self.name("f")
        optional = not required and self.chance.random() < 0.35
        text = KINDS[kind].text + (" | None" if optional else "")
        if optional and self.chance.random() < 0.6:
            text += " = None"
        elif not required and self.chance.random() < 0.4:
            value = self.one(
                [each for each in KINDS[kind].values if each not in ("-1", "10", "'abc'") or kind not in BARE]
            )
            if value[0] in "{[s":
                made = {"texts": "set", "numbers": "list", "dict": "dict"}[kind]
                value = f"msgspec.field(default_factory={made})"
            text += f" = {value}"
        plan.extra[name] = text
        found = Field(f"{plan.name}.{name}", kind, optional)
        plan.fields.append(found)
        return found

    def add_ttl(self, plan):
        instants = [each for each in plan.fields if each.kind == "datetime"]
        found = self.one(instants) if instants else self.add_field(plan, "datetime")
        after = self.one(["", ", after=timedelta(seconds=30)", ", after=timedelta(days=1)"])
        plan.options.append(f'ttl = expires("{found.path.split(".")[1]}"{after})')

    def add_counter(self, plan):
        keys = [*self.parts_of(plan)]
        good = all(kind in ("int", "UUID") for _name, kind in keys[:-1]) and keys[-1][1] in ("int", "UUID", "str")
        if not good:
            return
        name = self.name("f")
        parts = "/".join(f"{{{key}}}" for key, _kind in keys)
        plan.extra[name] = f'int = rollup(counter("{name}:{parts}"), every=1)'
        plan.fields.append(Field(f"{plan.name}.{name}", "int", own=False, total=True))

    def add_reference(self, plan, target=None):
        others = [*self.models, *([plan] if "self" in self.on and plan.base is None else [])]
        target = target or self.one(others)
        is_self = target is plan
        name = self.name("f")
        shapes = []
        if "references" in self.on:
            shapes += ["ref"] * 2
        if "copies" in self.on and target.fields:
            shapes += ["copy"] * 3
        if "lists" in self.on:
            shapes.append("list")
        shape = self.one(shapes or ["ref"])
        optional = is_self or self.chance.random() < 0.4
        policies = ["keep", "refuse", "delete"] if "deletes" in self.on else ["keep"]
        missing_ok = self.chance.random() < 0.3
        if shape == "copy":
            copy = self.copy_of(target, is_self)
            if copy is not None:
                cls, missing_ok, cleared = copy
                optional = optional or cleared
                text = cls + (" | None" if optional else "")
                plan.extra[name] = text + (" = None" if optional and self.chance.random() < 0.5 else "")
                found = Field(f"{plan.name}.{name}", "ref", optional, target.name, cls)
                plan.fields.append(found)
                plan.missing_ok[found.path] = missing_ok or cleared
                return found
        policy = self.one(policies)
        given = policies_text(missing_ok, policy)
        named = f'"{target.name}"' if is_self else target.name
        if shape == "list":
            text = f"Annotated[list[Ref[{named}]], Meta(max_length=3)]"
            found = Field(f"{plan.name}.{name}", "ref", False, target.name, many=True)
        else:
            text = f"Ref[{named}]" + (" | None" if optional else "")
            found = Field(f"{plan.name}.{name}", "ref", optional, target.name)
        plan.extra[name] = text + (
            f" = reference({given})" if given or (shape != "list" and optional and self.chance.random() < 0.5) else ""
        )
        plan.fields.append(found)
        plan.missing_ok[found.path] = missing_ok
        return found

    def copy_of(self, target, is_self):
        """Declares a copy class; returns its name, whether the source may be missing, and whether it is cleared."""
        plain = [each for each in target.fields if each.own and not each.target and not each.many]
        totals = [each for each in target.fields if each.total]
        picked = self.chance.sample(plain, min(len(plain), self.chance.randint(1, 2)))
        if totals and self.chance.random() < 0.3:
            picked.append(self.one(totals))
        cls = self.name("C")
        named = f'Copy["{target.name}"]' if is_self else f"Copy[{target.name}]"
        lines = []
        for each in picked:
            lines.append(f"{each.path.split('.')[1]}: {self.typed(each)}")
            self.copies.setdefault(cls, []).append((each.path.split(".")[1], each))
        if "hops" in self.on and not is_self:
            for far in self.hops(target)[:1]:
                name = self.name("f")
                lines.append(f"{name}: {self.typed(far)} = {far.path}")
                self.copies.setdefault(cls, []).append((name, far._replace(path=f"{cls}.{name}")))
        if not lines:
            return None
        missing_ok = self.chance.random() < 0.3
        policy = self.one(["keep", "refuse", "clear", "delete"]) if "deletes" in self.on else "keep"
        missing_ok = missing_ok and policy != "delete"
        options = (["missing_ok = True"] if missing_ok else []) + (
            [f'on_delete = "{policy}"'] if policy != "keep" else []
        )
        self.texts.append(Declaration(cls, named, tuple(options + lines)))
        return cls, missing_ok, policy == "clear"

    def typed(self, found):
        """The annotation of a field that takes over another."""
        text = KINDS[found.kind].text if found.own and found.kind in BARE else found.type
        return text + (" | None" if found.optional else "")

    def hops(self, plan):
        """What is behind the references and copies of a model, shuffled."""
        found = []
        for each in plan.fields:
            if each.target and not each.many:
                found += self.behind(plan, each)
        self.chance.shuffle(found)
        return found

    def behind(self, plan, each):
        """The paths through a field that refers."""
        missing = plan.missing_ok.get(each.path, False)
        target = self.model(each.target)
        found = []
        if target is plan:
            return found
        for far in target.fields if target is not None else ():
            if far.many or far.kind not in KINDS or KINDS[far.kind].element or far.copy:
                continue
            found.append(
                Field(
                    f"within({each.path}, {far.path})", far.kind, each.optional or missing or far.optional, far.target,
                    own=False, hidden=True,
                )
            )  # fmt: skip
        for name, copied in self.copies.get(each.copy, ()):
            found.append(
                Field(
                    f"within({each.path}, {each.copy}.{name})", copied.kind,
                    each.optional or missing or copied.optional, copied.target, own=False,
                )
            )  # fmt: skip
        if each.copy and self.chance.random() < 0.3:
            found.append(Field(f"within({each.path}, {each.copy}.ref)", "ref", each.optional, each.target, own=False))
        return found

    def model(self, name):
        return next((each for each in self.models if each.name == name), None)

    def add_feed_models(self):
        """A model of groups, memberships and items."""
        groups = self.one([*self.models, None]) if self.models else None
        if groups is None or groups.base or groups.child_of:
            groups = self.add_model()
        members = self.add_model() if self.chance.random() < 0.5 else self.one(self.models)
        membership = ModelPlan(self.name("M"))
        if self.has("keys", 0.6):
            self.refer_by_key(membership, groups)
            self.refer_by_key(membership, members)
        else:
            membership.keys.append((self.name("f"), "int"))
            self.plain_reference(membership, groups)
        if self.chance.random() < 0.7:
            self.plain_reference(membership, members)
        else:
            self.add_field(membership, "int", required=True)
        self.fill(membership)
        item = ModelPlan(self.name("M"))
        item.keys.append((self.name("f"), self.one(["int", "str", "UUID"])))
        self.plain_reference(item, groups, many=self.chance.random() < 0.3)
        self.add_field(item, "datetime", required=True)
        self.fill(item)
        self.feed_models = (groups, members, membership, item)

    def plain_reference(self, plan, target, *, many=False):
        name = self.name("f")
        optional = not many and self.chance.random() < 0.3
        missing_ok = self.chance.random() < 0.5
        policy = self.one(["keep", "refuse", "delete"]) if "deletes" in self.on else "keep"
        given = policies_text(missing_ok, policy)
        text = f"Ref[{target.name}]" + (" | None" if optional else "")
        if many:
            text = f"Annotated[list[Ref[{target.name}]], Meta(max_length=3)]"
        plan.extra[name] = text + (f" = reference({given})" if given else "")
        found = Field(f"{plan.name}.{name}", "ref", optional, target.name, many=many)
        plan.missing_ok[found.path] = missing_ok
        plan.fields.append(found)
        return found

    def add_child(self):
        roots = [each for each in self.models if each.base is None and each.child_of is None]
        if not roots:
            return
        root = self.one(roots)
        plan = ModelPlan(self.name("M"))
        plan.child_of = root.name
        plan.options.append(f"child_of = {root.name}")
        if self.has("keys", 0.6):
            self.refer_by_key(plan, root)
        else:
            plan.keys = [*root.keys]
        if self.has("numbers"):
            plan.numbered = self.name("f")
            part = (plan.numbered, "int")
        else:
            part = (self.name("f"), self.one(["int", "str", "date"]))
        plan.keys.insert(self.chance.randint(0, len(plan.keys)), part)
        self.fill(plan)

    def add_variant(self):
        bases = [each for each in self.models if each.base is None]
        base = self.one(bases)
        for _ in range(self.chance.randint(1, 2)):
            plan = ModelPlan(self.name("M"), base.name)
            plan.base = base.name
            plan.keys, plan.numbered, plan.child_of = base.keys, base.numbered, base.child_of
            for _ in range(self.chance.randint(0, 2)):
                self.add_field(plan)
            if self.chance.random() < 0.4:
                self.add_reference(plan)
            plan.fields += base.fields
            plan.missing_ok |= base.missing_ok
            self.models.append(plan)
            self.texts.append(plan)
        if self.chance.random() < 0.2:
            base.options.append("variants_only = True")
