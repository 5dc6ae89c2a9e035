"""How well changes of definitions are judged, how fast, and what attacks of others achieve: the tables of the docs.

``--definitions FOLDER`` for mutations of real definitions; ``--pairs`` for versions of real servers, which it installs
(npm, PyPI) where ``tests/servers`` does; ``--guardbench FOLDER`` for the cases of MCP-GuardBench,
``--dvmcp FOLDER`` for the challenges of Damn Vulnerable MCP.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from pml_catalog.lock.judgement import judge
from pml_testing.mutations.tools import definitions_in, mutations


def main() -> int:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--definitions", type=Path, metavar="FOLDER", help="has files catalog.jsonl, at any depth")
    parser.add_argument(
        "--count", type=int, default=5000, help="definitions with arguments that are taken of these, at random"
    )
    parser.add_argument("--seed", type=int, default=34)
    pairs = "install these servers in two versions each and compare them; all that are known without a name"
    parser.add_argument("--pairs", nargs="*", metavar="SERVER", help=pairs)
    parser.add_argument("--guardbench", type=Path, metavar="FOLDER", help="a checkout of Manishmaurya89/mcp-guardbench")
    parser.add_argument("--guardbench-python", type=Path, metavar="PYTHON", help="has what its servers need")
    parser.add_argument("--dvmcp", type=Path, metavar="FOLDER", help="a checkout of damn-vulnerable-MCP-server")
    parser.add_argument(
        "--dvmcp-python", type=Path, metavar="PYTHON", default=Path(sys.executable), help="has mcp[cli]<2"
    )
    arguments = parser.parse_args()
    if arguments.definitions is not None:
        definitions = [d for d in definitions_in(arguments.definitions) if d["inputSchema"].get("properties")]
        random.Random(arguments.seed).shuffle(definitions)
        _print_mutations(definitions[: arguments.count], arguments.seed)
    if arguments.pairs is not None:
        from pairs import print_pairs

        print_pairs(arguments.pairs)
    if arguments.guardbench is not None:
        from guardbench import print_guardbench

        print_guardbench(arguments.guardbench, arguments.guardbench_python)
    if arguments.dvmcp is not None:
        from damn_vulnerable import print_dvmcp

        print_dvmcp(arguments.dvmcp, arguments.dvmcp_python)
    return 0


def _print_mutations(definitions: list[dict[str, object]], seed: int) -> None:
    print(f"{len(definitions)} definitions\n")
    print("| what is otherwise | verdict | tried | right | median µs | 99 % µs | most µs |")
    print("|---|---|---|---|---|---|---|")
    tried, right, spent_us = 0, 0, 0.0
    for kind in mutations():
        took_us, good = [], 0
        for number, definition in enumerate(definitions):
            if (pair := kind.rewrite(definition, random.Random(seed + number))) is None:
                continue
            before = None if kind.shadowed else pair[0]
            began = time.thread_time()
            found = judge(before, pair[1], shadowed=kind.shadowed)
            took_us.append((time.thread_time() - began) * 1e6)
            good += found.verdict == kind.verdict
            if found.verdict != kind.verdict:
                print(kind.name, definition["name"], found.verdict, *found.reasons[:2], file=sys.stderr, sep=" | ")
        took_us.sort()
        count = len(took_us)
        times = f"{took_us[count // 2]:.0f} | {took_us[count * 99 // 100]:.0f} | {took_us[-1]:.0f}"
        print(f"| {kind.name} | {kind.verdict} | {count} | {100 * good / count:.2f} % | {times} |")
        tried, right, spent_us = tried + count, right + good, spent_us + sum(took_us)
    print(f"\n{right} of {tried} right ({100 * right / tried:.2f} %), {spent_us / tried:.0f} µs for each on average")


if __name__ == "__main__":
    sys.exit(main())
