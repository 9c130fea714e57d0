"""The pictures of the examples are what they were: structure, SVG and Mermaid, whole."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from loom.devtools.graphing.edges import graph_of
from loom.devtools.graphing.mermaid import mermaid
from loom.devtools.graphing.reading import FlowNotDeclared, shape_of, shapes
from loom.devtools.graphing.structure import Shape
from loom.devtools.graphing.svg import svg
from loom.devtools.graphing.telling import lines

ROOT: Final = Path(__file__).parents[3]
GOLDEN: Final = Path(__file__).parent / "golden"
FLOWS: Final = {"refund": "refund_desk", "incident": "on_call", "sweep": "on_call"}


def text(shape: Shape) -> str:
    told = (
        f"{'  ' * line.depth}{line.word} {line.text}".rstrip() + "".join(f"  [{n}]" for n in line.notes)
        for line in lines(shape)
    )
    return "\n".join(told) + "\n"


DRAWN: Final[dict[str, Callable[[Shape], str]]] = {
    "txt": text,
    "svg": svg,
    "mmd": lambda shape: mermaid(graph_of(shape)),
}


def example(flow: str) -> Shape:
    folder = ROOT / "examples" / FLOWS[flow]
    paths = sorted(path.name for path in folder.glob("*.py"))
    return shape_of(flow, paths, lambda path: (folder / path).read_bytes() if (folder / path).is_file() else None)


@pytest.mark.proves("BEY-18")
@pytest.mark.parametrize("form", DRAWN)
@pytest.mark.parametrize("flow", FLOWS)
def test_the_picture_of_an_example_equals_its_snapshot(flow: str, form: str) -> None:
    drawn, kept = DRAWN[form](example(flow)), GOLDEN / f"{flow}.{form}"
    if os.environ.get("WRITE_GOLDEN"):
        kept.write_text(drawn, encoding="utf-8")

    assert drawn == kept.read_text("utf-8")


@pytest.mark.parametrize("flow", FLOWS)
def test_an_svg_stands_alone_and_says_what_the_flow_says(flow: str) -> None:
    shape = example(flow)
    picture = svg(shape)

    root = ET.fromstring(picture)
    words = {unescape(each.text or "") for each in root.iter("{http://www.w3.org/2000/svg}text")}

    assert shape.about in words
    assert not re.search(r"(href|src|url\((?!#))", picture)
    assert "prefers-color-scheme:dark" in picture


HOSTILE: Final = b"""
import loom

@loom.flow
async def hostile(ctx: loom.Context) -> str:
    if "<script>alert('&')</script>" in "]]>":
        await ctx.suspend("a \\"quoted\\" <b>|gate|`#")
    return "<end> -->"
"""


def test_what_stands_in_the_source_is_text_in_every_picture() -> None:
    shape = shape_of("hostile", ["app.py"], {"app.py": HOSTILE}.get)

    ET.fromstring(svg(shape))
    flowchart = mermaid(graph_of(shape))

    assert "<script" not in svg(shape)
    assert "<script" not in flowchart
    assert '"' not in re.sub(r'(\[/|\(\[|\{|\[|\|)"|"(/\]|\]\)|\}|\]|\|)', "", flowchart)


def test_every_flow_of_the_zoo_can_be_drawn_in_every_way() -> None:
    paths = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "zoo").rglob("*.py"))
    found = shapes(paths, lambda path: (ROOT / path).read_bytes() if (ROOT / path).is_file() else None)

    for shape in found.values():
        graph = graph_of(shape)
        known = {node.key for node in graph.nodes}
        assert {edge.source for edge in graph.edges} | {edge.target for edge in graph.edges} <= known
        ET.fromstring(svg(shape))
    assert len(found) > 100


def test_a_flow_that_nobody_declares_is_an_error_that_names_those_there_are() -> None:
    with pytest.raises(FlowNotDeclared) as caught:
        shape_of("nope", ["app.py"], {"app.py": HOSTILE}.get)

    assert caught.value.known == ("hostile",)
