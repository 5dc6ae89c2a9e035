"""What ``pml import`` found, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pml_clients import client_configs, secret_values

DEFAULT_TARGET = "pml.toml"
Action: TypeAlias = Literal["found", "added", "replaced", "unchanged", "skipped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """An environment variable that takes the place of a secret."""

    name: str
    secret: secret_values.Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One server that was found, and what became of it."""

    server: client_configs.ImportedServer
    source: str
    """The file it stands in, or ``standard input``."""
    client: str = ""
    table: dict[str, Any] = field(repr=False)
    """As it is to be written."""
    variables: tuple[Variable, ...] = ()
    action: Action = "found"
    reason: str = ""
    """Why it was skipped; ``""`` when it was not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the command found and did."""

    items: tuple[Item, ...]
    unread: tuple[tuple[str, str], ...] = ()
    """Files and clients of which something could not be read, with the reason."""
    target: Path | None = None
    """The file to write; None when nothing was to be imported yet."""
    written: bool = False
    dry_run: bool = False
    notes: tuple[str, ...] = ()
