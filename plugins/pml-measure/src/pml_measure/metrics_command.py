"""``pml metrics``: how tools were reached, by which mode, and what answers cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_json

from .adoption import Adoption
from .counting import counter
from .modes import Sizes, variants
from .output import number, print_table, say, share
from .queries import MOST_RECORDS, records
from .tokens import current, measure
from .usage import USAGE, Report, answer_tokens, in_order, summary, usage_rows

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Services


LONGEST_LOOK_BACK_DAYS = 3650
LAST_CHANGES = 10


async def run(arguments: argparse.Namespace, services: Services) -> int:
    """Print the tables; the exit status.

    Raises:
        InvalidArguments: An option does not fit.
    """
    if not 0 < arguments.days <= LONGEST_LOOK_BACK_DAYS:
        raise InvalidArguments(f"--days {arguments.days}: give 1 to {LONGEST_LOOK_BACK_DAYS}.")
    if arguments.watch:
        from .watch import watch

        return await watch(arguments, services)
    count = counter(arguments.tokenizer)
    since = datetime.now(UTC) - timedelta(days=arguments.days)
    found = [record async for record in records(services, since)]
    report = summary(found, lambda record: answer_tokens(record, count))
    costs = await measure(await variants(services), services, Sizes(services, count))
    mode = current(costs)
    if arguments.json:
        about = {"days": arguments.days, "tokenizer": count.as_json(), "mode": mode.as_json()}
        print_json({**about, "modes": [cost.as_json() for cost in costs], **report.as_json()})
        return 0
    say(f"Mode now: {mode.variant.mode}, {number(mode.typical)} tokens in each client's context.")
    _show(report, arguments.days)
    say(count.about)
    return 0


def _show(report: Report, days: int) -> None:
    if not report.total.ways:
        say(f"No tool was called or searched for in the last {days} days.")
        return
    say()
    print_table(("WEEK", *USAGE), usage_rows({**report.weeks, "all": report.total}.items()))
    say()
    print_table(("AGENT", *USAGE), usage_rows(report.agents.items()))
    if report.modes:
        say()
        print_table(("MODE", *USAGE), usage_rows(in_order(report.modes)))
        _show_adoption(report.adoption)
    say()
    print_table(("TOOL", "CALLS"), [(tool, number(calls)) for tool, calls in report.tools.most_common(10)])
    say()
    if report.cut:
        say(f"Only the latest {number(MOST_RECORDS)} executions are counted.")


def _show_adoption(adoption: Adoption) -> None:
    say()
    names = adoption.modes()
    rows = [
        (name, week, *(share(counts[mode] / counts.total()) for mode in names))
        for name, endpoint in sorted(adoption.endpoints.items())
        for week, counts in endpoint.weeks.items()
    ]
    print_table(("ENDPOINT", "WEEK", *(mode.upper() for mode in names)), rows)
    changes = adoption.changes()
    if changes:
        say()
        say(f"Changes of mode ({adoption.conversion()}):")
    for change in changes[-LAST_CHANGES:]:
        say(f"  {change.at:%Y-%m-%d %H:%M} {change.endpoint}, {change.principal}: {change.before} → {change.after}")
