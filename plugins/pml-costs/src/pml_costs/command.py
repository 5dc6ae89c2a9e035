"""``pml costs``: what is priced, and what a plan would cost at least."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import GATEWAY_SERVER, InvalidArguments
from pml_kit.terminal import print_table, printable

from .prices import Prices, tokens_of
from .settings import PATHS, Price, Settings

if TYPE_CHECKING:
    from pml_hookspecs import Services

DEEPEST = 32
"""Plans within plans."""


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("costs", help="see what is priced, and what a plan would cost")
    verbs = parser.add_subparsers(dest="verb", required=True)
    check = verbs.add_parser("check", help="which tools have a price, and which have none")
    check.set_defaults(run_with=_check)
    estimate = verbs.add_parser("estimate", help="what a plan costs at least, without running it")
    estimate.add_argument("plan", help="file with the arguments of execute_workflow; - for standard input")
    estimate.set_defaults(run_with=_estimate)
    for verb in (check, estimate):
        verb.add_argument("--json", action="store_true", help="for programs")


async def _check(arguments: argparse.Namespace, services: Services) -> int:
    settings: Settings = services.settings or Settings()
    prices = Prices(settings)
    rows = []
    for entry in services.catalog:
        if entry.server == GATEWAY_SERVER:
            continue
        found = prices.of(entry.id)
        shown: dict[str, Any] = {"tool": entry.id, "priced": found is not None}
        if found is not None:
            shown |= {"pattern": found[0] or None, "price": price_text(found[1])}
        rows.append(shown)
    if arguments.json:
        models = {
            name: {"input_per_million_usd": m.input_per_million_usd, "output_per_million_usd": m.output_per_million_usd}
            for name, m in settings.models.items()
        }
        _print_json({"estimates": settings.estimates, "tools": rows, "models": models})
        return 0
    if rows:
        cells = [(row["tool"], row.get("price", "-"), row.get("pattern") or "-") for row in rows]
        print_table(("tool", "price", "by"), cells)
    unpriced = sum(not row["priced"] for row in rows)
    sys.stdout.write(f"{len(rows) - unpriced} of {len(rows)} tools have a price.\n")
    return 0


def price_text(price: Price) -> str:
    """A price in words."""
    parts = []
    if price.per_call_usd:
        parts.append(f"{price.per_call_usd:g} USD a call")
    if price.per_1k_tokens_in_usd or price.per_1k_tokens_out_usd:
        parts.append(f"{price.per_1k_tokens_in_usd:g}/{price.per_1k_tokens_out_usd:g} USD per 1000 tokens in/out")
    if price.model:
        parts.append(f"tokens of {price.model}")
    if any(getattr(price, path) for path in PATHS):
        parts.append("as its result says")
    return ", ".join(parts) or "free"


async def _estimate(arguments: argparse.Namespace, services: Services) -> int:
    settings: Settings = services.settings or Settings()
    prices = Prices(settings)
    rows: list[dict[str, Any]] = []
    for task in _calls(_plan(arguments.plan)):
        entry = services.catalog.resolve(str(task["tool"]))
        tool = str(task["tool"]) if entry is None else entry.id
        found, given = prices.of(tool), task.get("arguments")
        times = _times(task)
        row: dict[str, Any] = {"task": task.get("id"), "tool": tool, "times": times, "at_least_usd": None}
        if found is not None:
            tokens_in = tokens_of(given) if isinstance(given, Mapping) else 0
            usd = found[1].per_call_usd + tokens_in * found[1].per_1k_tokens_in_usd / 1000
            row["at_least_usd"] = round(usd * (1 if times is None else times), 9)
        rows.append(row)
    total = round(sum(row["at_least_usd"] or 0 for row in rows), 9)
    unpriced = sorted({row["tool"] for row in rows if row["at_least_usd"] is None})
    if arguments.json:
        _print_json({"at_least_usd": total, "unpriced": unpriced, "tasks": rows})
        return 0
    if rows:
        shown = ("task", "tool", "times", "at least USD")
        print_table(shown, [(r["task"], r["tool"], str(r["times"] or "?"), _money(r["at_least_usd"])) for r in rows])
    sys.stdout.write(f"At least {total:g} USD; what results say and how long they are is not known before.\n")
    if unpriced:
        sys.stdout.write(f"Without a price: {', '.join(map(printable, unpriced))}\n")
    return 0


def _money(usd: float | None) -> str:
    return "-" if usd is None else f"{usd:g}"


def _plan(place: str) -> Any:
    try:
        text = sys.stdin.read() if place == "-" else Path(place).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as exc:
        raise InvalidArguments(f"{place} cannot be read: {exc.strerror or exc}") from None
    except (ValueError, RecursionError) as exc:
        raise InvalidArguments(f"{place} is not JSON: {exc}") from None


def _calls(plan: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The calls of tools in a plan, those of plans within it included."""
    if not isinstance(plan, Mapping) or depth > DEEPEST:
        if depth == 0:
            raise InvalidArguments("a plan is an object with tasks, or with a workflow that has them")
        return
    if isinstance(plan.get("workflow"), Mapping):
        yield from _calls(plan["workflow"], depth + 1)
    tasks = plan.get("tasks")
    if depth == 0 and tasks is None and "workflow" not in plan:
        raise InvalidArguments("the plan has no tasks; give what execute_workflow takes")
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, Mapping):
            if isinstance(task.get("tool"), str):
                yield task
            yield from _calls(task, depth + 1)


def _times(task: Mapping[str, Any]) -> int | None:
    """How often it runs; None when that depends on a result."""
    each = task.get("for_each")
    if isinstance(each, list):
        return len(each)
    return 1 if each is None else None


def _print_json(value: Any) -> None:
    sys.stdout.write(f"{json.dumps(value, indent=2, ensure_ascii=False)}\n")
