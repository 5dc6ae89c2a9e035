"""Where an interpreter and its libraries lie."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_ASK = """
import json, os, sys, sysconfig
own = sysconfig.get_paths(vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix})
library = os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("LDLIBRARY") or "")
print(json.dumps({
    "program": sys.executable,
    "parts": [sys.executable, os.path.realpath(sys.executable), own["stdlib"], own["platstdlib"], library],
    "packages": [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), os.path.join(sys.prefix, "pyvenv.cfg")],
}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that code can be run with."""

    program: str
    parts: tuple[str, ...]
    """Its program, as it is called and as it is, and standard library."""
    packages: tuple[str, ...]
    """Where installed packages are; empty for none."""

    @property
    def words(self) -> tuple[str, ...]:
        """How to start it: without anything of the environment or the working directory, writing no bytecode."""
        return (self.program, "-I", "-B", *(() if self.packages else ("-S",)))


def find(python: str = "") -> Interpreter:
    """The interpreter of a virtual environment with its packages, or the gateway's own without any.

    Args:
        python: Path of its program; ``""`` for the gateway's own.

    Raises:
        OSError: There is no such program, or it is no Python. The message says what to do.
    """
    program = python or str(Path(sys.executable).resolve())
    try:
        asked = subprocess.run(
            [program, "-I", *(() if python else ("-S",)), "-c", _ASK],
            capture_output=True,
            check=True,
            timeout=20,
            env={},
        )
        told = json.loads(asked.stdout)
        parts, packages = (tuple(path for path in told[name] if Path(path).exists()) for name in ("parts", "packages"))
        return Interpreter(program, parts, packages if python else ())
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as exc:
        raise OSError(f"{program} is no Python that can be started ([plugins.cpython] python): {exc}") from exc
