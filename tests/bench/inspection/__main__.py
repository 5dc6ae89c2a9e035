"""How much of public attack material is found, how often honest definitions are, and what it costs.

    .venv/bin/python tests/bench/inspection [--guardbench DIR --guardbench-python PYTHON] [--dvmcp DIR] [--safe-mcp DIR]
        [--benign DIR] [--scanner DIR] [--seed 34] [--calls 2000]

Folders are checkouts (or an unpacked wheel) of public repositories; nothing of them is kept. Cases are cut into two
halves by the seed: phrases were written with the first in sight, and say nothing about it; the second was first looked
at by this script. Servers of GuardBench run as processes behind a gateway, with a Python that has what they need.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cost import per_call, per_definition
from guardbench import cases_of_guardbench
from material import Case, benign_definitions, case_of, cases_of_dvmcp, cases_of_safe_mcp, halves, own_cases, own_halves
from scanner import as_found_by, scanner_from

from pml_kit.text.inspection import findings

OWN = Path(__file__).parents[3] / "plugins/pml-kit/tests/attacks.toml"


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name in ("guardbench", "dvmcp", "safe-mcp", "benign"):
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--guardbench-python", type=Path, metavar="PYTHON")
    parser.add_argument(
        "--scanner", type=Path, metavar="DIR", help="rules of another scanner, in YARA, to compare with"
    )
    parser.add_argument("--seed", type=int, default=34)
    parser.add_argument("--definitions", type=int, default=2000, help="honest definitions, taken by the seed")
    parser.add_argument("--calls", type=int, default=2000, help="of each measurement; 0 for none")
    return parser.parse_args()


def counted(cases: list[Case]) -> tuple[int, int, int, int]:
    """Attacks found, attacks, honest ones found, honest ones."""
    bad, good = ([case for case in cases if case.attack is attack] for attack in (True, False))
    return sum(case.found for case in bad), len(bad), sum(case.found for case in good), len(good)


def rows_of(name: str, both: tuple[list[Case], list[Case]]) -> list[str]:
    """Lines of the table, and what was missed on standard output."""
    rows = []
    for half, part in zip(("in sight", "held out"), both, strict=True):
        found, attacks, alarms, honest = counted(part)
        rows.append(f"| {name} | {half} | {found} of {attacks} | {alarms} of {honest} |")
        for case in part:
            if case.found is not case.attack:
                print(f"  {half}: {'missed' if case.attack else 'alarm'}: {case.name}: {case.shown}")
    return rows


def compared(rules: Any, material: dict[str, list[Case]], honest: list[tuple[str, str]]) -> list[str]:
    """Lines of a table: what PML finds and what a scanner finds, of the same texts."""
    rows = [
        "| material | PML: attacks | PML: honest | scanner: attacks | scanner: honest |",
        "|---|---:|---:|---:|---:|",
    ]
    if honest:
        material = {**material, "definitions": [case_of(name, name, text, attack=False) for name, text in honest]}
    for name, cases in material.items():
        own = [case for case in cases if case.text]
        if not own:
            continue
        numbers = [counted(own), counted(as_found_by(rules, own))]
        cells = [f"{found} of {bad} | {alarms} of {good}" for found, bad, alarms, good in numbers]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def main() -> int:
    """Print a table."""
    options = parsed()
    print(f"seed {options.seed}")
    lines = ["| material | half | attacks found | honest ones found |", "|---|---|---:|---:|"]
    material = {"PML's own": own_cases(OWN)}
    if options.guardbench:
        material["GuardBench"] = cases_of_guardbench(options.guardbench, options.guardbench_python)
    if options.dvmcp:
        material["Damn Vulnerable MCP"] = cases_of_dvmcp(options.dvmcp)
    for name, cases in material.items():
        groups = [case.group for case in cases]
        own = name == "PML's own"
        lines += rows_of(name, own_halves(cases, options.seed) if own else halves(cases, options.seed, groups))
    if options.safe_mcp:
        techniques = [path.parent.name for path in options.safe_mcp.glob("techniques/*/test-logs.json")]
        material["SAFE-MCP"] = cases_of_safe_mcp(options.safe_mcp)
        lines += rows_of("SAFE-MCP", halves(material["SAFE-MCP"], options.seed, techniques))
    chosen: list[tuple[str, str]] = []
    cost = []
    if options.benign:
        everything = benign_definitions(options.benign)
        chosen = everything.sample(options.definitions, options.seed)
        alarms = [(name, found) for name, text in chosen if (found := findings(text))]
        lines.append(f"| definitions of public servers | - | - | {len(alarms)} of {len(chosen)} |")
        for name, found in alarms:
            print(f"  alarm: {name}: {[(one.rule, one.excerpt) for one in found]}")
        cost = ["", per_definition(everything.sample(1000, options.seed, raw=True))]
    if options.scanner:
        lines += ["", *compared(scanner_from(options.scanner), material, chosen)]
    lines += cost
    if options.calls:
        lines += ["", per_call(options.calls)]
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
