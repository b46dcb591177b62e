"""Shapes: what a client may send to create or patch an entity, and what it is shown of one, derived from the model.

See "Shapes" in docs/reference/web.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar, get_args, get_origin

from oneread.database.patches import as_arguments
from oneread.errors import InvalidDeclaration, UsageError
from oneread.models.declared import FORMS, Declared
from oneread.models.json_body import JsonBody
from oneread.models.json_form import JsonForm, form
from oneread.models.json_schema import Definition, Json
from oneread.models.model import Model
from oneread.models.pydantic_hook import (
    SchemaHandler,
    body_schema,
    note_written,
    ref_of,
    response_schema,
    sent_schema,
    with_definitions,
    written_by,
)
from oneread.models.shadow import FieldShape
from oneread.models.types import Annotation

M = TypeVar("M", bound="Model[*tuple[Any, ...]]")
D = TypeVar("D")
S = TypeVar("S")

_NOT_A_MODEL: Final = "a shape is made of a model that is declared before it: CreateShape[Post]"
_NO_FIELD: Final = "this shape leaves out a field that its model does not have"


class _ShapeForm(NamedTuple):
    """A shape for one class: the name in a document, the JSON form of the class, and the fields it has."""

    name: str
    of: JsonForm[Any]
    fields: tuple[FieldShape, ...]
    body: JsonBody
    write: Callable[[Any], dict[str, object]]
    is_choice: bool
    """Whether an entity that is read as the class may be of another one, for which `form_for` makes the shape."""


_FORMS: Final[dict[Any, _ShapeForm]] = {}
FORMS.append(_FORMS)


def form_of(annotation: Annotation) -> _ShapeForm:
    """The form of `CreateShape[Post]`, or of a class that extends a shape; made once.

    Raises:
        InvalidDeclaration: the shape is not made of a model, or leaves out what is not a field.
    """
    known = _FORMS.get(annotation)
    if known is not None:
        return known
    model = _model_of(annotation)
    excluded, of = _class_of(annotation).excluded, form(model)
    classes = (model, *(of.discriminator.variants.values() if of.discriminator is not None else ()))
    unknown = excluded.difference(*(each.__struct_fields__ for each in classes))
    if unknown:
        raise InvalidDeclaration(_NO_FIELD, shape=annotation, fields=sorted(unknown), model=model)
    _FORMS[annotation] = made = form_for(annotation, model)
    return made


def form_for(annotation: Annotation, variant: type[Any]) -> _ShapeForm:
    """The form of a shape for its model, or for one of the variants; made once."""
    known = _FORMS.get((annotation, variant))
    if known is not None:
        return known
    cls, model = _class_of(annotation), _model_of(annotation)
    of = form(variant)
    if get_origin(annotation) is not None:
        name = variant.__name__ + cls.__name__.removesuffix("Shape")
    else:
        name = cls.__name__ if variant is model else cls.__name__ + variant.__name__
    apart = cls.excluded | cls.leave_out(of)
    fields = tuple(each for each in of.fields if each.name not in apart)
    body = of.body(name, fields, partial=issubclass(cls, PatchShape))
    made = _ShapeForm(name, of, fields, body, of.make_writer(fields), of.is_choice)
    _FORMS[annotation, variant] = made
    return made


def _class_of(annotation: Annotation) -> Any:
    """The shape's class: of `CreateShape[Post]` it is CreateShape."""
    origin: Any = get_origin(annotation)
    return annotation if origin is None else origin


def _model_of(annotation: Annotation) -> type[Any]:
    written = (annotation, *getattr(annotation, "__orig_bases__", ()))
    arguments: tuple[Any, ...] = next(filter(None, map(get_args, written)), (None,))
    is_declared = isinstance(arguments[0], Declared)
    if not is_declared:
        raise InvalidDeclaration(_NOT_A_MODEL, shape=annotation, given=arguments[0])
    found: type[Any] = arguments[0]
    return found


class _Shape:
    """What all shapes share."""

    excluded: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, *, exclude: Collection[str] = ()) -> None:
        super().__init_subclass__()
        cls.excluded = cls.excluded | frozenset(exclude)

    @classmethod
    def leave_out(cls, of: JsonForm[Any]) -> frozenset[str]:
        """The fields that no shape of this kind has."""
        return of.stamped


class _SentShape(_Shape, Mapping[str, Any]):
    """Fields that a client sent, by their declared names."""

    def __init__(self, shape: _ShapeForm, sent: Mapping[str, Any]) -> None:
        self._shape = shape
        self._sent = dict(sent)

    def __getitem__(self, name: str) -> Any:
        return self._sent[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._sent)

    def __len__(self) -> int:
        return len(self._sent)

    def __repr__(self) -> str:
        return f"{self._shape.name}({', '.join(f'{name}={value!r}' for name, value in self._sent.items())})"

    @classmethod
    def __get_pydantic_core_schema__(cls, annotation: Annotation, _handler: object) -> Json:
        shape = form_of(annotation)

        def own(variant: type[Any]) -> Json:
            of = form_for(annotation, variant)
            return body_schema(of.body, lambda sent: cls(of, sent), cls, dict)

        core = sent_schema(shape.of, own, cls, patches=issubclass(cls, PatchShape))
        ref = f"{shape.of.cls.__module__}.{shape.name}:{id(annotation)}"
        return core | {"ref": ref, "serialization": written_by(dict), "metadata": {"oneread_shape": annotation}}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Json, handler: SchemaHandler) -> Json:
        annotation: Annotation = core["metadata"]["oneread_shape"]
        return with_definitions(sent_definition(annotation), _model_of(annotation).__module__, handler)


