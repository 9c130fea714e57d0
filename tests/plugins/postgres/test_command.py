"""Every command takes the URL of a database where it takes a path, and shows no password."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.loom_cli.terminal import Ended, loom, process

APP = """
import loom


@loom.step
async def pay(amount: int) -> int:
    return amount


@loom.flow
async def refund(ctx: loom.Context, amount: int) -> str:
    await ctx.run(pay, amount)
    return await ctx.suspend("approve", expects=str)


app = loom.define_config(flows=[refund], storage=loom.postgres_storage())
"""
SECRET = "hush"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.loom]\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def url(dsn: str) -> str:
    return dsn.replace(":secret@", f":{SECRET}@")


def shown(ended: Ended) -> Ended:
    assert SECRET not in ended.out + ended.err
    return ended


def test_a_run_is_started_listed_answered_and_shown(project: Path, url: str) -> None:
    environ = {"LOOM_STORE": url}

    begun = shown(process("run", "refund", "--input", "5", "--id", "r-1", folder=project, environ=environ))
    assert begun.status == 3, begun
    listed = shown(process("ps", "--json", "--store", url, folder=project))
    assert "r-1" in listed.out, listed
    gates = shown(process("gates", "--json", folder=project, environ=environ))
    assert "approve" in gates.out, gates
    answered = shown(process("resume", "r-1", "--answer", '"yes"', "--store", url, folder=project))
    assert answered.status == 0, answered
    assert "completed" in shown(process("show", "r-1", "--store", url, folder=project)).out
    assert "STEP_COMPLETED" in shown(process("logs", "r-1", "--store", url, folder=project)).out
    assert shown(process("replay", "r-1", folder=project, environ=environ)).status == 0
    doctor = shown(process("doctor", "--json", folder=project, environ=environ))
    assert doctor.json["store"]["state"] == "holds executions", doctor
    assert doctor.json["store"]["url"] == doctor.json["app"]["store"]
    assert "***" in doctor.json["store"]["url"]


def test_the_commands_that_are_shown_next_leave_the_place_of_the_password(project: Path, url: str) -> None:
    begun = shown(process("run", "refund", "--input", "5", "--id", "r-1", "--store", url, folder=project))
    listed = shown(process("gates", "--store", url, folder=project))
    told = shown(process("show", "r-1", "--store", url, folder=project))

    for ended in (begun, listed, told):
        assert "loom resume r-1" in ended.out + ended.err
        assert "postgres:***@" in ended.out + ended.err


def test_an_app_with_a_database_of_its_own_is_not_given_another(project: Path, url: str) -> None:
    (project / "app.py").write_text(APP.replace("storage()", f"storage({url!r})"), encoding="utf-8")

    ended = shown(
        process("run", "refund", "--input", "5", "--store", f"postgresql://me:{SECRET}@h/other", folder=project)
    )

    assert "keeps its logs in" in ended.err, ended
    assert "me:***@h/other" in ended.err


@pytest.mark.parametrize("command", [("ps",), ("show", "r-1"), ("gates",), ("inbox", "r-1")])
def test_a_database_without_a_store_is_not_made_one(tmp_path: Path, bare: str, command: tuple[str, ...]) -> None:
    ended = loom(*command, "--store", bare, folder=tmp_path)

    assert ended.status != 0
    assert "holds no store" in ended.err, ended
    assert "secret" not in ended.err


def test_a_project_may_name_it(tmp_path: Path, bare: str) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.loom]\nstore = '{bare}'\n", encoding="utf-8")

    assert "holds no store" in loom("ps", folder=tmp_path).err
