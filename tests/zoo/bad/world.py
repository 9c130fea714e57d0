"""Flows that touch the world themselves: files, networks, processes, the terminal."""

import logging
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from pathlib import Path

import loom
from tests.zoo.steps import fetch, note

log = logging.getLogger(__name__)


@loom.flow
async def reads_a_file(ctx: loom.Context) -> int:
    with open("/etc/hostname", encoding="utf-8") as file:
        return await ctx.run(note, file.read())


@loom.flow
async def reads_a_path(ctx: loom.Context) -> int:
    folder = Path("/etc")
    return await ctx.run(note, (folder / "hostname").read_text(encoding="utf-8"))


@loom.flow
async def lists_a_folder(ctx: loom.Context) -> list[str]:
    return [await ctx.run(fetch, path.name) for path in Path("/etc").iterdir() if path.name == "hostname"]


@loom.flow
async def opens_a_database(ctx: loom.Context) -> int:
    connection = sqlite3.connect(":memory:")
    connection.execute("select 1")
    connection.close()
    return await ctx.run(note, "asked")


@loom.flow
async def asks_the_network(ctx: loom.Context) -> int:
    try:
        urllib.request.urlopen("http://127.0.0.1:9/", timeout=0.2)
    except OSError:
        pass
    return await ctx.run(note, "asked")


@loom.flow
async def opens_a_socket(ctx: loom.Context) -> int:
    with socket.socket() as sock:
        return await ctx.run(note, str(sock.fileno()))


@loom.flow
async def starts_a_process(ctx: loom.Context) -> int:
    done = subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True, text=True, check=True)
    return await ctx.run(note, done.stdout)


@loom.flow
async def prints(ctx: loom.Context) -> str:
    print("fetching")
    return await ctx.run(fetch, "a")


@loom.flow
async def logs_at_every_replay(ctx: loom.Context) -> str:
    log.info("fetching")
    return await ctx.run(fetch, "a")


@loom.flow
async def writes_when_put_away(ctx: loom.Context) -> str:
    try:
        return await ctx.run(fetch, "a")
    finally:
        Path("/dev/null").write_text("left", encoding="utf-8")
