"""Lines of ``pml plugins doctor``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pml_hookspecs import Check

from .settings import Settings, folder_of
from .verify import verify

if TYPE_CHECKING:
    from pml_hookspecs import Services


def checks(services: Services) -> Iterable[Check]:
    """Whether the audit is whole."""
    folder = folder_of(services.settings or Settings())
    try:
        report = verify(folder)
    except OSError as exc:
        return [Check("audit", ok=False, detail=str(exc), remedy=f"See that {folder} can be read.")]
    if report.broken is None:
        return [Check("audit", ok=True, detail=f"{report.rows} rows in {folder}")]
    broken = report.broken
    detail = f"{broken.file}, line {broken.line}: {broken.problem}"
    return [Check("audit", ok=False, detail=detail, remedy="Find out who changed it; see pml audit verify.")]
