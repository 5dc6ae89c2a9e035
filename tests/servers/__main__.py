"""Runs other people's servers directly and through the gateway, in every manner that it has, and compares all answers.

``python tests/servers`` installs the servers of ``servers.toml`` where they are not yet, runs all, and prints a table.
It ends with 0 when every difference is explained, with 1 when one is not, and with 2 when nothing could be run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import anyio
import entries
import jail
import table
from entries import Entry
from playing import listed, played
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from running import Outcome, Told, compare, judged, prepared
from ways import TITLES, patience_s, through


def parsed() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="servers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="only this server; may be repeated")
    parser.add_argument("--way", action="append", choices=TITLES, help="only this way; may be repeated")
    parser.add_argument("--no-install", action="store_true", help="only what is installed already")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep logs and configurations here")
    parser.add_argument(
        "--from",
        type=Path,
        action="append",
        dest="results",
        metavar="FILE",
        help="run nothing, take what --json wrote; may be repeated, and of each way the last counts",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what came of it, with all details")
    parser.add_argument("--write-docs", action="store_true", help="write the tables into docs/servers.md")
    chosen = parser.parse_args()
    if chosen.write_docs and (chosen.only or chosen.way) and not chosen.results:
        parser.error("--write-docs needs all servers and all ways")
    return chosen


class UnknownServerError(Exception):
    """A server was asked for that the list does not have."""


async def _together(outcomes: list[Outcome], folder: Path, told: Told) -> None:
    """All servers behind one gateway, asked one after the other."""
    present = {each.entry.name: each for each in outcomes if not each.absent}
    commands = {name: each.command for name, each in present.items()}
    async with through("all", commands, folder / "all") as opened:
        told(f"all: {len(commands)} servers start")
        await listed(opened, "tools/list", patience_s(commands))
        for name, outcome in present.items():
            told(f"all: {name}")
            await judged(outcome, "all", partial(played, opened, "all", name, outcome.steps), folder / name)


async def run(chosen: list[Entry], ways: list[str], folder: Path, *, may_install: bool, told: Told) -> list[Outcome]:
    """Compare these servers on these ways."""
    outcomes = []
    for number, entry in enumerate(chosen, 1):
        begin = f"{number}/{len(chosen)} {entry.name}: "

        def tell(text: str, begin: str = begin) -> None:
            told(begin + text)

        tell("installing")
        place = folder / entry.name
        outcome = await prepared(entry, place, may_install=may_install, told=tell)
        if not outcome.absent:
            await compare(outcome, [way for way in ways if way != "all"], place, tell)
        outcomes.append(outcome)
        told(table.line(outcome))
    if "all" in ways:
        await _together(outcomes, folder, told)
    return outcomes


def ran(chosen: argparse.Namespace) -> list[table.Row]:
    """What came of the servers and ways that were chosen, with a line that tells how far it is.

    Raises:
        UnknownServerError: A name that no server has.
        NoJailError: Servers of others cannot be run safely here.
    """
    known = {entry.name: entry for entry in entries.read()}
    if unknown := set(chosen.only or ()) - known.keys():
        raise UnknownServerError(f"no server {', '.join(sorted(unknown))} in {entries.DATA}")
    jail.checked()
    place = nullcontext(chosen.keep) if chosen.keep else tempfile.TemporaryDirectory(prefix="pml-servers-")
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with place as folder, Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("")

        def told(text: str) -> None:
            if text.startswith(table.DONE):
                said = text.removeprefix(table.DONE)
                progress.console.print(said, markup=False, highlight=False, soft_wrap=True)
            else:
                progress.update(task, description=text)

        selected, ways = [known[name] for name in chosen.only or known], chosen.way or list(TITLES)
        where, may_install = Path(folder).absolute(), not chosen.no_install
        outcomes = anyio.run(partial(run, selected, ways, where, may_install=may_install, told=told))
    return [table.row(outcome) for outcome in outcomes]


def main() -> int:
    """Do what the command line says."""
    chosen = parsed()
    try:
        rows = (
            table.merged(found for file in chosen.results for found in json.loads(file.read_text()))
            if chosen.results
            else ran(chosen)
        )
    except (jail.NoJailError, UnknownServerError) as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    sys.stdout.write(f"{table.in_words(rows)}\n")
    if chosen.json:
        chosen.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if chosen.write_docs:
        table.document(rows)
    if all(found["absent"] for found in rows):
        return 2
    return int(any(table.unexplained(found) or found["broken"] for found in rows))


if __name__ == "__main__":
    sys.exit(main())
