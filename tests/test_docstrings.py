"""What the front doors have says what it does, and what it says is so."""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import loom
from loom import spi
from tests.test_errors import all_errors

DOORS: Final = (loom, spi)
MARKED: Final = re.compile(r"(?<![\w*])\*([a-z_]+)\*(?![\w*])")
RAISES: Final = re.compile(r"Raises[^\n:]*:\n((?:\s+.*\n?)+)")
NAMED_ERRORS: Final = re.compile(r"^\s*([A-Z]\w+(?:, [A-Z]\w+)*)(?:, or [^:]*)?:", re.MULTILINE)


class Public(NamedTuple):
    """A class or function that an author sees, and the class it stands in, if any."""

    name: str
    it: Any
    owner: type | None = None

    @property
    def text(self) -> str:
        """The docstring as it was written, not one that is inherited or made."""
        written = vars(self.it).get("__doc__") if inspect.isclass(self.it) else getattr(self.it, "__doc__", None)
        is_made = written is not None and written.startswith(f"{getattr(self.it, '__name__', '')}(")
        return "" if written is None or is_made else inspect.cleandoc(written)

    @property
    def names(self) -> set[str]:
        """What its docstring may mark: parameters, fields, and what its class has."""
        of_class = set() if self.owner is None else set(dir(self.owner)) | fields(self.owner)
        if inspect.isclass(self.it):
            return of_class | set(dir(self.it)) | fields(self.it)
        function: Any = self.it.fget if isinstance(self.it, property) else inspect.unwrap(self.it)
        return of_class | set(inspect.signature(function).parameters) | of_arguments(function)


def fields(kind: type) -> set[str]:
    """Return what the class is made of: its annotations, and what its constructor takes."""
    annotated = {name for each in kind.__mro__ for name in getattr(each, "__annotations__", {})}
    try:
        return annotated | set(inspect.signature(kind).parameters)
    except ValueError:
        return annotated


def of_arguments(function: Any) -> set[str]:
    """Return the fields of the types that *function* takes, those of its keyword arguments among them."""
    words = re.findall(r"\w+", " ".join(map(str, inspect.get_annotations(function).values())))
    types = [function.__globals__.get(word) for word in words]
    return {name for each in types if inspect.isclass(each) for name in getattr(each, "__annotations__", {})}


def named() -> Iterator[Public]:
    for door in DOORS:
        for name in door.__all__:
            it = getattr(door, name)
            if inspect.isclass(it) or inspect.isfunction(it):
                yield Public(f"{door.__name__}.{name}", it)


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, member in vars(kind).items():
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        if not name.startswith("_") and (inspect.isfunction(function) or isinstance(function, property)):
            yield name, function


def everything() -> Iterator[Public]:
    for public in named():
        yield public
        if inspect.isclass(public.it):
            for name, function in methods(public.it):
                yield Public(f"{public.name}.{name}", function, public.it)


def promised() -> set[str]:
    """Return the methods that an interface explains: who implements it need not say it again."""
    return {name for public in named() if getattr(public.it, "_is_protocol", False) for name, _ in methods(public.it)}


PUBLIC: Final = list({id(public.it): public for public in everything()}.values())


def test_each_has_a_docstring_of_its_own_that_begins_with_a_sentence() -> None:
    assert [public.name for public in PUBLIC if not begins_with_a_sentence(public)] == []


def begins_with_a_sentence(public: Public) -> bool:
    first = public.text.split("\n\n", maxsplit=1)[0].strip()
    return first.endswith((".", ":")) or (not first and says_it_all(public))


def says_it_all(public: Public) -> bool:
    """Whether nothing is left to say: the interface or the class explains it, or its name asks for a yes or no."""
    name = public.name.rpartition(".")[2]
    if public.owner is None:
        return False
    explained = Public("", public.owner).text
    is_protocol = getattr(public.owner, "_is_protocol", False)
    by_the_class = f"*{name}*" in explained or f"`{name}`" in explained
    return by_the_class or (name in promised() and not is_protocol) or name.startswith("is_")


def test_what_each_marks_is_a_name_of_it() -> None:
    unknown = {public.name: set(MARKED.findall(public.text)) - public.names for public in PUBLIC}

    assert {name: marked for name, marked in unknown.items() if marked} == {}


def test_the_errors_that_each_raises_exist() -> None:
    known = {kind.__name__ for kind in all_errors()} | set(dir(builtins))

    assert {public.name: told for public in PUBLIC if not (told := raised(public)) <= known} == {}
    assert [public.name for public in PUBLIC if RAISES.search(public.text) and not raised(public)] == []


def raised(public: Public) -> set[str]:
    """Return the errors that its docstring says it raises."""
    sections = RAISES.findall(public.text)
    return {name for section in sections for names in NAMED_ERRORS.findall(section) for name in names.split(", ")}


def test_a_public_thing_without_a_docstring_is_seen() -> None:
    def bare() -> None: ...

    class Marks:
        """It marks *nobody*."""

        def told(self) -> None: ...

    assert Public("bare", bare).text == ""
    assert not begins_with_a_sentence(Public("bare", bare))
    assert not says_it_all(Public("bare", bare))
    assert not says_it_all(Public("Marks.told", Marks.told, Marks))
    assert set(MARKED.findall(Public("Marks", Marks).text)) - Public("Marks", Marks).names == {"nobody"}
