"""The hook plugin ``deno``: tells ``pml plugins doctor`` what the sandbox has around it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import Check, hookimpl

from .executor import Settings, find_program

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings
START_S = 30.0
"""The first start reads a program of a hundred megabytes, and the disk may have other things to do."""


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether Deno starts, and which walls of the kernel jail stand."""
    return [_program(), *_walls((services.settings or Settings()).jail)]


def _program() -> Check:
    again = "Install it again: pip install --force-reinstall deno"
    try:
        program = find_program()
        said = subprocess.run([program, "--version"], capture_output=True, timeout=START_S, check=True, env={})
    except (OSError, subprocess.SubprocessError) as exc:
        return Check("Deno starts", ok=False, detail=str(exc), remedy=again)
    return Check("Deno starts", ok=True, detail=said.stdout.decode(errors="replace").partition("\n")[0])


def _walls(wanted: str) -> Iterable[Check]:
    from pml_sandbox.jail import walls

    remedy = (
        "Run the gateway where this wall stands, or set [plugins.deno] jail = 'preferred'."
        if wanted == "required"
        else "Code runs without it: Deno's own walls hold. Set [plugins.deno] jail = 'required' to run none then."
    )
    for wall in walls():
        yield Check(f"jail of the deno sandbox: {wall.name}", wall.stands, wall.detail, "" if wall.stands else remedy)
