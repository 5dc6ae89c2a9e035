"""Versions of real servers, installed and listed, and how what changed between them is judged."""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio

from pml_catalog.lock.judgement import judge

SERVERS = Path(__file__).parents[1] / "servers"
sys.path.insert(0, str(SERVERS))

import entries  # noqa: E402 - from the folder above
import jail  # noqa: E402
from installing import AbsentError, cache, installed  # noqa: E402
from playing import played  # noqa: E402
from ways import DIRECT, direct  # noqa: E402

BEFORE = {
    "everything": "2025.8.18",
    "filesystem": "2025.12.18",
    "memory": "2025.8.4",
    "playwright": "0.0.70",
    "chrome-devtools": "0.15.0",
    "context7": "1.0.19",
    "kubernetes": "4.1.2",
    "notion": "1.9.1",
    "mongodb": "1.12.0",
    "time": "2025.9.25",
    "git": "2025.9.25",
    "fetch": "2025.4.7",
}
"""By name in ``servers.toml``, the version that the one there is compared with."""
OLD_SDK = ("mcp<2",)
"""Beside an older package of PyPI, which does not know that there would be a newer one."""
LIMIT_S = 300.0
SHOWN = 3


def print_pairs(names: Sequence[str]) -> None:
    """A row for each of these servers, or of all; on standard error, those that cannot be had."""
    known = {entry.name: entry for entry in entries.read()}
    print(
        "| server | before | now | tools | same | harmless | blocked | new | gone | most frequent reasons that block |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in names or BEFORE:
        version = BEFORE[name]
        try:
            now = known[name]
            beside = (*now.beside, *OLD_SDK) if now.registry == "pypi" else now.beside
            before, after = _listed(replace(now, version=version, beside=beside)), _listed(now)
        except Exception as exc:
            print(f"{name}: {exc!r}", file=sys.stderr)
            continue
        print(_row(name, version, now.version, before, after), flush=True)


def _row(name: str, old: str, new: str, before: dict[str, Any], now: dict[str, Any]) -> str:
    verdicts, reasons = Counter[str](), Counter[str]()
    for tool in before.keys() & now.keys():
        found = judge(before[tool], now[tool])
        verdicts["blocked" if found.blocks else found.verdict] += 1
        if found.blocks:
            worst = {
                f"{r.place.partition(':')[0]}: {r.text.partition(' (')[0]}"
                for r in found.reasons
                if r.verdict == found.verdict
            }
            reasons.update(worst)
    added = [judge(None, now[tool]) for tool in now.keys() - before.keys()]
    if bad := [one for one in added if one.blocks]:
        reasons.update(f"new: {one.reasons[0]}" for one in bad)
    why = "; ".join(f"{text} ({count})" for text, count in reasons.most_common(SHOWN)).replace("|", "\\|")
    counts = " | ".join(str(verdicts[one]) for one in ("same", "harmless", "blocked"))
    gone = len(before.keys() - now.keys())
    return f"| {name} | {old} | {new} | {len(now)} | {counts} | {len(added)} | {gone} | {why} |"


def _listed(entry: entries.Entry) -> dict[str, Any]:
    base = os.environ.get("PML_SERVERS_DIR")
    os.environ["PML_SERVERS_DIR"] = str(cache() / "versions" / entry.version)
    try:
        command = jail.command(entry, installed(entry))
    finally:
        if base is None:
            del os.environ["PML_SERVERS_DIR"]
        else:
            os.environ["PML_SERVERS_DIR"] = base
    with tempfile.TemporaryDirectory() as folder:
        tools = anyio.run(_asked, command, Path(folder), entry.name)
    return {tool["name"]: tool for tool in tools}


async def _asked(command: list[str], folder: Path, name: str) -> list[dict[str, Any]]:
    with anyio.fail_after(LIMIT_S):
        async with direct(command, folder) as connection:
            found = (await played(connection, DIRECT, name, ())).lists["tools/list"]
    if not isinstance(found, list):
        raise AbsentError(f"its tools cannot be listed: {found}"[:200])
    return found
