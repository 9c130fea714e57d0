"""The author's own classes as they cross the log: which may, under what name, and how one is taken apart and put back.

Four sorts of class may cross: pydantic models, dataclasses, named tuples and enums. They are rebuilt from their
recorded fields the way `copy` does it, without their constructor: a constructor or a validator that changes its values
would change them a second time. Rules to keep: a name in a record is looked up in modules that are already imported and
nowhere else; what is found there is used only if it is one of the four sorts; a default is used only for a field that
the record does not have.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import re
import sys
import typing
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

Sort = Literal["model", "dataclass", "named tuple", "enum"]
Values = Mapping[str, Any]

_CACHE_MAX: Final = 4096
_PARTS_MAX: Final = 12
_BUILT_IN: Final = (dict, list, set, frozenset, tuple, str, bytes, bytearray, int, float, complex, BaseException)
STANDARD: Final = frozenset(
    {int, str, float, bool, bytes, complex, list, dict, set, frozenset, tuple, type(None), uuid.UUID}
    | {decimal.Decimal, fractions.Fraction, datetime.datetime, datetime.date, datetime.time, datetime.timedelta}
)


class Trouble(Exception):
    """A value that cannot be written, or a record that cannot be read; its place is filled in on the way out."""

    def __init__(self, reason: str, *, kind: str = "", hint: str = "") -> None:
        self.reason, self.kind, self.hint = reason, kind, hint
        self.parts: list[str] = []
        super().__init__(reason)

    def inside(self, part: str) -> None:
        """Note that the trouble lies in *part* (`.client`, `[3]`) of the value being looked at."""
        self.parts.append(part)

    def path(self, root: str) -> str:
        parts = self.parts[::-1]
        if len(parts) > _PARTS_MAX:
            parts = [*parts[: _PARTS_MAX - 1], "...", parts[-1]]
        return root + "".join(parts)


@dataclasses.dataclass(slots=True, eq=False, kw_only=True)
class Shape:
    """How instances of one class are taken apart (*read*) and put together (*build*).

    *read* returns the fields' values, the attributes beside the fields, and the fields that were never set (pydantic
    tells "set to its default" from "not set"). *build* takes the same three. Only the *optional* fields have a default.
    """

    type: type[Any]
    sort: Sort
    fields: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    read: Callable[[Any], tuple[Values, Values, tuple[str, ...]]]
    build: Callable[[dict[str, Any], dict[str, Any], tuple[str, ...]], Any]
    default: Callable[[str], Any]
    hints: Callable[[], Values]
    places: Any = None
    """Fields and what their annotations say; `places.fields_of` fills it in at first use, as types may be recursive."""


def label(kind: type[Any]) -> str:
    """Return the name of *kind* as people write it: `app.models:Outer.Inner`, `int`."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}:{kind.__qualname__}"


def shape_of(kind: type[Any]) -> Shape | None:
    """Return how instances of exactly *kind* cross the log, or None when no rule covers them."""
    shape = _shapes.get(kind)
    if shape is None and (shape := _new_shape(kind)) is not None:
        if len(_shapes) >= _CACHE_MAX:  # classes made in a loop must not live for ever
            _shapes.clear()
        _shapes[kind] = shape
    return shape


_shapes: Final[dict[type[Any], Shape]] = {}


def _new_shape(kind: type[Any]) -> Shape | None:
    if issubclass(kind, enum.Enum):
        return _enum_shape(kind)
    if issubclass(kind, tuple) and _is_named_tuple(kind):
        return _named_tuple_shape(kind)
    if issubclass(kind, _BUILT_IN):
        return None
    if dataclasses.is_dataclass(kind):
        return _dataclass_shape(kind)
    return _model_shape(kind) if _is_model(kind) else None


def _is_model(kind: type[Any]) -> bool:
    # Without importing pydantic, which costs more than all of the kernel: before its import nothing is a model.
    pydantic = sys.modules.get("pydantic.main")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel) and kind is not pydantic.BaseModel


def is_url(kind: Any) -> bool:
    """Whether *kind* is one of pydantic's URL types, which are rebuilt from their text."""
    networks = sys.modules.get("pydantic.networks")
    return networks is not None and isinstance(kind, type) and issubclass(kind, networks.AnyUrl)


def url_type(text: str) -> Any:
    """Return the URL type that a record names.

    Raises:
        Trouble: it is not there, or is none.
    """
    module, _, path = text.partition(":")
    kind = _found(module, path)
    if not is_url(kind):
        raise Trouble(f"{text[:200]} is no URL type", kind=text[:200])
    return kind


def _is_named_tuple(kind: type[Any]) -> bool:
    fields = getattr(kind, "_fields", None)
    return isinstance(fields, tuple) and all(type(name) is str for name in fields) and hasattr(kind, "_field_defaults")


