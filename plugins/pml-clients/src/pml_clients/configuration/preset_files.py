"""What plugins offer to whoever sets a gateway up: presets, and answers and questions of the wizard.

A plugin has them in a file of TOML in its package, which an entry point of the group ``pml.presets`` names:
``hybrid = "pml_exposure_hybrid:presets.toml"``. Three tables may stand there, each of tables by name, with ``order``,
by which those of all plugins are sorted:

``presets``
    ``values`` as a user's own file of presets has them, ``about``, ``aliases``, ``context_tokens``.
``uses``
    Answers to the wizard's first question: ``about``, and the ``preset`` or ``mode`` that each comes to; ``intent``:
    whether what the clients do is asked then.
``questions``
    ``text``, the ``setting`` that gets the names in the answer, and ``uses``, with which it is asked; all if not said.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from importlib import metadata, resources
from typing import Any

from pml_kit.errors import OperatorError

GROUP = "pml.presets"


def offered(kind: str) -> dict[str, Mapping[str, Any]]:
    """The tables of a kind that plugins offer, by name, in their order.

    Raises:
        OperatorError: A plugin's file is missing or no TOML.
    """
    found: list[tuple[int, str, Mapping[str, Any]]] = []
    for point in _points():
        package, _, file = point.value.partition(":")
        try:
            document = tomllib.loads(resources.files(package).joinpath(file).read_text(encoding="utf-8"))
            found += [(int(table["order"]), name, table) for name, table in document.get(kind, {}).items()]
        except (ImportError, OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
            raise OperatorError(f"{point.value}: no presets can be read there: {exc}", f"Upgrade {package}.") from exc
    return {name: table for _, name, table in sorted(found, key=lambda one: one[:2])}


def _points() -> Iterator[metadata.EntryPoint]:
    for dist in metadata.distributions():
        try:
            points = dist.entry_points.select(group=GROUP)
        except Exception:  # noqa: S112 - one distribution's broken file must not hide the others
            continue
        yield from points
