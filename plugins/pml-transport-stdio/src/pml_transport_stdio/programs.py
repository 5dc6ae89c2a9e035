"""What a program is made of: the files that it has to read before it does anything."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store", "/gnu/store"),
    *("/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl", "/etc/pki", "/etc/ca-certificates"),
    *("/etc/localtime", "/etc/timezone", "/etc/mime.types"),
)
"""What programs share: libraries, interpreters, certificates, time zones."""
NETWORK = tuple(
    f"/etc/{name}" for name in ("resolv.conf", "hosts", "nsswitch.conf", "gai.conf", "services", "protocols")
)
"""What names of hosts are looked up with, in the network of the machine."""
_INTERPRETER = re.compile(r"(python|pypy|node|nodejs|deno|bun|ruby|perl|php|java|bash|sh|dash|zsh)[\d.]*")
_NO_SCRIPT = ("-c", "-m", "-e", "--eval", "-p", "--print", "-jar")
_PARTS = ("bin", "lib", "lib64", "libexec")
_FIRST_LINE_BYTES = 256


def found(name: str, folder: str | None, environment: Mapping[str, str]) -> str:
    """The absolute path of a command; as it is where there is none.

    Args:
        name: As a command line has it.
        folder: That it is started in.
        environment: That it is started with.
    """
    if os.sep in name:
        return str(Path(folder or Path.cwd(), name))
    return shutil.which(name, path=environment.get("PATH")) or name


def parts(program: str, argv: Sequence[str], folder: str | None, environment: Mapping[str, str]) -> Iterator[Path]:
    """Files and folders beside :data:`SYSTEM` that a program is made of.

    These are: its own file, the environment of Python or the packages of Node around it, the interpreter that its first
    line names, the script that is an interpreter's argument, and where links lead from all these.
    """
    waiting = [Path(program)]
    if _INTERPRETER.fullmatch(Path(program).name):
        waiting += _script(argv[1:], folder)
    seen: set[Path] = set()
    while waiting:
        path = Path(os.path.abspath(waiting.pop()))  # noqa: PTH100 - each step of a link is looked at
        if path in seen or not path.exists():
            continue
        seen.add(path)
        yield from _around(path)
        if path.is_symlink():
            waiting.append(path.parent / path.readlink())
        waiting.append(path.resolve())
        waiting += _interpreter(path, environment)


def _script(arguments: Sequence[str], folder: str | None) -> list[Path]:
    for argument in arguments:
        if argument in _NO_SCRIPT:
            break
        path = Path(folder or Path.cwd(), argument)
        if not argument.startswith("-") and path.is_file():
            return [path]
    return []


def _interpreter(path: Path, environment: Mapping[str, str]) -> list[Path]:
    try:
        with path.open("rb") as file:
            line = file.read(_FIRST_LINE_BYTES).partition(b"\n")[0].decode(errors="replace")
    except OSError:
        return []
    words = line[2:].split() if line.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [found(word, None, environment) for word in words[1:] if not word.startswith("-") and "=" not in word]
    return [Path(words[0])] if words else []


def _around(path: Path) -> Iterator[Path]:
    """The file, and the smallest folder that it is known to need."""
    if any(path.is_relative_to(folder) for folder in SYSTEM):
        return
    yield path
    names = path.parts
    if "node_modules" in names:
        yield Path(*names[: names.index("node_modules") + 1])
        return
    for folder in path.parents[:-1]:
        if is_private(folder):
            break
        if (folder / "pyvenv.cfg").is_file() or (folder / "package.json").is_file():
            yield folder
            return
        if (folder / "pyproject.toml").is_file():
            yield folder
            return
    if path.parent.name == "bin":
        yield from (one for part in _PARTS if (one := path.parent.parent / part).is_dir())


def is_private(path: Path) -> bool:
    """Whether it holds more than anybody means who names it: the root, the home folder, PML's own, or one above."""
    home = Path.home()
    own = Path(os.environ.get("PML_HOME") or home / ".pml")
    return any(folder.is_relative_to(path) or folder.resolve().is_relative_to(path) for folder in (home, own))