class CreateShape(_SentShape, Generic[M]):
    """The body of a request that creates an entity: `post: CreateShape[Post]`, then `db.create(post.entity())`.

    It has the model's fields but those that the database sets: generated keys, stamps and totals. Fields with a default
    may be left out. A subclass leaves out more, which the program adds: `class NewPost(CreateShape[Post],
    exclude=("author",))`, then `post.entity(author=User.at(7))`. It is a mapping of the fields that were sent. In
    OpenAPI it is called `PostCreate`, or as the subclass. In Starlette: `await body_of(request, CreateShape[Post])`.
    """

    def entity(self, **more: Any) -> M:
        """The entity, with the fields that the program adds or replaces; nothing is saved.

        Raises:
            UsageError: a field that has no default was neither in the shape nor given, or is not one of the model.
            InvalidValue: the model refuses these fields.
        """
        values = {**self._sent, **more}
        of = self._shape.of
        names = {each.name for each in of.fields}
        for missing in names - of.optional - values.keys():
            raise UsageError("the shape leaves out a field that the entity needs: give it to entity()", field=missing)
        for unknown in more.keys() - names:
            raise UsageError("the model has no such field", field=unknown, model=of.cls)
        made: M = of.make(values)
        return made


class PatchShape(_SentShape, Generic[M]):
    """The body of a request that changes fields: `changes: PatchShape[Post]`, then `db.patch(Post, 7, **changes)`.

    It has the model's fields but the key's and those that the database sets: stamps and totals. Each may be left out;
    null clears one. A subclass leaves out more: `class Edit(PatchShape[Post], exclude=("author",))`. In OpenAPI it is
    called `PostPatch`, or as the subclass. In Starlette: `await body_of(request, PatchShape[Post])`.
    """

    def __init__(self, shape: _ShapeForm, sent: Mapping[str, Any]) -> None:
        super().__init__(shape, as_arguments(sent))

    @property
    def model(self) -> type[M]:
        """The class that the discriminator names, whose fields may have been sent; the shape's model without one."""
        found: type[M] = self._shape.of.cls
        return found

    @classmethod
    def leave_out(cls, of: JsonForm[Any]) -> frozenset[str]:
        return of.stamped.union(of.keys)


def decode(annotation: type[S], body: bytes) -> S:
    """Decodes what was sent as `CreateShape[Post]`. Raises InvalidValue with every field that is wrong."""
    shape = form_of(annotation)
    cls = _class_of(annotation)
    found = shape.of.discriminator
    if found is not None and found.is_choice:
        shape = form_for(annotation, found.choose(body, patches=issubclass(cls, PatchShape)))
    made: S = cls(shape, shape.body.decode(body))
    return made


def sent_definition(annotation: Annotation) -> Definition:
    """The JSON schema of what is sent as `CreateShape[Post]`."""
    shape = form_of(annotation)

    def own(variant: type[Any]) -> Definition:
        found = form_for(annotation, variant)
        return found.of.sent_schema(found.body)

    return shape.of.choice(shape.name, own, patches=issubclass(_class_of(annotation), PatchShape))


class PublicShape(_Shape, Generic[D]):
    """What clients are shown of an entity or row: `class PublicUser(PublicShape[User], exclude=("email",))`.

    `PublicUser(user)` can be returned by a FastAPI route, be in a page (`page.map(PublicUser)`), and in what `respond`
    and `to_json` take. In OpenAPI it is called as the class.

    Attributes:
        entity: what is shown.
    """

    def __init__(self, entity: D) -> None:
        self.entity = entity

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.entity!r})"

    @classmethod
    def leave_out(cls, of: JsonForm[Any]) -> frozenset[str]:  # noqa: ARG003 - what the database sets is shown
        return frozenset()

    def plain(self) -> dict[str, object]:
        """The fields that are shown, as msgspec's JSON encoder takes them."""
        shape, kind = form_of(type(self)), type(self.entity)
        if shape.is_choice and issubclass(kind, shape.of.cls):
            shape = form_for(type(self), kind)
        return shape.write(self.entity)

    @classmethod
    def definition(cls) -> Definition:
        """The JSON schema of what is shown."""
        shape = form_of(cls)

        def own(variant: type[Any]) -> Definition:
            found = form_for(cls, variant)
            return found.of.shown_schema(found.name, found.fields)

        return shape.of.choice(shape.name, own)

    @classmethod
    def __get_pydantic_core_schema__(cls, _annotation: object, _handler: object) -> Json:
        form_of(cls)  # refuses a wrong declaration now

        def check(value: object) -> object:
            if not isinstance(value, cls):
                raise ValueError("this shape is a response and cannot be in a request")  # noqa: TRY004 - pydantic takes a TypeError for a crash
            return value

        core = response_schema(check, lambda shown: note_written(shown, shown.plain()))
        return core | {"ref": ref_of(cls)}

    @classmethod
    def __get_pydantic_json_schema__(cls, _core: Json, handler: SchemaHandler) -> Json:
        return with_definitions(cls.definition(), cls.__module__, handler)


def limit_of(row: Any) -> int:
    """The most rows of a page of this class, or of this shape of one."""
    limit: int = (_model_of(row) if issubclass(row, PublicShape) else row).max_limit
    return limit
