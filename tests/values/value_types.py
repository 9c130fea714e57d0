"""The author's side of the tests of values: classes of every sort that may cross the log."""

from __future__ import annotations

import dataclasses
import enum
import functools
import typing
from collections import namedtuple
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar

import typing_extensions
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PrivateAttr, RootModel, SecretStr, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    CRIMSON = "red"  # noqa: PIE796  # an alias
    GREEN = {"not": "hashable"}  # noqa: RUF012  # an enum member


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Word(enum.StrEnum):
    YES = "yes"


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class IntRight(enum.IntFlag):
    READ = 1
    WRITE = 2


class Outer:
    class Middle:
        class Shade(enum.Enum):
            DARK = 1

        @dataclasses.dataclass
        class Box:
            size: int


Point = namedtuple("Point", "x y")  # the untyped kind is what is tested


class Range(NamedTuple):
    low: int
    high: int = 10


@dataclasses.dataclass
class Item:
    name: str
    price: int = 0
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    item: Item
    level: Level = Level.LOW


@dataclasses.dataclass
class WithInit:
    base: int
    factor: dataclasses.InitVar[int]
    result: int = dataclasses.field(init=False)
    note: str = dataclasses.field(init=False, default="none")

    def __post_init__(self, factor: int) -> None:
        self.result = self.base * factor
        self.beside = [factor]

    @functools.cached_property
    def doubled(self) -> int:
        return self.result * 2


@dataclasses.dataclass
class Tree:
    label: str
    children: list[Tree] = dataclasses.field(default_factory=list)
    parent_hint: Tree | None = None


@dataclasses.dataclass
class Holder(Generic[T]):
    held: T


@pydantic_dataclass
class Checked:
    amount: int


class Claim(BaseModel):
    amount: int
    reason: str = "none"
    items: list[Item] = []
    by_name: dict[str, Item] = {}
    level: Level | None = None
    pair: tuple[int, Item] | None = None


class BigClaim(Claim):
    extra_work: bool = True


class Aliased(BaseModel):
    first: int = Field(alias="second")
    second: int = Field(alias="first")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 0


class Still(BaseModel):
    model_config = ConfigDict(frozen=True)
    known: int


class WithPrivate(BaseModel):
    known: int
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)


class Shouting(BaseModel):
    """Its validator changes the value each time that it runs."""

    text: str
    log: Annotated[list[str], AfterValidator(lambda log: [*log, "validated"])] = []

    @field_validator("text")
    @classmethod
    def louder(cls, text: str) -> str:
        return text + "!"

    def model_post_init(self, context: Any, /) -> None:
        self.log.append("made")


class Page(BaseModel, Generic[T]):
    entries: list[T]


class Numbers(RootModel[list[int]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    lives: int = 1


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    others: list[Cat | Dog] = []


class Login(BaseModel):
    user: str
    password: SecretStr


class Movie(typing.TypedDict):
    title: str
    star: Item
    year: typing.NotRequired[int]


class Film(typing_extensions.TypedDict):
    title: str
