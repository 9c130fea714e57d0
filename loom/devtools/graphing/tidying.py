"""A shape as it is drawn: without what says nothing, and with keys in the order of the picture."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from loom.devtools.graphing.structure import Act, Arm, Block, Choice, Fork, Group, Guarded, Item, Leave, Loop, Shape


def tidied(shape: Shape) -> Shape:
    """Return *shape* with its keys renumbered, and without helpers that are a single call, or ends that end there anyway."""
    body = _block(shape.body)
    if body and isinstance(body[-1], Leave) and not body[-1].text:
        body = _without_end(body)
    return shape._replace(body=_numbered(body, count(1)))


def _block(block: Block) -> Block:
    return tuple(item for each in block for item in _item(each))


def _item(item: Item) -> Iterator[Item]:
    match item:
        case Group(kind="helper", body=body) if body:
            inner = _without_end(_block(body))
            if len(inner) == 1 and isinstance(inner[0], Act):
                yield inner[0]
            else:
                yield item._replace(body=inner)
        case Group(body=body) | Loop(body=body):
            yield item._replace(body=_block(body))
        case Choice(arms=arms):
            yield item._replace(arms=_arms(arms))
        case Fork(arms=arms):
            yield item._replace(arms=tuple(arm._replace(body=_without_end(_block(arm.body))) for arm in arms))
        case Guarded(body=body, handlers=handlers, final=final):
            yield item._replace(body=_block(body), handlers=_arms(handlers), final=_block(final))
        case _:
            yield item


def _arms(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
    return tuple(arm._replace(body=_block(arm.body)) for arm in arms)


def _without_end(block: Block) -> Block:
    """Return *block* without a return that stands where it ends anyway."""
    match block:
        case (*before, Leave(kind="return")):
            return tuple(before)
        case (*before, Group() as last):
            return (*before, last._replace(body=_without_end(last.body)))
        case _:
            return block


def _numbered(block: Block, numbers: Iterator[int]) -> Block:
    return tuple(_with_key(item, numbers) for item in block)


def _with_key(item: Item, numbers: Iterator[int]) -> Item:
    key = f"n{next(numbers)}"
    match item:
        case Group() | Loop():
            return item._replace(key=key, body=_numbered(item.body, numbers))
        case Choice() | Fork():
            arms = tuple(arm._replace(body=_numbered(arm.body, numbers)) for arm in item.arms)
            return item._replace(key=key, arms=arms)
        case Guarded():
            body = _numbered(item.body, numbers)
            handlers = tuple(arm._replace(body=_numbered(arm.body, numbers)) for arm in item.handlers)
            return item._replace(key=key, body=body, handlers=handlers, final=_numbered(item.final, numbers))
        case _:
            return item._replace(key=key)
