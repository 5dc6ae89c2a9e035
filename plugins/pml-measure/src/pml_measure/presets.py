"""The presets that the user can choose from, as ``pml config presets`` tells them: services do not know them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments

if TYPE_CHECKING:
    import argparse


@dataclass(frozen=True, slots=True)
class Preset:
    """What a preset says about exposure."""

    name: str
    mode: str
    """``""`` when it leaves the mode as it is."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Members of ``[plugins.<name>]``, by name."""


async def known() -> list[Preset]:
    """Those that come with PML, the user's and the project's.

    Raises:
        InvalidArguments: A file of presets cannot be read.
    """
    return [_read(said) for said in json.loads(await pml("config", "presets", "--json"))]


def _read(said: Mapping[str, Any]) -> Preset:
    tables: dict[str, dict[str, Any]] = {}
    for path, value in said["values"].items():
        section, _, rest = path.partition(".")
        table, _, key = rest.partition(".")
        if section == "plugins" and key:
            tables.setdefault(table, {})[key] = value
    return Preset(said["name"], said["values"].get("gateway.tools_exposure", ""), tables)


def options(arguments: argparse.Namespace) -> list[str]:
    """The options that name the configuration which ``arguments`` name."""
    found = [f"--set={override}" for override in arguments.overrides]
    found += [f"--config={arguments.config}"] if arguments.config is not None else []
    return found + ([f"--mode={arguments.mode}"] if arguments.mode is not None else [])


async def pml(*words: str, good: Sequence[int] = (0,)) -> str:
    """What another ``pml`` command prints.

    Raises:
        InvalidArguments: Its exit status is none of the good ones; the message is what it said.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pml_core", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    if process.returncode not in good:
        raise InvalidArguments(f"pml {' '.join(words)} failed: {err.decode(errors='replace').strip()}")
    return out.decode(errors="replace")
