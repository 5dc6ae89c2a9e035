"""Every attempt in Python that a kernel can answer: it gets through in a plain interpreter, and not in the jail."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pml_kit.jail import Jail, _view, missing, system_files
from pml_testing.isolation import WON, Attempt, World
from pml_testing.isolation_python import ATTEMPTS

PYTHON = Path(sys.executable).resolve()
OPEN = [attempt for attempt in ATTEMPTS if attempt.bare]
PROGRAM = """
import json

async def attempt():
{body}

def at_once(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value

try:
    if {waits}:
        import asyncio
    print(json.dumps((asyncio.run if {waits} else at_once)(attempt())))
except BaseException as exc:
    print(repr(exc))
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


def run(attempt: Attempt, world: World, enter: Callable[[], None] | None, environment: dict[str, str] | None) -> str:
    """What the attempt says in an interpreter without anything of ours around it."""
    world.reset()
    body = textwrap.indent(world.fill(attempt.code), "    ")
    source = PROGRAM.format(body=body, waits="await" in attempt.code)
    ended = subprocess.run(
        [PYTHON, "-I", "-S", "-c", source],
        preexec_fn=enter,
        env=environment,
        cwd=world.folder,
        close_fds=enter is not None,
        capture_output=True,
        timeout=20,
        start_new_session=True,
        check=False,
    )
    return (ended.stdout + ended.stderr).decode(errors="replace")


def test_all_walls_stand_where_these_tests_run() -> None:
    assert not missing()


@pytest.mark.parametrize("attempt", OPEN, ids=lambda attempt: attempt.id)
def test_an_attempt_gets_through_without_the_jail_so_that_it_is_one(attempt: Attempt, world: World) -> None:
    escapes = world.escapes(run(attempt, world, None, None))
    if attempt.privileged and not escapes:
        pytest.skip("this machine refuses it to whoever runs these tests")
    assert escapes


@pytest.mark.parametrize("names", ["hidden", "open"])
@pytest.mark.parametrize("attempt", OPEN, ids=lambda attempt: attempt.id)
def test_an_attempt_does_not_get_through_the_jail(
    attempt: Attempt, world: World, names: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if names == "open":
        monkeypatch.setattr(_view, "refused", lambda: "the other walls have to hold alone")
    jail = Jail(
        run=(*system_files(), str(PYTHON.parent.parent)),
        write=(str(world.folder),) if attempt.folder else (),
        memory_bytes=128 << 20,
        address_bytes=512 << 20,
        cpu_s=5,
        file_bytes=16 << 20,
    )
    said = run(attempt, world, jail.preexec(), {})
    assert world.escapes(said) == []
    assert said, "it did run"


def test_the_token_of_success_is_in_no_source_line(world: World) -> None:
    assert len(ATTEMPTS) > 57
    assert not [attempt.id for attempt in ATTEMPTS if WON in world.fill(attempt.code)]
