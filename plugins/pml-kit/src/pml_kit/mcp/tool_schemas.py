"""A tool's schemas for whoever reads them: none that is over the bounds of :mod:`pml_kit.schema.bounds`.

What clients are shown is the definition, whatever it costs to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pml_hookspecs import CatalogEntry
from pml_kit.schema.bounds import schema_problem

_PROBLEMS = "pml_kit.problems"
"""Where an entry keeps what was found, by member."""


def input_schema(entry: CatalogEntry) -> Mapping[str, Any] | None:
    """``inputSchema``; None when there is none, or it is over the bounds."""
    return _bounded(entry, "inputSchema")


def output_schema(entry: CatalogEntry) -> Mapping[str, Any] | None:
    """``outputSchema``, as :func:`input_schema`."""
    return _bounded(entry, "outputSchema")


def problem_of(entry: CatalogEntry, member: str = "inputSchema") -> str:
    """Why nobody reads the schema that the definition has under ``member``; ``""`` when it can be read."""
    problems: dict[str, str] = entry.memo.setdefault(_PROBLEMS, {})
    if member not in problems:
        problems[member] = schema_problem(entry.definition.get(member))
    return problems[member]


def _bounded(entry: CatalogEntry, member: str) -> Mapping[str, Any] | None:
    schema = entry.definition.get(member)
    return schema if isinstance(schema, Mapping) and not problem_of(entry, member) else None
