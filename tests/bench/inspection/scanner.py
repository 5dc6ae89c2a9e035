"""The rules of a scanner of others, in YARA, on the same cases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from material import Case


def scanner_from(folder: Path) -> Any:
    """All rules of a folder, compiled.

    Raises:
        SystemExit: The folder has none, or the package that reads them is missing.
    """
    try:
        import yara
    except ImportError:
        raise SystemExit("--scanner needs a package that is not among the others: pip install yara-python") from None
    paths = {path.stem: str(path) for kind in ("*.yara", "*.yar") for path in sorted(folder.rglob(kind))}
    if not paths:
        raise SystemExit(f"--scanner: no rules (*.yara, *.yar) below {folder}")
    return yara.compile(filepaths=paths)


def as_found_by(rules: Any, cases: Iterable[Case]) -> list[Case]:
    """The cases that have a text, each found or not by the scanner."""
    return [replace(case, found=bool(rules.match(data=case.text.encode()))) for case in cases if case.text]
