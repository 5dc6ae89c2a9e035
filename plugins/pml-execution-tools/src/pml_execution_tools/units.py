"""The options ``--since`` and ``--until``, and sizes as people write them: ``5 GiB``."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime

from pml_hookspecs import InvalidArguments
from pml_kit.command_line.moments import moment

UNITS_BYTES = {
    "": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip
AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


def size_bytes(text: str, option: str) -> int:
    """``1GB`` as a thousand million bytes, ``1GiB`` as 1024³.

    Raises:
        InvalidArguments: It is no size.
    """
    match = AMOUNT.fullmatch(text.strip())
    if match is None or (unit := match[2].lower()) not in UNITS_BYTES:
        raise InvalidArguments(f"{option} {text!r}: give a size such as 500MB, 1GB or 2GiB.")
    return round(float(match[1]) * UNITS_BYTES[unit])


def add_times(parser: argparse.ArgumentParser) -> None:
    """``--since`` and ``--until``."""
    since = "from when on, in place of --hours and as far back as history is kept: 30d, or a date or time here"
    parser.add_argument("--since", metavar="WHEN", help=since)
    parser.add_argument("--until", metavar="WHEN", help="until when; of a date, until its end")


def times_of(arguments: argparse.Namespace) -> dict[str, str | None]:
    """As a tool takes them. On a command line, a time without a zone is that of this machine.

    Raises:
        InvalidArguments: One is no time.
    """
    now, since, until = datetime.now(UTC), arguments.since, arguments.until
    return {
        "since": moment(since, "--since", now, local=True).isoformat() if since else None,
        "until": moment(until, "--until", now, local=True, ends=True).isoformat() if until else None,
    }
