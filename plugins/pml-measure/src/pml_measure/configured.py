"""The user's configuration and the presets, as ``pml config`` tells them: plugins are given their own settings only."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments

if TYPE_CHECKING:
    import argparse

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Configured:
    """What bears on exposure modes."""

    mode: str
    """Of the default endpoint."""
    intent: str
    tables: Mapping[str, Mapping[str, Any]]
    """``[plugins.<name>]`` as far as something is set."""
    presets: Mapping[str, Mapping[KeyPath, Any]]
    """Values by path, by name."""


async def read(arguments: argparse.Namespace) -> Configured:
    """The configuration that the same options give ``pml serve``.

    Raises:
        InvalidArguments: It cannot be told.
    """
    options = [f"--set={override}" for override in arguments.overrides]
    options += [f"--config={arguments.config}"] if arguments.config is not None else []
    options += [f"--mode={arguments.mode}"] if arguments.mode is not None else []
    commands = (_pml("config", "--json", *options), _pml("config", "presets", "--json"))
    # Both to their end, also when one fails: neither is left running.
    outcomes: tuple[Any, ...] = await asyncio.gather(*commands, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    values, presets = outcomes
    tables: dict[str, dict[str, Any]] = {}
    for path, said in values.items():
        section, _, rest = path.partition(".")
        table, _, key = rest.partition(".")
        if section == "plugins" and key:
            tables.setdefault(table, {})[key] = said["value"]
    return Configured(
        values["gateway.tools_exposure"]["value"],
        values["gateway.intent"]["value"],
        tables,
        {p["name"]: {tuple(path.split(".")): value for path, value in p["values"].items()} for p in presets},
    )


async def _pml(*words: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pml_core", *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    if process.returncode:
        raise InvalidArguments(f"pml {' '.join(words)} failed: {err.decode(errors='replace').strip()}")
    return json.loads(out)
