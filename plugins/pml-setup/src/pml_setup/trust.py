"""``pml trust``, ``pml untrust``: which projects' files count."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pml_clients import client_configs, secret_values
from pml_clients.client_server import is_of_kind
from pml_clients.configuration import trust
from pml_clients.configuration.files import PRESETS, PROJECT_FILES, parsed, raw_of
from pml_kit.errors import OperatorError
from pml_kit.terminal import print_columns, print_json, printable

if TYPE_CHECKING:
    from pml_clients.configuration.view import ConfigurationFiles


def add(subcommands: Any) -> None:
    """Add the commands."""
    parser: argparse.ArgumentParser = subcommands.add_parser(
        "trust",
        help="let a project's configuration count",
        description=(
            "Let the configuration file of a folder count, as it is now: it may add servers and plugins, and narrow "
            "what the user's own allows. What it would add is shown. A change of it, or of a file of Python that it "
            "names, asks anew."
        ),
    )
    _add_path(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--list", action="store_true", help="what was trusted, and whether it has changed since")
    parser.add_argument("--remove", action="store_true", help="as pml untrust")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.set_defaults(run_on_files=run)
    other: argparse.ArgumentParser = subcommands.add_parser(
        "untrust",
        help="let a project's configuration count no more",
        description="Let the configuration file of a folder count no more, from the next start of a gateway on.",
    )
    _add_path(other)
    other.add_argument("--json", action="store_true", help="one JSON document")
    other.set_defaults(run=run_untrust)


def _add_path(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", nargs="?", type=Path, default=Path(), metavar="PATH", help="folder or file (default: this folder)"
    )


def run(arguments: argparse.Namespace, files: ConfigurationFiles) -> int:
    """Show what a file says, ask, and write the agreement down; the exit status."""
    if arguments.list:
        return _list(machine=arguments.json)
    if arguments.remove:
        return run_untrust(arguments)
    # Read once: what is shown is what is agreed to.
    found = {path: raw_of(path) for path in _files(arguments.path)}
    made = {path: trust.agreement_to(path, raw) for path, raw in found.items()}
    about = [_about(path, files.normalise(parsed(raw, path)[0]), made[path]) for path, raw in found.items()]
    if not arguments.json:
        print("\n".join(line for one in about for line in _told(one)))
    if not arguments.yes and not _agreed():
        print("Nothing is trusted.", file=sys.stderr)
        return 1
    trust.keep(made)
    if arguments.json:
        print_json({"trusted": about})
    else:
        print("Trusted. It counts from the next start on, and at once in a gateway that runs here.")
    return 0


def run_untrust(arguments: argparse.Namespace) -> int:
    """Take agreements back; the exit status."""
    kept = trust.agreements()
    paths = [arguments.path] if not arguments.path.is_dir() else [arguments.path / n for n in (*PROJECT_FILES, PRESETS)]
    gone = [path for path in paths if str(trust.place_of(path)) in kept]
    if not gone:
        raise OperatorError(f"{arguments.path}: nothing there was trusted", "pml trust --list shows what was.")
    trust.keep(dict.fromkeys(gone))
    if arguments.json:
        print_json({"untrusted": [str(trust.place_of(path)) for path in gone]})
    else:
        print("\n".join(f"{trust.place_of(path)} counts no more." for path in gone))
    return 0


def _files(path: Path) -> list[Path]:
    found = trust.projects_files(path) if path.is_dir() else [path]
    if not found:
        raise OperatorError(f"{path}: has none of {', '.join((*PROJECT_FILES, PRESETS))}", "Give another folder.")
    return found


def _agreed() -> bool:
    """Whether the user says so. Where nobody can be asked, nobody has agreed."""
    if not (sys.stdin and sys.stdin.isatty()):
        print("Say --yes: there is no terminal to ask at.", file=sys.stderr)
        return False
    print("Trust this? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _about(path: Path, tree: Mapping[str, Any], agreement: trust.Agreement) -> dict[str, Any]:
    servers = {} if path.name not in PROJECT_FILES else tree.get("servers") or {}
    return {
        "file": str(trust.place_of(path)),
        "sha256": agreement.digest,
        "runs": dict(agreement.runs),
        "servers": {name: _command(table) for name, table in servers.items() if isinstance(table, Mapping)},
        "settings": sorted(_settings(tree)) if path.name in PROJECT_FILES else [],
        "secrets": sorted({name for name in client_configs.references(tree) if is_of_kind(name)}),
        "presets": [] if path.name in PROJECT_FILES else sorted(tree),
    }


def _command(table: Mapping[str, Any]) -> str:
    shown = secret_values.masked(table)
    words = [shown.get("command") or shown.get("url") or shown.get("address") or "", *(shown.get("args") or ())]
    return shlex.join(str(word) for word in words if word != "")


def _settings(tree: Mapping[str, Any]) -> Iterator[str]:
    for section in ("gateway", "endpoints", "plugins"):
        for name, value in (tree.get(section) or {}).items():
            if isinstance(value, Mapping) and value:
                yield from (f"{section}.{name}.{key}" for key in value)
            else:
                yield f"{section}.{name}"


def _told(about: Mapping[str, Any]) -> Iterator[str]:
    yield f"{about['file']}"
    for name, command in about["servers"].items():
        yield f"  server {name}: {printable(command)}"
    yield from (f"  runs Python: {printable(path)}" for path in about["runs"])
    yield from (f"  takes a secret from {printable(name)}" for name in about["secrets"])
    yield from (f"  sets {printable(path)}" for path in about["settings"])
    yield from (f"  preset {printable(name)}" for name in about["presets"])


def _list(*, machine: bool) -> int:
    rows = [(path, trust.state_of(Path(path))) for path in trust.agreements()]
    if machine:
        print_json([{"file": path, "state": state} for path, state in rows])
    elif rows:
        print_columns(rows, ("FILE", "STATE"))
    else:
        print("Nothing was trusted yet.")
    return 0
