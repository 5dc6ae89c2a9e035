"""``pml recordings``: what is kept of real calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_hookspecs import InvalidArguments
from pml_kit.offers import report_change
from pml_kit.terminal import printable

from .outputs import forget
from .recording import Recording, RecordingError
from .recording_writer import expiry, put
from .recordings import COLLECTION, DEFINITIONS, Recordings
from .settings import Settings

if TYPE_CHECKING:
    import argparse

    from pml_hookspecs import Documents, Services

WIDEST = 60
"""Characters of arguments in a table."""


def add(subcommands: Any) -> None:
    """Add the command and its verbs."""
    parser = subcommands.add_parser("recordings", help="what is kept of real calls, for rehearsals and replays")
    verbs = parser.add_subparsers(dest="verb", required=True)
    shown = verbs.add_parser("list", help="recordings, the newest first")
    shown.add_argument("--limit", type=int, default=50, help="most recordings [1 or more]")
    shown.set_defaults(run_with=show_list)
    one = verbs.add_parser("show", help="all of one recording")
    one.add_argument("id", help="as list shows it, or its beginning")
    one.set_defaults(run_with=show_one)
    out = verbs.add_parser("export", help="write recordings to a file, for pml recordings import and pml replay")
    out.add_argument("file", type=Path, help="- for standard output")
    out.add_argument("--redacted", action="store_true", help="those whose secrets were taken out, too; only to look at")
    out.set_defaults(run_with=export)
    into = verbs.add_parser("import", help="take recordings from a file")
    into.add_argument("file", type=Path)
    into.add_argument("--principal", default="local", help="whose they are to be")
    into.set_defaults(run_with=take)
    gone = verbs.add_parser("prune", help="forget recordings and what code returned: all, or those chosen")
    gone.add_argument("--stale", action="store_true", help="only those of tools that are defined otherwise now")
    gone.add_argument("--keep", type=int, default=0, help="but not the newest so many of each kind [0 or more]")
    gone.add_argument("--yes", action="store_true", help="forget everything, nothing else being said")
    gone.set_defaults(run_with=prune)
    for verb in (shown, out, gone):
        verb.add_argument("--tool", metavar="PATTERN", help="only of such tools, such as files:*; of code, code:*")
        verb.add_argument("--principal", help="only of this caller's calls")
    for verb in (shown, one, out, into, gone):
        verb.add_argument("--json", action="store_true", help="for programs")


async def show_list(arguments: argparse.Namespace, services: Services) -> int:
    """A table, or JSON."""
    if arguments.limit < 1:
        raise InvalidArguments("--limit must be 1 or more")
    found = (await _chosen(arguments, services))[: arguments.limit]
    if arguments.json:
        _say(json.dumps([_summary(recording, services) for recording in found], indent=2))
    elif not found:
        _say("Nothing is recorded yet: real calls of tools are, unless [plugins.dry_run] record is false.")
    else:
        _print_table(found, services)
    return 0


async def show_one(arguments: argparse.Namespace, services: Services) -> int:
    """Everything about one."""
    found = [r for r in await _all(services) if r.id.startswith(arguments.id)]
    if len(found) != 1:
        what = "no recording begins so" if not found else f"{len(found)} recordings begin so"
        raise InvalidArguments(f"{arguments.id!r}: {what}; pml recordings list shows ids")
    answer = json.loads(found[0].answer)
    _say(json.dumps({**_summary(found[0], services), "answer": answer}, indent=2, ensure_ascii=False))
    return 0


async def export(arguments: argparse.Namespace, services: Services) -> int:
    """Write a file."""
    from .session_file import lines

    chosen = await _chosen(arguments, services)
    found = [r for r in chosen if arguments.redacted or not r.redacted]
    if not found:
        raise InvalidArguments("there is nothing to export; pml recordings list shows what is recorded")
    recordings = _recordings(services)
    definitions: dict[str, Mapping[str, Any]] = {}
    for digest in {recording.definition for recording in found}:
        if (definition := await recordings.definition(digest)) is not None:
            definitions[digest] = definition
    text = "".join(lines(found, definitions))
    if str(arguments.file) == "-":
        sys.stdout.write(text)
        return 0
    try:
        arguments.file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as exc:
        raise InvalidArguments(f"{arguments.file}: cannot be written: {exc.strerror}") from exc
    left_out = len(chosen) - len(found)
    told = {"exported": len(found), "left_out": left_out, "file": str(arguments.file)}
    more = f" {left_out} had secrets and were left out." if left_out else ""
    _say(json.dumps(told) if arguments.json else f"Wrote {len(found)} recordings to {arguments.file}.{more}")
    return 0


async def take(arguments: argparse.Namespace, services: Services) -> int:
    """Take a file, all of it or nothing."""
    from .session_file import read

    recordings, documents, settings = _recordings(services), _documents(services), _settings(services)
    try:
        with arguments.file.open(encoding="utf-8") as file:
            found, definitions = read(file, owner=recordings.owner(arguments.principal))
    except OSError as exc:
        raise InvalidArguments(f"{arguments.file}: cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise InvalidArguments(f"{arguments.file}: is not UTF-8 text (byte {exc.start})") from exc
    except RecordingError as exc:
        raise InvalidArguments(f"{arguments.file}: {exc}") from exc
    about = {"file": str(arguments.file), "recordings": len(found)}
    await report_change(services, "recordings", "recordings.imported", about)
    for recording in found:
        put(documents, recording, settings)
    for digest, definition in definitions.items():
        await documents.put(DEFINITIONS, digest, {"definition": definition}, expires_at=expiry(settings))
    stale = sum(_state(recording, services) != "current" for recording in found)
    told = {"imported": len(found), "stale": stale}
    more = f" {stale} are of tools that are not known, or defined otherwise now, and are not used." if stale else ""
    _say(json.dumps(told) if arguments.json else f"Took {len(found)} recordings from {arguments.file}.{more}")
    return 0


async def prune(arguments: argparse.Namespace, services: Services) -> int:
    """Forget."""
    if not (arguments.tool or arguments.stale or arguments.principal or arguments.keep or arguments.yes):
        raise InvalidArguments("this forgets everything; say --yes, or which: --tool, --principal, --stale, --keep")
    chosen = [
        recording
        for recording in (await _chosen(arguments, services))[max(0, arguments.keep) :]
        if not arguments.stale or _state(recording, services) == "stale"
    ]
    documents = _documents(services)
    named = {"tool": arguments.tool, "principal": arguments.principal, "keep": arguments.keep, "stale": arguments.stale}
    # First, because somebody who deletes might end the command before it is through.
    await report_change(services, "recordings", "recordings.pruned", {**named, "recordings": len(chosen)})
    for recording in chosen:
        await documents.delete(COLLECTION, recording.id)
    outputs = 0
    if not arguments.stale:  # no output of code is of a tool's definition
        of = {"tool": arguments.tool, "principal": arguments.principal}
        outputs = await forget(documents, **of, keep=max(0, arguments.keep))
    told = {"forgotten": len(chosen), "outputs": outputs}
    more = f" and {outputs} outputs of code" if outputs else ""
    _say(json.dumps(told) if arguments.json else f"Forgot {len(chosen)} recordings{more}.")
    return 0


def _settings(services: Services) -> Settings:
    return services.settings or Settings()


def _recordings(services: Services) -> Recordings:
    return Recordings(services, _settings(services))


def _documents(services: Services) -> Documents:
    documents = _recordings(services).documents
    if documents is None:
        raise InvalidArguments("the store in use keeps no documents; set [gateway] store to one that does")
    return documents


async def _all(services: Services) -> list[Recording]:
    _documents(services)
    found, refused = await _recordings(services).all()
    for reason in refused:
        sys.stderr.write(printable(f"pml: {reason}; it is not used\n"))
    return found


async def _chosen(arguments: argparse.Namespace, services: Services) -> list[Recording]:
    return [
        recording
        for recording in await _all(services)
        if (arguments.tool is None or fnmatchcase(recording.tool, arguments.tool))
        and (arguments.principal is None or recording.principal == arguments.principal)
    ]


def _state(recording: Recording, services: Services) -> str:
    """``current``, ``stale`` when the tool is defined otherwise now, ``unknown`` when there is no such tool now."""
    entry = next((e for e in services.catalog if e.id == recording.tool), None)
    if entry is None:
        return "unknown"
    return "current" if entry.digest == recording.definition else "stale"


def _summary(recording: Recording, services: Services) -> dict[str, Any]:
    return {
        "id": recording.id,
        "tool": recording.tool,
        "arguments": recording.given,
        "kind": recording.kind,
        "state": _state(recording, services),
        "redacted": recording.redacted,
        "recorded_at": recording.recorded_at,
        "duration_ms": recording.duration_ms,
        "times": recording.times,
        "size_bytes": len(recording.answer.encode("utf-8", "surrogatepass")),
        "principal": recording.principal,
        "definition": recording.definition,
    }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


def _print_table(found: Iterable[Recording], services: Services) -> None:
    rows: list[Sequence[str]] = [("ID", "TOOL", "ARGUMENTS", "KIND", "STATE", "TIMES", "MS", "RECORDED AT")]
    for recording in found:
        shown = printable(recording.arguments)
        shown = shown if len(shown) <= WIDEST else f"{shown[: WIDEST - 1]}…"
        state = _state(recording, services) + (", redacted" if recording.redacted else "")
        ms, times, at = str(recording.duration_ms), str(recording.times), recording.recorded_at[:19]
        rows.append((recording.id, printable(recording.tool), shown, recording.kind, state, times, ms, at))
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        _say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