# Pydantic models


def _model_shape(kind: Any) -> Shape:
    known = kind.__pydantic_fields__
    names, every = tuple(known), frozenset(known)

    def read(model: Any) -> tuple[Values, Values, tuple[str, ...]]:
        was_set = model.__pydantic_fields_set__
        unset = () if every <= was_set else tuple([name for name in names if name not in was_set])
        return model.__dict__, model.__pydantic_extra__ or {}, unset

    def default(name: str) -> Any:
        return known[name].get_default(call_default_factory=True)

    def hints() -> Values:
        return {name: field.annotation for name, field in known.items()}

    optional = frozenset(
        name
        for name, field in known.items()
        if not field.is_required() and not field.default_factory_takes_validated_data
    )
    shared: Any = {"type": kind, "sort": "model", "fields": names, "optional": optional}
    return Shape(**shared, read=read, build=_model_builder(kind), default=default, hints=hints)


def _model_builder(kind: Any) -> Callable[[dict[str, Any], dict[str, Any], tuple[str, ...]], Any]:
    # Neither model_validate (validators and aliases would run over values that they have already changed) nor
    # model_construct (it looks each field up by its alias first, which may be the name of another field) nor
    # model_post_init (it may change fields in place): this is what pydantic does to copy and unpickle a model.
    keeps_extra = kind.model_config.get("extra") == "allow"
    is_root, private = kind.__pydantic_root_model__, dict(kind.__private_attributes__)
    put = object.__setattr__

    def build(values: dict[str, Any], extra: dict[str, Any], unset: tuple[str, ...]) -> Any:
        model = kind.__new__(kind)
        put(model, "__dict__", values)
        put(model, "__pydantic_fields_set__", {*values, *extra}.difference(unset))
        if not is_root:
            put(model, "__pydantic_extra__", extra if keeps_extra else None)
            put(model, "__pydantic_private__", _private_defaults(private) if private else None)
        return model

    return build


def _private_defaults(attributes: dict[str, Any]) -> dict[str, Any]:
    defaults = {}
    for name, attribute in attributes.items():
        value = attribute.get_default() if attribute.default_factory is None else attribute.default_factory()
        if type(value).__name__ != "PydanticUndefinedType":  # a private attribute that only the model itself sets
            defaults[name] = value
    return defaults


# Dataclasses


def _dataclass_shape(kind: type[Any]) -> Shape:
    known = {field.name: field for field in dataclasses.fields(kind)}
    names = tuple(known)

    def read(instance: Any) -> tuple[Values, Values, tuple[str, ...]]:
        beside = getattr(instance, "__dict__", {})
        extra = {name: beside[name] for name in beside if name not in known and not _derived(kind, name)}
        return {name: getattr(instance, name) for name in names if hasattr(instance, name)}, extra, ()

    def build(values: dict[str, Any], extra: dict[str, Any], unset: tuple[str, ...]) -> Any:
        instance = object.__new__(kind)
        for name, value in (*values.items(), *extra.items()):
            object.__setattr__(instance, name, value)
        return instance

    def default(name: str) -> Any:
        factory = known[name].default_factory
        return known[name].default if factory is dataclasses.MISSING else factory()

    optional = frozenset(name for name, field in known.items() if _has_default(field))
    shared: Any = {"type": kind, "sort": "dataclass", "fields": names, "optional": optional}
    return Shape(**shared, read=read, build=build, default=default, hints=functools.partial(_hints, kind))


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def _derived(kind: type[Any], name: str) -> bool:
    """Whether an attribute beside the fields is no data: what `cached_property` and `Box[int](...)` leave behind."""
    return name == "__orig_class__" or isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)


# Named tuples and enums


def _named_tuple_shape(kind: Any) -> Shape:
    names: tuple[str, ...] = kind._fields

    def read(instance: Any) -> tuple[Values, Values, tuple[str, ...]]:
        if len(instance) != len(names):
            raise Trouble(f"has {len(instance)} values for {len(names)} fields", kind=label(kind))
        return dict(zip(names, instance, strict=True)), getattr(instance, "__dict__", {}), ()

    def build(values: dict[str, Any], extra: dict[str, Any], unset: tuple[str, ...]) -> Any:
        instance = tuple.__new__(kind, [values[name] for name in names])
        for name, value in extra.items():
            object.__setattr__(instance, name, value)
        return instance

    defaults = dict(kind._field_defaults)
    shared: Any = {"type": kind, "sort": "named tuple", "fields": names, "optional": frozenset(defaults)}
    return Shape(**shared, read=read, build=build, default=defaults.__getitem__, hints=functools.partial(_hints, kind))


