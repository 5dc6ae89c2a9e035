"""The hook plugin ``deno``: tells ``pml plugins doctor`` what the sandbox has around it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import Check, hookimpl
from pml_sandbox.engine import wall_checks

from .executor import Settings, find_program

if TYPE_CHECKING:
    from pml_hookspecs import Services

settings_type = Settings
REQUIRED = "Run the gateway where this wall stands, or set [plugins.deno] jail = 'preferred'."
PREFERRED = "Code runs without it: Deno's own walls hold. Set [plugins.deno] jail = 'required' to run none then."
START_S = 30.0
"""The first start reads a program of a hundred megabytes, and the disk may have other things to do."""


@hookimpl
def pml_checks(services: Services) -> Iterable[Check]:
    """Whether Deno starts, and which walls of the kernel jail stand."""
    required = (services.settings or Settings()).jail == "required"
    return [_program(), *wall_checks(REQUIRED if required else PREFERRED, "deno")]


def _program() -> Check:
    again = "Install it again: pip install --force-reinstall deno"
    try:
        program = find_program()
        said = subprocess.run([program, "--version"], capture_output=True, timeout=START_S, check=True, env={})
    except (OSError, subprocess.SubprocessError) as exc:
        return Check("Deno starts", ok=False, detail=str(exc), remedy=again)
    return Check("Deno starts", ok=True, detail=said.stdout.decode(errors="replace").partition("\n")[0])
