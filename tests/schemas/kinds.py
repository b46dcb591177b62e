"""Types of fields, their values as text, and what is known of a model while declarations are made."""

from typing import NamedTuple


class Kind(NamedTuple):
    """A type of a field: its text, its values as text, and what can be done with it."""

    text: str
    values: tuple[str, ...]
    key: bool = True
    ordered: bool = True
    summed: bool = False
    element: str = ""
    """Of a list or set: the name of the kind of its elements."""


START = "datetime(2024, 1, 1, tzinfo=UTC)"
KINDS = {
    "int": Kind("int", ("0", "1", "-1", "2", "7", "-300", "2**40"), summed=True),
    "str": Kind("str", ("''", "'a'", "'b'", "'ab'", "'a\\x00'", "'B'", "'é'")),
    "bool": Kind("bool", ("True", "False")),
    "float": Kind("float", ("0.0", "-1.5", "2.25", "1e300", "-0.1", "7.0"), summed=True),
    "Decimal": Kind("Decimal", ("Decimal(0)", "Decimal('-1.5')", "Decimal('2.50')", "Decimal(7)"), summed=True),
    "date": Kind("date", ("date(2024, 1, 1)", "date(2023, 12, 31)", "date(1969, 5, 1)")),
    "datetime": Kind(
        "datetime",
        (
            START,
            "datetime(2024, 1, 1, 0, 0, 20, tzinfo=UTC)",
            "datetime(2024, 1, 1, 0, 1, 30, 5000, tzinfo=UTC)",
            "datetime(2023, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)",
            "datetime(2024, 2, 29, 12, tzinfo=UTC)",
            "datetime(1965, 3, 1, tzinfo=UTC)",
        ),
    ),
    "timedelta": Kind("timedelta", ("timedelta(0)", "timedelta(hours=-5)", "timedelta(days=3)"), summed=True),
    "bytes": Kind("bytes", ("b''", "b'a'", "b'\\x00'", "b'\\xff\\xff'")),
    "UUID": Kind("UUID", ("UUID(int=0)", "UUID(int=7)", "UUID(int=2**127 + 1)")),
    "State": Kind("State", ("State.OPEN", "State.PAID", "State.GONE")),
    "texts": Kind("set[str]", ("set()", "{'a'}", "{'a', 'b'}", "{'', 'é'}"), False, False, element="str"),
    "numbers": Kind("list[int]", ("[]", "[1]", "[2, 2, -1]"), False, False, element="int"),
    "dict": Kind("dict[str, int]", ("{}", "{'a': 1}"), False, False),
    "Size": Kind("Size", ("Size(1)", "Size(-2, 0.5)"), False, False),
    "small": Kind("Annotated[int, Meta(ge=0, le=9)]", ("0", "3", "9", "-1", "10"), summed=True),
    "short": Kind("Annotated[str, Meta(max_length=2)]", ("''", "'a'", "'ab'", "'abc'")),
}
BARE = {"small": "int", "short": "str"}
KEYS = ("int", "int", "int", "str", "str", "UUID", "date", "State", "bytes", "bool", "datetime", "Decimal", "float")
VALUES_OF_KEYS = {
    "int": ("1", "2", "-3"),
    "str": ("'a'", "'b'", "'a\\x00'"),
    "float": ("0.5", "-2.0", "1e300"),
}


REFERS = "ref:"
"""Before the name of a model: the kind of a key field that refers to it."""


def target_of(kind):
    """The model that a key field of this kind refers to; empty for others."""
    return kind.removeprefix(REFERS) if kind.startswith(REFERS) else ""


def type_of_key(kind):
    """The type of a key field."""
    return f"Ref[{target_of(kind)}]" if target_of(kind) else KINDS[kind].text


class Field(NamedTuple):
    """A field of a model, or what a path from it ends at."""

    path: str
    kind: str
    """A name of KINDS, or "ref"."""
    optional: bool = False
    target: str = ""
    """Of a reference: the model."""
    copy: str = ""
    """Of a copy: its class."""
    own: bool = True
    """Whether it is a plain field of the model itself."""
    many: bool = False
    hidden: bool = False
    """Whether only views see it: a condition cannot name it."""
    total: bool = False

    @property
    def type(self):
        if self.copy:
            return self.copy
        if self.kind == "ref":
            return (
                f"Ref[{self.target}]" if not self.many else f"Annotated[list[Ref[{self.target}]], Meta(max_length=3)]"
            )
        return BARE.get(self.kind, KINDS[self.kind].text)


class ModelPlan:
    """What is known of a model while declarations are made."""

    def __init__(self, name, root=None):
        self.name = name
        self.root = root or name
        self.base = None
        self.keys = []
        self.policies = {}
        """The arguments of `reference(...)` of key fields that refer, by name."""
        self.fields = []
        self.options = []
        self.numbered = None
        self.child_of = None
        self.defaults = {}
        self.missing_ok = {}
        self.extra = {}
        """Text of the annotation and default of each field."""
