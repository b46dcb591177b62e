"""Random views of random models: indexes, aggregates, indexes of groups, totals that entities show, and feeds."""

import re

from tests.schemas.kinds import BARE, KINDS, VALUES_OF_KEYS, Field, target_of, type_of_key
from tests.schemas.models import ModelDeclarer
from tests.schemas.program import NAME, Declaration


class ViewDeclarer(ModelDeclarer):
    """Makes the views of one seed."""

    def paths(self, plan):
        """Everything that a view of a model can name."""
        found = [*plan.fields]
        found += [Field(f"{plan.name}.{name}", kind, own=False) for name, kind in plan.keys if not target_of(kind)]
        found += self.hops(plan)[:4]
        found += [each._replace(path=f"within({each.path}, Size.width)", kind="int", own=False) for each in plan.fields
                  if each.kind == "Size"]  # fmt: skip
        return found

    def add_view(self):
        choices = ["index"] * 3
        if "aggregates" in self.on:
            choices += ["aggregate"] * 3
            if "groups" in self.on and any(each.base.startswith("Aggregate") for each in self.views):
                choices += ["groups"] * 4
        choice = self.one(choices)
        if choice == "index":
            self.add_index(self.one(self.models))
        elif choice == "aggregate":
            self.add_aggregate(self.one(self.models))
        else:
            self.add_index_of_groups()

    def add_to(self, declaration):
        self.views.append(declaration)
        self.texts.append(declaration)

    def key_rule(self, each):
        """A key rule of a field, and its annotation."""
        if each.many or KINDS.get(each.kind, KINDS["int"]).element:
            element = each._replace(
                many=False, optional=False, kind=KINDS[each.kind].element if not each.many else "ref"
            )
            return element.type, f"by(each({each.path}))"
        if each.kind not in KINDS:
            rules = ["by", "by", "ascending", "descending"]
        elif each.kind == "datetime":
            rules = ["newest", "newest", "oldest", "by"] + (["bucket"] * 3 if "buckets" in self.on else [])
        else:
            rules = ["by", "by", "ascending", "descending", "descending"]
        rule = self.one(rules)
        if rule == "bucket":
            size = self.one(["minute", "hour", "day", "week", "month", "year"])
            return "datetime", f'bucket({each.path}, "{size}")'
        if rule in ("newest", "oldest"):
            return "datetime", f"{rule}({each.path})"
        none = self.chance.random() < (0.5 if each.optional else 0.05)
        given = f', none="{self.one(["first", "last"])}"' if none else ""
        if rule == "by" and each.kind in KINDS and self.has("hashed", 0.25):
            given += ", hashed=True"
        return each.type + (" | None" if none else ""), f"{rule}({each.path}{given})"

    def condition(self, paths):
        """A condition on what an entity and its copies show."""
        several = [each for each in paths if not each.hidden and not each.many]
        if not several:
            return None
        one = self.simple_condition(self.one(several))
        if self.chance.random() < 0.3:
            other = self.simple_condition(self.one(several))
            one = f"({one}) {self.one('&|')} ({other})"
        return f"~({one})" if self.chance.random() < 0.1 else one

    def simple_condition(self, each):
        if each.optional and (each.target or self.chance.random() < 0.4):
            return f"field({each.path}).{self.one(['is_none', 'is_not_none'])}()"
        return f"field({each.path}) != {self.ref(each)}" if each.target else self.comparison(each)

    def comparison(self, each):
        """A condition on a plain value."""
        kind = KINDS[each.kind]
        value = self.one(value for value in kind.values if each.kind not in BARE or value not in ("-1", "10", "'abc'"))
        if kind.element:
            return f"field({each.path}).contains({self.one(KINDS[kind.element].values)})"
        if not kind.key:
            return f"field({each.path}) != {value}"
        if each.kind in ("str", "short") and self.chance.random() < 0.3:
            return f"field({each.path}).starts_with('a')"
        if self.chance.random() < 0.2:
            return f"field({each.path}).one_of({value}, {self.one(kind.values[:2])})"
        ordered = kind.ordered and each.kind not in ("bool", "State")
        return f"field({each.path}) {self.one(['==', '!=', *(['>', '<', '<=', '>='] if ordered else [])])} {value}"

    def ref(self, each):
        return f"{each.target}.at({', '.join(self.key_of(self.model(each.target)))})"

    def key_of(self, plan):
        return [
            f"{target}.at({', '.join(self.key_of(self.model(target)))})" if (target := target_of(kind))
            else self.one(VALUES_OF_KEYS.get(kind, KINDS[kind].values[:3]))
            for _name, kind in plan.keys
        ]  # fmt: skip

    def options_of(self, paths, *, where=True):
        options = []
        if where and self.has("where", 0.5):
            condition = self.condition(paths)
            options += [f"where = {condition}"] if condition else []
        if self.has("watched", 0.3):
            options.append(f"watched = timedelta({self.one(['seconds=60', 'hours=1', 'days=2'])})")
        return options

    def shown(self, paths, most):
        """Fields that show some of the paths."""
        picked = self.chance.sample(paths, min(len(paths), most))
        return [f"{self.name('v')}: {self.typed(each)} = shown({each.path})" for each in picked]

    def keyed(self, paths, *, unique):
        """The paths that an index can have in its key."""
        found = [each for each in paths if each.many or KINDS.get(each.kind, KINDS["int"]).key]
        if "each" in self.on:
            found += [each for each in paths if each.many or KINDS.get(each.kind, KINDS["int"]).element] * 2
        if not unique:
            return found
        return [
            each
            for each in found
            if (each.own or not each.path.startswith("within")) and not (each.many or each.target or each.total)
        ]

    def add_index(self, plan):
        paths = self.paths(plan)
        options = self.options_of(paths)
        unique = self.has("unique", 0.4)
        keyed = self.keyed(paths, unique=unique)
        if not keyed:
            return
        lines, every = [], False
        for each in [self.one(keyed) for _ in range(self.one([0, 1, 1, 1, 2, 2, 3]) or int(unique))]:
            several = each.many or bool(KINDS.get(each.kind, KINDS["int"]).element)
            if several and every:
                continue
            every = every or several
            annotation, rule = self.key_rule(each)
            lines.append(f"{self.name('v')}: {annotation} = {rule}")
        if self.has("shown"):
            lines += self.shown(paths, self.chance.randint(1, 3))
        own = [each for each in paths if not (each.path.startswith("within") or each.total)]
        options += ["unique = True", *self.life(own)] if unique else self.life_and_place(paths)
        self.add_to(Declaration(self.name("I"), f"Index[{plan.name}]", tuple(options + lines)))

    def life_and_place(self, paths):
        """The options `spread` and `ttl` of an index that is not unique."""
        return [*(["spread = 2"] if self.has("spread", 0.4) else []), *self.life(paths)]

    def life(self, paths):
        """The option `ttl`, by one of these instants."""
        instants = [each for each in paths if each.kind == "datetime" and not each.many]
        if not instants or not self.has("ttl", 0.4):
            return []
        after = self.one(["", ", after=timedelta(seconds=30)", ", after=timedelta(days=1)"])
        return [f"ttl = expires({self.one(instants).path}{after})"]

    def folds(self, paths):
        """Numbers of an aggregate."""
        plain = [each for each in paths if not each.many and not each.copy]
        summed = [each for each in plain if each.kind in KINDS and KINDS[each.kind].summed]
        ordered = [each for each in plain if each.kind in KINDS and KINDS[each.kind].ordered and KINDS[each.kind].key]
        instants = [each for each in plain if each.kind == "datetime"]
        words = ["count", "count", "count_of", *(["total", "total", "mean"] if summed else [])]
        if "extrema" in self.on and ordered:
            words += ["least", "greatest"] * 2
        if "newest" in self.on and instants:
            words += ["newest_values"] * 3
        several = [self.one(words) for _ in range(self.chance.randint(1, 4))]
        folds = [self.fold(word, plain, summed, ordered, instants) for word in several]
        return [f"{self.name('v')}: {self.filtered(fold, paths)}" for fold in folds]

    def filtered(self, fold, paths):
        """A number, perhaps of only some entities."""
        condition = self.condition(paths) if self.has("filtered", 0.6) else None
        if not condition:
            return fold
        start = fold.removesuffix(")")
        return f"{start}{'' if start.endswith('(') else ', '}where={condition})"

    def fold(self, word, plain, summed, ordered, instants):
        if word == "count":
            return "int = count()"
        if word == "count_of":
            return f"int = count({self.one(plain).path})"
        if word == "total":
            each = self.one(summed)
            return f"{each.type} = total({each.path})"
        if word == "mean":
            each = self.one(summed)
            return f"{'Decimal' if each.type == 'int' else each.type} | None = mean({each.path})"
        if word == "newest_values":
            each = self.one(plain)
            most = self.one([1, 2, 5])
            return f"list[{each.type}] = newest_values({each.path}, by={self.one(instants).path}, most={most})"
        each = self.one(ordered)
        return f"{each.type} | None = {word}({each.path})"

    def add_aggregate(self, plan, keys=None):
        paths = self.paths(plan)
        lines = self.options_of(paths, where=keys is None or self.chance.random() < 0.3)
        lines = [line for line in lines if not line.startswith("watched")]
        if self.has("shards", 0.4):
            lines.append(f"shards = {self.one([2, 3])}")
        lines += self.life(paths)
        if keys is None:
            keyed = [each for each in paths if KINDS.get(each.kind, KINDS["int"]).key or each.many]
            every = False
            for each in [self.one(keyed) for _ in range(self.one([0, 1, 1, 1, 2, 2]))]:
                if each.many and every:
                    continue
                every = every or each.many
                annotation, rule = self.key_rule(each)
                rule = re.sub(r"^(ascending|descending|newest|oldest)\b", "by", rule)
                lines.append(f"{self.name('v')}: {annotation} = {rule}")
        else:
            lines += keys
        lines += self.folds(paths)
        found = Declaration(self.name("G"), f"Aggregate[{plan.name}]", tuple(lines))
        self.add_to(found)
        return found

    def fields_of(self, aggregate):
        """The fields of an aggregate, as those of a model."""
        found = []
        for line in aggregate.lines:
            name, _, rest = line.partition(": ")
            if not NAME.fullmatch(name):
                continue
            annotation, _, rule = rest.partition(" = ")
            bare = annotation.removesuffix(" | None")
            kind = next((each for each in KINDS if KINDS[each].text == bare), None)
            found.append((f"{aggregate.name}.{name}", annotation, bare, kind, rule))
        return found

    def add_index_of_groups(self):
        aggregate = self.one(each for each in self.views if each.base.startswith("Aggregate"))
        fields = self.fields_of(aggregate)
        lines = []
        for path, annotation, bare, _kind, rule in self.chance.sample(
            fields, min(len(fields), self.chance.randint(1, 3))
        ):
            if bare.startswith(("list", "set", "dict")):
                continue
            optional = annotation.endswith("| None")
            none = f', none="{self.one(["first", "last"])}"' if optional and self.chance.random() < 0.7 else ""
            word = self.one(["by", "ascending", "descending", "descending"])
            if rule.startswith("bucket"):
                word, none = "newest", ""
            lines.append(f"{self.name('v')}: {bare}{' | None' if none else ''} = {word}({path}{none})")
        for path, annotation, *_ in fields:
            if self.chance.random() < 0.4:
                lines.append(f"{self.name('v')}: {annotation} = shown({path})")
        options = []
        numbers = [path for path, annotation, _bare, kind, rule in fields if kind == "int" and annotation == "int"]
        if numbers and self.has("where", 0.4):
            options.append(f"where = field({self.one(numbers)}) > {self.one([0, 1, 2])}")
        if self.has("spread", 0.3):
            options.append("spread = 2")
        if self.has("watched", 0.3):
            options.append("watched = timedelta(hours=1)")
        self.add_to(Declaration(self.name("I"), f"Index[{aggregate.name}]", tuple(options + lines)))

    def add_total(self):
        """An aggregate whose groups have the keys of a model, which shows its numbers."""
        pairs = [
            (self.model(each.target), plan, each)
            for plan in self.models
            for each in plan.fields
            if each.target and not each.many and self.model(each.target) is not None
        ]
        children = [
            (self.model(plan.child_of), plan, None)
            for plan in self.models
            if plan.child_of and not any(target_of(kind) == plan.child_of for _name, kind in plan.keys)
        ]
        if not pairs + children:
            return
        root, plan, each = self.one(pairs + children)
        if each is None:
            keys = [f"{name}: {type_of_key(kind)} = by({plan.name}.{name})" for name, kind in root.keys]
        else:
            keys = [f"{self.name('v')}: {each.type} = by({each.path})"]
        aggregate = self.add_aggregate(plan, keys)
        for path, annotation, *_rest, rule in self.fields_of(aggregate):
            if rule.startswith(("by", "bucket")) or "list[Ref" in annotation or self.chance.random() < 0.3:
                continue
            name = self.name("f")
            root.extra[name] = f"{annotation} = rollup(lambda: {path})"
            kind = next((each for each in KINDS if KINDS[each].text == annotation), None)
            if kind is not None:
                shown = Field(f"{root.name}.{name}", kind, own=False, total=True)
                root.fields.append(shown)
        if self.chance.random() < 0.7:
            self.add_index(root)

    def add_feed(self):
        groups, members, membership, item = self.feed_models
        del members
        group_of = [each for each in membership.fields if each.target == groups.name and not each.many]
        member_of = [each for each in membership.fields if each not in group_of[:1] and not each.many
                     and KINDS.get(each.kind, KINDS["int"]).key and not each.optional]  # fmt: skip
        in_group = [each for each in item.fields if each.target == groups.name]
        if not (group_of and member_of and in_group):
            return
        for _ in range(self.chance.randint(1, 2)):
            self.add_feed_of(item, group_of[0], member_of, self.one(in_group))

    def add_feed_of(self, item, group_of, member_of, in_group):
        options = self.options_of([each for each in item.fields if not each.many])
        options.append(self.one(["expires_after = None", "expires_after = timedelta(seconds=30)", "max_limit = 50"]))
        if self.chance.random() < 0.3:
            options.append(f"at_most = {self.one([1, 2, 3])}")
        if self.has("large", 0.7):
            options += [f"large_group = {self.one([1, 2])}", f"merged_groups = {self.one([1, 2, 20])}"]
        if self.has("marks", 0.7):
            options.append("marks = True")
        lines = []
        picked = self.chance.sample(member_of, min(len(member_of), self.one([1, 1, 2])))
        lines += [f"{self.name('v')}: {each.type} = by({each.path})" for each in picked]
        instant = self.one(each for each in item.fields if each.kind == "datetime" and not each.optional)
        lines.append(f"{self.name('v')}: datetime = newest({instant.path})")
        lines += self.shown(item.fields, self.chance.randint(0, 2))
        joined = f"each({in_group.path})" if in_group.many else in_group.path
        lines.append(f"joined = on({joined}, {group_of.path})")
        self.add_to(Declaration(self.name("F"), f"Feed[{item.name}]", tuple(options + lines)))