def _enum_shape(kind: Any) -> Shape:
    """A member is its name; of a Flag, whose combinations have no name of their own, its number."""

    def read(member: Any) -> tuple[Values, Values, tuple[str, ...]]:
        if isinstance(member, enum.Flag):
            return {"member": member._value_}, {}, ()
        if kind.__members__.get(member._name_) is not member:
            raise Trouble("is no member of its enum", kind=label(kind))
        return {"member": member._name_}, {}, ()

    def build(values: dict[str, Any], extra: dict[str, Any], unset: tuple[str, ...]) -> Any:
        member = values["member"]
        if type(member) is int and issubclass(kind, enum.Flag):
            return kind(member)
        if type(member) is not str or member not in kind._member_map_:
            raise Trouble(f"{label(kind)} has no member {member!r}", kind=label(kind))
        return kind._member_map_[member]

    return Shape(type=kind, sort="enum", read=read, build=build, default=kind.__getitem__, hints=dict)


def _hints(kind: type[Any]) -> Values:
    """Return the annotations of *kind*, each resolved where that is possible; the others are left out."""
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError):  # a name that exists for type checkers only
        found: dict[str, Any] = {}
        for owner in reversed(kind.__mro__):
            found.update(_hints_one_by_one(owner))
        return found


def _hints_one_by_one(owner: type[Any]) -> dict[str, Any]:
    names = vars(sys.modules.get(owner.__module__, typing))
    found = {}
    try:
        annotations = inspect.get_annotations(owner)
    except NameError:
        return {}
    for name, hint in annotations.items():
        try:
            found[name] = eval(hint, dict(names), dict(vars(owner))) if isinstance(hint, str) else hint  # noqa: S307  # as typing does
        except (NameError, TypeError, AttributeError, SyntaxError):
            continue
    return found


# Names


def name_of(kind: type[Any]) -> str:
    """Return the full nested path of *kind*, by which `named` finds it again in another process.

    Raises:
        Trouble: nobody could find it by that path: it is defined in a function, or its name means something else.
    """
    generic = getattr(kind, "__pydantic_generic_metadata__", None) or {}
    if generic.get("origin"):
        return f"{name_of(generic['origin'])}[{','.join(_argument_name(kind, part) for part in generic['args'])}]"
    if _found(kind.__module__, kind.__qualname__) is not kind:
        raise Trouble(
            f"its type {label(kind)} cannot be found by name again",
            kind=label(kind),
            hint="Define the class at the top of a module, or annotate the parameter or result with exactly this type.",
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def _argument_name(kind: type[Any], part: Any) -> str:
    if isinstance(part, type) and not typing.get_origin(part) and (part in STANDARD or shape_of(part)):
        return f"{part.__module__}:{part.__qualname__}" if part in STANDARD else name_of(part)
    raise Trouble(
        f"its type {label(kind)} has a type argument that has no name of its own",
        kind=label(kind),
        hint="Annotate the parameter or result with exactly this type, or name it by a subclass.",
    )


def named(text: str) -> Shape:
    """Return the class that a record names.

    Raises:
        Trouble: it is not there (nothing is imported to find it), or is not one of the four sorts.
    """
    parts = re.findall(r"[^\[\],]+|[\[\],]", text)
    kind = _read_name(parts, text)
    shape = shape_of(kind)
    if parts or shape is None:
        raise Trouble(f"{text} is no dataclass, named tuple, enum or pydantic model", kind=text)
    return shape


def _read_name(parts: list[str], text: str) -> type[Any]:
    module, _, path = parts.pop(0).partition(":") if parts else ("", "", "")
    kind = _found(module, path)
    if not isinstance(kind, type):
        raise Trouble(
            f"the type {text[:200]} "
            + ("is gone" if module in sys.modules else f"lies in {module}, which is not imported"),
            kind=text[:200],
            hint="Import its module where the app is wired, or keep an alias under the old name until no record needs it.",
        )
    if parts[:1] != ["["]:
        if kind not in STANDARD and shape_of(kind) is None:
            raise Trouble(f"{text} is no dataclass, named tuple, enum or pydantic model", kind=text)
        return kind
    arguments = []
    while parts and parts.pop(0) in ("[", ","):
        arguments.append(_read_name(parts, text))
    if not _is_model(kind):
        raise Trouble(f"{text} takes no type arguments", kind=text)
    return typing.cast("type[Any]", kind[tuple(arguments)])  # type: ignore[index]  # a generic model


def _found(module: str, path: str) -> Any:
    """Return what stands at *path* in *module*: no import, and no `__getattr__` that might import."""
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        if not isinstance(found, (type, type(sys))):
            return None
        found = vars(found).get(name)
    return found
