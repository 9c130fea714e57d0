"""A version is a promise about a shape: whoever changes the one changes the other, in the same change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest

from loom.devtools.manifest import shapes
from loom.kernel.context import Context
from loom.kernel.fold import EVENTS
from loom.spi import EventStore, ExecutionId, Head

PINS: Final[dict[str, dict[str, str]]] = {
    "EVENT_SCHEMA_VERSION": {"1.0.0": "SoyfZeWItAj3kPjBc9kJ6w"},
    "KERNEL_ABI": {"1.0.0": "CKdSp_IAh0tbDbqgiGtX4Q"},
    "EVENT_STORE_SPI_VERSION": {"1.0.0": "d1eVVfkuFDEStRizkYJFrg"},
    "EVENT_TRIM_SPI_VERSION": {"1.0.0": "qIShU87I5Iplg03qV37yig"},
    "ARCHIVE_STORE_SPI_VERSION": {"1.0.0": "3zjIwAK0CGBffelMWxPjNw"},
    "AUTHORIZER_SPI_VERSION": {"1.0.0": "MvJD57KPKaeNTT7Wd1fQqQ"},
    "REF_STORE_SPI_VERSION": {"1.0.0": "c9Ogme20x9tNx4E-y0SdOA"},
    "EVENT_IMPORT_SPI_VERSION": {"1.0.0": "VgAEsnyzFdLPnteOcuGamg"},
    "EVENT_FORK_SPI_VERSION": {"1.0.0": "sL1bRAm9222xEzOWFdUs_g"},
    "CHANGE_FEED_SPI_VERSION": {"1.0.0": "L9Bf4rNPQUh5zsOrV2ckNQ"},
    "GATE_HOOK_SPI_VERSION": {"1.0.0": "bUS1iz9afOX0BhosTPamfQ"},
    "CLOCK_SPI_VERSION": {"1.0.0": "QyiW6tePFPCiZB1E9SiMhg"},
    "SCHEDULER_SPI_VERSION": {"1.0.0": "d5_HHDh6dBggKkVkiX657Q"},
    "HOST_SPI_VERSION": {"1.0.0": "dxdAJeHJ-kMHSMdcFWiYIA"},
    "ADMISSION_STORE_SPI_VERSION": {"1.0.0": "a47PrSSfYkrvMOtVQmk_2w"},
    "CONTENT_STORE_SPI_VERSION": {"1.0.0": "U7EZ4wSmejUWQBwxLUhObw"},
    "SCHEDULE_STORE_SPI_VERSION": {"1.0.0": "E69SCPspigD2P61a80mm9Q"},
    "SNAPSHOT_STORE_SPI_VERSION": {"1.0.0": "Psq3E25eL6zJpwospc3yBg"},
    "READ_MODEL_STORE_SPI_VERSION": {"1.0.0": "Ov38CFNOMNIRiAu09ajEAQ"},
    "FOLD_VERSION": {"1.0.0": "Zrowu-rtTqLjaNq_A7-6-w"},
    "STATE_CODEC_VERSION": {"1.0.0": "qkvciYIfdGqOnCCyG2vVCQ"},
}
"""Each version there was, with the digest of its shape, the present one last. Released ones are added to, never edited."""


def fault(name: str, version: str, found: str, pins: Mapping[str, str]) -> str | None:
    """Return what is wrong with the version *name*, and what to do about it; None when its shape is the pinned one."""
    module = shapes.VERSIONS[name].module.__name__
    if version not in pins:
        return (
            f"{name} is {version}, which has no pin; add it, as the last, to PINS in {__name__}: {version!r}: {found!r}"
        )
    if version != list(pins)[-1]:
        return f"{name} is {version}, but {list(pins)[-1]} was pinned after it: versions do not go back"
    if found != pins[version]:
        return (
            f"the shape behind {name} is not that of {version} any more. Raise {name} in {module}: the minor number "
            f"where everything that was written against {version} still holds, else the major one. For events, raise the "
            f"version of the row as well and say how an old payload is read. Then pin it in {__name__}: {found!r}. A version "
            f"that was never released keeps its number and is pinned anew"
        )
    return None


@pytest.mark.parametrize("name", shapes.VERSIONS)
def test_each_version_is_that_of_the_shape_behind_it(name: str) -> None:
    problem = fault(name, shapes.present(name), shapes.digest(shapes.VERSIONS[name].shape()), PINS[name])

    assert problem is None, problem


@pytest.mark.parametrize("name", shapes.VERSIONS)
def test_a_version_is_three_numbers_that_grow(name: str) -> None:
    versions = list(PINS[name])

    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")])


@pytest.mark.parametrize(
    ("version", "found", "told"),
    [
        ("1.0.0", "same", None),
        ("1.0.0", "other", "Raise KERNEL_ABI in loom.kernel.context"),
        ("1.1.0", "other", "'1.1.0': 'other'"),
        ("0.9.0", "old", "do not go back"),
    ],
)
def test_a_changed_shape_is_told_with_what_to_do(version: str, found: str, told: str | None) -> None:
    problem = fault("KERNEL_ABI", version, found, {"0.9.0": "old", "1.0.0": "same"})

    assert problem is told if told is None else told in str(problem)


# What counts as a change


class Told(NamedTuple):
    """A payload like that of a step that completed, with a field more."""

    start: int
    result: Any = None
    more: int | None = None


@pytest.mark.parametrize(
    "changed",
    [
        {**EVENTS, "STEP_DREAMT": EVENTS["STEP_STARTED"]},
        {name: row for name, row in EVENTS.items() if name != "TIMER_FIRED"},
        {**EVENTS, "STEP_COMPLETED": EVENTS["STEP_COMPLETED"]._replace(payload=Told)},
        {**EVENTS, "STEP_COMPLETED": EVENTS["STEP_COMPLETED"]._replace(version=2)},
        {**EVENTS, "STEP_COMPLETED": EVENTS["STEP_COMPLETED"]._replace(after_end=True)},
    ],
    ids=["more", "less", "field", "version", "after-end"],
)
def test_another_table_of_events_is_another_shape(changed: Any) -> None:
    assert shapes.digest(shapes.event_schema(changed)) != shapes.digest(shapes.event_schema())


def like(kind: type, **changed: Any) -> type:
    """Return a class with the public members of *kind*, some *changed*; None leaves one out."""
    members = shapes.members_of(kind) | changed
    return type(kind.__name__, (), {name: member for name, member in members.items() if member is not None})


def test_another_syscall_or_signature_is_another_shape() -> None:
    others = [
        like(Context, negotiate=lambda self, amount: amount),
        like(Context, sleep=None),
        like(Context, sleep=lambda self, seconds, /, *, name="sleep": None),
    ]

    assert shapes.digest(shapes.kernel_abi(like(Context))) == shapes.digest(shapes.kernel_abi())
    assert len({shapes.digest(shapes.kernel_abi(each)) for each in [Context, *others]}) == 4


def test_another_method_of_an_interface_is_another_shape() -> None:
    def head(self: Any, execution_id: ExecutionId) -> Head | None:  # not awaited
        return None

    others: list[Any] = [like(EventStore, head=head), *shapes.STORE_INTERFACES[1:]]

    assert shapes.digest(shapes.event_store_spi(others)) != shapes.digest(shapes.event_store_spi())
    assert shapes.digest(shapes.clock_spi(shapes.CLOCK_INTERFACES[:1])) != shapes.digest(shapes.clock_spi())


def test_words_are_no_part_of_a_shape() -> None:
    def before(self: Any, one: int, /, *, name: str = "a") -> None:
        """Say it."""

    def after(self: Any, one: int, /, *, name: str = "b") -> None:
        """Say it better."""

    assert shapes.ways(before) == shapes.ways(after)
