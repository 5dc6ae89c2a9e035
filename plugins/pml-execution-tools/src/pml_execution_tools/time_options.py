"""The options ``--since`` and ``--until``."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime


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
    from .units import moment

    now, since, until = datetime.now(UTC), arguments.since, arguments.until
    return {
        "since": moment(since, "--since", now, local=True).isoformat() if since else None,
        "until": moment(until, "--until", now, local=True, ends=True).isoformat() if until else None,
    }
