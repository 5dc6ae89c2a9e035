"""Every attempt of the table to get out, made for real: in the jail, with Deno's own walls alone, and the jail alone.

And without either, where each must get through: an attempt that cannot is none.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import pml_kit.jail
from pml_kit.jail import Wall
from pml_sandbox_deno import Deno, Settings
from pml_sandbox_deno.dialect import DenoDialect
from pml_sandbox_deno.executor import find_program
from pml_testing.isolation import Attempt, World, attempt_in, children, services
from pml_testing.isolation_javascript import ATTEMPTS

LATE_S = 10.0
"""Between a limit and the end of what went over it, at the most, on a machine that is busy [s]."""
SETTINGS = Settings(spare=2, memory_bytes=128 << 20, frame_bytes=1 << 20, max_calls=200)
PROGRAM = """
const tools = {};
const attempt = async () => {
%s
};
try {
  console.log(JSON.stringify(await attempt()));
} catch (error) {
  console.log(String(error));
}
Deno.exit(0);
"""
OPEN = [attempt for attempt in ATTEMPTS if attempt.bare]
DENO_ONLY = {
    "ask about a file": "the kernel guards what is in files, not that they are there",
    "keep something for the next run": "it asks whether there is a store, not for a place to keep one in",
    "load a library": "what a library can do is what the jail leaves it",
    "read its own program": "it has to be able to start",
    "the name of the machine": "no file",
    "the user and the home directory": "no file",
}
"""What Deno refuses and the jail does not, and why."""
linux = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture(scope="module")
async def jailed(anyio_backend: str) -> AsyncIterator[Deno]:
    async with Deno(SETTINGS, services()) as made:
        yield made


@pytest.fixture(scope="module")
async def alone(anyio_backend: str) -> AsyncIterator[Deno]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DenoDialect, "jail", lambda self, folder, **_: None)
        patch.setattr(pml_kit.jail, "missing", lambda: [Wall("files", False, "switched off")])
        async with Deno(SETTINGS, services()) as made:
            yield made


@linux
@pytest.mark.anyio
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
async def test_nothing_gets_out(attempt: Attempt, world: World, jailed: Deno) -> None:
    _, escapes, took_s = await attempt_in(jailed, attempt, world)
    assert list(escapes) == []
    assert took_s < attempt.timeout_s + LATE_S


@pytest.mark.anyio
@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda attempt: attempt.id)
async def test_nothing_gets_out_of_deno_alone(attempt: Attempt, world: World, alone: Deno) -> None:
    _, escapes, took_s = await attempt_in(alone, attempt, world)
    assert list(escapes) == []
    assert took_s < attempt.timeout_s + LATE_S


@pytest.mark.anyio
@pytest.mark.skipif(sys.platform == "win32", reason="counts processes by what Unix tells")
async def test_no_process_is_left_behind(world: World) -> None:
    world.reset()
    before = children()
    async with Deno(SETTINGS, services()) as made:
        for attempt in ATTEMPTS[:3]:
            await attempt_in(made, attempt, world)
    assert children() <= before


def permitted(attempt: Attempt, world: World, folder: Path, *, jail: bool) -> str:
    """What the attempt says in a Deno that permits everything, in the jail or not."""
    world.reset()
    program = find_program()
    source = folder / "attempt.ts"
    source.write_text(PROGRAM % world.fill(attempt.code))
    enter = None
    if jail:
        granted = (str(world.folder),) if attempt.folder else ()
        enter = pml_kit.jail.Jail(
            read=(str(source),),
            run=(str(program), *pml_kit.jail.system_files()),
            write=granted,
            memory_bytes=(560 + 128) << 20,
            file_bytes=16 << 20,
        ).preexec()
    ended = subprocess.run(
        [program, "run", "--quiet", "--no-prompt", "--no-config", "--no-lock", "-A", source],
        preexec_fn=enter,
        env={"DENO_DIR": "/dev/null/none", "NO_COLOR": "1"} if jail else None,
        cwd=world.folder,
        capture_output=True,
        timeout=20,
        start_new_session=True,
        check=False,
    )
    return (ended.stdout + ended.stderr).decode(errors="replace")


@pytest.mark.parametrize("attempt", OPEN, ids=lambda attempt: attempt.id)
def test_an_attempt_gets_through_where_all_is_permitted(attempt: Attempt, world: World, tmp_path: Path) -> None:
    assert world.escapes(permitted(attempt, world, tmp_path, jail=False))


@linux
@pytest.mark.parametrize("attempt", [a for a in OPEN if a.name not in DENO_ONLY], ids=lambda attempt: attempt.id)
def test_nothing_gets_out_of_the_jail_alone(attempt: Attempt, world: World, tmp_path: Path) -> None:
    said = permitted(attempt, world, tmp_path, jail=True)
    assert world.escapes(said) == []
    assert said, "it did run"
