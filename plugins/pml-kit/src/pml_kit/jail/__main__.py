"""Runs a command in a jail: ``python -I -m pml_kit.jail JAIL PROGRAM ARGUMENTS...``."""

from __future__ import annotations

import json
import os
import sys

from ._jail import Jail


def main() -> None:
    """Take the walls from the first argument, put them up, become the program."""
    Jail.of(json.loads(sys.argv[1])).enter()
    os.execve(sys.argv[2], sys.argv[2:], {})  # noqa: S606 - becoming that program is what this is for


if __name__ == "__main__":
    main()
