"""What the commands print."""

from __future__ import annotations

import getpass
import json
import sys
from typing import Any


def say(text: str) -> None:
    """To standard output."""
    sys.stdout.write(f"{text}\n")


def tell(text: str) -> None:
    """To standard error: for people, where programs read the output."""
    sys.stderr.write(f"{text}\n")


def say_json(value: Any) -> None:
    """For programs."""
    say(json.dumps(value, indent=2))


def operator() -> str:
    """The user who gives the command."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user that the system does not know, as in some containers
        return ""
