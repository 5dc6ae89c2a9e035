"""``pml plugin new``: a distribution to begin with, whose tests are green before a line of it is changed."""

from __future__ import annotations

import argparse
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from pml_core import registry
from pml_core.errors import OperatorError

from .output import print_json

SUFFIX = ".tmpl"
HIDDEN = "dot_"
"""Beginning of a template whose file begins with a dot."""
ABOUT = "README.part.md"
MARK = re.compile(r"@@(\w+)@@")
LONGEST_NAME = 32
"""Longer names would break lines of the templates that the formatter wants otherwise [characters]."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of plugin that can be begun."""

    group: str
    suffix: str
    """Of the class that its entry point names; ``""`` when that is the module."""
    about: str

    @property
    def folder(self) -> str:
        """Where its templates are."""
        return self.group.removeprefix("pml.") if self.suffix else "hooks"


KINDS: Mapping[str, Kind] = {
    "exposure-mode": Kind("pml.exposure_mode", "Mode", "exposure mode: lists the tools whose names fit patterns"),
    "executor": Kind("pml.executor", "Executor", "executor: runs scripts of one tool call on each line"),
    "transport": Kind("pml.transport", "Transport", "transport: reaches servers that listen on a TCP port"),
    "tracer": Kind("pml.tracer", "Tracer", "tracer: writes each finished span as a line of JSON"),
    "store": Kind("pml.store", "Store", "store: keeps everything in one file of JSON lines"),
    "hooks": Kind("pml.plugins", "", "plugin: refuses calls by the value of an argument"),
}


def add(subcommands: Any) -> None:
    """Add the command."""
    parser = subcommands.add_parser("plugin", help="begin a plugin of your own")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    text = "write a distribution that does something small, with tests that are green as they stand"
    new: argparse.ArgumentParser = verbs.add_parser("new", help=text, description=f"{text[0].upper()}{text[1:]}.")
    new.add_argument("kind", choices=KINDS, help="; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items()))
    new.add_argument("name", help="what the configuration will call it, such as office_hours")
    new.add_argument("--path", type=Path, default=Path(), metavar="DIR", help="where its folder goes; here if not said")
    new.add_argument("--json", action="store_true", help="one JSON document")
    new.set_defaults(run=run_new)


def run_new(arguments: argparse.Namespace) -> int:
    """Write the files and say what to do next."""
    kind, name = KINDS[arguments.kind], _checked(arguments.name)
    target = arguments.path / f"pml-{name.replace('_', '-')}"
    _refuse_to_overwrite(target)
    words = _words(kind, name)
    written = [_write(target, path, text) for path, text in _files(kind, words)]
    if arguments.json:
        print_json({"folder": str(target), "distribution": words["distribution"], "files": written})
        return 0
    print(f"{target}: {len(written)} files")
    print(_next_steps(target, kind, name))
    return 0


def _checked(given: str) -> str:
    """The name in snake case.

    Raises:
        OperatorError: It is none, it is too long, or something that is installed has it.
    """
    name = given.removeprefix("pml-").replace("-", "_")
    if not registry.NAME.fullmatch(name) or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise OperatorError(
            f"{given!r} cannot be the name of a plugin", "Take small letters, digits and single '_': office_hours."
        )
    if len(name) > LONGEST_NAME:
        raise OperatorError(f"{given!r} is longer than {LONGEST_NAME} characters", "Take a shorter name.")
    distribution = f"pml-{name.replace('_', '-')}"
    for record in registry.discover():
        if name == record.name or distribution == record.dist:
            raise OperatorError(f"{given!r} is taken: {record.label} is installed", "Take another name.")
    return name


def _refuse_to_overwrite(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise OperatorError(f"{target} is there already and is no folder", "Take another name, or another --path.")
    if target.is_dir() and any(target.iterdir()):
        raise OperatorError(f"{target} is there already, and is not empty", "Take another name, or another --path.")


def _words(kind: Kind, name: str) -> dict[str, str]:
    """What the templates' marks stand for."""
    package, title = f"pml_{name}", "".join(part.capitalize() for part in name.split("_"))
    if title[0].isdigit() or not title.endswith(kind.suffix):
        title += kind.suffix
    exports = sorted((title, "Settings"), key=str.lower)
    return {
        "exports": ", ".join(exports),
        "quoted": ", ".join(f'"{export}"' for export in exports),
        "name": name,
        "distribution": f"pml-{name.replace('_', '-')}",
        "package": package,
        "cls": title,
        "about": kind.about,
        "group": kind.group,
        "target": f"{package}:{title}" if kind.suffix else package,
        "api": _range("pml-hookspecs"),
        "testing": _range("pml-testing", like="pml-core"),
    }


def _range(distribution: str, like: str = "") -> str:
    """From the version that is installed here, or that of ``like``, to the next major one."""
    major, minor, *_ = metadata.version(like or distribution).split(".")
    return f"{distribution}>={major}.{minor},<{int(major) + 1}"


def _files(kind: Kind, words: Mapping[str, str]) -> Iterator[tuple[Path, str]]:
    """Every file of the new distribution and what stands in it."""
    templates = resources.files(__package__) / "templates"
    about = (templates / kind.folder / f"{ABOUT}{SUFFIX}").read_text(encoding="utf-8")
    words = {**words, "readme": _filled(about, words)}
    for part in ("common", kind.folder):
        for path, template in sorted(_templates(templates / part, Path()), key=lambda pair: pair[0]):
            if path.name != ABOUT:
                yield _place(path, words["package"]), _filled(template.read_text(encoding="utf-8"), words)


def _templates(folder: Traversable, below: Path) -> Iterator[tuple[Path, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, below / entry.name)
        elif entry.name.endswith(SUFFIX):
            yield below / entry.name.removesuffix(SUFFIX), entry


def _place(path: Path, package: str) -> Path:
    parts = [f".{part.removeprefix(HIDDEN)}" if part.startswith(HIDDEN) else part for part in path.parts]
    return Path("src", package, *parts[1:]) if parts[0] == "src" else Path(*parts)


def _filled(text: str, words: Mapping[str, str]) -> str:
    return MARK.sub(lambda found: words[found.group(1)], text)


def _write(target: Path, path: Path, text: str) -> str:
    """Write one file that is not there yet; its path.

    Raises:
        OperatorError: It cannot be written.
    """
    try:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        with (target / path).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as exc:
        raise OperatorError(f"{target / path}: cannot be written: {exc.strerror}", "Give another --path.") from exc
    return path.as_posix()


USE = {
    "exposure-mode": "pml serve --mode {name}",
    "executor": "pml plugins list",
    "transport": "pml serve --set servers.there.address={name}:127.0.0.1:7000",
    "tracer": 'pml serve --set \'gateway.tracers=["log", "{name}"]\' --set plugins.{name}.path=spans.jsonl',
    "store": "pml serve --set gateway.store={name}",
    "hooks": "pml plugins chain",
}
"""How to see each kind at work."""


def _next_steps(target: Path, kind: Kind, name: str) -> str:
    use = next(use for word, use in USE.items() if KINDS[word] is kind)
    steps = (
        (f"cd {target}", ""),
        ("pip install -e . --group dev", "the plugin, and what tests it"),
        ("pytest", "its own tests and the contract of its kind"),
        (use.format(name=name), "see it at work"),
        ("pml plugins doctor", "what the gateway thinks of it"),
    )
    width = max(len(command) for command, _ in steps)
    lines = [f"  {command.ljust(width)}  {'# ' + why if why else ''}".rstrip() for command, why in steps]
    return "\n".join(["Next:", *lines])
