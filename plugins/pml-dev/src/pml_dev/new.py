"""``pml plugin new``: a distribution to begin with, whose tests are green before a line of it is changed."""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

from pml_hookspecs import InvalidArguments
from pml_kit.terminal import print_json

from .kinds import KINDS, Kind

SUFFIX = ".tmpl"
HIDDEN = "dot_"
"""Beginning of a template whose file begins with a dot."""
ABOUT = "README.part.md"
MARK = re.compile(r"@@(\w+)@@")
GROUPS = frozenset(kind.group for kind in KINDS.values())
HOOKS = KINDS["hooks"].group
LONGEST_NAME = 32
"""Longer names would break lines of the templates that the formatter wants otherwise [characters]."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
"""How plugins are called."""


def run(arguments: argparse.Namespace) -> int:
    """Write the files and say what to do next."""
    kind, name = KINDS[arguments.kind], _checked(arguments.name)
    target = arguments.path / f"pml-{name.replace('_', '-')}"
    _refuse_to_overwrite(target)
    words = _words(kind, name)
    written = [_write(target, path, text) for path, text in _files(kind, words)]
    if arguments.json:
        print_json({"folder": str(target), "distribution": words["distribution"], "files": written})
        return 0
    sys.stdout.write(f"{target}: {len(written)} files\n{_next_steps(target, kind.use.format(name=name))}\n")
    return 0


def _checked(given: str) -> str:
    """The name in snake case.

    Raises:
        InvalidArguments: It is none, it is too long, or something that is installed has it.
    """
    name = given.removeprefix("pml-").replace("-", "_")
    if not NAME.fullmatch(name) or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise InvalidArguments(
            f"{given!r} cannot be the name of a plugin\nTake small letters, digits and single '_': office_hours."
        )
    if len(name) > LONGEST_NAME:
        raise InvalidArguments(f"{given!r} is longer than {LONGEST_NAME} characters\nTake a shorter name.")
    for label in _installed(name):
        raise InvalidArguments(f"{given!r} is taken: {label} is installed\nTake another name.")
    return name


def _installed(name: str) -> Iterator[str]:
    """What is called so, or would be of the distribution that is to be written: ``store driver 'x' (acme 1.0)``."""
    for dist in metadata.distributions():
        with suppress(Exception):  # one distribution's broken files must not hide the others
            yield from [_label(dist, point) for point in dist.entry_points if _claims(dist, point, name)]


def _claims(dist: metadata.Distribution, point: metadata.EntryPoint, name: str) -> bool:
    same = re.sub(r"[-_.]+", "-", dist.name).lower() == f"pml-{name.replace('_', '-')}"
    return point.group in GROUPS and (same or point.name == name)


def _label(dist: metadata.Distribution, point: metadata.EntryPoint) -> str:
    kind = "hook plugin" if point.group == HOOKS else f"{point.group.removeprefix('pml.').replace('_', ' ')} driver"
    return f"{kind} {point.name!r} ({dist.name} {dist.version})"


def _refuse_to_overwrite(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise InvalidArguments(f"{target} is there already and is no folder\nTake another name, or another --path.")
    if target.is_dir() and any(target.iterdir()):
        raise InvalidArguments(f"{target} is there already, and is not empty\nTake another name, or another --path.")


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
        "dependencies": ", ".join(f'"{_range(one)}"' for one in ("pml-hookspecs", *kind.libraries)),
        "testing": _range("pml-testing", like="pml-core"),
    }


def _range(distribution: str, like: str = "") -> str:
    """From the version that is installed here, or that of ``like``, to the next one that may break what uses it."""
    major, minor = (int(number) for number in metadata.version(like or distribution).split(".")[:2])
    below = f"{major + 1}" if major else f"0.{minor + 1}"
    return f"{distribution}>={major}.{minor},<{below}"


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
        InvalidArguments: It cannot be written.
    """
    try:
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        with (target / path).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as exc:
        raise InvalidArguments(f"{target / path}: cannot be written: {exc.strerror}\nGive another --path.") from exc
    return path.as_posix()


def _next_steps(target: Path, use: str) -> str:
    steps = (
        (f"cd {target}", ""),
        ("pip install -e . --group dev", "the plugin, and what tests it"),
        ("pytest", "its own tests and the contract of its kind"),
        (use, "see it at work"),
        ("pml plugins doctor", "what the gateway thinks of it"),
    )
    width = max(len(command) for command, _ in steps)
    lines = [f"  {command.ljust(width)}  {'# ' + why if why else ''}".rstrip() for command, why in steps]
    return "\n".join(["Next:", *lines])
