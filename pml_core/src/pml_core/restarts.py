"""A file by which a command asks the running gateways of the same user to start servers anew."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

from .config_files import home
from .errors import OperatorError

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
    path = file()
    temporary = path.with_name(f".{FILE}.{secrets.token_hex(8)}")
    marks = {**asked(), **{name: secrets.token_hex(8) for name in servers}}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as written:
            json.dump(marks, written)
        temporary.replace(path)
    except OSError as exc:
        raise OperatorError(f"{path}: cannot be written: {exc.strerror}", "Make the folder writable.") from exc
