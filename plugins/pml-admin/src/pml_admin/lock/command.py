"""``pml lock``, ``pml lock --check`` and ``pml lock review``."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pml_catalog.lock.difference import difference
from pml_catalog.lock.guard import INSTRUCTIONS, ToolChange
from pml_catalog.lock.lock_file import judged
from pml_kit.errors import OperatorError
from pml_kit.offers import AccessEvent
from pml_kit.terminal import answer_to, print_json, printable

from .recordings import Complaint, complaints, read
from .survey import ServerSurvey, Survey, needs_review

if TYPE_CHECKING:
    from pml_settings.installation import Installation

REVIEW = "Look at what waits, and take it: pml lock review"


def run(arguments: argparse.Namespace, installation: Installation) -> int:
    """Write what may be taken unseen, or only compare; 1 where something waits for a person, or a server is not up."""
    calls = [] if arguments.recordings is None else read(arguments.recordings)
    if arguments.recordings is not None and not arguments.check:
        raise OperatorError("--recordings is for --check", "Add --check.")
    survey = asyncio.run(Survey.make(installation))
    if arguments.check:
        if not any(survey.locks.exist_for(one.name) for one in survey.servers):
            raise OperatorError("there is no pml.lock", "Write one, and commit it: pml lock")
    else:
        survey.take(lambda _server, change: not needs_review(change))
        asyncio.run(_report(installation, survey.servers, {}))
    listed = {one.name: {e.name: e for e in one.probe.entries} for one in survey.servers if one.is_up}
    wrong = [*complaints(calls, listed)]
    _say(arguments, survey.servers, wrong, len(calls))
    waits = any(change.judgement.blocks or not arguments.check for one in survey.servers for change in one.waiting)
    return 1 if waits or wrong or not all(one.is_up for one in survey.servers) else 0


def run_review(arguments: argparse.Namespace, installation: Installation) -> int:
    """Show what waits for a person and take what that says; 1 where something still waits."""
    return asyncio.run(_review(arguments, installation))


async def _review(arguments: argparse.Namespace, installation: Installation) -> int:
    survey = await Survey.make(installation)
    names = {f"{one.name}:{change.tool}" for one in survey.servers for change in one.waiting}
    for pattern in arguments.accept:
        if not any(fnmatchcase(name, pattern) for name in names):
            waiting = ", ".join(sorted(map(printable, names))) or "nothing does"
            raise OperatorError(f"no tool {pattern!r} waits for review: {waiting}", "Name it as server:tool.")
    taken: set[str] = set()
    refused: dict[str, dict[str, str]] = {}
    for server in survey.servers:
        for change in server.waiting:
            name = f"{server.name}:{change.tool}"
            if not arguments.json:
                print("\n".join(_shown(name, change)))
            if any(fnmatchcase(name, pattern) for pattern in arguments.accept) or (answer := _asked(arguments, name)):
                taken.add(name)
            elif answer is False:
                refused.setdefault(server.name, {})[change.tool] = change.digest
    if taken:
        survey.take(lambda server, change: f"{server.name}:{change.tool}" in taken)
    await _report(installation, survey.servers, refused)
    _say(arguments, survey.servers, (), 0)
    return 1 if any(one.waiting or not one.is_up for one in survey.servers) else 0


async def _report(
    installation: Installation, servers: Sequence[ServerSurvey], refused: Mapping[str, Mapping[str, str]]
) -> None:
    """Tell the audit what was taken and what somebody refused, each with the digest of what it is about."""
    accepted = {
        server.name: {one.tool: one.digest for one in server.changes if one.tool in server.taken}
        for server in servers
        if server.taken
    }
    if not accepted and not refused:
        return
    async with installation.gateway() as gateway:
        for code, told in (("definitions.accepted", accepted), ("definitions.refused", refused)):
            for server, tools in told.items():
                details = {"server": server, "tools": tools, "lock": True}
                await gateway.report(AccessEvent(kind="change", target=server, code=code, details=details))


def _asked(arguments: argparse.Namespace, name: str) -> bool | None:
    """What whoever sits there says; None where nobody does."""
    if arguments.accept or arguments.json:
        return None
    return answer_to(f"Take {printable(name)} as it is now?")


def _shown(name: str, change: ToolChange) -> list[str]:
    lines = [f"{printable(name)}: {change.judgement.verdict}"]
    lines += [f"  - {printable(str(one))}" for one in change.judgement.reasons]
    before, now = (
        side if change.tool == INSTRUCTIONS else judged(side) if side else {} for side in (change.before, change.now)
    )
    return [*lines, *difference(before or {}, now or {})]


def _say(
    arguments: argparse.Namespace, servers: Sequence[ServerSurvey], wrong: Sequence[Complaint], calls: int
) -> None:  # fmt: skip
    if arguments.json:
        replayed = {} if not calls else {"recordings": {"calls": calls, "invalid": [one.shown() for one in wrong]}}
        print_json({"servers": [one.shown() for one in servers], **replayed})
        return
    for server in servers:
        print(_line(server))
        for change in server.changes:
            verdict = "taken" if change.tool in server.taken else change.judgement.verdict
            reasons = "; ".join(printable(str(one)) for one in change.judgement.reasons[:3])
            print(f"  {verdict}  {printable(change.tool)}: {reasons}")
    if calls:
        print(f"{calls} recorded calls, {len(wrong)} of which would not be valid any more")
    for one in wrong:
        print(f"  {printable(one.tool)} {printable(one.arguments)}: {printable(one.text)}")
    if any(one.waiting for one in servers):
        print(REVIEW)


def _line(server: ServerSurvey) -> str:
    if not server.is_up:
        return f"{server.name}: not up, so that nothing is known of it: {printable(server.probe.status.reason)}"
    parts = [f"{len(server.probe.entries)} tools", f"{len(server.changes)} otherwise than in {server.path}"]
    if server.waiting:
        parts.append(f"{len(server.waiting)} wait for review")
    if server.gone:
        parts.append(f"{len(server.gone)} gone: {', '.join(map(printable, server.gone[:5]))}")
    return f"{server.name}: {', '.join(parts)}"
