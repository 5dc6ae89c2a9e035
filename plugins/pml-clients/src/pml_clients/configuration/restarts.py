"""A file by which a command asks the running gateways of the same user to start servers anew."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from pml_kit.errors import OperatorError

from .files import home
from .private_files import write_json

FILE = "restarts.json"


def file() -> Path:
    """Where it is; it need not exist."""
    return home() / FILE


def asked() -> Mapping[str, str]:
    """By server, a mark that changes whenever its restart is asked for; empty where nothing can be read."""
    try:
        found = json.loads(file().read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(name): str(mark) for name, mark in found.items()} if isinstance(found, dict) else {}


def ask(servers: Iterable[str]) -> None:
    """Ask for a restart of each.

    Raises:
        OperatorError: The file cannot be written.
    """
    try:
        write_json(file(), {**asked(), **{name: secrets.token_hex(8) for name in servers}})
    except OSError as exc:
        raise OperatorError(f"{file()}: cannot be written: {exc.strerror}", "Make the folder writable.") from exc
