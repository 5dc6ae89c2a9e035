"""Many clients at real gateways: calls at a fixed rate, or clients that only stay connected.

    python tests/load                                    1,000 clients, 200 calls/s for a minute
    python tests/load --gateways 2 --store postgres --duration-s 600
    python tests/load --idle 10000

The exit status is 1 when a call failed, a stream was lost, or history has not exactly the calls that were made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), *(str(HERE.parent / name) for name in ("bench", "deploy"))]
import idle  # noqa: E402
import rate  # noqa: E402
import report  # noqa: E402
from clients import LoadError  # noqa: E402
from processes import AVAILABLE  # noqa: E402


def _arguments() -> argparse.Namespace:
    kind = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("tests/load", description=__doc__, formatter_class=kind)
    usual = rate.Plan()
    parser.add_argument("--clients", type=int, default=usual.clients, help="connected clients (%(default)s)")
    parser.add_argument(
        "--session-share",
        type=float,
        default=usual.session_share,
        help="part of them with a session and its stream; the others are stateless (%(default)s)",
    )
    parser.add_argument("--rate", type=float, default=usual.rate, help="calls/s for each gateway (%(default)g)")
    parser.add_argument("--duration-s", type=float, default=usual.duration_s, help="how long (%(default)g)")
    parser.add_argument("--gateways", type=int, choices=(1, 2), default=usual.gateways)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default=usual.store)
    parser.add_argument(
        "--direct-rate",
        type=float,
        default=usual.direct_rate,
        help="calls/s straight to a server like that behind the gateway, at the same time (%(default)g)",
    )
    parser.add_argument("--idle", type=int, metavar="N", help="connect N idle clients of each era instead")
    parser.add_argument("--json", metavar="FILE", help="write what was measured there; - for standard output")
    return parser.parse_args()


async def _measure(given: argparse.Namespace, folder: Path) -> tuple[Any, bool]:
    if given.idle:
        eras = await idle.measure(given.idle, given.store, folder)
        return eras, any(era["streams_lost"] for era in eras)
    names = ("clients", "session_share", "rate", "duration_s", "gateways", "store", "direct_rate")
    found = await rate.measure(rate.Plan(**{name: getattr(given, name) for name in names}), folder)
    return found, rate.failed(found)


def main() -> int:
    """Measure and tell."""
    given = _arguments()
    if not AVAILABLE:
        print("this needs Linux: processor time and memory come from /proc", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="pml-load-") as folder:
        try:
            found, bad = asyncio.run(_measure(given, Path(folder)))
        except LoadError as error:
            print(f"not measured: {error}", file=sys.stderr)
            return 1
    if given.json == "-":
        print(json.dumps(found, indent=2))
    else:
        report.show(found)
        if given.json:
            Path(given.json).write_text(json.dumps(found, indent=2), encoding="utf-8")
    return int(bad)


sys.exit(main())
