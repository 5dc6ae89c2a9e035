"""Whether a distribution's own tests notice when its code is changed: mutants by cosmic-ray, chosen at random.

    .venv/bin/uv pip install -r tests/mutants/requirements.txt
    .venv/bin/python tests/mutants/run.py pml-limits pml-search [--count 50] [--seed 31] [--jobs 2] [--report FILE]

Each mutant is one small change (an operator, a number, a comparison, a decorator, an exception...) in a copy of the
distribution's ``src`` that its tests import in place of the checkout's; the checkout is never changed. A mutant is
killed when the tests fail or take longer than three times as long as without it. Changes that no run can show are not
made: in type hints, in what is for type checkers only, and in ``__all__``. Survivors are printed as differences.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from queue import SimpleQueue
from signal import SIGKILL
from typing import NamedTuple

import cosmic_ray.commands
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parents[2]
LEAST_S = 30.0
"""A run is given so long at least [s]."""


class Outcome(NamedTuple):
    """What became of one mutant."""

    mutation: MutationSpec
    killed: bool
    difference: str


class Lines:
    """The lines of a module on which a change cannot be seen by running it."""

    def __init__(self, path: Path) -> None:
        self._spans: list[tuple[tuple[int, int], tuple[int, int]]] = []
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for part in self._unseen(node):
                self._spans.append(((part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)))

    @staticmethod
    def _unseen(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (each for each in [node.returns] if each is not None)
            yield from (each for each in node.decorator_list if ast.unparse(each) in {"override", "final", "overload"})
        elif isinstance(node, ast.If | ast.Assign):
            head = node.test if isinstance(node, ast.If) else node.targets[0]
            if ast.unparse(head) in {"TYPE_CHECKING", "__all__"}:
                yield node

    def hide(self, mutation: MutationSpec) -> bool:
        """Whether ``mutation`` lies in one of them."""
        return any(start <= mutation.start_pos and mutation.end_pos <= end for start, end in self._spans)


def mutations(source: Path, count: int, seed: int) -> list[MutationSpec]:
    """``count`` mutations of the modules under ``source``, the same for a seed."""
    modules = sorted(source.rglob("*.py"))
    hidden = {path: Lines(path) for path in modules}
    with use_db(":memory:") as database:
        cosmic_ray.commands.init(modules, database, {})
        found = [each for item in database.work_items for each in item.mutations]
    found = [each for each in found if not hidden[each.module_path].hide(each)]
    found.sort(key=lambda each: (str(each.module_path), each.start_pos, each.operator_name, each.occurrence))
    return random.Random(seed).sample(found, min(count, len(found)))


def run(tests: Path, source: Path, timeout_s: float | None) -> bool:
    """Whether the tests pass with ``source`` in place of what is installed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", str(tests)]
    env = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait(timeout_s) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
        process.wait()


def outcome(mutation: MutationSpec, source: Path, copy: Path, tests: Path, timeout_s: float) -> Outcome:
    """Run the tests against one mutant in ``copy``."""
    place = mutation.module_path.relative_to(source)
    before = mutation.module_path.read_text(encoding="utf-8")
    after = mutate_code(before, get_operator(mutation.operator_name)(**mutation.operator_args), mutation.occurrence)
    if after is None:
        raise RuntimeError(f"{mutation.operator_name} finds nothing to change at {place}:{mutation.start_pos[0]}")
    (copy / place).write_text(after, encoding="utf-8")
    try:
        killed = not run(tests, copy, timeout_s)
    finally:
        (copy / place).write_text(before, encoding="utf-8")
    lines = unified_diff(before.splitlines(), after.splitlines(), str(place), str(place), n=0, lineterm="")
    return Outcome(mutation, killed, "\n".join(lines))


def measured(name: str, args: argparse.Namespace) -> list[Outcome]:
    """What became of the mutants of the distribution ``name``."""
    source, tests = ROOT / "plugins" / name / "src", ROOT / "plugins" / name / "tests"
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(args.jobs) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for n in range(args.jobs):
            copies.put(Path(shutil.copytree(source, Path(folder, str(n)))))
        first, start = copies.get(), time.monotonic()
        if not run(tests, first, None):
            raise SystemExit(f"{name}: its tests fail without a mutant; run pytest {tests.relative_to(ROOT)}")
        copies.put(first)
        timeout_s = max(LEAST_S, 3 * args.jobs * (time.monotonic() - start))

        def one(mutation: MutationSpec) -> Outcome:
            copy = copies.get()
            try:
                result = outcome(mutation, source, copy, tests, timeout_s)
            finally:
                copies.put(copy)
            print("." if result.killed else "S", end="", flush=True)
            return result

        return list(pool.map(one, mutations(source, args.count, args.seed)))


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table and the survivors; 1 when fewer than ``--goal`` percent of a distribution's were killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("distributions", nargs="+", metavar="NAME")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--goal", type=float, default=90.0, metavar="PERCENT")
    args = parser.parse_args(argv)
    good = True
    for name in args.distributions:
        outcomes = measured(name, args)
        killed = sum(each.killed for each in outcomes)
        percent = 100 * killed / len(outcomes)
        good = good and percent >= args.goal
        print(f"\n{name}: {killed} of {len(outcomes)} killed ({percent:.0f} %), seed {args.seed}")
        for each in outcomes:
            if not each.killed:
                print(f"--- {each.mutation.operator_name} in {each.mutation.definition_name}\n{each.difference}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
