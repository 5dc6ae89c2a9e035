"""Defaults that packs carry: what ``[gateway]`` names where no source says anything.

A pack is a distribution that brings plugins, or a plugin that is to be taken where it is installed. Its defaults are
entry points of the group ``pml.defaults``: ``store = "sqlite"`` is a default of ``gateway.store``, and
``"tracers.log" = "log"`` one item of ``gateway.tracers``. They are no source: whatever a file, the environment or an
option says counts instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib import metadata
from typing import Any

from pml_kit.errors import OperatorError

from .config_tables import GatewaySettings

GROUP = "pml.defaults"


def defaults() -> Mapping[str, tuple[str | tuple[str, ...], str]]:
    """By field of ``[gateway]``: the value, and the pack that it is of.

    Of several packs the first by name counts; items of all are taken together.

    Raises:
        OperatorError: A pack has a default of what names nothing.
    """
    points = metadata.entry_points(group=GROUP)
    packs: dict[str, list[metadata.EntryPoint]] = {}
    for point in points:
        packs.setdefault("" if point.dist is None else point.dist.name, []).append(point)
    found: dict[str, tuple[str | tuple[str, ...], str]] = {}
    for pack in sorted(packs):
        for name, value in _of_pack(pack, packs[pack]).items():
            known, first = found.get(name, (value, pack))
            if isinstance(known, tuple):
                known = tuple(dict.fromkeys((*known, *value)))
            found[name] = (known, first)
    return found


def _of_pack(pack: str, points: Iterable[metadata.EntryPoint]) -> dict[str, str | tuple[str, ...]]:
    types: dict[str, Any] = {field.name: type(field.default) for field in fields(GatewaySettings)}
    found: dict[str, Any] = {}
    for point in sorted(points, key=lambda one: one.name):
        name, _, item = point.name.partition(".")
        if types.get(name) is not (tuple if item else str):
            raise OperatorError(
                f"the pack {pack} has a default of gateway.{point.name}, which can have none",
                f"Upgrade {pack}, or uninstall it.",
            )
        found[name] = (*found.get(name, ()), point.value) if item else point.value
    return found
