"""Runs the conformance scenarios against the reference server, straight and through the gateway, and compares.

``python tests/conformance`` runs everything and prints tables; with ``--clients`` it runs the scenarios for clients,
with the SDK's client straight and through the gateway. It ends with 0 when the gateway makes nothing worse, with 1 when
it does, and with 2 when the runs did not come about.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

from clients import ClientReport
from report import Report
from results import REVISIONS, MissingToolsError, Tools, Verdicts
from routes import DIRECT, ROUTES, THROUGH, BrokenRouteError, opened

AT_ONCE = 3
"""Scenarios wait more than they compute."""


def run(tools: Tools, routes: list[str], revisions: list[str], folder: Path, at_once: int) -> Report:
    """Run all scenarios of the revisions on all routes, everything that takes being fresh for each."""

    def verdicts_of(revision: str, route: str) -> Verdicts:
        place = folder / revision / route
        with opened(route, place) as url:
            return tools.run(url, revision, place / "results")

    # Their programs are processes of their own; the threads wait for them.
    with ThreadPoolExecutor(at_once) as threads:
        found = {
            revision: {route: threads.submit(verdicts_of, revision, route) for route in routes}
            for revision in revisions
        }
        return Report(tools, {revision: {r: v.result() for r, v in of.items()} for revision, of in found.items()})


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="conformance", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--route", action="append", choices=THROUGH, help="only this one; may be repeated")
    parser.add_argument("--clients", action="store_true", help="the scenarios for clients instead of those for servers")
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="of these, only those whose names it finds something in"
    )
    parser.add_argument("--no-gateway", action="store_true", help="only directly")
    parser.add_argument("--revision", action="append", choices=REVISIONS, help="only this one; may be repeated")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help=f"runs side by side; {AT_ONCE} unless told")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and results here")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of it, with all details")
    parser.add_argument("--write-docs", action="store_true", help="write the tables into docs/conformance.md")
    chosen = parser.parse_args()
    partly = chosen.route or chosen.no_gateway or chosen.revision
    if chosen.write_docs and (partly or chosen.only):
        parser.error("--write-docs needs all revisions, all routes and all scenarios")
    if (chosen.clients and partly) or (chosen.only and not chosen.clients):
        parser.error("--only goes with --clients, and nothing else of what chooses runs does")
    return chosen


def main() -> int:
    """Do what the command line says."""
    chosen = parsed()
    routes = [DIRECT] if chosen.no_gateway else [DIRECT, *(chosen.route or ROUTES[1:])]
    place = nullcontext(chosen.keep) if chosen.keep else tempfile.TemporaryDirectory(prefix="pml-conformance-")
    try:
        tools = Tools.installed(os.environ.get("PML_E2E_NODE_DIR"))
        with place as folder:
            where = Path(folder).absolute()
            report: Report | ClientReport
            if chosen.clients:
                report = ClientReport.made(tools, where, chosen.at_once, chosen.only)
            else:
                report = run(tools, routes, chosen.revision or list(REVISIONS), where, chosen.at_once)
    except (MissingToolsError, BrokenRouteError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sys.stdout.write(f"{report.in_words()}\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(report.to_json(), indent=1))
    if chosen.write_docs:
        report.document()
    found = report.to_json()
    if chosen.clients:
        return int(any(found[name] for name in ("worse", "unexplained", "stale")))
    worse = any(each for by_route in found["differences"].values() for each in by_route.values())
    return int(worse or any(found["unmet"].values()) or bool(found["stale"]))


if __name__ == "__main__":
    sys.exit(main())
